"""Reads against time: a read answers as a claim at that instant would, whatever nobody has recorded yet.

Expired claims, the strike that fails an item, schedules that have come, lapsed offers and who is next in line, and
owner processes that died: each must show in every read before anybody has written it down, and reading writes nothing.
"""

from __future__ import annotations

import subprocess
import sys

from dibs.errors import ItemNotClaimable
from dibs.model import BLOCKED, FAILED, IN_PROGRESS, READY, SCHEDULED
from dibs.testing import reads, sizes
from dibs.testing.conformance.asking import TTL_SECONDS, added, expire, kinds, refused, session
from dibs.testing.harness import Harness

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.board import Board

#: How many reads of the storm are compared with the claim that follows.
COMPARISONS = sizes.rounds(120, 1000)
ACTS_BETWEEN = 3
PROJECT_ROUNDS = 100
SWEEP_ROUNDS = 25


def statuses(board: Board, *ids: str) -> list[str]:
    """How these items stand, as every read that tells it has it."""
    listed = {item.id: item.status for item in board.list()}
    by_status = {item.id: status for status in board.stats().items for item in board.list(statuses=[status])}
    found = [board.get(id).item.status for id in ids]
    assert found == [listed[id] for id in ids] == [by_status[id] for id in ids]
    in_progress = {line.item.id for line in board.who()}
    assert [status == IN_PROGRESS for status in found] == [id in in_progress for id in ids]
    return found


def owned(board: Board, agent: str = "coder") -> tuple[str, subprocess.Popen[bytes]]:
    """A session with an owner process of its own, which waits to be killed."""
    owner = subprocess.Popen([sys.executable, "-Sc", "input()"], stdin=subprocess.PIPE)
    return session(board, agent, owner_pid=owner.pid), owner


def kill(owner: subprocess.Popen[bytes]) -> None:
    owner.kill()
    owner.communicate()


class TestReadsAgainstTime:
    def test_an_expired_claim_is_over_in_every_read(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        me = session(board)
        token = board.claim("x", session=me, ttl_seconds=TTL_SECONDS).claim.token
        expires_at = board.get("x").claim
        expire(harness)
        assert statuses(board, "x") == [READY]
        assert board.get("x").claim is None
        (run,) = board.runs()
        assert (run.token, run.outcome) == (token, "expired")
        assert expires_at is not None
        assert run.ended_at == expires_at.expires_at
        assert board.get("x").runs == (run,)
        (view,) = board.sessions()
        assert (view.claims, view.recent) == (0, (run,))
        stats = board.stats()
        assert (stats.active_claims, stats.outcomes, stats.total_claims) == (0, {"expired": 1}, 1)
        assert stats.ready == [{"project": "default", "type": "task", "priority": 5, "count": 1}]
        assert board.store.pulse().ready_total == 1
        assert kinds(board, "x")[-1] == "claimed", "a read wrote something"

    def test_the_last_strike_has_failed_the_item(self, harness: Harness) -> None:
        with harness.with_settings(max_strikes=1) as strict:
            board = strict.board()
            added(board, "x")
            added(board, "child", depends_on=["x"])
            waiter = session(board)
            board.claim("x", session=session(board), ttl_seconds=TTL_SECONDS)
            board.wait("x", session=waiter, ttl_seconds=TTL_SECONDS * 2)
            expire(harness)
            assert statuses(board, "x", "child") == [FAILED, BLOCKED]
            assert board.get("x").item.strikes == 1
            assert board.stats().waiters == 0
            assert board.ticket("x", session=waiter).ticket.reason == "the item is failed"
            (blocker,) = board.get("child").blockers
            assert (blocker.status, blocker.will_move) == (FAILED, False)
            assert refused(ItemNotClaimable, board.claim, "x", session=waiter).facts["status"] == FAILED

    def test_a_schedule_that_has_come_is_ready(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", not_before=harness.clock.now() + 60_000)
        assert statuses(board, "x") == [SCHEDULED]
        harness.clock.advance(61)
        assert statuses(board, "x") == [READY]
        assert board.store.pulse().ready_total == 1

    def test_a_lapsed_offer_is_the_next_ones(self, harness: Harness) -> None:
        harness.clock.freeze()
        board = harness.board()
        added(board, "x")
        first, second, third = (session(board) for _ in range(3))
        for waiter in (first, second):
            board.wait("x", session=waiter, ttl_seconds=TTL_SECONDS)
        assert board.get("x").item.offered_to == first
        harness.clock.advance(board.settings.accept_seconds)
        item = board.get("x").item
        assert item.offered_to == second
        assert item.offer_expires_at == harness.clock.now() + 1000 * board.settings.accept_seconds
        assert board.list()[0] == item
        assert [ticket.session for ticket in board.get("x").waiters] == [second]
        assert board.ticket("x", session=first).ticket.closed_at is not None
        assert board.ticket("x", session=second).offered
        assert board.stats().waiters == 1
        assert second in board.why("x", session=third)[0].text
        assert refused(ItemNotClaimable, board.claim, "x", session=third).facts["offered_to"] == second

    def test_what_expired_is_offered_to_the_first_in_line(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        waiter, other = session(board), session(board)
        board.claim("x", session=session(board), ttl_seconds=TTL_SECONDS)
        board.wait("x", session=waiter, ttl_seconds=TTL_SECONDS * 2)
        expire(harness)
        assert board.get("x").item.offered_to == waiter
        assert board.ticket("x", session=waiter).offered
        refused(ItemNotClaimable, board.claim, "x", session=other)
        assert board.claim("x", session=waiter).claim.session == waiter

    def test_what_a_dead_process_held_is_free_in_every_read(self, harness: Harness) -> None:
        harness.clock.freeze()
        board = harness.board()
        added(board, "x", "y", resources=["src"])
        added(board, "z")
        dead, owner = owned(board, "doomed")
        waiter, me = session(board), session(board)
        board.claim("x", session=dead)
        board.soft_claim("z", session=dead)
        board.wait("z", session=dead)
        board.wait("z", session=waiter)
        assert board.get("z").item.offered_to == dead
        assert statuses(board, "x") == [IN_PROGRESS]
        kill(owner)
        assert statuses(board, "x", "y") == [READY, READY]
        assert board.get("z").item.offered_to == waiter
        assert board.who() == ()
        assert [run.outcome for run in board.runs(item="x")] == ["owner_died"]
        assert dead not in {view.session.id for view in board.sessions()}
        stats = board.stats()
        assert (stats.active_claims, stats.waiters, stats.live_sessions) == (0, 1, 2)
        assert board.stats(agent="doomed").live_sessions == 0
        assert [reason.code for reason in board.why("x", session=me)] == ["CLAIMABLE", "OWNER_DIED"]
        assert board.why("y", session=me)[0].code == "CLAIMABLE", "a dead process holds no resource"
        assert kinds(board, "x")[-1] == "claimed", "a read wrote something"
        before = reads.everything(board)
        assert board.sweep().owner_died == ("x",)
        assert reads.differences(before, reads.everything(board)) == []

    def test_without_a_session_why_says_what_a_new_one_would_meet(self, harness: Harness) -> None:
        board = harness.board()
        board.set_agent("barred", allowed_actions=["other"])
        added(board, "older", "x", "held")
        board.claim("held", session=session(board))
        before = board.sessions(ended=True)
        assert [reason.code for reason in board.why("x")] == ["CLAIMABLE", "BEHIND"]
        assert [reason.code for reason in board.why("older")] == ["CLAIMABLE", "NEXT"]
        assert [reason.code for reason in board.why("held")] == ["TASK_ALREADY_CLAIMED"]
        assert [reason.code for reason in board.why("x", agent="barred")] == ["FORBIDDEN"]
        assert [reason.code for reason in board.why("x", agent="new-here")] == ["CLAIMABLE", "BEHIND"]
        assert board.sessions(ended=True) == before, "asking why started a session"

    def test_at_any_instant_of_a_storm_a_read_says_what_a_claim_meets(self, harness: Harness) -> None:
        seed = sizes.seed()
        with harness.with_settings(max_strikes=3) as strict:
            storm = reads.Storm(strict.board(), harness.clock, seed)
            try:
                for number in range(harness.fewer(COMPARISONS)):
                    if number % PROJECT_ROUNDS == PROJECT_ROUNDS - 1:
                        storm.begin_project()
                    for _ in range(ACTS_BETWEEN if storm.items else reads.ITEMS):
                        storm.act()
                    if number % SWEEP_ROUNDS == 0:
                        self._a_sweep_changes_no_read(storm.board, seed)
                    found = reads.compare(storm)
                    assert not found, f"seed {seed}, comparison {number}: " + "; ".join(found)
            finally:
                storm.close()
                print(f"seed {seed}: {dict(storm.reached)}")
        assert storm.reached["overtaken"], f"seed {seed}: nothing was read that was not recorded"

    def _a_sweep_changes_no_read(self, board: Board, seed: int) -> None:
        """Recording what time and deaths have done changes nothing that could be read before."""
        before = reads.everything(board)
        while board.sweep().more:
            pass
        found = reads.differences(before, reads.everything(board))
        assert not found, f"seed {seed}: " + "; ".join(found)
