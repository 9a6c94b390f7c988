"""Sessions that are children of others, as a subagent is of its agent: each lives for itself, and ends with its parent,
however that ends.
"""

from __future__ import annotations

import os

from dibs.errors import AgentAtCapacity, Invalid, SessionNotFound
from dibs.model import Session
from dibs.rules.sessions import ANCESTORS_MAX
from dibs.system import owner
from dibs.testing.conformance.asking import TTL_SECONDS, added, expire, kinds, latest, refused, session
from dibs.testing.conformance.sessions import dead_owner
from dibs.testing.harness import Harness

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.board import Board
    from dibs.model import Owner

PARENT_ENDED = "its parent session ended"
#: How often a child is started while its parent ends.
ROUNDS = 5


def family(board: Board, *ids: str, owner: Owner | None = None) -> None:
    """Sessions of which each is the child of the one before it; the first may have an owner."""
    parent = None
    for id in ids:
        board.store.start_session(Session(id=id, agent=f"agent-{id}", parent=parent, owner=owner))
        parent, owner = id, None


def ended(board: Board) -> dict[str, str | None]:
    """The sessions that have ended, and why."""
    views = board.sessions(ended=True)
    return {view.session.id: view.session.end_reason for view in views if view.session.ended_at is not None}


class TestChildren:
    def test_a_session_shows_its_parent(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", "y", "soft")
        main = board.start_session("coder", id="main")
        sub = board.start_session("coder", id="sub", parent="main")
        assert (main.parent, sub.parent) == (None, "main")
        assert harness.board().find_session("sub") == sub
        assert {view.session.id: view.session.parent for view in board.sessions()} == {"main": None, "sub": "main"}
        board.claim("x", session="main")
        board.claim("y", session="sub")
        board.soft_claim("soft", session="sub")
        assert {line.item.id: line.parent for line in board.who()} == {"x": None, "y": "main", "soft": "main"}

    def test_the_parent_must_be_another_live_session(self, harness: Harness) -> None:
        board = harness.board()
        gone = session(board)
        board.end_session(gone)
        for parent, was_there in (("nobody", False), (gone, True)):
            error = refused(SessionNotFound, board.start_session, "coder", id="sub", parent=parent)
            assert (error.facts["session"], error.facts["ended"]) == (parent, was_there)
        for wrong in ("sub", "", "a b", 7):
            assert refused(Invalid, board.start_session, "coder", id="sub", parent=wrong).facts["field"] == "parent"
        assert board.sessions() == ()

    def test_a_live_session_keeps_its_parent(self, harness: Harness) -> None:
        board = harness.board()
        family(board, "main", "sub", "subsub")
        session(board, id="other")
        before = {view.session.id: view.session for view in board.sessions()}
        for id, parent, has in (("sub", "other", "main"), ("main", "other", None), ("main", "subsub", None)):
            error = refused(Invalid, board.start_session, f"agent-{id}", id=id, parent=parent)
            assert (error.facts["field"], error.facts["session"], error.facts["parent"]) == ("parent", id, has)
        assert board.start_session("agent-sub", id="sub", parent="main") == before["sub"]
        assert board.start_session("agent-sub", id="sub") == before["sub"]
        assert {view.session.id: view.session for view in board.sessions()} == before
        # Once it has ended, it may start again under another parent, or none.
        board.end_session("sub")
        assert board.start_session("agent-sub", id="sub", parent="other").parent == "other"
        assert board.start_session("agent-subsub", id="subsub").parent is None

    def test_sessions_are_nested_to_a_bound(self, harness: Harness) -> None:
        board = harness.board()
        names = [f"s{depth}" for depth in range(ANCESTORS_MAX + 1)]
        family(board, *names)
        error = refused(Invalid, board.start_session, "coder", id="deeper", parent=names[-1])
        assert (error.facts["field"], error.facts["ancestors_max"]) == ("parent", ANCESTORS_MAX)
        assert board.start_session("coder", id="beside", parent=names[-2]).parent == names[-2]
        added(board, "x")
        board.claim("x", session=names[-1])
        assert board.end_session(names[0]).released == ("x",)
        assert set(ended(board)) == {*names, "beside"}

    def test_children_end_with_their_parent(self, harness: Harness) -> None:
        board = harness.board()
        family(board, "main", "sub", "subsub")
        session(board, id="second", parent="main")
        session(board, id="other")
        holders = {"a": "main", "b": "sub", "c": "subsub", "d": "second", "e": "other"}
        added(board, *holders, "soft")
        for item, holder in holders.items():
            board.claim(item, session=holder)
        board.soft_claim("soft", session="subsub")
        end = board.end_session("main", reason="lunch")
        assert (end.session.id, sorted(end.released)) == ("main", ["a", "b", "c", "d"])
        children = dict.fromkeys(("sub", "subsub", "second"), PARENT_ENDED)
        assert ended(board) == {"main": "lunch", **children}
        assert [line.item.id for line in board.who()] == ["e"]
        for item in end.released:
            found, event = board.get(item).item, latest(board, item)
            assert (found.status, found.strikes, event.kind) == ("ready", 0, "released")
            assert (event.session, event.actor) == (holders[item], event.agent)
            assert event.data["reason"] == ("session ended" if item == "a" else PARENT_ENDED)
        for child in children:
            refused(SessionNotFound, board.heartbeat, session=child)

    def test_the_end_of_a_parent_does_not_hide_an_expiry(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        family(board, "main", "sub")
        board.claim("x", session="sub", ttl_seconds=TTL_SECONDS)
        expire(harness)
        assert board.end_session("main").released == ()
        assert kinds(board, "x") == ["added", "claimable", "claimed", "expired", "claimable"]
        assert board.get("x").item.strikes == 1

    def test_nothing_is_offered_within_a_family_that_ends(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", "y")
        family(board, "main", "sub")
        session(board, id="other")
        board.claim("x", session="main")
        board.claim("y", session="sub")
        for item, waiting in (("x", ("sub", "other")), ("y", ("main", "other"))):
            for one in waiting:
                board.wait(item, session=one)
        added(board, "z")
        session(board, id="holder")
        board.claim("z", session="holder")
        for one in ("main", "sub", "other"):
            board.wait("z", session=one)
        board.release("z", session="holder")
        board.end_session("main")
        offers = [event.data["offered_to"] for event in board.log("z") if event.kind == "offered"]
        assert offers == ["main", "other"], "the offer of one that ends goes to none of its family"
        for item, gone in (("x", "sub"), ("y", "main")):
            assert kinds(board, item)[-2:] == ["released", "offered"]
            assert board.get(item).item.offered_to == "other"
            assert board.ticket(item, session=gone).ticket.reason == "its session ended"

    def test_a_child_ends_without_its_parent(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", "y")
        family(board, "main", "sub", "subsub")
        board.claim("x", session="main")
        board.claim("y", session="subsub")
        assert board.end_session("sub").released == ("y",)
        assert set(ended(board)) == {"sub", "subsub"}
        assert [one.item for one in board.heartbeat(session="main").renewed] == ["x"]

    def test_each_of_a_family_has_heartbeats_and_limits_of_its_own(self, harness: Harness) -> None:
        board = harness.board()
        board.set_agent("coder", max_claims=1)
        added(board, "x", "y", "z")
        main = session(board)
        sub = session(board, parent=main)
        board.claim("x", session=main, ttl_seconds=TTL_SECONDS)
        board.claim("y", session=sub, ttl_seconds=TTL_SECONDS)
        refused(AgentAtCapacity, board.claim, "z", session=sub)
        harness.clock.advance(TTL_SECONDS / 2)
        assert [one.item for one in board.heartbeat(session=main).renewed] == ["x"]
        expire(harness, TTL_SECONDS / 2)
        assert board.get("x").claim is not None
        assert board.get("y").claim is None
        refused(AgentAtCapacity, board.claim, "y", session=main)
        assert board.claim("y", session=sub).claim.token == 2

    def test_children_end_when_the_owner_of_their_parent_dies(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", "y")
        gone = dead_owner()
        family(board, "main", "sub", "subsub", owner=gone)
        board.store.start_session(Session(id="same", agent="coder", parent="main", owner=gone))
        board.claim("x", session="subsub")
        board.claim("y", session="same")
        # Reads see it before it is recorded.
        expected = {"main": "its owner process died", "sub": PARENT_ENDED, "subsub": PARENT_ENDED}
        expected["same"] = expected["main"]
        assert ended(board) == expected
        assert (board.stats().live_sessions, board.stats().active_claims, board.who()) == (0, 0, ())
        shown = board.get("x")
        assert (shown.item.status, shown.claim, shown.runs[0].outcome) == ("ready", None, "owner_died")
        assert shown.runs[0].reason == PARENT_ENDED
        other = session(board)
        assert board.claim("x", session=other).claim.token == 2
        run, event = board.get("x").runs[1], board.log("x")[3]
        assert (run.reason, run.outcome, board.get("x").item.strikes) == (PARENT_ENDED, "owner_died", 1)
        assert (event.kind, event.session, event.data["reason"]) == ("owner_died", "subsub", PARENT_ENDED)
        assert board.get("y").runs[0].reason is None, "its own owner died, too"
        assert ended(board) == expected
        refused(SessionNotFound, board.heartbeat, session="sub")

    def test_a_child_with_a_dead_owner_ends_without_its_parent(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", "y")
        family(board, "main", owner=owner.of(os.getpid()))
        board.store.start_session(Session(id="sub", agent="coder", parent="main", owner=dead_owner()))
        board.claim("x", session="main")
        board.claim("y", session="sub")
        assert board.sweep().owner_died == ("y",)
        assert set(ended(board)) == {"sub"}
        assert board.get("x").claim is not None

    def test_a_sweep_of_a_dead_family_is_bounded(self, harness: Harness) -> None:
        board = harness.board()
        family(board, "main", "sub", "subsub", owner=dead_owner())
        added(board, *"abcdef")
        for item, holder in zip("abcdef", ("main", "sub", "subsub") * 2, strict=True):
            board.claim(item, session=holder)
        found: list[str] = []
        for _ in range(4):
            swept = board.sweep(limit=2)
            assert len(swept.owner_died) <= 2, f"a sweep of at most 2 claims ended {len(swept.owner_died)}"
            found += swept.owner_died
            stored = {data["id"]: data["ended_at"] for kind, data in board.export() if kind == "session"}
            gone = [id for id, ended_at in stored.items() if ended_at is not None]
            assert not gone or len(found) == 6, f"{gone} have ended, and only {found} were let go"
        assert sorted(found) == list("abcdef")
        assert set(ended(board)) == {"main", "sub", "subsub"}

    def test_no_child_outlives_a_parent_that_ends_meanwhile(self, harness: Harness) -> None:
        board = harness.board()
        ends, starts = harness.actors(2)
        for round in range(harness.fewer(ROUNDS)):
            main = session(board, id=f"main-{round}")
            gate = harness.gate()
            ends.send("end_session", main, at=gate)
            starts.send("start_session", "coder", id=f"sub-{round}", parent=main, at=gate)
            gate.open()
            assert ends.answer().code is None
            assert starts.answer().code in (None, "SESSION_NOT_FOUND")
        assert [view.session.id for view in board.sessions()] == []

    def test_parents_are_exported_and_checked(self, harness: Harness) -> None:
        board = harness.board()
        family(board, "main", "sub")
        session(board, id="other")
        taken = list(board.export())
        with harness.elsewhere() as there:
            copy = there.board()
            for wrong in ({"main": "main"}, {"main": "sub"}, {"main": "other", "other": "sub"}, {"main": "a b"}):
                given = [
                    (kind, {**data, "parent": wrong.get(data["id"], data["parent"])} if kind == "session" else data)
                    for kind, data in taken
                ]
                refused(Invalid, copy.load, given)
                assert copy.sessions() == ()
            copy.load(taken)
            assert {view.session.id: view.session.parent for view in copy.sessions()} == {
                "main": None,
                "sub": "main",
                "other": None,
            }
