"""The conformance suite: what every store has to show, group by group. See `dibs.testing` for how to run it.

Each class is a group or a part of one, each test takes the fixture `harness` and nothing else. A store's test module
takes them all with `from dibs.testing.conformance import *`.
"""

from __future__ import annotations

import pytest

GROUPS = (
    "added_resources",
    "agent_limits",
    "annotations",
    "answers",
    "approvals",
    "bulk",
    "changed_lists",
    "children",
    "claims",
    "crash",
    "dead_owners",
    "dependencies",
    "exporting",
    "fencing",
    "figures",
    "finding",
    "finishing",
    "following",
    "generated_ids",
    "handing",
    "heartbeats",
    "history",
    "idempotency",
    "interruptions",
    "items",
    "keys",
    "leases",
    "limits",
    "live",
    "lost_answers",
    "offers",
    "ordering",
    "overview",
    "pages",
    "parking",
    "policy",
    "pruning",
    "pulses",
    "queues",
    "racing",
    "reading",
    "reads_against_time",
    "recovery",
    "reopening",
    "resources",
    "restoring",
    "reviews",
    "schedules",
    "sessions",
    "soft_claims",
    "states",
    "subjects",
    "tickets",
    "timeline",
    "waiting",
    "webhooks",
    "why",
)
# Before they are imported: their asserts are to be as readable as a test module's own.
pytest.register_assert_rewrite(*(f"{__name__}.{group}" for group in GROUPS))

from dibs.testing.conformance.added_resources import TestAddedResources, TestAddingTogether  # noqa: E402
from dibs.testing.conformance.agent_limits import TestCapacity, TestCapacityTogether, TestRate  # noqa: E402
from dibs.testing.conformance.annotations import TestAnnotations  # noqa: E402
from dibs.testing.conformance.answers import TestAnswers  # noqa: E402
from dibs.testing.conformance.approvals import TestApprovals  # noqa: E402
from dibs.testing.conformance.bulk import TestBulk  # noqa: E402
from dibs.testing.conformance.changed_lists import TestChangedLists  # noqa: E402
from dibs.testing.conformance.children import TestChildren  # noqa: E402
from dibs.testing.conformance.claims import TestClaims  # noqa: E402
from dibs.testing.conformance.crash import TestCrash  # noqa: E402
from dibs.testing.conformance.dead_owners import TestDeadOwners  # noqa: E402
from dibs.testing.conformance.dependencies import TestDependencies, TestFinishingTogether  # noqa: E402
from dibs.testing.conformance.exporting import TestExport  # noqa: E402
from dibs.testing.conformance.fencing import TestFencing, TestManyAtOnce  # noqa: E402
from dibs.testing.conformance.figures import TestKeptFigures  # noqa: E402
from dibs.testing.conformance.finding import TestFinding  # noqa: E402
from dibs.testing.conformance.finishing import TestFinishAndNext, TestFinishingAtOnce  # noqa: E402
from dibs.testing.conformance.following import TestFollowing  # noqa: E402
from dibs.testing.conformance.generated_ids import TestGeneratedIds  # noqa: E402
from dibs.testing.conformance.handing import TestHanding, TestHandingTogether  # noqa: E402
from dibs.testing.conformance.heartbeats import TestHeartbeats  # noqa: E402
from dibs.testing.conformance.history import TestHistory  # noqa: E402
from dibs.testing.conformance.idempotency import TestIdempotency  # noqa: E402
from dibs.testing.conformance.interruptions import TestInterruptions  # noqa: E402
from dibs.testing.conformance.items import TestItems  # noqa: E402
from dibs.testing.conformance.keys import TestKeys  # noqa: E402
from dibs.testing.conformance.leases import TestLeases  # noqa: E402
from dibs.testing.conformance.limits import TestLimits  # noqa: E402
from dibs.testing.conformance.live import TestLive  # noqa: E402
from dibs.testing.conformance.lost_answers import TestLostAnswers  # noqa: E402
from dibs.testing.conformance.offers import TestOffers  # noqa: E402
from dibs.testing.conformance.ordering import TestOrdering  # noqa: E402
from dibs.testing.conformance.overview import TestOverview, TestPaging  # noqa: E402
from dibs.testing.conformance.pages import TestPages  # noqa: E402
from dibs.testing.conformance.parking import TestParking  # noqa: E402
from dibs.testing.conformance.policy import TestPolicy  # noqa: E402
from dibs.testing.conformance.pruning import TestPruning  # noqa: E402
from dibs.testing.conformance.pulses import TestPulses  # noqa: E402
from dibs.testing.conformance.queues import TestPatience, TestQueues, TestTurns  # noqa: E402
from dibs.testing.conformance.racing import TestRacing  # noqa: E402
from dibs.testing.conformance.reading import TestFigures, TestLists, TestRecords, TestWho  # noqa: E402
from dibs.testing.conformance.reads_against_time import TestReadsAgainstTime  # noqa: E402
from dibs.testing.conformance.recovery import TestRecovery  # noqa: E402
from dibs.testing.conformance.reopening import TestReopening  # noqa: E402
from dibs.testing.conformance.resources import TestResources, TestTouchingTogether  # noqa: E402
from dibs.testing.conformance.restoring import TestRestoring  # noqa: E402
from dibs.testing.conformance.reviews import TestReviews  # noqa: E402
from dibs.testing.conformance.schedules import TestBackoff, TestSchedules  # noqa: E402
from dibs.testing.conformance.sessions import TestOwners, TestSessions  # noqa: E402
from dibs.testing.conformance.soft_claims import TestSoftClaims  # noqa: E402
from dibs.testing.conformance.states import TestStates  # noqa: E402
from dibs.testing.conformance.subjects import TestSubjects, TestSubjectsTogether  # noqa: E402
from dibs.testing.conformance.tickets import TestTickets  # noqa: E402
from dibs.testing.conformance.timeline import TestSeries, TestWindow  # noqa: E402
from dibs.testing.conformance.waiting import TestWaiting  # noqa: E402
from dibs.testing.conformance.webhooks import TestWebhooks  # noqa: E402
from dibs.testing.conformance.why import TestWhy  # noqa: E402

__all__ = [
    "GROUPS",
    "TestAddedResources",
    "TestAddingTogether",
    "TestAnnotations",
    "TestAnswers",
    "TestApprovals",
    "TestBackoff",
    "TestBulk",
    "TestCapacity",
    "TestCapacityTogether",
    "TestChangedLists",
    "TestChildren",
    "TestClaims",
    "TestCrash",
    "TestDeadOwners",
    "TestDependencies",
    "TestExport",
    "TestFencing",
    "TestFigures",
    "TestFinding",
    "TestFinishAndNext",
    "TestFinishingAtOnce",
    "TestFinishingTogether",
    "TestFollowing",
    "TestGeneratedIds",
    "TestHanding",
    "TestHandingTogether",
    "TestHeartbeats",
    "TestHistory",
    "TestIdempotency",
    "TestInterruptions",
    "TestItems",
    "TestKeptFigures",
    "TestKeys",
    "TestLeases",
    "TestLimits",
    "TestLists",
    "TestLive",
    "TestLostAnswers",
    "TestManyAtOnce",
    "TestOffers",
    "TestOrdering",
    "TestOverview",
    "TestOwners",
    "TestPages",
    "TestPaging",
    "TestParking",
    "TestPatience",
    "TestPolicy",
    "TestPruning",
    "TestPulses",
    "TestQueues",
    "TestRacing",
    "TestRate",
    "TestReadsAgainstTime",
    "TestRecords",
    "TestRecovery",
    "TestReopening",
    "TestResources",
    "TestRestoring",
    "TestReviews",
    "TestSchedules",
    "TestSeries",
    "TestSessions",
    "TestSoftClaims",
    "TestStates",
    "TestSubjects",
    "TestSubjectsTogether",
    "TestTickets",
    "TestTouchingTogether",
    "TestTurns",
    "TestWaiting",
    "TestWebhooks",
    "TestWho",
    "TestWhy",
    "TestWindow",
]
