"""Pruning: what ended long ago is deleted, and no token or event id is given twice because of it."""

from __future__ import annotations

import time

from dibs.errors import Invalid
from dibs.testing import sizes
from dibs.testing.conformance.asking import added, ids, refused, session
from dibs.testing.conformance.used_board import DAY_SECONDS, finished, gone, refused_all
from dibs.testing.harness import Harness
from dibs.testing.invariants import assert_sound

TYPE_CHECKING = False
if TYPE_CHECKING:
    pass

CHURNERS, CALLS, ITEMS = 4, 150, 30
#: Far more than a batch of pruning takes; a prune in one piece takes longer.
CLAIM_SECONDS_MAX = 2.0


class TestPruning:
    def test_only_what_ended_long_enough_ago_is_forgotten(self, harness: Harness) -> None:
        harness.clock.freeze()
        board = harness.board()
        me = session(board)
        added(board, "open", "held", "aside")
        board.claim("held", session=me, ttl_seconds=board.settings.ttl_seconds_max)
        board.park("aside")
        finished(board, "old")
        harness.clock.advance(DAY_SECONDS)
        finished(board, "young")
        harness.clock.advance(0.001)
        pruned = board.prune(older_than_seconds=DAY_SECONDS)
        assert pruned.items == 1
        assert sorted(ids(board.list())) == ["aside", "held", "open", "young"]
        assert gone(board, "old")
        assert not [run for run in board.runs() if run.item == "old"]
        assert {event.item for event in board.events()} == {"open", "held", "aside", "young"}
        assert_sound(board)

    def test_every_end_is_forgotten(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "done", "failed", "rejected", "cancelled")
        me = session(board)
        board.next(session=me, n=3)
        board.done("done", session=me)
        board.fail("failed", session=me)
        board.reject("rejected", session=me, reason="no")
        board.cancel("cancelled")
        harness.clock.advance(1)
        assert board.prune(older_than_seconds=0.5).items == 4
        assert board.list() == ()

    def test_what_somebody_waits_for_in_vain_is_kept(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "failed")
        added(board, "child", depends_on=["failed"])
        me = session(board)
        board.claim("failed", session=me)
        board.fail("failed", session=me)
        harness.clock.advance(DAY_SECONDS)
        assert board.prune(older_than_seconds=1).items == 0
        assert board.get("child").item.status == "blocked"
        board.cancel("child")
        harness.clock.advance(DAY_SECONDS)
        assert board.prune(older_than_seconds=1).items == 2

    def test_a_dependency_that_was_done_and_pruned_stays_satisfied(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "other")
        finished(board, "parent")
        added(board, "child", depends_on=["parent", "other"])
        harness.clock.advance(DAY_SECONDS)
        assert board.prune(older_than_seconds=1).items == 1
        assert board.get("child").item.status == "blocked"
        me = session(board)
        board.claim("other", session=me)
        board.done("other", session=me)
        assert ids(board.next(session=me)) == ["child"]
        board.release("child", session=me)
        assert_sound(board)
        added(board, "parent", body="another under the old name")
        assert board.claim("child", session=me).item.status == "in_progress"

    def test_a_new_item_of_a_pruned_id_goes_on_above_the_floor(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        me = session(board)
        for _ in range(4):
            board.claim("x", session=me)
            board.release("x", session=me)
        token = board.claim("x", session=me).claim.token
        board.done("x", session=me)
        harness.clock.advance(DAY_SECONDS)
        pruned = board.prune(older_than_seconds=1)
        assert (pruned.items, pruned.token_floor) == (1, token)
        added(board, "x", "y")
        for item in ("x", "y"):
            refused_all(board, item, token, me)
            assert board.claim(item, session=me).claim.token == token + 1
            refused_all(board, item, token, me)
        assert_sound(board)

    def test_floors_never_sink(self, harness: Harness) -> None:
        board = harness.board()
        finished(board, "x")
        harness.clock.advance(DAY_SECONDS)
        first = board.prune(older_than_seconds=1)
        again = board.prune(older_than_seconds=1)
        assert (again.items, again.events) == (0, 0)
        assert (again.token_floor, again.event_floor) == (first.token_floor, first.event_floor)

    def test_a_cursor_from_before_what_was_pruned_is_refused(self, harness: Harness) -> None:
        board = harness.board()
        finished(board, "old")
        cursor = board.events()[-1].id
        added(board, "young")
        harness.clock.advance(DAY_SECONDS)
        pruned = board.prune(older_than_seconds=1)
        assert pruned.event_floor == cursor
        refusal = refused(Invalid, board.events, after=cursor - 1)
        assert refusal.facts["event_floor"] == cursor
        assert {event.item for event in board.events(after=cursor)} == {"young"}
        assert {event.item for event in board.events()} == {"young"}
        me = session(board)
        board.claim("young", session=me)
        assert [event.kind for event in board.events(after=cursor)][-1] == "claimed"

    def test_a_chain_that_ended_is_forgotten_as_a_whole(self, harness: Harness) -> None:
        """A dependency that is gone counts as done: so one that is not done goes after those that depend on it."""
        board = harness.board()
        added(board, "a")
        added(board, "b", depends_on=["a"])
        added(board, "c", depends_on=["b"])
        for item in ("a", "b", "c"):
            board.cancel(item)
        harness.clock.advance(DAY_SECONDS)
        assert board.store.prune(older_than_seconds=1, limit=2).items == 1
        assert ids(board.list()) == ["a", "b"]
        assert board.prune(older_than_seconds=1).items == 2
        assert board.list() == ()

    def test_a_dry_run_counts_what_would_go_and_deletes_nothing(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "open", "failed", "x", "y")
        added(board, "child", depends_on=["failed"])
        added(board, "z", depends_on=["y"])
        me = session(board)
        board.claim("failed", session=me)
        board.fail("failed", session=me)
        for item in ("x", "y", "z"):
            board.cancel(item)
        finished(board, "done")
        harness.clock.advance(DAY_SECONDS)
        finished(board, "young")
        before = board.events()
        counted = board.prune(older_than_seconds=DAY_SECONDS / 2, dry_run=True)
        assert (counted.items, board.events()) == (4, before)
        assert len(board.list()) == 8
        pruned = board.prune(older_than_seconds=DAY_SECONDS / 2)
        assert (pruned.items, pruned.events) == (counted.items, counted.events)
        assert sorted(ids(board.list())) == ["child", "failed", "open", "young"]

    def test_pruning_is_bounded_batch_by_batch(self, harness: Harness) -> None:
        board = harness.board()
        finished(board, *(f"item-{number}" for number in range(7)))
        harness.clock.advance(DAY_SECONDS)
        assert board.store.prune(older_than_seconds=1, limit=3).items == 3
        assert board.store.prune(older_than_seconds=1, limit=3).items == 3
        assert board.prune(older_than_seconds=1).items == 1

    def test_claims_go_on_while_a_board_is_pruned(self, harness: Harness) -> None:
        board = harness.board()
        many = [f"old-{number:04}" for number in range(500 if sizes.FACTOR == 1 else 1500)]
        added(board, *many)
        for item in many:
            board.cancel(item)
        added(board, *(f"new-{number:03}" for number in range(100)))
        harness.clock.advance(DAY_SECONDS)
        me, pruner = session(board), harness.actor()
        pruner.send("prune", older_than_seconds=1)
        worst, claimed = 0.0, 0
        for _ in range(100):
            begun = time.monotonic()
            claimed += len(board.next(session=me))
            worst = max(worst, time.monotonic() - begun)
        assert pruner.answer().reply["items"] == len(many)
        print(f"{len(many)} items pruned beside {claimed} claims, of which the slowest took {worst * 1000:.0f} ms")
        assert claimed == 100
        assert worst < CLAIM_SECONDS_MAX
        assert_sound(board)
