"""Claims: exclusive, numbered, given again to their own session, refused to everybody else with the holder's name."""

from __future__ import annotations

from dibs.errors import (
    AgentAtCapacity,
    DibsError,
    Invalid,
    ItemAlreadyClaimed,
    ItemNotClaimable,
    ItemNotFound,
    NotClaimOwner,
    SessionNotFound,
)
from dibs.testing.conformance.asking import TTL_SECONDS, added, expire, kinds, refused, session, whole
from dibs.testing.harness import Harness

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class TestClaims:
    def test_a_claim_is_told_in_full(self, harness: Harness) -> None:
        harness.clock.freeze()
        board = harness.board()
        added(board, "x", timeout_seconds=3600)
        me = session(board, "coder")
        grant = board.claim("x", session=me, ttl_seconds=TTL_SECONDS)
        now = harness.clock.now()
        claim = grant.claim
        assert (claim.item, claim.token, claim.session, claim.agent) == ("x", 1, me, "coder")
        assert (claim.claimed_at, claim.renewed_at, claim.heartbeat_count) == (now, now, 0)
        assert (claim.expires_at, claim.deadline_at) == (now + 600_000, now + 3_600_000)
        assert (grant.item.status, grant.item.token, grant.item.attempts) == ("in_progress", 1, 1)
        assert grant.previous is None
        assert harness.board().get("x").claim == claim
        assert harness.board().get("x").item == grant.item

    def test_a_taken_item_is_refused_with_its_holder_and_its_time(self, harness: Harness) -> None:
        harness.clock.freeze()
        board = harness.board()
        added(board, "x")
        ann, bob = session(board, "ann"), session(board, "bob")
        claim = board.claim("x", session=ann, ttl_seconds=TTL_SECONDS).claim
        harness.clock.advance(100)
        before = whole(board, "x")
        facts = refused(ItemAlreadyClaimed, harness.board().claim, "x", session=bob).facts
        assert facts["holder"] == {"session": ann, "agent": "ann", "token": 1}
        assert (facts["claimed_at"], facts["expires_at"]) == (claim.claimed_at, claim.expires_at)
        assert facts["remaining_seconds"] == TTL_SECONDS - 100
        assert whole(board, "x") == before

    def test_two_sessions_of_one_agent_are_two_claimers(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        board.claim("x", session=session(board, "coder"))
        refused(ItemAlreadyClaimed, board.claim, "x", session=session(board, "coder"))

    def test_its_own_session_is_given_the_same_claim_renewed(self, harness: Harness) -> None:
        harness.clock.freeze()
        board = harness.board()
        added(board, "x")
        me = session(board)
        first = board.claim("x", session=me, ttl_seconds=TTL_SECONDS).claim
        harness.clock.advance(100)
        again = harness.board().claim("x", session=me, ttl_seconds=TTL_SECONDS).claim
        assert (again.token, again.claimed_at) == (first.token, first.claimed_at)
        assert again.expires_at == first.expires_at + 100_000
        assert kinds(board, "x") == ["added", "claimable", "claimed"]
        assert len(board.runs(item="x")) == 1

    def test_a_claim_that_was_only_renewed_says_so(self, harness: Harness) -> None:
        """Whoever shares a session, such as two shells of one agent, can tell a new claim from one it held already."""
        harness.clock.freeze()
        board = harness.board()
        added(board, "x", "y")
        me = session(board)
        assert not board.claim("x", session=me, ttl_seconds=TTL_SECONDS).renewed
        # At the same instant: the times of a claim do not tell.
        assert harness.board().claim("x", session=me, ttl_seconds=TTL_SECONDS).renewed
        assert [grant.renewed for grant in board.next(session=me)] == [False]
        assert board.claim("y", session=me).renewed
        board.release("x", session=me)
        assert not board.claim("x", session=me, ttl_seconds=TTL_SECONDS).renewed
        expire(harness)
        assert not board.claim("x", session=me).renewed, "the claim before it had expired"

    def test_a_repeated_request_says_what_its_first_answer_said(self, harness: Harness) -> None:
        board, other = harness.board(), harness.board()
        added(board, "x")
        me = session(board)
        for request_id, renewed in (("first", False), ("second", True), ("first", False), ("second", True)):
            for asked in (board, other):
                assert asked.claim("x", session=me, request_id=request_id).renewed is renewed, request_id

    def test_a_refused_claim_is_an_activity_and_no_event(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        ann, bob = session(board, "ann"), session(board, "bob")
        board.claim("x", session=ann)
        refused(ItemAlreadyClaimed, board.claim, "x", session=bob)
        (line,) = board.activity(item="x")
        assert (line.action, line.code) == ("claim_failed", "TASK_ALREADY_CLAIMED")
        assert (line.session, line.agent) == (bob, "bob")
        assert kinds(board, "x") == ["added", "claimable", "claimed"]

    def test_a_refusal_leaves_its_handle_as_good_as_any(self, harness: Harness) -> None:
        """What a refused verb had begun is over, also while somebody keeps the refusal and others go on writing."""
        board, other = harness.board(), harness.board()
        added(board, "taken", "done", "free", "more")
        board.set_agent("full", max_claims=1)
        me, full = session(board), session(board, "full")
        board.claim("taken", session=me)
        board.claim("done", session=me)
        board.done("done", session=me)
        board.claim("more", session=full)
        refusals = []
        asked: tuple[tuple[type[DibsError], Callable[..., object], tuple[Any, ...], dict[str, Any]], ...] = (
            (ItemAlreadyClaimed, board.claim, ("taken",), {"session": session(board)}),
            (ItemNotClaimable, board.claim, ("done",), {"session": me}),
            (AgentAtCapacity, board.next, (), {"session": full}),
            (AgentAtCapacity, board.claim, ("free",), {"session": full}),
            (NotClaimOwner, board.done, ("taken",), {"session": full}),
            (ItemNotFound, board.get, ("nothing",), {}),
            (SessionNotFound, board.heartbeat, (), {"session": "nobody"}),
            (Invalid, board.add_many, ([{"id": "taken", "title": "other"}],), {}),
        )
        for number, (kind, verb, args, kwargs) in enumerate(asked):
            refusals.append(refused(kind, verb, *args, **kwargs))
            other.add("meanwhile", id=f"other-{number}")
            assert board.add("after it", id=f"after-{number}").status == "ready", refusals
            assert board.get(f"other-{number}").item.title == "meanwhile"

    def test_an_ended_item_cannot_be_claimed_and_says_why(self, harness: Harness) -> None:
        board = harness.board()
        me = session(board)
        for id, end in (("done", board.done), ("failed", board.fail)):
            added(board, id)
            board.claim(id, session=me)
            end(id, session=me)
            facts = refused(ItemNotClaimable, board.claim, id, session=me).facts
            assert facts["status"] == id
            assert facts["why"]

    def test_an_expired_claim_does_not_stand_in_the_way(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        board.claim("x", session=session(board, "ann"), ttl_seconds=TTL_SECONDS)
        expire(harness)
        grant = board.claim("x", session=session(board, "bob"))
        assert grant.claim.token == 2
        assert kinds(board, "x") == ["added", "claimable", "claimed", "expired", "claimable", "claimed"]
        assert board.log("x")[3].agent == "ann"

    def test_tokens_go_up_by_one_and_never_down(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        tokens = []
        for end in ("release", "force", "expire", "fail", "release"):
            me = session(board)
            tokens.append(board.claim("x", session=me, ttl_seconds=TTL_SECONDS).claim.token)
            if end == "release":
                board.release("x", session=me)
            elif end == "force":
                board.force_release("x", reason="needed")
            elif end == "expire":
                expire(harness)
                board.sweep()
            else:
                board.fail("x", session=me)
                board.retry("x")
        assert tokens == [1, 2, 3, 4, 5]
        assert board.get("x").item.token == 5

    def test_the_next_holder_is_told_where_the_last_one_stopped(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        ann = session(board, "ann")
        board.claim("x", session=ann)
        board.progress("x", "found the cause", session=ann, meta={"file": "a.py"})
        board.progress("x", "half fixed", session=ann)
        board.release("x", session=ann, reason="out of context")
        previous = board.claim("x", session=session(board, "bob")).previous
        assert previous is not None
        assert (previous.run.agent, previous.run.outcome, previous.run.reason) == ("ann", "released", "out of context")
        assert [note.note for note in previous.notes] == ["found the cause", "half fixed"]
        assert previous.notes[0].meta == {"file": "a.py"}

    def test_links_of_the_last_run_reach_the_next_holder(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        ann = session(board, "ann")
        board.claim("x", session=ann)
        board.fail("x", session=ann, reason="tests red", links={"branch": "fix/x"}, cost={"usd": 1.5})
        board.retry("x")
        previous = board.claim("x", session=session(board, "bob")).previous
        assert previous is not None
        assert (previous.run.links, previous.run.cost) == ({"branch": "fix/x"}, {"usd": 1.5})

    def test_an_unknown_or_ended_session_cannot_claim(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        refused(SessionNotFound, board.claim, "x", session="nobody")
        refused(SessionNotFound, board.next, session="nobody")
        me = session(board)
        board.end_session(me)
        refused(SessionNotFound, board.claim, "x", session=me)
        refused(SessionNotFound, board.next, session=me)
        assert kinds(board, "x") == ["added", "claimable"]

    def test_a_session_taken_for_another_agents_is_refused(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        me = session(board, "coder")
        refused(Invalid, board.claim, "x", session=me, agent="reviewer")
        refused(Invalid, board.next, session=me, agent="reviewer")
        assert board.claim("x", session=me, agent="coder").claim.agent == "coder"

    def test_a_ttl_out_of_bounds_is_refused_and_nothing_changes(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        me, person = session(board), session(board, "ann", kind="person")
        before = whole(board, "x")
        low, high = board.settings.ttl_seconds_min, board.settings.ttl_seconds_max
        for ttl_seconds in (low - 0.001, high + 1):
            refused(Invalid, board.claim, "x", session=me, ttl_seconds=ttl_seconds)
            refused(Invalid, board.next, session=me, ttl_seconds=ttl_seconds)
        refused(Invalid, board.claim, "x", session=person, ttl_seconds=board.settings.person_ttl_seconds_max + 1)
        assert whole(board, "x") == before
        assert board.claim("x", session=person, ttl_seconds=board.settings.person_ttl_seconds_max)

    def test_a_session_kind_has_its_own_default_ttl(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", "y", "z", timeout_seconds=10 * 86400)
        claim = board.claim("x", session=session(board, kind="autonomous")).claim
        person = board.claim("y", session=session(board, "ann", kind="person")).claim
        me = session(board, "claude", kind="agent")
        (agent,) = (grant.claim for grant in board.next(session=me))
        assert claim.expires_at - claim.claimed_at == board.settings.ttl_seconds * 1000
        assert person.expires_at - person.claimed_at == board.settings.person_ttl_seconds * 1000
        assert agent.expires_at - agent.claimed_at == board.settings.ttl_seconds * 1500
        # What was asked for is what is given, also if it is the default of other kinds.
        again = board.claim("z", session=me, ttl_seconds=board.settings.ttl_seconds).claim
        assert again.ttl_seconds == board.settings.ttl_seconds
