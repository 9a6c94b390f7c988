"""Reopening: an ended item returns to the board, and whatever depends on it and is free waits for it again."""

from __future__ import annotations

import os

from dibs.errors import ItemNotClaimable, ItemNotClaimed, ItemNotFound
from dibs.testing import sizes
from dibs.testing.conformance.asking import TTL_SECONDS, added, expire, kinds, latest, refused, session, whole
from dibs.testing.harness import Harness
from dibs.testing.invariants import assert_sound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.board import Board

ROUNDS, ROUNDS_SOAK = 8, 200


def finish(board: Board, item: str, me: str) -> int:
    """Claim the item and end it as done; the token."""
    token = board.claim(item, session=me).claim.token
    board.done(item, session=me, token=token)
    return token


class TestReopening:
    def test_what_is_done_cancelled_or_rejected_is_reopened_under_a_higher_token(self, harness: Harness) -> None:
        board = harness.board()
        me, other = session(board), session(board, "other")
        ends: dict[str, Callable[[], object]] = {
            "done": lambda: board.done("done", session=me, note="so"),
            "cancelled": lambda: board.cancel("cancelled"),
            "rejected": lambda: board.reject("rejected", session=me, reason="no"),
        }
        for status, end in ends.items():
            added(board, status)
            token = board.claim(status, session=me).claim.token
            end()
            before = board.get(status)
            item = board.reopen(status, reason="it is not", actor="pat")
            assert (item.id, item.status) == (status, "ready")
            event = latest(board, status)
            assert (event.kind, event.status, event.actor) == ("reopened", "ready", "pat")
            assert event.data["reason"] == "it is not"
            assert board.get(status).runs == before.runs, "its runs stay as they ended"
            refused(ItemNotClaimed, board.done, status, session=me, token=token)
            grant = board.claim(status, session=other)
            assert grant.claim.token > token
            assert grant.previous is not None
            assert grant.previous.run == before.runs[0]
            board.done(status, session=other, token=grant.claim.token)
            assert board.get(status).item.status == "done"
        assert_sound(board)

    def test_nothing_else_is_reopened(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", "failed")
        me = session(board)
        board.claim("failed", session=me)
        board.fail("failed", session=me)
        before = whole(board, "failed")
        assert "dibs retry failed" in refused(ItemNotClaimable, board.reopen, "failed").message
        assert whole(board, "failed") == before
        assert refused(ItemNotClaimable, board.reopen, "x").facts["status"] == "ready"
        refused(ItemNotFound, board.reopen, "nosuch")
        board.cancel("x")
        first = board.reopen("x", request_id="r")
        assert harness.board().reopen("x", request_id="r") == first
        assert kinds(board, "x").count("reopened") == 1

    def test_dependents_that_nobody_holds_wait_again(self, harness: Harness) -> None:
        harness.clock.freeze()
        board = harness.board()
        me, waiter = session(board), session(board, "waiter")
        added(board, "x")
        finish(board, "x", me)
        added(board, "ready", "offered", "parked", depends_on=["x"])
        added(board, "later", depends_on=["x"], not_before=harness.clock.now() + 3_600_000)
        added(board, "pending", depends_on=["x"], needs_approval=True)
        added(board, "far", depends_on=["ready"])
        board.park("parked")
        board.wait("offered", session=waiter)
        assert board.get("offered").item.offered_to == waiter
        board.reopen("x")
        found = {one: board.get(one) for one in ("ready", "offered", "later", "parked", "pending", "far")}
        statuses = {one: detail.item.status for one, detail in found.items()}
        waiting = dict.fromkeys(("ready", "offered", "later", "far"), "blocked")
        assert statuses == {**waiting, "parked": "parked", "pending": "pending_approval"}
        assert found["offered"].item.offered_to is None
        assert [ticket.session for ticket in found["offered"].waiters] == [waiter], "it keeps its place"
        assert [blocker.item for blocker in found["ready"].blockers] == ["x"]
        for one in ("ready", "offered", "later"):
            assert (latest(board, one).kind, latest(board, one).data["blocked_by"]) == ("blocked", ["x"])
        assert [grant.item.id for grant in board.next(session=me, n=9)] == ["x"]
        refused(ItemNotClaimable, board.claim, "parked", session=me)
        board.done("x", session=me)
        statuses = {one: board.get(one).item.status for one in statuses}
        free = {"ready": "ready", "offered": "ready", "later": "scheduled", "far": "blocked"}
        assert statuses == {**free, "parked": "parked", "pending": "pending_approval"}
        assert board.get("offered").item.offered_to == waiter
        assert_sound(board)

    def test_it_is_refused_while_a_dependent_is_held_or_has_ended(self, harness: Harness) -> None:
        board = harness.board()
        me, other = session(board), session(board, "other")
        for number, status in enumerate(("done", "cancelled", "rejected")):
            first, second, third = (f"{name}-{number}" for name in ("first", "second", "third"))
            added(board, first)
            finish(board, first, me)
            added(board, second, third, depends_on=[first])
            board.claim(third, session=other)
            before = {one: whole(board, one) for one in (first, second, third)}
            refusal = refused(ItemNotClaimable, board.reopen, first)
            assert (refusal.facts["dependent"], refusal.facts["holder"]["session"]) == (third, other)
            assert third in refusal.message
            assert {one: whole(board, one) for one in (first, second, third)} == before
            if status == "done":
                board.done(third, session=other)
            elif status == "cancelled":
                board.cancel(third)
            else:
                board.reject(third, session=other, reason="no")
            refusal = refused(ItemNotClaimable, board.reopen, first)
            assert (refusal.facts["dependent"], "holder" in refusal.facts) == (third, False)
            assert f"{third} depends on it and is {status}" in refusal.message
            board.reopen(third)
            assert board.reopen(first).status == "ready"
            assert {board.get(one).item.status for one in (second, third)} == {"blocked"}
        assert_sound(board)

    def test_a_dependent_whose_claim_has_expired_is_held_by_nobody(self, harness: Harness) -> None:
        board = harness.board()
        me = session(board)
        added(board, "x")
        finish(board, "x", me)
        added(board, "y", depends_on=["x"])
        board.claim("y", session=me, ttl_seconds=TTL_SECONDS)
        expire(harness)
        assert board.reopen("x").status == "ready"
        assert board.get("y").item.status == "blocked"
        assert kinds(board, "y")[-3:] == ["expired", "claimable", "blocked"]

    def test_it_begins_anew_but_for_its_schedule(self, harness: Harness) -> None:
        harness.clock.freeze()
        board = harness.board()
        later = harness.clock.now() + 86_400_000
        added(board, "x", retries=1)
        added(board, "later", not_before=later)
        me = session(board)
        board.claim("x", session=me, ttl_seconds=TTL_SECONDS)
        expire(harness)
        board.claim("x", session=me)
        board.fail("x", session=me)
        board.cancel("x")
        board.cancel("later")
        item = board.reopen("x")
        assert (item.strikes, item.failures, item.attempts) == (0, 0, 2)
        item = board.reopen("later")
        assert (item.status, item.not_before) == ("scheduled", later)

    def test_an_approval_is_for_the_work_that_ended(self, harness: Harness) -> None:
        board = harness.board()
        me = session(board)
        added(board, "approved", "pending", needs_approval=True)
        added(board, "reviewed", review=True)
        board.approve("approved")
        finish(board, "approved", me)
        item = board.reopen("approved")
        assert (item.status, item.needs_approval, item.approved) == ("pending_approval", True, False)
        assert board.approve("approved").status == "ready"
        board.reject("pending", reason="no")
        assert board.reopen("pending").status == "pending_approval", "it waits for the decision as before"
        finish(board, "reviewed", me)
        assert board.approve("reviewed").status == "done"
        item = board.reopen("reviewed")
        assert (item.status, item.needs_approval, item.approved) == ("ready", False, False)
        finish(board, "reviewed", me)
        assert board.get("reviewed").item.status == "pending_approval", "its next result is reviewed"
        assert_sound(board)

    def test_one_that_is_over_elsewhere_stays_open(self, harness: Harness) -> None:
        board = harness.board()
        me = session(board)
        added(board, "x", payload={"external": {"state": "closed", "over": "closed on GitHub"}, "more": 1})
        board.claim("x", session=me)
        board.release("x", session=me)
        assert board.get("x").item.status == "cancelled"
        item = board.reopen("x")
        assert (item.status, item.payload) == ("ready", {"external": {"state": "closed"}, "more": 1})
        board.claim("x", session=me)
        assert board.release("x", session=me).item.status == "ready"
        assert_sound(board)

    def test_figures_know_of_it(self, harness: Harness) -> None:
        board = harness.board()
        me = session(board)
        added(board, "x", "y", "z")
        for item in ("x", "y"):
            finish(board, item, me)
        board.cancel("z")
        board.sweep()
        board.reopen("x")
        board.reopen("z")
        for _ in range(2):
            found = board.stats().items
            assert (found["done"], found["cancelled"], found["ready"]) == (1, 0, 2)
            board.sweep()
        harness.clock.advance(3600)
        assert board.prune(older_than_seconds=1).items == 1, "only what is ended now"
        assert board.stats().items["done"] == 0

    def test_many_at_once(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "a", "b", "c")
        for item in ("a", "b"):
            board.cancel(item)
        answer = board.bulk("reopen", args={"reason": "again"}, items=[{"id": id} for id in ("a", "b", "c")])
        assert (answer.done, [one.item for one in answer.refused]) == (("a", "b"), ["c"])

    def test_a_restore_does_not_bring_an_old_token_back(self, harness: Harness) -> None:
        board = harness.board()
        me = session(board, id="me")
        added(board, "x")
        finish(board, "x", me)
        path = os.path.join(harness.folder, "backup")
        board.backup(path)
        board.reopen("x")
        lost = board.claim("x", session=me).claim.token
        board.restore(path)
        board.reopen("x")
        me = session(board, id="me")
        assert board.claim("x", session=me).claim.token > lost
        assert_sound(board)

    def test_one_who_reopens_and_one_who_claims_a_dependent_do_not_both_win(self, harness: Harness) -> None:
        """Real processes."""
        board = harness.board()
        me = session(board)
        reopener, claimer = harness.actors(2)
        other = session(board, "other")
        gate, reopened = harness.gate(), 0
        rounds = harness.fewer(sizes.rounds(ROUNDS, ROUNDS_SOAK), 2)
        for number in range(rounds):
            first, second = f"first-{number}", f"second-{number}"
            added(board, first)
            finish(board, first, me)
            added(board, second, depends_on=[first])
            reopener.send("reopen", first, at=gate)
            claimer.send("claim", second, session=other, at=gate)
            gate.open()
            codes = [reopener.answer().code, claimer.answer().code]
            gate.close()
            assert codes in ([None, "TASK_NOT_CLAIMABLE"], ["TASK_NOT_CLAIMABLE", None]), codes
            statuses = tuple(board.get(one).item.status for one in (first, second))
            assert statuses == (("ready", "blocked") if codes[0] is None else ("done", "in_progress"))
            reopened += codes[0] is None
        print(
            f"{rounds} rounds: {reopened} times the item was reopened, {rounds - reopened} times its dependent claimed"
        )
        assert_sound(board)
