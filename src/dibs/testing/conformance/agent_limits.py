"""Limits of an agent: what a session holds, what all of them hold together, how fast they claim; when to try again."""

from __future__ import annotations

from collections import Counter

from dibs.errors import AgentAtCapacity, ItemAlreadyClaimed, RateLimited
from dibs.testing import sizes
from dibs.testing.conformance.asking import TTL_SECONDS, added, ids, refused, session, whole
from dibs.testing.harness import Harness
from dibs.testing.invariants import assert_sound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.board import Board

CLAIMERS, ROOM = 8, 3
ROUNDS, ROUNDS_SOAK = 60, 300
#: Time is told in whole ones, and to be told a little late is no harm.
MILLISECOND = 0.001


def items(board: Board, count: int, **fields: object) -> list[str]:
    names = [f"item-{number:02}" for number in range(count)]
    added(board, *names, **fields)
    return names


class TestCapacity:
    def test_a_session_holds_no_more_than_it_may(self, harness: Harness) -> None:
        harness.clock.freeze()
        board = harness.board()
        items(board, 5)
        board.set_agent("coder", max_claims=2)
        me, other = session(board, "coder"), session(board, "coder")
        assert len(board.next(session=me, n=5, ttl_seconds=TTL_SECONDS)) == 2
        harness.clock.advance(100)
        before = whole(board, "item-03")
        facts = refused(AgentAtCapacity, board.claim, "item-03", session=me).facts
        assert (facts["agent"], facts["held"], facts["max_claims"]) == ("coder", 2, 2)
        assert facts["retry_after_seconds"] == TTL_SECONDS - 100
        refused(AgentAtCapacity, board.next, session=me)
        assert whole(board, "item-03") == before
        assert len(board.next(session=other, n=5)) == 2

    def test_the_sessions_of_an_agent_hold_no_more_together_than_it_may(self, harness: Harness) -> None:
        harness.clock.freeze()
        board = harness.board()
        items(board, 6)
        board.set_agent("coder", max_claims_total=3)
        first, second, third = (session(board, "coder") for _ in range(3))
        assert len(board.next(session=first, n=2, ttl_seconds=TTL_SECONDS)) == 2
        harness.clock.advance(100)
        assert len(board.next(session=second, n=5)) == 1
        for me in (first, second, third):
            facts = refused(AgentAtCapacity, board.claim, "item-05", session=me).facts
            assert (facts["held"], facts["max_claims"]) == (3, 3)
            assert facts["retry_after_seconds"] == TTL_SECONDS - 100
            refused(AgentAtCapacity, board.next, session=me)
        assert board.claim("item-05", session=session(board, "another"))

    def test_both_limits_hold_together(self, harness: Harness) -> None:
        board = harness.board()
        items(board, 9)
        board.set_agent("coder", max_claims=2, max_claims_total=3)
        given = [len(board.next(session=session(board, "coder"), n=5)) for _ in range(2)]
        assert given == [2, 1]
        refused(AgentAtCapacity, board.next, session=session(board, "coder"))

    def test_whatever_ends_a_claim_makes_room(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", "y", retries=9)
        board.set_agent("coder", max_claims_total=1)
        me, other = session(board, "coder"), session(board, "coder")
        for way in ("release", "fail", "force", "expire", "submit", "end"):
            board.claim("x", session=me, ttl_seconds=TTL_SECONDS)
            refused(AgentAtCapacity, board.claim, "y", session=other)
            if way == "release":
                board.release("x", session=me)
            elif way == "fail":
                board.fail("x", session=me)
                board.edit("x", not_before=None)
            elif way == "force":
                board.force_release("x", reason="needed")
            elif way == "expire":
                harness.clock.advance(TTL_SECONDS)
            elif way == "submit":
                board.submit("x", session=me, draft="d")
                board.approve("x")
            else:
                board.end_session(me)
            board.claim("y", session=other)
            board.release("y", session=other)

    def test_a_claim_renewed_by_its_session_takes_no_room(self, harness: Harness) -> None:
        board = harness.board()
        items(board, 2)
        board.set_agent("coder", max_claims=1, max_claims_total=1, claims_per_minute=1)
        me = session(board, "coder")
        first = board.claim("item-00", session=me)
        for _ in range(3):
            assert board.claim("item-00", session=me).claim.token == first.claim.token
        assert board.recover("item-00", session=me).claim.token == first.claim.token
        refused(AgentAtCapacity, board.claim, "item-01", session=me)

    def test_a_limit_that_is_lowered_takes_nothing_away(self, harness: Harness) -> None:
        board = harness.board()
        items(board, 4)
        board.set_agent("coder", max_claims_total=3)
        me = session(board, "coder")
        board.next(session=me, n=3)
        board.set_agent("coder", max_claims_total=1)
        assert len(board.heartbeat(session=me).renewed) == 3
        for item in ("item-00", "item-01"):
            board.done(item, session=me)
            refused(AgentAtCapacity, board.next, session=me)
        board.done("item-02", session=me)
        assert ids(board.next(session=me)) == ["item-03"]

    def test_a_refusal_for_want_of_room_is_an_activity(self, harness: Harness) -> None:
        board = harness.board()
        items(board, 2)
        board.set_agent("coder", max_claims=1)
        me = session(board, "coder")
        board.claim("item-00", session=me)
        refused(AgentAtCapacity, board.claim, "item-01", session=me)
        (line,) = board.activity(item="item-01")
        assert (line.code, line.session) == ("AGENT_AT_CAPACITY", me)


class TestRate:
    def test_a_burst_is_given_at_once_and_then_no_more(self, harness: Harness) -> None:
        harness.clock.freeze()
        board = harness.board()
        items(board, 9)
        board.set_agent("coder", claims_per_minute=6, claims_burst=3)
        me = session(board, "coder")
        for item in ("item-00", "item-01", "item-02"):
            board.claim(item, session=me)
        before = whole(board, "item-03")
        facts = refused(RateLimited, board.claim, "item-03", session=me).facts
        assert (facts["agent"], facts["claims_per_minute"]) == ("coder", 6)
        assert 10 <= facts["retry_after_seconds"] <= 10 + MILLISECOND
        refused(RateLimited, board.next, session=me)
        assert whole(board, "item-03") == before

    def test_the_bucket_refills_with_time_and_no_further_than_its_burst(self, harness: Harness) -> None:
        harness.clock.freeze()
        board = harness.board()
        items(board, 12)
        board.set_agent("coder", claims_per_minute=6, claims_burst=3)
        me = session(board, "coder")
        assert len(board.next(session=me, n=9)) == 3
        harness.clock.advance(9.999)
        refused(RateLimited, board.next, session=me)
        harness.clock.advance(0.001)
        assert len(board.next(session=me, n=9)) == 1
        harness.clock.advance(25)
        assert len(board.next(session=me, n=9)) == 2
        assert 5 <= refused(RateLimited, board.next, session=me).facts["retry_after_seconds"] <= 5 + MILLISECOND
        harness.clock.advance(3600)
        assert len(board.next(session=me, n=9)) == 3

    def test_who_tries_again_when_told_to_is_not_refused_again(self, harness: Harness) -> None:
        harness.clock.freeze()
        board = harness.board()
        for number, rate in enumerate((6, 7, 13, 0.7, 60, 997, 1 / 3)):
            agent = f"agent-{number}"
            added(board, *(f"{agent}-{n}" for n in range(4)), project=agent)
            board.set_agent(agent, claims_per_minute=rate)
            me = session(board, agent)
            board.claim(f"{agent}-0", session=me)
            for n in (1, 2, 3):
                wait = refused(RateLimited, board.claim, f"{agent}-{n}", session=me).facts["retry_after_seconds"]
                assert 0 <= wait - 60 / rate < 2 * MILLISECOND, f"{wait} s at {rate} a minute"
                harness.clock.advance(wait)
                assert board.claim(f"{agent}-{n}", session=me), f"at {rate} a minute"

    def test_next_is_cut_to_what_is_in_the_bucket(self, harness: Harness) -> None:
        harness.clock.freeze()
        board = harness.board()
        items(board, 9)
        board.set_agent("coder", claims_per_minute=60, claims_burst=4)
        me = session(board, "coder")
        board.claim("item-00", session=me)
        assert len(board.next(session=me, n=9)) == 3
        refused(RateLimited, board.next, session=me)

    def test_the_rate_is_the_agents_over_all_its_sessions(self, harness: Harness) -> None:
        harness.clock.freeze()
        board = harness.board()
        items(board, 4)
        board.set_agent("coder", claims_per_minute=1, claims_burst=2)
        for _ in range(2):
            board.next(session=session(board, "coder"))
        refused(RateLimited, board.next, session=session(board, "coder"))
        assert board.next(session=session(board, "another"))

    def test_a_refused_claim_costs_nothing(self, harness: Harness) -> None:
        harness.clock.freeze()
        board = harness.board()
        items(board, 3)
        board.claim("item-00", session=session(board, "another"))
        board.set_agent("coder", claims_per_minute=1, claims_burst=1, types=["none"])
        me = session(board, "coder")
        for _ in range(3):
            refused(ItemAlreadyClaimed, board.claim, "item-00", session=me)
            assert board.next(session=me) == ()
        assert board.claim("item-01", session=me)
        refused(RateLimited, board.claim, "item-02", session=me)

    def test_a_clock_that_goes_back_gives_nothing_away_and_locks_nobody_out(self, harness: Harness) -> None:
        harness.clock.freeze()
        board = harness.board()
        items(board, 4)
        board.set_agent("coder", claims_per_minute=1)
        me = session(board, "coder")
        board.next(session=me)
        harness.clock.advance(-3600)
        refused(RateLimited, board.next, session=me)
        harness.clock.advance(30)
        refused(RateLimited, board.next, session=me)
        harness.clock.advance(30)
        assert board.next(session=me)


class TestCapacityTogether:
    """Real processes."""

    def test_many_claimers_of_one_agent_never_hold_more_than_it_may(self, harness: Harness) -> None:
        board = harness.board()
        board.set_agent("coder", max_claims_total=ROOM)
        actors, gate = harness.actors(CLAIMERS), harness.gate()
        sessions = [session(board, "coder") for _ in range(CLAIMERS)]
        won: Counter[str] = Counter()
        for number in range(sizes.rounds(ROUNDS, ROUNDS_SOAK)):
            names = [f"{number}-{n}" for n in range(CLAIMERS)]
            added(board, *names, project=f"round-{number}")
            for n, (actor, me) in enumerate(zip(actors, sessions, strict=True)):
                if (number + n) % 2:
                    actor.send("claim", names[n], session=me, at=gate)
                else:
                    actor.send("next", session=me, projects=[f"round-{number}"], n=2, at=gate)
            gate.open()
            answers = [actor.answer() for actor in actors]
            gate.close()
            held = [line.claim for line in board.who() if line.claim is not None]
            assert len(held) == ROOM, f"round {number}: an agent with room for {ROOM} holds {len(held)}"
            codes = {answer.code for answer in answers}
            assert codes <= {None, "AGENT_AT_CAPACITY", "TASK_ALREADY_CLAIMED"}, codes
            for claim in held:
                won[claim.session] += 1
                board.done(claim.item, session=claim.session, token=claim.token)
        print(f"{CLAIMERS} claimers with room for {ROOM}, {number + 1} rounds: {sorted(won.values())} won by each")
        assert len(won) > 1, "the same process won every round: nobody raced"
        assert_sound(board)
