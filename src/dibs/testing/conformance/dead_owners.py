"""Dead owners behind every refusal: what only a killed process holds, whoever asks next is given at once.

Each case is asked twice: while the process lives, when it is refused, and after `kill -9`, when it is not.
"""

from __future__ import annotations

from collections import Counter

from dibs.board import Board
from dibs.errors import (
    AgentAtCapacity,
    DibsError,
    Invalid,
    ItemAlreadyClaimed,
    ItemNotClaimable,
    RateLimited,
    ResourceBusy,
)
from dibs.testing.conformance.asking import PATIENCE_SECONDS, TTL_SECONDS, added, expire, ids, refused, session
from dibs.testing.conformance.sessions import before_the_verdict
from dibs.testing.harness import Harness

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from dibs.model import Waiting

    #: Arranges that the doomed process stands in the way, and answers with the verb that is refused because of it.
    Case = Callable[[Harness, Board, "Doomed"], Callable[[], object]]

FAR_AT = 2_000_000_000_000
CASES: list[tuple[type[DibsError], Case]] = []


class Doomed:
    """A process that owns a session and holds items until it is killed."""

    def __init__(self, harness: Harness, agent: str) -> None:
        self._actor = harness.actor()
        self.session: str = self.ask("start_session", agent, owner_pid=self._actor.pid)["id"]

    def ask(self, verb: str, *args: Any, **kwargs: Any) -> Any:
        answer = self._actor.ask(verb, *args, **kwargs)
        assert answer.code is None, answer
        return answer.reply

    def claims(self, item: str) -> None:
        self.ask("claim", item, session=self.session)

    def waits_for(self, item: str) -> None:
        self.ask("wait", item, session=self.session)

    def stop(self) -> None:
        self._actor.stop()

    def dies(self) -> None:
        self._actor.kill()


def caused(refusal: type[DibsError]) -> Callable[[Case], Case]:
    def register(case: Case) -> Case:
        CASES.append((refusal, case))
        return case

    return register


@caused(ItemAlreadyClaimed)
def claiming_what_it_holds(_: Harness, board: Board, doomed: Doomed) -> Callable[[], object]:
    added(board, "held")
    doomed.claims("held")
    me = session(board)
    return lambda: board.claim("held", session=me)


@caused(ItemNotClaimable)
def claiming_what_it_was_offered(_: Harness, board: Board, doomed: Doomed) -> Callable[[], object]:
    added(board, "other", "offered")
    doomed.claims("other")
    doomed.waits_for("offered")
    me = session(board)
    return lambda: board.claim("offered", session=me)


@caused(ResourceBusy)
def adding_what_it_holds(_: Harness, board: Board, doomed: Doomed) -> Callable[[], object]:
    added(board, "adder")
    added(board, "reserved", resources=["vendored"])
    doomed.claims("reserved")
    me = session(board)
    board.claim("adder", session=me)
    return lambda: board.edit("adder", add_resources=["vendored/x"], session=me)


@caused(ResourceBusy)
def claiming_what_touches_what_it_holds(_: Harness, board: Board, doomed: Doomed) -> Callable[[], object]:
    added(board, "src", "src-too", resources=["src"])
    doomed.claims("src")
    me = session(board)
    return lambda: board.claim("src-too", session=me)


@caused(ResourceBusy)
def waiting_for_what_touches_what_it_holds(_: Harness, board: Board, doomed: Doomed) -> Callable[[], object]:
    added(board, "docs", "docs-too", resources=["docs"])
    doomed.claims("docs")
    me = session(board)
    return lambda: board.claim("docs-too", session=me, wait_seconds=PATIENCE_SECONDS)


@caused(AgentAtCapacity)
def claiming_where_it_takes_up_the_room(_: Harness, board: Board, doomed: Doomed) -> Callable[[], object]:
    added(board, "room", "room-too")
    me = _with_one_claim_for_all(board, doomed, "room")
    return lambda: board.claim("room-too", session=me)


@caused(AgentAtCapacity)
def asking_for_work_where_it_takes_up_the_room(_: Harness, board: Board, doomed: Doomed) -> Callable[[], object]:
    added(board, "work", "work-too", type="work")
    me = _with_one_claim_for_all(board, doomed, "work")
    return lambda: _given(board.next(session=me, types=["work"]))


@caused(AgentAtCapacity)
def waiting_for_work_where_it_takes_up_the_room(_: Harness, board: Board, doomed: Doomed) -> Callable[[], object]:
    added(board, "shift", "shift-too", type="shift")
    me = _with_one_claim_for_all(board, doomed, "shift")
    return lambda: _given(board.next(session=me, types=["shift"], wait_seconds=PATIENCE_SECONDS))


@caused(AgentAtCapacity)
def finishing_and_asking_where_it_takes_up_the_room(_: Harness, board: Board, doomed: Doomed) -> Callable[[], object]:
    added(board, "mine", "its-first", "its-second", "next-one", type="batch")
    agent = doomed.ask("find_session", doomed.session)["agent"]
    me = session(board, agent)
    token = board.claim("mine", session=me).claim.token
    doomed.claims("its-first")
    doomed.claims("its-second")
    board.set_agent(agent, max_claims_total=2)
    return lambda: _given(board.next(session=me, types=["batch"], done={"mine": token}))


@caused(ResourceBusy)
def recovering_what_touches_what_it_holds(harness: Harness, board: Board, doomed: Doomed) -> Callable[[], object]:
    me = _expired(harness, board, doomed, "lib")
    return lambda: board.recover("lib", session=me)


@caused(AgentAtCapacity)
def recovering_where_it_takes_up_the_room(harness: Harness, board: Board, doomed: Doomed) -> Callable[[], object]:
    added(board, "late", "late-too")
    agent = doomed.ask("find_session", doomed.session)["agent"]
    me = session(board, agent)
    board.claim("late", session=me, ttl_seconds=TTL_SECONDS)
    expire(harness)
    doomed.claims("late-too")
    board.set_agent(agent, max_claims_total=1)
    return lambda: board.recover("late", session=me)


@caused(ResourceBusy)
def ending_late_what_touches_what_it_holds(harness: Harness, board: Board, doomed: Doomed) -> Callable[[], object]:
    me = _expired(harness, board, doomed, "api")
    return lambda: board.done("api", session=me, recover=True)


@caused(Invalid)
def editing_what_its_claim_was_decided_on(_: Harness, board: Board, doomed: Doomed) -> Callable[[], object]:
    added(board, "edited")
    doomed.claims("edited")
    return lambda: board.edit("edited", resources=["web"], project="shop")


@caused(ItemNotClaimable)
def parking_what_it_holds(_: Harness, board: Board, doomed: Doomed) -> Callable[[], object]:
    added(board, "parked")
    doomed.claims("parked")
    return lambda: board.park("parked")


def _with_one_claim_for_all(board: Board, doomed: Doomed, item: str) -> str:
    """A session of the doomed one's agent, which may hold one item in all, and the doomed one has it."""
    agent = doomed.ask("find_session", doomed.session)["agent"]
    board.set_agent(agent, max_claims_total=1)
    doomed.claims(item)
    return session(board, agent)


def _expired(harness: Harness, board: Board, doomed: Doomed, item: str) -> str:
    """A session that lost the item by expiry, and the doomed one holds another that touches the same."""
    added(board, item, f"{item}-too", resources=[item])
    me = session(board)
    board.claim(item, session=me, ttl_seconds=TTL_SECONDS)
    expire(harness)
    doomed.claims(f"{item}-too")
    return me


def _given(grants: tuple[object, ...]) -> tuple[object, ...]:
    assert grants, "nothing was given"
    return grants


class TestDeadOwners:
    def test_no_refusal_is_left_that_a_dead_owner_causes(self, harness: Harness) -> None:
        board, met = harness.board(), Counter[str]()
        for kind, arranged in CASES:
            name = arranged.__name__
            doomed = Doomed(harness, name)
            verb = arranged(harness, board, doomed)
            refused(kind, verb)
            met[kind.code] += 1
            doomed.dies()
            try:
                verb()
            except DibsError as refusal:
                raise AssertionError(f"{name}: refused because of a dead process: {refusal.message}") from refusal
        codes = {"TASK_ALREADY_CLAIMED", "TASK_NOT_CLAIMABLE", "RESOURCE_BUSY", "AGENT_AT_CAPACITY", "INVALID"}
        assert set(met) == codes, met

    def test_next_passes_over_nothing_that_a_dead_owner_keeps(self, harness: Harness) -> None:
        board, doomed = harness.board(), Doomed(harness, "doomed")
        added(board, "x", type="theirs", resources=["src"])
        added(board, "y", type="mine", resources=["src"])
        doomed.claims("x")
        me = session(board)
        assert board.next(session=me, types=["mine"]) == ()
        doomed.dies()
        assert ids(board.next(session=me, types=["mine"])) == ["y"]

    def test_an_item_that_its_dead_owner_failed_can_be_tried_again(self, harness: Harness) -> None:
        with harness.with_settings(max_strikes=1) as strict:
            board, doomed = strict.board(), Doomed(strict, "doomed")
            added(board, "x")
            doomed.claims("x")
            refused(ItemNotClaimable, board.retry, "x")
            doomed.dies()
            assert board.retry("x").status == "ready"

    def test_a_ticket_for_what_a_dead_owner_holds_is_served_at_once(self, harness: Harness) -> None:
        board, doomed = harness.board(), Doomed(harness, "doomed")
        added(board, "x")
        doomed.claims("x")
        me = session(board)
        assert not board.wait("x", session=me).offered
        doomed.dies()
        assert board.wait("x", session=me).offered
        assert board.claim("x", session=me).claim.token == 2

    def test_a_queue_is_not_full_of_dead_owners(self, harness: Harness) -> None:
        with harness.with_settings(waiters_max=1) as small:
            board, doomed = small.board(), Doomed(small, "doomed")
            added(board, "x", "y")
            board.claim("x", session=session(board))
            doomed.claims("y")
            doomed.waits_for("x")
            me = session(board)
            refused(ItemNotClaimable, board.wait, "x", session=me)
            doomed.dies()
            assert board.wait("x", session=me).position == 1

    def test_a_waiting_claim_accepts_although_a_dead_owner_holds_what_it_touches(self, harness: Harness) -> None:
        board, doomed = harness.board(), Doomed(harness, "doomed")
        added(board, "x")
        added(board, "y", resources=["src"])
        holder, me = session(board, "holder"), session(board)
        board.claim("x", session=holder)
        doomed.claims("y")

        def on_wait(_: Waiting) -> None:
            if board.get("x").claim is not None:
                doomed.dies()
                board.release("x", session=holder)
                board.edit("x", resources=["src"])

        grant = harness.board().claim("x", session=me, wait_seconds=PATIENCE_SECONDS, on_wait=on_wait)
        assert (grant.claim.session, grant.item.resources) == (me, ("src",))

    def test_an_offer_is_not_lost_to_what_a_dead_owner_holds(self, harness: Harness) -> None:
        board = harness.board()
        board.set_agent("pair", max_claims_total=1)
        for agent, resources in (("touching", ["src"]), ("pair", [])):
            doomed, me = Doomed(harness, agent), session(board, agent)
            added(board, f"{agent}-held", resources=resources, project=agent)
            added(board, agent, resources=resources, project=agent, not_before=FAR_AT)
            doomed.claims(f"{agent}-held")
            board.wait(agent, session=me)
            board.wait(agent, session=session(board, "next"))
            board.edit(agent, not_before=None)
            assert board.ticket(agent, session=me).offered
            doomed.dies()
            assert board.claim(agent, session=me).claim.token == 1
            assert board.activity(item=agent) == (), "nothing was refused"

    def test_an_offer_is_not_lost_to_more_claims_than_one_sweep_ends(self, harness: Harness) -> None:
        with harness.with_settings(sweep_batch=1) as small:
            board, doomed = small.board(), Doomed(small, "doomed")
            added(board, "a", "b")
            added(board, "in-the-way", "offered", resources=["src"])
            for item in ("a", "b", "in-the-way"):
                doomed.claims(item)
            me = session(board)
            assert board.wait("offered", session=me).offered
            board.wait("offered", session=session(board, "next"))
            doomed.dies()
            assert board.claim("offered", session=me).claim.token == 1

    def test_more_claims_than_one_sweep_ends_stand_in_nobodys_way(self, harness: Harness) -> None:
        with harness.with_settings(sweep_batch=2) as small:
            board, doomed = small.board(), Doomed(small, "doomed")
            names = [f"i{number}" for number in range(9)]
            added(board, *names)
            added(board, "last", type="mine")
            for name in (*names, "last"):
                doomed.claims(name)
            doomed.dies()
            me = session(board)
            assert ids(board.next(session=me, types=["mine"])) == ["last"]
            assert [board.claim(name, session=me).claim.token for name in reversed(names)] == [2] * 9

    def test_the_second_to_find_a_dead_owner_is_not_refused_either(self, harness: Harness) -> None:
        board, doomed = harness.board(), Doomed(harness, "doomed")
        added(board, "x", "y", resources=["src"])
        doomed.claims("x")
        doomed.dies()
        me, second = session(board), harness.board()
        with before_the_verdict(board.sweep):
            assert second.claim("y", session=me).claim.token == 1

    def test_what_a_stopped_owner_holds_stays_its_own(self, harness: Harness) -> None:
        board, doomed = harness.board(), Doomed(harness, "doomed")
        added(board, "x", "y", resources=["src"])
        doomed.claims("x")
        doomed.stop()
        refused(ResourceBusy, board.claim, "y", session=session(board))
        refused(ItemNotClaimable, board.park, "x")
        refused(Invalid, board.edit, "x", resources=[])
        assert board.get("x").item.strikes == 0

    def test_the_rate_of_a_dead_owner_counts(self, harness: Harness) -> None:
        """A claim that was given has been given: a rate is no matter of who lives."""
        board, doomed = harness.board(), Doomed(harness, "doomed")
        harness.clock.freeze()
        added(board, "x", "y")
        board.set_agent("doomed", claims_per_minute=1)
        doomed.claims("x")
        doomed.dies()
        refused(RateLimited, board.claim, "y", session=session(board, "doomed"))
