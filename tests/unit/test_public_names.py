"""The names that programs may import: those of the documents and the examples, also under their earlier modules."""

from __future__ import annotations

import importlib

import pytest

from dibs.asession import AsyncClaim, AsyncSession
from dibs.handle import ClaimHandle
from dibs.sdk import async_session, claim_handle
from dibs.sdk import session as sdk_session
from dibs.session import LiveSession

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


def test_an_earlier_module_has_the_same_classes() -> None:
    assert ClaimHandle is claim_handle.ClaimHandle
    assert LiveSession is sdk_session.LiveSession
    assert (AsyncClaim, AsyncSession) == (async_session.AsyncClaim, async_session.AsyncSession)
