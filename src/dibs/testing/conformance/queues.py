"""Queues at work: claims that wait their turn by themselves, and processes that take turns.

Twenty waiters whose holders leave in every way there is, a waiter killed between its offer and its acceptance, and a
thousand hand-overs in which nobody starves.
"""

from __future__ import annotations

import random
import subprocess
from itertools import pairwise
from statistics import median

from dibs.errors import (
    AgentAtCapacity,
    ItemAlreadyClaimed,
    ItemNotClaimable,
    ItemNotClaimed,
)
from dibs.testing import sizes
from dibs.testing.actors import Actor
from dibs.testing.conformance.asking import TTL_SECONDS, added, refused, session, until
from dibs.testing.conformance.tickets import closed_because, held, offered_to
from dibs.testing.harness import Harness
from dibs.testing.invariants import assert_sound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.model import Waiting


WAITERS = 20
HAND_OVERS = 1000
TURNERS, TURNS = 6, sizes.rounds(25, 170)
#: Waiters are woken; only a poll as slow as this would take so long.
HAND_OVER_SECONDS_MAX = 0.25
PATIENCE_SECONDS = 20.0
#: What a loaded machine may add to a bound in store time.
SLACK_SECONDS = 2.0


class TestTurns:
    """`claim` with patience."""

    def test_a_waiting_claim_accepts_by_itself(self, harness: Harness) -> None:
        board = harness.board()
        holder = held(board)
        stood: list[Waiting] = []

        def on_wait(standing: Waiting) -> None:
            stood.append(standing)
            if len(stood) == 1:
                board.release("x", session=holder, reason="for you")

        me = session(board)
        grant = harness.board().claim("x", session=me, wait_seconds=PATIENCE_SECONDS, on_wait=on_wait)
        assert (grant.claim.session, grant.claim.token) == (me, 2)
        assert grant.previous is not None
        assert grant.previous.run.reason == "for you"
        assert (stood[0].position, stood[0].status) == (1, "in_progress")
        assert stood[0].claim is not None
        assert stood[0].claim.session == holder

    def test_what_is_free_is_given_without_a_ticket(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        me = session(board)
        board.claim("x", session=me, wait_seconds=PATIENCE_SECONDS)
        refused(ItemNotClaimed, board.ticket, "x", session=me)

    def test_a_waiting_claim_ends_with_the_refusal_when_its_time_is_up(self, harness: Harness) -> None:
        board = harness.board()
        holder = held(board)
        me = session(board)
        refusal = refused(ItemAlreadyClaimed, board.claim, "x", session=me, wait_seconds=0.2)
        assert refusal.facts["holder"]["session"] == holder
        assert closed_because(board, "x", me)
        board.release("x", session=holder)
        assert offered_to(board) is None

    def test_a_waiting_claim_that_is_interrupted_leaves(self, harness: Harness) -> None:
        board = harness.board()
        held(board)
        me = session(board)

        class Interrupted(BaseException):
            pass

        def on_wait(_: Waiting) -> None:
            raise Interrupted

        try:
            board.claim("x", session=me, wait_seconds=PATIENCE_SECONDS, on_wait=on_wait)
        except Interrupted:
            pass
        assert closed_because(board, "x", me)
        assert board.get("x").waiters == ()

    def test_a_waiting_claim_is_told_that_the_item_has_ended(self, harness: Harness) -> None:
        board = harness.board()
        holder = held(board)
        me = session(board)

        def on_wait(_: Waiting) -> None:
            board.done("x", session=holder)

        waiting = harness.board()
        refusal = refused(
            ItemNotClaimable, waiting.claim, "x", session=me, wait_seconds=PATIENCE_SECONDS, on_wait=on_wait
        )
        assert refusal.facts["status"] == "done"
        refused(ItemNotClaimable, board.claim, "x", session=me, wait_seconds=PATIENCE_SECONDS)

    def test_a_waiting_claim_gets_what_expires(self, harness: Harness) -> None:
        board = harness.board()
        held(board)
        harness.clock.advance(TTL_SECONDS - 0.3)
        me = session(board)
        assert board.claim("x", session=me, wait_seconds=PATIENCE_SECONDS).claim.session == me

    def test_a_waiting_claim_gets_what_falls_due(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", not_before=harness.clock.now() + 300)
        me = session(board)
        assert board.claim("x", session=me, wait_seconds=PATIENCE_SECONDS).claim.session == me

    def test_a_waiting_claim_gets_what_a_dead_owner_held(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        owner = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
        board.claim("x", session=session(board, owner_pid=owner.pid))
        me = session(board)

        def on_wait(_: Waiting) -> None:
            if owner.poll() is None:
                owner.kill()
                owner.communicate()

        # Nobody tells of a death; a waiter looks now and then, and once more before it gives up.
        assert board.claim("x", session=me, wait_seconds=0.5, on_wait=on_wait).claim.session == me

    def test_a_waiting_claim_without_room_does_not_stay_in_the_queue(self, harness: Harness) -> None:
        board = harness.board()
        holder = held(board)
        added(board, "mine")
        board.set_agent("full", max_claims=1)
        me, other = session(board, "full"), session(board)

        def on_wait(_: Waiting) -> None:
            if board.get("x").claim is not None:
                board.claim("mine", session=me)
                board.wait("x", session=other)
                board.release("x", session=holder)

        waiting = harness.board()
        refused(AgentAtCapacity, waiting.claim, "x", session=me, wait_seconds=PATIENCE_SECONDS, on_wait=on_wait)
        assert closed_because(board, "x", me)
        assert offered_to(board) == other


class TestPatience:
    """`wait` with patience."""

    def waiter(self, harness: Harness, tickets: int) -> tuple[Actor, str]:
        """A process that waits for x, once there are so many tickets; and its session."""
        actor, board = harness.actor(), harness.board()
        me = actor.ask("start_session", "waiter").reply["id"]
        actor.send("wait", "x", session=me, wait_seconds=PATIENCE_SECONDS)
        until(board, lambda: len(board.get("x").waiters) == tickets, f"{tickets} tickets")
        return actor, me

    def test_a_ticket_is_told_of_its_offer(self, harness: Harness) -> None:
        board = harness.board()
        holder = held(board)
        actor, me = self.waiter(harness, tickets=1)
        board.release("x", session=holder)
        standing = actor.answer().reply
        assert (standing["offered"], standing["position"]) == (True, 1)
        # Told is not given: whoever is not there to accept it holds up nobody for long.
        assert board.get("x").claim is None
        assert board.claim("x", session=me).claim.token == 2

    def test_a_ticket_is_told_of_another_place(self, harness: Harness) -> None:
        board = harness.board()
        held(board)
        first = session(board)
        board.wait("x", session=first)
        actor, _ = self.waiter(harness, tickets=2)
        board.leave("x", session=first)
        # Taking and leaving a ticket is no event: where the store tells of nothing else, it is seen by the next one.
        board.add("something else")
        standing = actor.answer().reply
        assert (standing["offered"], standing["position"]) == (False, 1)

    def test_when_the_time_is_up_the_ticket_stands(self, harness: Harness) -> None:
        board = harness.board()
        held(board)
        me = session(board)
        standing = board.wait("x", session=me, wait_seconds=0.2)
        assert (standing.offered, standing.position, standing.ticket.closed_at) == (False, 1, None)
        assert [ticket.session for ticket in board.get("x").waiters] == [me]
        assert board.activity() == ()

    def test_what_is_free_is_offered_without_waiting(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        assert board.wait("x", session=session(board), wait_seconds=PATIENCE_SECONDS).offered

    def test_a_ticket_is_told_that_the_item_has_ended(self, harness: Harness) -> None:
        board = harness.board()
        holder = held(board)
        actor, _ = self.waiter(harness, tickets=1)
        board.done("x", session=holder)
        standing = actor.answer().reply
        assert (standing["status"], standing["ticket"]["reason"]) == ("done", "the item is done")


class TestQueues:
    """Queues of real processes."""

    def test_twenty_waiters_are_served_in_order_however_their_holders_leave(self, harness: Harness) -> None:
        # Short leases, and no strikes to speak of: it is the order that is looked at.
        brief = {"ttl_seconds_min": 0.05, "max_strikes": 100, "retry_backoff_seconds": 0.05}
        with harness.with_settings(**brief) as quick:
            board = quick.board()
            added(board, "x", retries=100)
            holder = session(board, "holder")
            board.claim("x", session=holder)
            actors = quick.actors(WAITERS)
            waiters = []
            for number, actor in enumerate(actors):
                me = actor.ask("start_session", f"waiter-{number}", owner_pid=actor.pid).reply["id"]
                actor.send("claim", "x", session=me, wait_seconds=PATIENCE_SECONDS * 3)
                until(board, lambda place=number: len(board.get("x").waiters) == place + 1, f"ticket {number}")  # type: ignore[misc]
                waiters.append(me)
            board.release("x", session=holder)
            ways = ("release", "crash", "fail", "force_release", "expire")
            for number, (actor, me) in enumerate(zip(actors, waiters, strict=True)):
                answer = actor.answer()
                assert answer.error is None, answer
                assert answer.reply["claim"]["session"] == me
                match ways[number % len(ways)]:
                    case "release":
                        assert actor.ask("release", "x", session=me).error is None
                    case "crash":
                        actor.kill()
                        board.sweep()  # unless another waiter has found it out by then
                    case "fail":
                        assert actor.ask("fail", "x", session=me).error is None
                    case "force_release":
                        board.force_release("x", reason="race")
                    case _:
                        assert actor.ask("renew", "x", session=me, ttl_seconds=0.05).error is None
            granted = [event.session for event in board.log("x") if event.kind == "claimed"][1:]
            assert granted == waiters, "they were not served in the order of their tickets"
            left = {run.outcome for run in board.runs(item="x")}
            assert left >= {"released", "owner_died", "failed", "force_released", "expired"}, (
                f"only {left} were reached"
            )
            until(board, lambda: board.get("x").claim is None, "the end of the last claim")
            assert_sound(board)

    def test_a_waiter_killed_between_its_offer_and_its_acceptance_costs_the_next_accept_seconds(
        self, harness: Harness
    ) -> None:
        with harness.with_settings(accept_seconds=1) as quick:
            board = quick.board()
            holder = held(board)
            actors = quick.actors(2)
            waiters = []
            for number, actor in enumerate(actors):
                waiters.append(actor.ask("start_session", f"waiter-{number}").reply["id"])
                actor.send("claim", "x", session=waiters[-1], wait_seconds=PATIENCE_SECONDS)
                until(board, lambda place=number: len(board.get("x").waiters) == place + 1, f"ticket {number}")  # type: ignore[misc]
            doomed, patient = actors
            doomed.stop()
            board.release("x", session=holder)
            assert offered_to(board) == waiters[0]
            doomed.kill()
            assert patient.answer().reply["claim"]["session"] == waiters[1]
            log = board.log("x")
            assert [event.kind for event in log[-5:]] == ["released", "offered", "offer_lapsed", "offered", "claimed"]
            cost_seconds = (log[-1].at - log[-5].at) / 1000
            print(f"a waiter killed between offer and acceptance cost the next one {cost_seconds:.3f} s")
            assert 1.0 <= cost_seconds < 1.0 + SLACK_SECONDS
            assert_sound(board)

    def test_no_waiter_starves_in_a_thousand_hand_overs(self, harness: Harness) -> None:
        """Every waiter is served after exactly those that were before it, whoever else comes, goes or lets it lapse."""
        board, seed = harness.board(), sizes.seed()
        draw = random.Random(seed)
        holder = held(board)
        idle = [session(board, f"waiter-{number}") for number in range(25)]
        queue: list[str] = []
        served = dict.fromkeys(idle, 0)
        for number in range(harness.fewer(sizes.times(HAND_OVERS))):
            draw.shuffle(idle)
            while idle and (not queue or draw.random() < 0.5):
                queue.append(idle.pop())
                assert board.wait("x", session=queue[-1]).position == len(queue), f"seed {seed}"
            if len(queue) > 1 and draw.random() < 0.1:
                idle.append(queue.pop(draw.randrange(len(queue))))
                board.leave("x", session=idle[-1])
            board.release("x", session=holder)
            if len(queue) > 1 and draw.random() < 0.05:
                harness.clock.advance(board.settings.accept_seconds)
                board.sweep()
                idle.append(queue.pop(0))
            idle.append(holder)
            holder = queue.pop(0)
            assert board.claim("x", session=holder).claim.session == holder, f"seed {seed}, hand-over {number}"
            served[holder] = served.get(holder, 0) + 1
        print(
            f"{sum(served.values())} hand-overs, {min(served.values())} to {max(served.values())} for each, seed {seed}"
        )
        assert min(served.values()) > 0

    def test_processes_that_take_turns_are_served_in_ticket_order_and_at_once(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        gate, actors = harness.gate(), harness.actors(TURNERS)
        turns = harness.fewer(TURNS)
        for actor in actors:
            actor.play("dibs.testing.turns:take_turns", item="x", turns=turns, gate=gate.path)
            actor.read("at_gate")
        gate.open()
        results = [actor.result() for actor in actors]
        log = board.log("x")
        accepted = [
            event.session for before, event in pairwise(log) if (before.kind, event.kind) == ("offered", "claimed")
        ]
        tickets = sorted((record for kind, record in board.export() if kind == "ticket"), key=lambda one: one["id"])
        assert accepted == [one["session"] for one in tickets if one["reason"] == "it was served"]
        assert len(accepted) > TURNERS * turns / 2, "they hardly ever waited for each other"
        let_go = sorted(at for result in results for at in result["let_go_ns"])
        had = sorted(at for result in results for at in result["had_ns"])
        seconds = [(later - before) / 1e9 for before, later in zip(let_go, had[1:], strict=False)]
        print(f"{len(had)} hand-overs between {TURNERS} processes, {len(accepted)} of them to a waiter:")
        print(
            f"begin of release to acceptance p50 {median(seconds) * 1000:.2f} ms, slowest {max(seconds) * 1000:.1f} ms"
        )
        assert median(seconds) < HAND_OVER_SECONDS_MAX + 4 * harness.step_seconds
        assert_sound(board)
