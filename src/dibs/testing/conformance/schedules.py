"""Schedules: an item waits for its time, and moves on by itself to whoever asks then; a failed run is tried again after
a backoff that grows, is capped, and spreads out.
"""

from __future__ import annotations

import time

from dibs.errors import ItemNotClaimable
from dibs.testing.conformance.asking import TTL_SECONDS, added, ids, kinds, refused, session, whole
from dibs.testing.harness import Harness

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.board import Board

#: Far more than it takes to be woken, and less than any poll.
PROMPT_SECONDS = 3.0
PATIENCE_SECONDS = 20.0


def scheduled(harness: Harness, board: Board, item: str, seconds: float, **fields: object) -> int:
    """An item whose time comes in so many seconds; that instant."""
    at = harness.clock.now() + round(seconds * 1000)
    added(board, item, not_before=at, **fields)
    return at


def failed_again(board: Board, item: str, me: str) -> int | None:
    """One more failed run of the item; how long it is kept back for it, in milliseconds, None if it failed for good."""
    board.claim(item, session=me, ttl_seconds=TTL_SECONDS)
    after = board.fail(item, session=me, reason="red").item
    return None if after.status == "failed" or after.not_before is None else after.not_before - after.updated_at


class TestSchedules:
    def test_an_item_waits_for_its_time(self, harness: Harness) -> None:
        harness.clock.freeze()
        board = harness.board()
        at = scheduled(harness, board, "x", 60)
        item = board.get("x").item
        assert (item.status, item.not_before) == ("scheduled", at)
        me = session(board)
        assert board.next(session=me) == ()
        before = whole(board, "x")
        facts = refused(ItemNotClaimable, board.claim, "x", session=me).facts
        assert (facts["status"], facts["not_before"], facts["retry_after_seconds"]) == ("scheduled", at, 60)
        assert whole(board, "x") == before

    def test_a_time_that_has_come_already_is_no_schedule(self, harness: Harness) -> None:
        harness.clock.freeze()
        board = harness.board()
        added(board, "past", not_before=harness.clock.now() - 1000)
        added(board, "now", not_before=harness.clock.now())
        assert ids(board.list(statuses=["ready"])) == ["past", "now"]

    def test_its_time_comes_to_the_millisecond(self, harness: Harness) -> None:
        harness.clock.freeze()
        board = harness.board()
        scheduled(harness, board, "x", 60)
        me = session(board)
        harness.clock.advance(59.999)
        assert board.next(session=me) == ()
        refused(ItemNotClaimable, board.claim, "x", session=me)
        harness.clock.advance(0.001)
        assert ids(board.next(session=me)) == ["x"]

    def test_a_sweep_moves_on_what_is_due(self, harness: Harness) -> None:
        board = harness.board()
        scheduled(harness, board, "x", 60)
        scheduled(harness, board, "y", 600)
        harness.clock.advance(61)
        assert board.sweep().due == ("x",)
        assert board.sweep().due == ()
        assert ids(board.list(statuses=["ready"])) == ["x"]
        assert kinds(board, "x") == ["added", "due", "claimable"]

    def test_a_sweep_of_what_is_due_is_bounded(self, harness: Harness) -> None:
        board = harness.board()
        for number in range(5):
            scheduled(harness, board, f"item-{number}", 60)
        harness.clock.advance(61)
        swept = board.sweep(limit=3)
        assert (len(swept.due), swept.more) == (3, True)
        assert len(board.sweep(limit=3).due) == 2

    def test_next_moves_on_what_is_due_before_it_chooses(self, harness: Harness) -> None:
        board = harness.board()
        scheduled(harness, board, "urgent", 60, priority=10)
        added(board, "usual")
        harness.clock.advance(61)
        assert ids(board.next(session=session(board))) == ["urgent"]

    def test_a_claim_by_id_moves_on_what_is_due(self, harness: Harness) -> None:
        board = harness.board()
        scheduled(harness, board, "x", 60)
        harness.clock.advance(61)
        assert board.claim("x", session=session(board)).item.status == "in_progress"
        assert kinds(board, "x") == ["added", "due", "claimable", "claimed"]

    def test_an_item_that_falls_due_keeps_its_place(self, harness: Harness) -> None:
        board = harness.board()
        scheduled(harness, board, "oldest", 60)
        added(board, "newer")
        harness.clock.advance(61)
        assert ids(board.next(session=session(board), n=2)) == ["oldest", "newer"]

    def test_a_waiting_next_wakes_when_its_time_comes(self, harness: Harness) -> None:
        board = harness.board()
        scheduled(harness, board, "x", 60)
        me = session(board)
        harness.clock.advance(59.5)
        begun = time.monotonic()
        assert ids(board.next(session=me, wait_seconds=PATIENCE_SECONDS)) == ["x"]
        assert 0.1 < time.monotonic() - begun < PROMPT_SECONDS

    def test_when_time_will_change_something_is_known(self, harness: Harness) -> None:
        harness.clock.freeze()
        board = harness.board()
        store = board.store
        assert store.due_seconds() is None
        scheduled(harness, board, "x", 60)
        scheduled(harness, board, "y", 30)
        assert (store.due_seconds(), store.due_seconds("x")) == (30, 60)
        added(board, "z")
        assert store.due_seconds("z") is None
        me, other = session(board), session(board)
        board.wait("z", session=other)
        assert store.due_seconds("z") == board.settings.accept_seconds
        board.claim("z", session=other, ttl_seconds=TTL_SECONDS)
        assert store.due_seconds("z") == TTL_SECONDS
        harness.clock.advance(61)
        assert (store.due_seconds(), store.due_seconds("x")) == (0, 0)
        board.next(session=me, n=5, ttl_seconds=TTL_SECONDS)
        assert store.due_seconds("x") == TTL_SECONDS
        assert store.due_seconds() == TTL_SECONDS - 61

    def test_a_schedule_can_be_changed(self, harness: Harness) -> None:
        board = harness.board()
        scheduled(harness, board, "x", 60)
        assert board.edit("x", not_before=None).status == "ready"
        assert board.edit("x", not_before=harness.clock.now() + 60_000).status == "scheduled"
        refused(ItemNotClaimable, board.claim, "x", session=session(board))
        assert board.edit("x", not_before=harness.clock.now() - 1).status == "ready"

    def test_a_schedule_set_while_it_is_claimed_counts_when_it_comes_back(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        me = session(board)
        board.claim("x", session=me)
        assert board.edit("x", not_before=harness.clock.now() + 60_000).status == "in_progress"
        board.release("x", session=me)
        assert board.get("x").item.status == "scheduled"


class TestBackoff:
    def test_a_failed_run_is_tried_again_later_while_retries_remain(self, harness: Harness) -> None:
        harness.clock.freeze()
        board = harness.board()
        added(board, "x", retries=2)
        me = session(board)
        for failures in (1, 2):
            assert failed_again(board, "x", me) is not None
            item = board.get("x").item
            assert (item.failures, item.strikes) == (failures, 0)
            assert item.status in ("scheduled", "ready")  # a draw may come out at no delay at all
            run = board.get("x").runs[0]
            assert (run.outcome, run.reason) == ("failed", "red")
            harness.clock.advance(board.settings.retry_backoff_seconds_max)
        assert failed_again(board, "x", me) is None
        item = board.get("x").item
        assert (item.status, item.failures) == ("failed", 3)

    def test_without_retries_the_first_failure_is_the_last(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        assert failed_again(board, "x", session(board)) is None
        assert board.get("x").item.status == "failed"

    def test_the_backoff_doubles_is_capped_and_spreads(self, harness: Harness) -> None:
        """Each delay is drawn evenly from nothing to its ceiling: none above, many in the upper half, all different."""
        harness.clock.freeze()
        board = harness.board()
        base, cap = board.settings.retry_backoff_seconds, board.settings.retry_backoff_seconds_max
        items = [f"item-{number:02}" for number in range(40)]
        added(board, *items, retries=10)
        me = session(board)
        for failures in range(9):
            ceiling_ms = min(cap, base * 2**failures) * 1000
            delays = [failed_again(board, item, me) for item in items]
            found = [delay for delay in delays if delay is not None]
            assert len(found) == len(items)
            assert max(found) <= ceiling_ms, f"failure {failures + 1}: {max(found)} ms is above {ceiling_ms}"
            # That of 40 even draws none is in the upper half, or none in the lower, does not happen.
            assert max(found) > ceiling_ms / 2, f"failure {failures + 1}: all {found} are short of {ceiling_ms / 2}"
            assert min(found) < ceiling_ms / 2, f"failure {failures + 1}: all {found} are above {ceiling_ms / 2}"
            assert len(set(found)) > len(items) / 2, f"failure {failures + 1}: no jitter in {found}"
            harness.clock.advance(cap)

    def test_what_is_kept_back_is_not_handed_out_before(self, harness: Harness) -> None:
        harness.clock.freeze()
        board = harness.board()
        me = session(board)
        for number in range(20):
            item = f"item-{number}"
            added(board, item, retries=1)
            delay_ms = failed_again(board, item, me)
            assert delay_ms is not None
            if delay_ms >= 2:
                harness.clock.advance((delay_ms - 1) / 1000)
                assert board.next(session=me) == ()
                refused(ItemNotClaimable, board.claim, item, session=me)
                harness.clock.advance(0.001)
            assert ids(board.next(session=me)) == [item]

    def test_retry_forgives_and_asks_for_no_patience(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", retries=1)
        me = session(board)
        assert failed_again(board, "x", me) is not None
        harness.clock.advance(board.settings.retry_backoff_seconds_max)
        assert failed_again(board, "x", me) is None
        item = board.retry("x", reason="the network was down")
        assert (item.status, item.failures, item.strikes, item.not_before) == ("ready", 0, 0, None)
        assert failed_again(board, "x", me) is not None

    def test_strikes_are_no_failures(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", retries=1)
        me = session(board)
        board.claim("x", session=me, ttl_seconds=TTL_SECONDS)
        harness.clock.advance(TTL_SECONDS)
        board.sweep()
        item = board.get("x").item
        assert (item.strikes, item.failures, item.status) == (1, 0, "ready")
        assert failed_again(board, "x", me) is not None
