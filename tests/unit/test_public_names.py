"""The names that programs may import: those of the documents and the examples, also under their earlier modules."""

from __future__ import annotations

import importlib
import sys

import pytest

from dibs import deprecated

#: The last module is for authors of stores.
PUBLIC = {
    "dibs": "Board connect __version__",
    "dibs.worker": "CannotBegin Draft Worker appending",
    "dibs.config": "Settings",
    "dibs.errors": "DibsError ItemNotFound SessionNotFound ItemAlreadyClaimed ItemNotClaimed ItemNotClaimable "
    "NotClaimOwner ClaimExpired ItemChanged AgentAtCapacity ResourceBusy RateLimited Invalid Forbidden NotTrusted "
    "Unauthenticated StoreUnavailable StoreUnusable",
    "dibs.model": "NewItem Item Agent Owner Session Claim Run Note Previous Approval Ticket SoftClaim Event Activity "
    "Grant Renewal Lost Heartbeat Waiting Blocker Added Edited Reason Ended Finished Detail SessionEnd Holding "
    "SessionView Sweep Synced Stats Pulse Key Request Prune",
    "dibs.store.contract": "Store Watch Page page",
}


@pytest.mark.parametrize("module", PUBLIC)
def test_a_public_name_can_be_imported(module: str) -> None:
    found = importlib.import_module(module)
    assert [name for name in PUBLIC[module].split() if not hasattr(found, name)] == []


@pytest.mark.parametrize("module", deprecated.MODULES)
def test_an_earlier_module_has_the_same_classes_and_warns(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, module, raising=False)
    with pytest.warns(DeprecationWarning, match=f"{module} is deprecated since 0.1.0; use dibs.sdk") as warned:
        earlier = importlib.import_module(module)
    assert len(warned) == 1
    now = importlib.import_module(deprecated.MODULES[module].to)
    assert earlier.__all__
    for name in earlier.__all__:
        assert getattr(earlier, name) is getattr(now, name)
