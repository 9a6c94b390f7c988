"""The names that programs may import: those of the documents and the examples."""

from __future__ import annotations

import importlib

import pytest

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
