"""Offers: every way into ready offers the item to its first waiter, who alone may accept, and not for ever."""

from __future__ import annotations

import subprocess

from dibs.errors import (
    AgentAtCapacity,
    Forbidden,
    ItemNotClaimable,
    ItemNotClaimed,
    RateLimited,
    ResourceBusy,
)
from dibs.testing.conformance.asking import TTL_SECONDS, added, expire, ids, kinds, refused, session, whole
from dibs.testing.conformance.tickets import closed_because, held, offered_to, queued
from dibs.testing.harness import Harness
from dibs.testing.invariants import assert_sound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.board import Board
    from dibs.errors import DibsError


def _released(harness: Harness, board: Board, item: str) -> Callable[[], object]:
    me = held(board, item)
    return lambda: board.release(item, session=me)


def _forgotten(harness: Harness, board: Board, item: str) -> Callable[[], object]:
    me = held(board, item)
    return lambda: board.heartbeat(session=me, holding={})


def _expired(harness: Harness, board: Board, item: str) -> Callable[[], object]:
    held(board, item)

    def expires() -> None:
        expire(harness)
        board.sweep()

    return expires


def _force_released(harness: Harness, board: Board, item: str) -> Callable[[], object]:
    held(board, item)
    return lambda: board.force_release(item, reason="needed")


def _owner_died(harness: Harness, board: Board, item: str) -> Callable[[], object]:
    added(board, item)
    owner = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    board.claim(item, session=session(board, owner_pid=owner.pid), ttl_seconds=TTL_SECONDS)

    def dies() -> None:
        owner.kill()
        owner.communicate()
        board.sweep()

    return dies


def _session_ended(harness: Harness, board: Board, item: str) -> Callable[[], object]:
    me = held(board, item)
    return lambda: board.end_session(me)


def _retry_fell_due(harness: Harness, board: Board, item: str) -> Callable[[], object]:
    me = held(board, item, retries=1)

    def falls_due() -> None:
        board.fail(item, session=me)
        harness.clock.advance(board.settings.retry_backoff_seconds)
        board.sweep()

    return falls_due


def _fell_due(harness: Harness, board: Board, item: str) -> Callable[[], object]:
    added(board, item, not_before=harness.clock.now() + 60_000)

    def falls_due() -> None:
        harness.clock.advance(61)
        board.sweep()

    return falls_due


def _unblocked(harness: Harness, board: Board, item: str) -> Callable[[], object]:
    me = held(board, f"{item}-parent")
    added(board, item, depends_on=[f"{item}-parent"])
    return lambda: board.done(f"{item}-parent", session=me)


def _unparked(harness: Harness, board: Board, item: str) -> Callable[[], object]:
    added(board, item)
    board.park(item)
    return lambda: board.unpark(item)


def _approved(harness: Harness, board: Board, item: str) -> Callable[[], object]:
    added(board, item, needs_approval=True)
    return lambda: board.approve(item)


def _sent_back(harness: Harness, board: Board, item: str) -> Callable[[], object]:
    me = held(board, item)
    board.submit(item, session=me, draft="like this")
    return lambda: board.send_back(item, comment="not like this")


def _edited(harness: Harness, board: Board, item: str) -> Callable[[], object]:
    added(board, item, not_before=harness.clock.now() + 10**9)
    return lambda: board.edit(item, not_before=None)


def _retried(harness: Harness, board: Board, item: str) -> Callable[[], object]:
    me = held(board, item)
    board.fail(item, session=me)
    return lambda: board.retry(item)


#: Every transition into ready: each brings an item to just before it, and gives what makes it happen.
WAYS: dict[str, Callable[[Harness, Board, str], Callable[[], object]]] = {
    "released": _released,
    "forgotten": _forgotten,
    "expired": _expired,
    "force_released": _force_released,
    "owner_died": _owner_died,
    "session_ended": _session_ended,
    "retry_fell_due": _retry_fell_due,
    "fell_due": _fell_due,
    "unblocked": _unblocked,
    "unparked": _unparked,
    "approved": _approved,
    "sent_back": _sent_back,
    "edited": _edited,
}


class TestOffers:
    def test_every_way_into_ready_offers_to_the_first_waiter(self, harness: Harness) -> None:
        board = harness.board()
        for way, prepare in WAYS.items():
            happen = prepare(harness, board, way)
            first, _ = queued(board, way, 2, ttl_seconds=86_400)
            before = len(board.log(way))
            happen()
            item = board.get(way).item
            assert (item.status, item.offered_to) == ("ready", first), way
            *_, moved, offered = board.log(way)
            assert (offered.kind, offered.session, offered.agent) == ("offered", first, "waiter-0"), way
            assert moved.number > before, f"{way}: the offer came without the change"
            assert (offered.at, offered.id) == (moved.at, moved.id + 1), f"{way}: not in the same step"
            assert item.offer_expires_at == offered.at + round(board.settings.accept_seconds * 1000), way
        assert_sound(board)

    def test_with_nobody_waiting_every_way_into_ready_makes_it_claimable(self, harness: Harness) -> None:
        board = harness.board()
        for way, prepare in {**WAYS, "retried": _retried}.items():
            happen = prepare(harness, board, way)
            happen()
            assert board.get(way).item.status == "ready", way
            assert kinds(board, way)[-1] == "claimable", way
            assert board.claim(way, session=session(board)), way
        added(board, "new")
        assert kinds(board, "new") == ["added", "claimable"]

    def test_only_the_offered_session_may_claim(self, harness: Harness) -> None:
        harness.clock.freeze()
        board = harness.board()
        holder = held(board)
        first, second = queued(board, "x", 2)
        board.release("x", session=holder)
        harness.clock.advance(5)
        for other in (second, holder, session(board)):
            before = whole(board, "x")
            facts = refused(ItemNotClaimable, board.claim, "x", session=other).facts
            assert facts["offered_to"] == first
            assert facts["retry_after_seconds"] == board.settings.accept_seconds - 5
            assert whole(board, "x") == before
        assert board.claim("x", session=first).claim.token == 2

    def test_next_passes_over_what_is_offered(self, harness: Harness) -> None:
        board = harness.board()
        holder = held(board, priority=9)
        added(board, "lesser", "least")
        (first,) = queued(board, "x", 1)
        board.release("x", session=holder)
        assert ids(board.next(session=session(board))) == ["lesser"]
        assert ids(board.next(session=first, n=5)) == ["least"]
        assert board.claim("x", session=first).item.status == "in_progress"

    def test_an_offer_is_no_claim(self, harness: Harness) -> None:
        board = harness.board()
        holder = held(board)
        (first,) = queued(board, "x", 1)
        board.release("x", session=holder)
        detail = board.get("x")
        assert (detail.claim, detail.item.token, detail.item.attempts) == (None, 1, 1)
        refused(ItemNotClaimed, board.done, "x", session=first)
        assert board.who() == ()

    def test_accepting_closes_the_ticket(self, harness: Harness) -> None:
        board = harness.board()
        holder = held(board)
        (first,) = queued(board, "x", 1)
        board.release("x", session=holder)
        grant = board.claim("x", session=first)
        assert (grant.item.offered_to, grant.item.offer_expires_at) == (None, None)
        assert "served" in closed_because(board, "x", first)
        assert board.get("x").waiters == ()
        board.release("x", session=first)
        assert offered_to(board) is None

    def test_nothing_extends_an_offer(self, harness: Harness) -> None:
        harness.clock.freeze()
        board = harness.board()
        holder = held(board)
        first, second = queued(board, "x", 2)
        board.release("x", session=holder)
        until_at = board.get("x").item.offer_expires_at
        harness.clock.advance(board.settings.accept_seconds - 1)
        board.heartbeat(session=first)
        assert board.wait("x", session=first).offered
        board.edit("x", title="otherwise")
        board.sweep()
        assert board.get("x").item.offer_expires_at == until_at
        assert offered_to(board) == first
        harness.clock.advance(1)
        board.sweep()
        assert offered_to(board) == second

    def test_a_lapsed_offer_goes_to_the_next_and_is_lost(self, harness: Harness) -> None:
        harness.clock.freeze()
        board = harness.board()
        holder = held(board)
        first, second = queued(board, "x", 2)
        board.release("x", session=holder)
        harness.clock.advance(board.settings.accept_seconds - 0.001)
        assert board.sweep().offers == ()
        harness.clock.advance(0.001)
        assert board.sweep().offers == ("x",)
        assert offered_to(board) == second
        assert kinds(board, "x")[-2:] == ["offer_lapsed", "offered"]
        assert "not accepted" in closed_because(board, "x", first)
        refused(ItemNotClaimable, board.claim, "x", session=first)

    def test_a_lapsed_offer_needs_no_sweep(self, harness: Harness) -> None:
        board = harness.board()
        holder = held(board)
        first, second, third = queued(board, "x", 3)
        board.release("x", session=holder)
        harness.clock.advance(board.settings.accept_seconds)
        facts = refused(ItemNotClaimable, board.claim, "x", session=first).facts
        assert facts["offered_to"] == second
        harness.clock.advance(board.settings.accept_seconds)
        assert board.claim("x", session=third).claim.session == third
        board.release("x", session=third)
        assert ids(board.next(session=session(board))) == ["x"]

    def test_a_lapsed_offer_with_nobody_left_is_anyones(self, harness: Harness) -> None:
        board = harness.board()
        holder = held(board)
        queued(board, "x", 1)
        board.release("x", session=holder)
        harness.clock.advance(board.settings.accept_seconds)
        assert ids(board.next(session=session(board))) == ["x"]
        assert kinds(board, "x")[-3:] == ["offer_lapsed", "claimable", "claimed"]

    def test_a_ticket_whose_offer_has_lapsed_is_not_told_that_it_stands(self, harness: Harness) -> None:
        board = harness.board()
        holder = held(board)
        (first,) = queued(board, "x", 1)
        board.release("x", session=holder)
        assert board.ticket("x", session=first).offered
        harness.clock.advance(board.settings.accept_seconds)
        assert not board.ticket("x", session=first).offered

    def test_an_offer_that_cannot_be_accepted_goes_to_the_next(self, harness: Harness) -> None:
        board = harness.board()
        board.set_agent("full", max_claims=1)
        board.set_agent("fast", claims_per_minute=1)
        board.set_agent("barred", allowed_actions=["other"])
        added(board, "mine", "mine-too")
        added(board, "touching", resources=["src/api"])
        board.claim("touching", session=session(board), ttl_seconds=TTL_SECONDS)
        cases: tuple[tuple[str, type[DibsError]], ...] = (
            ("full", AgentAtCapacity),
            ("fast", RateLimited),
            ("barred", Forbidden),
            ("free", ResourceBusy),
        )
        for agent, refusal in cases:
            first = session(board, agent)
            if agent in ("full", "fast"):
                board.claim("mine" if agent == "full" else "mine-too", session=first, ttl_seconds=TTL_SECONDS)
            added(board, agent, resources=["src"] if refusal is ResourceBusy else [], not_before=2_000_000_000_000)
            board.wait(agent, session=first)
            second = session(board)
            board.wait(agent, session=second)
            board.edit(agent, not_before=None)
            assert offered_to(board, agent) == first
            refused(refusal, board.claim, agent, session=first)
            assert offered_to(board, agent) == second, agent
            assert closed_because(board, agent, first), agent
        assert_sound(board)

    def test_an_offered_item_that_is_set_aside_is_offered_again_later(self, harness: Harness) -> None:
        board = harness.board()
        holder = held(board)
        first, second = queued(board, "x", 2)
        board.release("x", session=holder)
        board.park("x")
        assert (offered_to(board), len(board.get("x").waiters)) == (None, 2)
        board.unpark("x")
        assert offered_to(board) == first
        added(board, "parent")
        board.edit("x", depends_on=["parent"])
        assert (offered_to(board), board.get("x").item.status) == (None, "blocked")
        board.edit("x", depends_on=[])
        assert offered_to(board) == first
        board.leave("x", session=first)
        assert offered_to(board) == second

    def test_a_parked_item_claimed_by_id_keeps_its_queue(self, harness: Harness) -> None:
        board = harness.board()
        holder = held(board)
        (first,) = queued(board, "x", 1)
        board.release("x", session=holder, park=True)
        other = session(board)
        board.claim("x", session=other)
        board.release("x", session=other)
        assert offered_to(board) == first
