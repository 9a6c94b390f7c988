"""The conformance suite: what every store has to show, group by group. See `dibs.testing` for how to run it.

Each class is a group or a part of one, each test takes the fixture `harness` and nothing else. A store's test module
takes them all with `from dibs.testing.conformance import *`.
"""

from __future__ import annotations

import pytest

GROUPS = (
    "claims",
    "crash",
    "fencing",
    "heartbeats",
    "history",
    "idempotency",
    "items",
    "leases",
    "limits",
    "ordering",
    "racing",
    "reading",
    "recovery",
    "sessions",
    "states",
    "waiting",
)
# Before they are imported: their asserts are to be as readable as a test module's own.
pytest.register_assert_rewrite(*(f"{__name__}.{group}" for group in GROUPS))

from dibs.testing.conformance.claims import TestClaims  # noqa: E402
from dibs.testing.conformance.crash import TestCrash  # noqa: E402
from dibs.testing.conformance.fencing import TestFencing  # noqa: E402
from dibs.testing.conformance.heartbeats import TestHeartbeats  # noqa: E402
from dibs.testing.conformance.history import TestHistory  # noqa: E402
from dibs.testing.conformance.idempotency import TestIdempotency  # noqa: E402
from dibs.testing.conformance.items import TestItems  # noqa: E402
from dibs.testing.conformance.leases import TestLeases  # noqa: E402
from dibs.testing.conformance.limits import TestLimits  # noqa: E402
from dibs.testing.conformance.ordering import TestOrdering  # noqa: E402
from dibs.testing.conformance.racing import TestRacing  # noqa: E402
from dibs.testing.conformance.reading import TestFigures, TestLists, TestRecords, TestWho  # noqa: E402
from dibs.testing.conformance.recovery import TestRecovery  # noqa: E402
from dibs.testing.conformance.sessions import TestOwners, TestSessions  # noqa: E402
from dibs.testing.conformance.states import TestStates  # noqa: E402
from dibs.testing.conformance.waiting import TestWaiting  # noqa: E402

__all__ = [
    "GROUPS",
    "TestClaims",
    "TestCrash",
    "TestFencing",
    "TestFigures",
    "TestHeartbeats",
    "TestHistory",
    "TestIdempotency",
    "TestItems",
    "TestLeases",
    "TestLimits",
    "TestLists",
    "TestOrdering",
    "TestOwners",
    "TestRacing",
    "TestRecords",
    "TestRecovery",
    "TestSessions",
    "TestStates",
    "TestWaiting",
    "TestWho",
]
