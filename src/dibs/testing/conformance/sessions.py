"""Sessions: started, started again, ended cleanly, and the death of an owner: proven from the same namespace or not."""

from __future__ import annotations

import os
import subprocess
from contextlib import contextmanager

import pytest

from dibs.check import META_BYTES_MAX
from dibs.errors import Invalid, ItemAlreadyClaimed, SessionNotFound
from dibs.model import Owner, Session
from dibs.rules.sessions import KEPT_PREFIXES, META_SHOWN_MAX, SILENT_SECONDS, WAS_SILENT
from dibs.system import owner
from dibs.testing.conformance.asking import TTL_SECONDS, added, expire, ids, kinds, latest, refused, session
from dibs.testing.harness import Harness

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from dibs.board import Board


def dead_owner() -> Owner:
    """A process of this namespace that was, and is no more."""
    child = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    found = owner.of(child.pid)
    child.communicate()
    return found


@contextmanager
def before_the_verdict(act: Callable[[], object]) -> Iterator[None]:
    """The next look at owners is followed by `act`, before anything follows from what it found."""
    look = owner.dead

    def dead(owned: Callable[[str, int], Iterable[tuple[str, Owner]]]) -> list[tuple[str, Owner]]:
        patch.undo()
        found = look(owned)
        act()
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, "dead", dead)
        yield


def owned(board: Board, by: Owner, id: str = "owned") -> str:
    """A session of that owner, whoever it is."""
    return board.store.start_session(Session(id=id, agent="coder", owner=by)).id


class TestSessions:
    def test_a_session_is_told_in_full(self, harness: Harness) -> None:
        harness.clock.freeze()
        board = harness.board()
        mine = board.start_session("coder", id="s:1", kind="autonomous", host="h", meta={"context_percent": 40})
        now = harness.clock.now()
        assert (mine.id, mine.agent, mine.kind, mine.host, mine.owner) == ("s:1", "coder", "autonomous", "h", None)
        assert (mine.meta, mine.started_at, mine.seen_at) == ({"context_percent": 40}, now, now)
        assert (mine.ended_at, mine.end_reason) == (None, None)
        assert [view.session for view in harness.board().sessions()] == [mine]

    def test_what_is_said_of_a_session_is_bounded(self, harness: Harness) -> None:
        board = harness.board()
        error = refused(Invalid, board.start_session, "coder", id="s", meta={"a": "x" * META_BYTES_MAX})
        assert (error.facts["field"], error.facts["bytes_max"]) == ("meta", META_BYTES_MAX)
        assert board.sessions() == ()

    def test_sessions_without_an_id_get_different_ones(self, harness: Harness) -> None:
        board = harness.board()
        assert len({session(board) for _ in range(20)}) == 20

    def test_an_unknown_agent_is_created_without_limits(self, harness: Harness) -> None:
        board = harness.board()
        session(board, "newcomer")
        (agent,) = board.agents()
        assert (agent.name, agent.types, agent.max_claims) == ("newcomer", (), None)

    def test_a_known_agent_keeps_what_was_set(self, harness: Harness) -> None:
        board = harness.board()
        board.set_agent("coder", types=["bug"], role="local", max_claims=3)
        session(board, "coder")
        (agent,) = board.agents()
        assert (agent.types, agent.role, agent.max_claims) == (("bug",), "local", 3)

    def test_setting_an_agent_replaces_it(self, harness: Harness) -> None:
        board = harness.board()
        first = board.set_agent("coder", types=["bug"], max_claims=3)
        harness.clock.advance(10)
        second = board.set_agent("coder", role="cloud")
        assert (second.types, second.max_claims, second.role) == ((), None, "cloud")
        assert second.created_at == first.created_at < second.updated_at
        board.set_agent("ann")
        assert [agent.name for agent in board.agents()] == ["ann", "coder"]

    def test_a_live_session_started_again_is_answered_as_it_is(self, harness: Harness) -> None:
        board = harness.board()
        first = board.start_session("coder", id="s", kind="autonomous", meta={"a": 1})
        harness.clock.advance(10)
        assert board.start_session("coder", id="s", kind="person") == first
        assert board.start_session("coder", id="s", meta={"a": 1}) == first

    def test_what_a_live_session_says_of_itself_anew_replaces_what_it_said(self, harness: Harness) -> None:
        board = harness.board()
        first = board.start_session("coder", id="s", kind="autonomous", meta={"project": "shop", "percent": 40})
        harness.clock.advance(10)
        again = board.start_session("coder", id="s", kind="person", meta={"percent": 67})
        assert again == first.replace(meta={"percent": 67}, seen_at=again.seen_at)
        assert again.seen_at > first.seen_at
        assert board.start_session("coder", id="s") == again, "who says nothing takes nothing back"
        assert [view.session for view in harness.board().sessions()] == [again]

    def test_another_agents_live_session_cannot_be_taken(self, harness: Harness) -> None:
        board = harness.board()
        first = board.start_session("coder", id="s")
        refused(Invalid, board.start_session, "reviewer", id="s")
        assert [view.session for view in board.sessions()] == [first]

    def test_an_ended_session_can_be_started_again(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        board.start_session("coder", id="s")
        board.end_session("s")
        again = board.start_session("coder", id="s")
        assert (again.ended_at, again.end_reason) == (None, None)
        assert board.claim("x", session="s")

    def test_a_session_that_holds_nothing_ends_after_a_day_of_silence(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        board.start_session("coder", id="silent", kind="person", meta={"a": 1})
        parent = board.start_session("coder", id="parent").id
        board.start_session("coder", id="child", parent=parent)
        harness.clock.advance(SILENT_SECONDS - 60)
        board.heartbeat(session="child")
        board.sweep()
        assert {view.session.id for view in board.sessions()} == {"silent", "parent", "child"}, "not yet"
        harness.clock.advance(120)
        board.sweep()
        assert {view.session.id for view in board.sessions()} == {"parent", "child"}, "a parent as long as a child"
        ended = board.find_session("silent")
        assert (ended.end_reason, ended.meta) == (WAS_SILENT, {"a": 1})
        error = refused(SessionNotFound, board.claim, "x", session="silent")
        assert WAS_SILENT in error.message
        board.start_session("coder", id="silent")
        assert board.claim("x", session="silent"), "who comes back starts again"

    def test_who_holds_or_waits_for_something_is_not_silent(self, harness: Harness) -> None:
        """Nor who asked for something, in vain; nor what dibs keeps of another system."""
        board = harness.board()
        added(board, "x", "y")
        for id in ("holder", "waiter", "asker", "worker"):
            board.start_session("coder", id=id, kind="person")
        board.start_session("github", id=f"{KEPT_PREFIXES[0]}acme/shop", meta={"cursor": {}})
        harness.clock.advance(SILENT_SECONDS - 60)
        board.claim("x", session="holder", ttl_seconds=TTL_SECONDS)
        board.claim("y", session="worker", ttl_seconds=TTL_SECONDS)
        assert board.next(session="asker") == ()
        board.wait("x", session="waiter")
        harness.clock.advance(119)
        board.sweep()
        kept = f"{KEPT_PREFIXES[0]}acme/shop"
        assert {view.session.id for view in board.sessions()} == {"holder", "waiter", "asker", "worker", kept}
        harness.clock.advance(SILENT_SECONDS)
        board.wait("x", session="waiter")
        board.sweep()
        assert {view.session.id for view in board.sessions()} == {"waiter", kept}

    def test_a_sweep_moves_past_the_sessions_that_it_keeps(self, harness: Harness) -> None:
        board = harness.board()
        kept = f"{KEPT_PREFIXES[0]}acme/shop"
        board.start_session("github", id=kept)
        board.start_session("coder", id="silent")
        harness.clock.advance(SILENT_SECONDS + 60)
        board.sweep(limit=1)
        assert [view.session.id for view in board.sessions()] == [kept]

    def test_a_list_tells_as_much_of_each_session_as_a_list_can(self, harness: Harness) -> None:
        board = harness.board()
        meta = {**{f"name-{number}": number for number in range(500)}, "context_percent": 40, "log": "x" * 5000}
        board.start_session("coder", id="s", meta=meta)
        (view,) = board.sessions()
        (seat,) = board.view().sessions
        assert view.session.meta == seat.meta
        assert len(str(seat.meta)) < 2 * META_SHOWN_MAX
        assert (seat.meta["context_percent"], seat.meta["name-0"]) == (40, 0)
        assert "log" not in seat.meta
        assert board.find_session("s").meta == meta, "one session in full"

    def test_an_ended_session_stays_its_agents(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        me = board.start_session("coder", id="s").id
        board.claim("x", session=me, ttl_seconds=TTL_SECONDS)
        expire(harness)
        board.end_session(me)
        before = board.find_session(me)
        assert refused(Invalid, board.start_session, "mallory", id=me).facts["agent"] == "coder"
        assert board.find_session(me) == before
        refused(SessionNotFound, board.recover, "x", session=me)
        board.start_session("coder", id=me)
        assert board.recover("x", session=me).claim.token == 2

    def test_a_clean_end_releases_every_claim_without_a_strike(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", "y", "z")
        me, other = session(board, "ann"), session(board, "bob")
        for id, holder in (("x", me), ("y", me), ("z", other)):
            board.claim(id, session=holder)
        end = board.end_session(me, reason="lunch")
        assert (sorted(end.released), end.session.end_reason) == (["x", "y"], "lunch")
        assert end.session.ended_at is not None
        for id in ("x", "y"):
            item = board.get(id).item
            assert (item.status, item.strikes) == ("ready", 0)
            assert (latest(board, id).kind, latest(board, id).agent) == ("released", "ann")
        assert board.get("z").item.status == "in_progress"

    def test_the_end_of_a_session_does_not_hide_an_expiry(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        me = session(board)
        board.claim("x", session=me, ttl_seconds=TTL_SECONDS)
        expire(harness)
        board.end_session(me)
        board.sweep()
        assert kinds(board, "x") == ["added", "claimable", "claimed", "expired", "claimable"]
        assert board.get("x").item.strikes == 1

    def test_an_unknown_or_ended_session_can_do_nothing(self, harness: Harness) -> None:
        board = harness.board()
        refused(SessionNotFound, board.end_session, "nobody")
        refused(SessionNotFound, board.heartbeat, session="nobody")
        me = session(board)
        board.end_session(me)
        refused(SessionNotFound, board.end_session, me)
        refused(SessionNotFound, board.heartbeat, session=me)


class TestOwners:
    def test_the_claims_of_a_killed_owner_come_back_at_once(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", "y")
        actor = harness.actor()
        theirs = actor.ask("start_session", "ann", owner_pid=actor.pid).reply["id"]
        for id in ("x", "y"):
            assert actor.ask("claim", id, session=theirs).code is None
        mine = session(board, "bob")
        refused(ItemAlreadyClaimed, board.claim, "x", session=mine)
        actor.kill()
        grant = board.claim("x", session=mine)
        assert (grant.claim.token, grant.item.strikes) == (2, 1)
        assert grant.previous is not None
        assert (grant.previous.run.outcome, grant.previous.run.agent) == ("owner_died", "ann")
        assert ids(board.next(session=mine)) == ["y"]
        event = board.log("x")[3]
        assert (event.kind, event.session, event.agent) == ("owner_died", theirs, "ann")
        (ended,) = [view.session for view in board.sessions(ended=True) if view.session.id == theirs]
        assert ended.ended_at is not None

    def test_a_sweep_finds_dead_owners(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", "y")
        theirs = owned(board, dead_owner())
        board.claim("x", session=theirs)
        board.claim("y", session=session(board, owner_pid=os.getpid()))
        swept = board.sweep()
        assert (swept.owner_died, swept.expired, swept.failed) == (("x",), (), ())
        assert board.get("y").item.status == "in_progress"
        refused(SessionNotFound, board.heartbeat, session=theirs)

    def test_a_sweep_of_a_dead_owners_many_claims_is_bounded_too(self, harness: Harness) -> None:
        board = harness.board()
        added(board, *"abcde")
        theirs = owned(board, dead_owner())
        board.next(session=theirs, n=5)
        found: list[str] = []
        for _ in range(5):
            swept = board.sweep(limit=2)
            assert len(swept.owner_died) <= 2, f"a sweep of at most 2 claims ended {len(swept.owner_died)}"
            found += swept.owner_died
        assert sorted(found) == list("abcde")

    def test_a_dead_owners_session_ends_only_when_it_holds_nothing_any_more(self, harness: Harness) -> None:
        """Also if some of its claims have expired, and a sweep ends only a part of all of them."""
        board = harness.board()
        brief, long = [f"a-{n}" for n in range(3)], [f"b-{n}" for n in range(4)]
        added(board, *brief, *long)
        theirs = owned(board, dead_owner())
        for id in brief:
            board.claim(id, session=theirs, ttl_seconds=TTL_SECONDS)
        for id in long:
            board.claim(id, session=theirs, ttl_seconds=7200)
        expire(harness)
        sweeps, more = 0, True
        while more:
            swept = board.sweep(limit=2)
            sweeps, more = sweeps + 1, swept.more
            held = [line.item.id for line in board.who() if line.claim is not None]
            ended = [view.session.id for view in board.sessions(ended=True) if view.session.ended_at is not None]
            assert not held or theirs not in ended, f"after {sweeps} sweeps the session has ended and holds {held}"
            assert sweeps < 10, f"there is always more, and {held} are held"
        assert {item.status for item in board.list()} == {"ready"}
        refused(SessionNotFound, board.heartbeat, session=theirs)

    def test_a_stopped_owner_is_not_dead(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        actor = harness.actor()
        theirs = actor.ask("start_session", "ann", owner_pid=actor.pid).reply["id"]
        actor.ask("claim", "x", session=theirs)
        actor.stop()
        assert board.sweep().owner_died == ()
        refused(ItemAlreadyClaimed, board.claim, "x", session=session(board))
        actor.resume()

    def test_an_owner_in_another_namespace_or_boot_is_never_judged(self, harness: Harness) -> None:
        board = harness.board()
        gone = dead_owner()
        elsewhere = gone.replace(pid_namespace=gone.pid_namespace + 1)
        before = gone.replace(boot_id="00000000-0000-4000-8000-000000000000")
        for id, by in (("elsewhere", elsewhere), ("before", before)):
            added(board, id)
            board.claim(id, session=owned(board, by, id))
            assert board.sweep().owner_died == ()
            refused(ItemAlreadyClaimed, board.claim, id, session=session(board))
            assert board.get(id).item.strikes == 0

    def test_a_reused_pid_does_not_keep_a_dead_owner_alive(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        alive = owner.of(os.getpid())
        earlier = alive.replace(start_time=alive.start_time - 1)
        board.claim("x", session=owned(board, earlier))
        assert board.sweep().owner_died == ("x",)

    def test_a_session_with_a_new_owner_is_not_ended_for_the_old_ones_death(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        gone = dead_owner()
        theirs = owned(board, gone)
        board.claim("x", session=theirs)
        other = harness.board()
        if other.store.waits:
            return  # another process, the server, looks at owners

        def start_again() -> None:
            board.end_session(theirs)
            owned(board, owner.of(os.getpid()))
            board.claim("x", session=theirs)

        with before_the_verdict(start_again):
            assert other.sweep().owner_died == ()
        assert board.get("x").item.status == "in_progress"

    def test_a_session_without_an_owner_dies_of_nothing_but_time(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        actor = harness.actor()
        theirs = actor.ask("start_session", "ann").reply["id"]
        actor.ask("claim", "x", session=theirs, ttl_seconds=TTL_SECONDS)
        actor.kill()
        assert board.sweep().owner_died == ()
        refused(ItemAlreadyClaimed, board.claim, "x", session=session(board))
        expire(harness)
        assert board.claim("x", session=session(board)).claim.token == 2
