"""The pulse: the figures of one instant, as whoever watches over a board asks for them every few seconds."""

from __future__ import annotations

import os

from dibs.errors import ItemAlreadyClaimed
from dibs.model import Pulse
from dibs.model.webhooks import Attempt
from dibs.testing.conformance.asking import TTL_SECONDS, added, expire, refused, session
from dibs.testing.harness import Harness

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.board import Board

#: Private, and not allowed: a deliverer that finds the webhook sends nothing.
URL = "https://127.0.0.1/dibs"
NOBODY = {"expiring": 0, "warning": 0, "orphaned": 0, "stale": 0, "healthy": 0, "idle": 0}


class TestPulses:
    def test_an_empty_board_has_a_pulse(self, harness: Harness) -> None:
        assert harness.board().store.pulse() == Pulse(
            ready=[],
            ready_total=0,
            active_claims=0,
            heartbeat_lag_seconds=0.0,
            sessions=NOBODY,
            waiters=0,
            conflicts_avoided=0,
        )

    def test_what_is_ready_is_counted_by_type_and_priority(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "a", "b", type="bug", priority=8)
        added(board, "urgent", priority=1_000_000)
        added(board, "never", priority=-3)
        added(board, "held", "done", "parked")
        added(board, "blocked", depends_on=["held"])
        added(board, "later", not_before=harness.clock.now() + 3_600_000)
        me = session(board)
        board.claim("held", session=me)
        board.claim("done", session=me)
        board.done("done", session=me)
        board.park("parked")
        pulse = board.store.pulse()
        assert pulse.ready == [
            {"type": "bug", "priority": 8, "count": 2},
            {"type": "task", "priority": 0, "count": 1},
            {"type": "task", "priority": 10, "count": 1},
        ]
        assert pulse.ready_total == 4

    def test_what_is_offered_is_ready_still(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", "y")
        board.wait("x", session=session(board))
        assert board.get("x").item.offered_to is not None
        pulse = board.store.pulse()
        assert (pulse.ready, pulse.ready_total) == ([{"type": "task", "priority": 5, "count": 2}], 2)

    def test_a_claim_counts_while_it_lives(self, harness: Harness) -> None:
        harness.clock.freeze()
        board = harness.board()
        added(board, "x", "y")
        ann, bob = session(board, "ann"), session(board, "bob")
        board.claim("x", session=ann, ttl_seconds=TTL_SECONDS)
        harness.clock.advance(60)
        board.claim("y", session=bob, ttl_seconds=7200)
        harness.clock.advance(30)
        pulse = board.store.pulse()
        assert (pulse.active_claims, pulse.heartbeat_lag_seconds) == (2, 90.0)
        board.heartbeat(session=ann)
        assert board.store.pulse().heartbeat_lag_seconds == 30.0
        expire(harness)
        pulse = board.store.pulse()
        assert (pulse.active_claims, pulse.heartbeat_lag_seconds) == (1, 30.0 + TTL_SECONDS + 1)

    def test_a_person_who_holds_an_item_is_not_late(self, harness: Harness) -> None:
        harness.clock.freeze()
        board = harness.board()
        added(board, "x", "y")
        person = board.start_session("ann", kind="person").id
        board.claim("x", session=person)
        harness.clock.advance(1800)
        pulse = board.store.pulse()
        assert (pulse.active_claims, pulse.heartbeat_lag_seconds) == (1, 0.0)
        board.claim("y", session=session(board, "bob"))
        harness.clock.advance(60)
        assert board.store.pulse().heartbeat_lag_seconds == 60.0

    def test_what_waits_for_a_person_is_counted_from_the_oldest(self, harness: Harness) -> None:
        harness.clock.freeze()
        board = harness.board()
        for id in ("x", "y", "z"):
            added(board, id, needs_approval=True)
            harness.clock.advance(60)
        assert waiting(board) == (3, 180.0)
        board.approve("x")
        assert waiting(board) == (2, 120.0)
        board.approve("y")
        board.approve("z")
        assert waiting(board) == (0, 0.0)

    def test_a_backup_leaves_its_time(self, harness: Harness) -> None:
        harness.clock.freeze()
        board = harness.board()
        added(board, "x")
        assert board.store.pulse().last_backup_at is None
        board.backup(os.path.join(harness.folder, "first"))
        first = harness.clock.now()
        assert board.store.pulse().last_backup_at == first
        harness.clock.advance(3600)
        board.backup(os.path.join(harness.folder, "second"))
        harness.clock.advance(60)
        board.restore(os.path.join(harness.folder, "first"))
        pulse = harness.board().store.pulse()
        assert pulse.last_backup_at == first + 3600_000, "a restore changes nothing about the backups that there are"

    def test_a_webhook_that_was_given_up_counts_and_a_paused_one_does_not(self, harness: Harness) -> None:
        board = harness.board()
        paused = board.add_webhook(URL, kinds=["done"]).webhook
        board.change_webhook(paused.id, enabled=False)
        assert board.store.pulse().webhooks_disabled == 0
        if board.store.waits:
            return  # its server delivers
        hook = board.add_webhook(URL, kinds=["added"]).webhook
        added(board, "x")
        (event,) = board.events(after=hook.cursor, limit=1)
        assert board.store.take_webhook(hook.id, deliverer="one", seconds=60) is not None
        gone = Attempt(event=event, failure="410 Gone", gone=True)
        board.store.advance_webhook(hook.id, deliverer="one", after=hook.cursor, attempt=gone)
        assert board.store.pulse().webhooks_disabled == 1

    def test_a_session_is_as_healthy_as_its_least_healthy_claim(self, harness: Harness) -> None:
        harness.clock.freeze()
        board = harness.board()
        added(board, *"abcd")
        ann, bob = session(board, "ann"), session(board, "bob")
        ended = session(board, "gone")
        board.end_session(ended)
        assert board.store.pulse().sessions == NOBODY | {"idle": 2}
        board.claim("a", session=ann, ttl_seconds=TTL_SECONDS)
        board.claim("b", session=ann, ttl_seconds=7200)
        board.claim("c", session=bob, ttl_seconds=7200)
        assert board.store.pulse().sessions == NOBODY | {"healthy": 2}
        harness.clock.advance(TTL_SECONDS - 1)
        board.heartbeat(session=bob)
        assert board.store.pulse().sessions == NOBODY | {"expiring": 1, "healthy": 1}

    def test_who_waits_and_who_was_refused_is_counted(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        ann, bob = session(board, "ann"), session(board, "bob")
        board.claim("x", session=ann)
        refused(ItemAlreadyClaimed, board.claim, "x", session=bob)
        board.wait("x", session=bob)
        pulse = harness.board().store.pulse()
        assert (pulse.waiters, pulse.conflicts_avoided) == (1, 1)
        board.leave("x", session=bob)
        assert board.store.pulse().waiters == 0


def waiting(board: Board) -> tuple[int, float]:
    pulse = board.store.pulse()
    return pulse.waiting_for_person, pulse.waiting_for_person_seconds
