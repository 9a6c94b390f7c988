"""Tickets: waiters of one item stand in a queue, each while it lives, and are told where and how it ended."""

from __future__ import annotations

from dibs.errors import (
    Invalid,
    ItemAlreadyClaimed,
    ItemNotClaimable,
    ItemNotClaimed,
    ItemNotFound,
    SessionNotFound,
)
from dibs.testing.conformance.asking import TTL_SECONDS, added, expire, ids, kinds, refused, session, whole
from dibs.testing.harness import Harness

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from dibs.board import Board


def held(board: Board, item: str = "x", **fields: Any) -> str:
    """An item that somebody holds; the session that does."""
    added(board, item, **fields)
    me = session(board, "holder")
    board.claim(item, session=me, ttl_seconds=TTL_SECONDS)
    return me


def queued(board: Board, item: str, count: int, **kwargs: Any) -> list[str]:
    """So many sessions that wait for the item, in this order."""
    waiters = [session(board, f"waiter-{number}") for number in range(count)]
    for waiter in waiters:
        board.wait(item, session=waiter, **kwargs)
    return waiters


def offered_to(board: Board, item: str = "x") -> str | None:
    return board.get(item).item.offered_to


def closed_because(board: Board, item: str, waiter: str) -> str:
    ticket = board.ticket(item, session=waiter).ticket
    assert ticket.closed_at is not None, f"the ticket is open: {ticket}"
    assert ticket.reason, "a closed ticket says why"
    return ticket.reason


class TestTickets:
    def test_waiters_are_served_in_the_order_of_their_tickets(self, harness: Harness) -> None:
        board = harness.board()
        holder = held(board)
        waiters = queued(board, "x", 4)
        served = []
        for _ in waiters:
            board.release("x", session=holder)
            holder = offered_to(board) or "nobody"
            served.append(holder)
            board.claim("x", session=holder)
        assert served == waiters
        board.release("x", session=holder)
        assert offered_to(board) is None

    def test_a_ticket_tells_where_it_stands(self, harness: Harness) -> None:
        harness.clock.freeze()
        board = harness.board()
        holder = held(board)
        first, second = queued(board, "x", 2, ttl_seconds=30)
        standing = board.ticket("x", session=second)
        assert (standing.position, standing.offered, standing.status) == (2, False, "in_progress")
        assert standing.claim is not None
        assert standing.claim.session == holder
        ticket, now = standing.ticket, harness.clock.now()
        assert (ticket.item, ticket.session, ticket.agent) == ("x", second, "waiter-1")
        assert (ticket.since_at, ticket.expires_at, ticket.closed_at) == (now, now + 30_000, None)
        board.release("x", session=holder)
        assert board.ticket("x", session=first).offered
        assert not board.ticket("x", session=second).offered
        board.leave("x", session=first)
        standing = board.ticket("x", session=second)
        assert (standing.position, standing.offered, standing.claim) == (1, True, None)

    def test_waiting_again_renews_the_ticket_in_its_place(self, harness: Harness) -> None:
        harness.clock.freeze()
        board = harness.board()
        holder = held(board)
        first, second = queued(board, "x", 2, ttl_seconds=30)
        harness.clock.advance(20)
        again = board.wait("x", session=first, ttl_seconds=40)
        assert again.position == 1
        assert again.ticket.expires_at == harness.clock.now() + 40_000
        assert again.ticket.since_at == harness.clock.now() - 20_000
        assert [ticket.session for ticket in board.get("x").waiters] == [first, second]
        board.release("x", session=holder)
        assert offered_to(board) == first

    def test_only_waiting_renews_a_ticket(self, harness: Harness) -> None:
        harness.clock.freeze()
        board = harness.board()
        held(board)
        (waiter,) = queued(board, "x", 1, ttl_seconds=30)
        before = board.ticket("x", session=waiter).ticket
        added(board, "other")
        harness.clock.advance(20)
        board.heartbeat(session=waiter)
        board.claim("other", session=waiter)
        board.progress("other", "on it", session=waiter)
        refused(ItemAlreadyClaimed, board.claim, "x", session=waiter)
        assert board.ticket("x", session=waiter).ticket == before
        harness.clock.advance(10)
        assert board.get("x").waiters == ()

    def test_a_dead_ticket_is_skipped_and_says_so(self, harness: Harness) -> None:
        board = harness.board()
        holder = held(board)
        (dead,) = queued(board, "x", 1, ttl_seconds=30)
        (alive,) = queued(board, "x", 1, ttl_seconds=300)
        harness.clock.advance(31)
        assert board.ticket("x", session=alive).position == 1
        board.release("x", session=holder)
        assert offered_to(board) == alive
        assert "renewed" in closed_because(board, "x", dead)

    def test_a_ticket_lives_to_the_last_millisecond_and_not_longer(self, harness: Harness) -> None:
        harness.clock.freeze()
        board = harness.board()
        for item, left_seconds, offered in (("alive", 0.001, True), ("dead", 0.0, False)):
            holder = held(board, item)
            (waiter,) = queued(board, item, 1, ttl_seconds=30)
            harness.clock.advance(30 - left_seconds)
            board.release(item, session=holder)
            assert (offered_to(board, item) == waiter) is offered, item

    def test_who_lets_its_ticket_die_has_lost_its_place(self, harness: Harness) -> None:
        board = harness.board()
        holder = held(board)
        (late,) = queued(board, "x", 1, ttl_seconds=30)
        (patient,) = queued(board, "x", 1, ttl_seconds=300)
        harness.clock.advance(31)
        assert board.wait("x", session=late).position == 2
        board.release("x", session=holder)
        assert offered_to(board) == patient

    def test_a_ticket_ttl_out_of_bounds_is_refused_and_takes_no_place(self, harness: Harness) -> None:
        board = harness.board()
        held(board)
        me = session(board)
        for seconds in (0.5, board.settings.ticket_ttl_seconds_max + 1):
            refused(Invalid, board.wait, "x", session=me, ttl_seconds=seconds)
        refused(ItemNotClaimed, board.ticket, "x", session=me)
        assert board.wait("x", session=me, ttl_seconds=board.settings.ticket_ttl_seconds_max).position == 1

    def test_leaving_gives_the_place_up(self, harness: Harness) -> None:
        board = harness.board()
        holder = held(board)
        first, second = queued(board, "x", 2)
        left = board.leave("x", session=first)
        assert left.ticket.closed_at is not None
        assert "given up" in closed_because(board, "x", first)
        assert board.ticket("x", session=second).position == 1
        board.release("x", session=holder)
        assert offered_to(board) == second

    def test_leaving_without_a_ticket_is_refused(self, harness: Harness) -> None:
        board = harness.board()
        held(board)
        me = session(board)
        before = whole(board, "x")
        assert refused(ItemNotClaimed, board.leave, "x", session=me).facts["how"] == "not_waiting"
        board.wait("x", session=me)
        board.leave("x", session=me)
        refused(ItemNotClaimed, board.leave, "x", session=me)
        assert whole(board, "x") == before

    def test_an_offer_that_is_left_goes_to_the_next_at_once(self, harness: Harness) -> None:
        board = harness.board()
        holder = held(board)
        first, second = queued(board, "x", 2)
        board.release("x", session=holder)
        board.leave("x", session=first)
        assert offered_to(board) == second
        board.leave("x", session=second)
        assert offered_to(board) is None
        assert kinds(board, "x")[-1] == "claimable"
        assert ids(board.next(session=session(board))) == ["x"]

    def test_the_end_of_a_session_leaves_its_queues(self, harness: Harness) -> None:
        board = harness.board()
        holder = held(board)
        held(board, "y")
        first, second = queued(board, "x", 2)
        board.wait("y", session=first)
        board.release("x", session=holder)
        board.end_session(first)
        assert offered_to(board) == second
        assert "session ended" in closed_because(board, "x", first)
        assert board.get("y").waiters == ()

    def test_an_ended_item_closes_its_tickets_and_says_how_it_ended(self, harness: Harness) -> None:
        board = harness.board()

        def strike(item: str) -> None:
            expire(harness)
            board.sweep()

        def drafted(item: str, holder: str) -> object:
            return board.submit(item, session=holder, draft="like this")

        ways: dict[str, tuple[str, Callable[[str, str], object]]] = {
            "done": ("done", lambda item, holder: board.done(item, session=holder)),
            "failed": ("failed", lambda item, holder: board.fail(item, session=holder)),
            "struck": ("failed", lambda item, holder: strike(item)),
            "rejected-by-holder": ("rejected", lambda item, me: board.reject(item, session=me, reason="no")),
            "cancelled": ("cancelled", lambda item, holder: board.cancel(item)),
            "approved-as-done": (
                "done",
                lambda item, holder: (drafted(item, holder), board.approve(item, done=True, actor="boss")),
            ),
            "rejected": (
                "rejected",
                lambda item, holder: (drafted(item, holder), board.reject(item, reason="no", actor="boss")),
            ),
        }
        for way, (status, end) in ways.items():
            holder = held(board, way)
            for _ in range(board.settings.max_strikes - 1 if way == "struck" else 0):
                strike(way)
                board.claim(way, session=holder, ttl_seconds=TTL_SECONDS)
            *_, last = queued(board, way, 2, ttl_seconds=86_400)
            end(way, holder)
            assert board.get(way).item.status == status, way
            standing = board.ticket(way, session=last)
            assert standing.status == status
            assert not standing.offered
            assert status in closed_because(board, way, last), way
            assert board.get(way).waiters == (), way

    def test_an_ended_item_is_not_waited_for(self, harness: Harness) -> None:
        board = harness.board()
        me = held(board)
        board.done("x", session=me)
        before = whole(board, "x")
        assert refused(ItemNotClaimable, board.wait, "x", session=me).facts["status"] == "done"
        assert whole(board, "x") == before

    def test_a_free_item_is_offered_at_once(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        me = session(board)
        standing = board.wait("x", session=me)
        assert (standing.offered, standing.position) == (True, 1)
        assert board.claim("x", session=me).claim.token == 1

    def test_what_cannot_be_had_yet_is_waited_for_too(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "parent")
        added(board, "blocked", depends_on=["parent"])
        added(board, "asked", needs_approval=True)
        me = session(board)
        for item in ("blocked", "asked"):
            assert not board.wait(item, session=me).offered
        board.claim("parent", session=me)
        board.done("parent", session=me)
        board.approve("asked")
        for item in ("blocked", "asked"):
            assert board.ticket(item, session=me).offered, item

    def test_a_queue_is_full_at_its_limit(self, harness: Harness) -> None:
        with harness.with_settings(waiters_max=3) as small:
            board = small.board()
            held(board)
            first, *_ = queued(board, "x", 3, ttl_seconds=60)
            other = session(board)
            refusal = refused(ItemNotClaimable, board.wait, "x", session=other)
            assert "full" in refusal.facts["why"]
            assert len(board.get("x").waiters) == 3
            board.wait("x", session=first)  # who has a ticket may renew it
            board.leave("x", session=first)
            assert board.wait("x", session=other, ttl_seconds=600).position == 3
            harness.clock.advance(61)
            queued(board, "x", 2)  # the dead take no place
            refused(ItemNotClaimable, board.wait, "x", session=session(board))

    def test_who_waits_is_shown(self, harness: Harness) -> None:
        board = harness.board()
        held(board)
        waiters = queued(board, "x", 2)
        assert [ticket.session for ticket in board.get("x").waiters] == waiters
        (line,) = board.who()
        assert line.waiters == 2
        assert board.stats().waiters == 2
        board.leave("x", session=waiters[0])
        assert board.stats().waiters == 1

    def test_only_who_is_known_waits_for_what_is_known(self, harness: Harness) -> None:
        board = harness.board()
        held(board)
        me = session(board)
        refused(ItemNotFound, board.wait, "nothing", session=me)
        refused(SessionNotFound, board.wait, "x", session="nobody")
        board.end_session(me)
        refused(SessionNotFound, board.wait, "x", session=me)
        refused(ItemNotClaimed, board.ticket, "x", session=session(board))

    def test_waiting_is_no_event(self, harness: Harness) -> None:
        board = harness.board()
        held(board)
        before = board.log("x")
        (waiter,) = queued(board, "x", 1)
        board.wait("x", session=waiter)
        board.leave("x", session=waiter)
        assert board.log("x") == before
