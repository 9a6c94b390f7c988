"""Parking: what is set aside is handed out by no `next`, can be claimed by id, and comes back to where it rests."""

from __future__ import annotations

from dibs.errors import ItemNotClaimable
from dibs.testing.conformance.asking import TTL_SECONDS, added, ids, kinds, latest, refused, session, whole
from dibs.testing.harness import Harness
from dibs.testing.invariants import assert_sound


class TestParking:
    def test_next_does_not_hand_out_what_is_parked(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", priority=10)
        added(board, "y")
        item = board.park("x", reason="not now")
        assert item.status == "parked"
        event = latest(board, "x")
        assert (event.kind, event.data["reason"]) == ("parked", "not now")
        assert ids(board.next(session=session(board), n=5)) == ["y"]

    def test_a_parked_item_can_be_claimed_by_id(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        board.park("x")
        me = session(board)
        assert board.claim("x", session=me).claim.token == 1
        board.release("x", session=me)
        assert board.get("x").item.status == "ready"

    def test_unpark_brings_it_back_to_its_place(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", "y")
        board.park("x")
        assert board.unpark("x").status == "ready"
        assert kinds(board, "x")[-2:] == ["unparked", "claimable"]
        assert ids(board.next(session=session(board), n=5)) == ["x", "y"]

    def test_a_holder_can_let_go_and_park(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        me = session(board)
        board.claim("x", session=me)
        ended = board.release("x", session=me, reason="waits for an answer", park=True)
        assert (ended.item.status, ended.run.outcome, ended.run.reason) == ("parked", "released", "waits for an answer")
        assert board.get("x").claim is None
        assert board.next(session=me) == ()
        previous = board.claim("x", session=me).previous
        assert previous is not None
        assert previous.run.reason == "waits for an answer"

    def test_what_somebody_holds_or_what_has_ended_is_not_parked(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "held", "done", "ready")
        me = session(board)
        for item in ("held", "done"):
            board.claim(item, session=me)
        board.done("done", session=me)
        for item in ("held", "done"):
            before = whole(board, item)
            refused(ItemNotClaimable, board.park, item)
            assert whole(board, item) == before
        refused(ItemNotClaimable, board.unpark, "ready")
        board.park("ready")
        refused(ItemNotClaimable, board.park, "ready")

    def test_whatever_rests_can_be_parked_and_comes_back_to_the_same_rest(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "parent", "ready")
        added(board, "blocked", depends_on=["parent"])
        added(board, "scheduled", not_before=harness.clock.now() + 60_000)
        added(board, "pending_approval", needs_approval=True)
        for status in ("ready", "blocked", "scheduled", "pending_approval"):
            assert board.park(status).status == "parked"
            if status != "ready":
                refused(ItemNotClaimable, board.claim, status, session=session(board))
            assert board.get(status).item.status == "parked"
            assert board.unpark(status).status == status

    def test_time_leaves_what_is_parked_where_it_is(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", not_before=harness.clock.now() + 60_000)
        board.park("x")
        harness.clock.advance(61)
        board.sweep()
        assert board.next(session=session(board)) == ()
        assert board.get("x").item.status == "parked"
        assert board.claim("x", session=session(board)).item.status == "in_progress"

    def test_a_parked_item_that_was_claimed_and_lost_is_ready(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        board.park("x")
        board.claim("x", session=session(board), ttl_seconds=TTL_SECONDS)
        harness.clock.advance(TTL_SECONDS)
        assert ids(board.next(session=session(board))) == ["x"]
        assert_sound(board)

    def test_a_parked_item_can_be_cancelled_and_edited(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        board.park("x")
        assert board.edit("x", title="otherwise", priority=9).status == "parked"
        assert board.cancel("x").status == "cancelled"
