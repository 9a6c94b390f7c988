"""Finishing and asking for more: `next` with `done` ends what is finished and looks in one step, or does nothing."""

from __future__ import annotations

from collections import Counter

from dibs.errors import (
    AgentAtCapacity,
    ClaimExpired,
    Forbidden,
    Invalid,
    ItemNotClaimed,
    ItemNotFound,
    NotClaimOwner,
    RateLimited,
)
from dibs.testing import sizes
from dibs.testing.conformance.asking import TTL_SECONDS, added, expire, ids, kinds, refused, session, until, whole
from dibs.testing.harness import Harness
from dibs.testing.invariants import assert_sound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.board import Board
    from dibs.errors import DibsError

ROUNDS = 40


def held(board: Board, me: str, *items: str, ttl_seconds: float = TTL_SECONDS) -> dict[str, int]:
    """These items, added and claimed by this session, with their tokens."""
    added(board, *items)
    return {item: board.claim(item, session=me, ttl_seconds=ttl_seconds).claim.token for item in items}


def status(board: Board, item: str) -> str:
    return board.get(item).item.status


class TestFinishAndNext:
    def test_what_is_finished_is_done_and_the_best_of_the_rest_is_given(self, harness: Harness) -> None:
        board = harness.board()
        me = session(board)
        finished = held(board, me, "a", "b")
        added(board, "c", "d")
        (grant,) = board.next(session=me, done=finished)
        assert (grant.item.id, grant.claim.session, grant.claim.token) == ("c", me, 1)
        for item in ("a", "b"):
            assert kinds(board, item) == ["added", "claimable", "claimed", "done"]
            (run,) = board.runs(item=item)
            assert (run.outcome, run.session, run.reason, run.links, run.cost) == ("done", me, None, {}, {})
            assert board.get(item).claim is None
        assert [line.item.id for line in board.who()] == ["c"]
        assert_sound(board)

    def test_room_is_made_for_this_very_look(self, harness: Harness) -> None:
        board = harness.board()
        board.set_agent("coder", max_claims=2)
        board.set_agent("team", max_claims_total=2)
        for agent in ("coder", "team"):
            me = session(board, agent)
            finished = held(board, me, f"{agent}-1", f"{agent}-2")
            added(board, f"{agent}-3", f"{agent}-4", type=agent)
            refused(AgentAtCapacity, board.next, session=me, types=[agent])
            (last,) = list(finished)[1:]
            one = {item: token for item, token in finished.items() if item != last}
            assert ids(board.next(session=me, types=[agent], n=2, done=one)) == [f"{agent}-3"]
            assert ids(board.next(session=me, types=[agent], n=2, done={f"{agent}-3": 1})) == [f"{agent}-4"]
            assert status(board, last) == "in_progress"

    def test_what_depended_on_it_is_there_for_this_very_look(self, harness: Harness) -> None:
        board = harness.board()
        me = session(board)
        finished = held(board, me, "a", "b")
        added(board, "behind-a", depends_on=["a"], priority=9)
        added(board, "behind-both", depends_on=["a", "b"], priority=10)
        added(board, "other")
        assert ids(board.next(session=me, done={"a": finished["a"]})) == ["behind-a"]
        assert status(board, "behind-both") == "blocked"
        assert ids(board.next(session=me, n=2, done={"b": finished["b"]})) == ["behind-both", "other"]
        assert kinds(board, "behind-both") == ["added", "unblocked", "claimable", "claimed"]

    def test_what_it_touched_is_free_for_others(self, harness: Harness) -> None:
        board = harness.board()
        me, bob = session(board), session(board, "bob")
        added(board, "x", "y", resources=["src/main.py"])
        board.claim("x", session=me)
        added(board, "free")
        assert ids(board.next(session=bob)) == ["free"]
        assert ids(board.next(session=me, types=["nothing"], done={"x": 1})) == []
        assert ids(board.next(session=bob)) == ["y"]

    def test_who_waits_for_what_is_finished_is_told(self, harness: Harness) -> None:
        board = harness.board()
        me, bob = session(board), session(board, "bob")
        finished = held(board, me, "x")
        board.wait("x", session=bob)
        board.next(session=me, done=finished)
        assert board.ticket("x", session=bob).ticket.reason == "the item is done"

    def test_a_zombie_is_refused_as_a_whole_and_given_nothing(self, harness: Harness) -> None:
        board = harness.board()
        me, bob = session(board), session(board, "bob")
        finished = held(board, me, "late")
        expire(harness)
        finished |= held(board, me, "a", "z")
        board.claim("late", session=bob)
        added(board, "free")
        before = {item: whole(board, item) for item in ("a", "late", "z", "free")}
        facts = refused(ClaimExpired, board.next, session=me, done=finished).facts
        assert facts["item"] == "late"
        assert facts["taken_over_by"] == {"session": bob, "agent": "bob", "token": 2}
        assert {item: whole(board, item) for item in before} == before

    def test_the_refusal_is_that_of_done_for_the_first_by_id(self, harness: Harness) -> None:
        board = harness.board()
        me, bob = session(board), session(board, "bob")
        finished = held(board, me, "m")
        held(board, bob, "theirs")
        added(board, "free")
        before = {item: whole(board, item) for item in ("m", "theirs", "free")}
        wrong: tuple[tuple[type[DibsError], str, int], ...] = (
            (Invalid, "free", 1),
            (Invalid, "m", 2),
            (ItemNotFound, "nothing", 1),
            (NotClaimOwner, "theirs", 1),
        )
        for number, (kind, item, token) in enumerate(wrong):
            later = {later: token for _, later, token in wrong[number:]}
            refusal = refused(kind, board.next, session=me, done={**finished, **later})
            alone = refused(kind, board.done, item, session=me, token=token)
            assert (refusal.message, refusal.facts) == (alone.message, alone.facts)
            assert refusal.facts["item"] == item
        assert {item: whole(board, item) for item in before} == before

    def test_a_token_that_is_over_ends_nothing(self, harness: Harness) -> None:
        board = harness.board()
        me = session(board)
        held(board, me, "x")
        board.release("x", session=me)
        board.claim("x", session=me)
        added(board, "free")
        assert refused(NotClaimOwner, board.next, session=me, done={"x": 1}).facts["how"] == "released"
        assert (status(board, "x"), status(board, "free")) == ("in_progress", "ready")
        assert ids(board.next(session=me, done={"x": 2})) == ["free"]

    def test_what_was_done_counts_as_ended_so_a_lost_answer_can_be_asked_again(self, harness: Harness) -> None:
        board, again = harness.board(), harness.board()
        me = session(board)
        finished = held(board, me, "a", "b")
        added(board, "c", "d")
        assert ids(board.next(session=me, done={"a": finished["a"]})) == ["c"]
        assert ids(again.next(session=me, done=finished)) == ["d"]
        assert ids(again.next(session=me, done=finished)) == []
        assert [kinds(board, item).count("done") for item in ("a", "b")] == [1, 1]

    def test_what_another_session_has_done_is_not_this_ones(self, harness: Harness) -> None:
        board = harness.board()
        me, bob = session(board), session(board, "bob")
        finished = held(board, bob, "x")
        board.done("x", session=bob)
        added(board, "free")
        refused(ItemNotClaimed, board.next, session=me, done=finished)
        assert status(board, "free") == "ready"

    def test_what_ended_otherwise_was_not_done(self, harness: Harness) -> None:
        board = harness.board()
        me = session(board)
        finished = held(board, me, "x")
        board.fail("x", session=me)
        added(board, "free")
        assert refused(ItemNotClaimed, board.next, session=me, done=finished).facts["how"] == "failed"
        assert status(board, "free") == "ready"

    def test_a_request_is_done_once_and_answered_the_same(self, harness: Harness) -> None:
        board, again = harness.board(), harness.board()
        me = session(board)
        finished = held(board, me, "a", "b")
        added(board, "c", "d")
        first = board.next(session=me, done={"a": finished["a"]}, request_id="r-1")
        assert again.next(session=me, done={"a": finished["a"]}, request_id="r-1") == first
        refusal = refused(Invalid, board.next, session=me, done=finished, request_id="r-1")
        assert refusal.facts["field"] == "request_id"
        assert (ids(first), status(board, "b"), status(board, "d")) == (["c"], "in_progress", "ready")

    def test_an_empty_answer_with_a_request_id_can_be_asked_again(self, harness: Harness) -> None:
        board = harness.board()
        me = session(board)
        finished = held(board, me, "a")
        assert board.next(session=me, done=finished, request_id="r-1") == ()
        added(board, "b")
        assert ids(board.next(session=me, done=finished, request_id="r-1")) == ["b"]

    def test_what_is_finished_is_done_also_if_there_is_nothing_to_give(self, harness: Harness) -> None:
        board = harness.board()
        me = session(board)
        finished = held(board, me, "x")
        assert board.next(session=me, done=finished) == ()
        assert status(board, "x") == "done"

    def test_what_is_finished_is_done_also_if_the_limits_refuse(self, harness: Harness) -> None:
        harness.clock.freeze()
        board = harness.board()
        board.set_agent("slow", claims_per_minute=1)
        board.set_agent("full", max_claims_total=1)
        me, full, other = session(board, "slow"), session(board, "full"), session(board, "full")
        finished = held(board, me, "x")
        added(board, "behind", depends_on=["x"])
        refused(RateLimited, board.next, session=me, done=finished)
        assert (status(board, "x"), status(board, "behind")) == ("done", "ready")
        mine = held(board, full, "y")
        board.set_agent("full")
        held(board, other, "z")
        board.set_agent("full", max_claims_total=1)
        refused(AgentAtCapacity, board.next, session=full, done=mine)
        assert status(board, "y") == "done"
        assert_sound(board)

    def test_what_has_to_be_approved_is_not_done_so_and_nothing_is(self, harness: Harness) -> None:
        board = harness.board()
        board.set_agent("careful", sensitive_actions=["mail"], allowed_actions=["code"])
        me = session(board, "careful")
        added(board, "fix", action="code")
        added(board, "letter", action="mail")
        for item in ("fix", "letter"):
            board.claim(item, session=me)
        added(board, "free", action="code")
        before = {item: whole(board, item) for item in ("fix", "letter", "free")}
        facts = refused(Forbidden, board.next, session=me, done={"fix": 1, "letter": 1}).facts
        assert (facts["item"], facts["action"]) == ("letter", "mail")
        assert {item: whole(board, item) for item in before} == before
        assert ids(board.next(session=me, done={"fix": 1})) == ["free"]

    def test_a_look_that_is_refused_from_the_start_ends_nothing(self, harness: Harness) -> None:
        board = harness.board()
        me = session(board, "coder")
        finished = held(board, me, "x")
        before = whole(board, "x")
        refused(Invalid, board.next, session=me, agent="reviewer", done=finished)
        refused(Invalid, board.next, session=me, ttl_seconds=0.5, done=finished)
        assert whole(board, "x") == before

    def test_wrong_input_is_refused_by_field(self, harness: Harness) -> None:
        board = harness.board()
        me = session(board)
        held(board, me, "x")
        added(board, "free")
        for done in ({"x": None}, {"x": 0}, {"": 1}, ["x"]):
            assert refused(Invalid, board.next, session=me, done=done).facts["field"] == "done"
        many = {f"item-{number}": 1 for number in range(1001)}
        assert refused(Invalid, board.next, session=me, done=many).facts["field"] == "done"
        assert (status(board, "x"), status(board, "free")) == ("in_progress", "ready")

    def test_what_is_finished_is_done_while_its_session_waits_for_more(self, harness: Harness) -> None:
        board, worker = harness.board(), harness.actor()
        me = session(board)
        finished = held(board, me, "x")
        worker.send("next", session=me, done=finished, wait_seconds=60)
        until(board, lambda: status(board, "x") == "done", "what was finished is done")
        added(board, "y")
        answer = worker.answer()
        assert [grant["item"]["id"] for grant in answer.reply] == ["y"], answer


class TestFinishingAtOnce:
    """Real processes."""

    def test_what_two_sessions_free_together_is_given_once(self, harness: Harness) -> None:
        board = harness.board()
        actors, gate = harness.actors(2), harness.gate()
        sessions = [session(board, f"agent-{number}") for number in range(2)]
        takers: Counter[str] = Counter()
        for number in range(sizes.times(ROUNDS)):
            parents, child = [f"{number}-left", f"{number}-right"], f"{number}-child"
            added(board, *parents)
            added(board, child, depends_on=parents)
            for actor, me, parent in zip(actors, sessions, parents, strict=True):
                token = board.claim(parent, session=me).claim.token
                actor.send("next", session=me, done={parent: token}, at=gate)
            gate.open()
            answers = [actor.answer() for actor in actors]
            gate.close()
            assert [answer.code for answer in answers] == [None, None]
            given = [grant["item"]["id"] for answer in answers for grant in answer.reply]
            assert given == [child], f"round {number}: given were {given}"
            takers.update(grant["claim"]["session"] for answer in answers for grant in answer.reply)
            (taker,) = (me for me in sessions if any(line.claim and line.claim.session == me for line in board.who()))
            board.done(child, session=taker)
        print(f"two who free one together, {sum(takers.values())} rounds: taken by {sorted(takers.values())}")
        assert_sound(board)

    def test_against_a_forced_release_it_is_all_or_nothing(self, harness: Harness) -> None:
        board = harness.board()
        worker, admin = harness.actors(2)
        gate, me, codes = harness.gate(), session(board), Counter[str | None]()
        for number in range(sizes.times(ROUNDS)):
            first, second, free = (f"{number}-{name}" for name in ("first", "second", "free"))
            finished = held(board, me, first, second)
            added(board, free, type=str(number))
            asked = (
                (worker, "next", (), {"session": me, "types": [str(number)], "done": finished}),
                (admin, "force_release", (second,), {"reason": "race"}),
            )
            # Who comes to the gate first has a small lead, so they take turns at that.
            for actor, verb, args, kwargs in asked if number % 2 else reversed(asked):
                actor.send(verb, *args, at=gate, **kwargs)
            gate.open()
            worked, forced = worker.answer(), admin.answer()
            gate.close()
            codes[worked.code] += 1
            after = tuple(status(board, item) for item in (first, second, free))
            if worked.error is None:
                assert forced.code == "TASK_NOT_CLAIMED", forced
                assert after == ("done", "done", "in_progress")
            else:
                assert (worked.code, worked.error["item"]) == ("TASK_NOT_CLAIMED", second), worked
                assert after == ("in_progress", "ready", "ready")
        print(f"finishing against forced releases: {dict(codes)}")
        assert set(codes) == {None, "TASK_NOT_CLAIMED"}, f"one side won every time: {dict(codes)}"
        assert_sound(board)

    def test_said_twice_at_once_it_is_done_once(self, harness: Harness) -> None:
        board = harness.board()
        actors, gate, me = harness.actors(2), harness.gate(), session(board)
        for number in range(sizes.times(ROUNDS)):
            finished = held(board, me, f"{number}-a", f"{number}-b")
            added(board, f"{number}-c", f"{number}-d", type=str(number))
            for actor in actors:
                actor.send("next", session=me, types=[str(number)], done=finished, at=gate)
            gate.open()
            answers = [actor.answer() for actor in actors]
            gate.close()
            assert [answer.code for answer in answers] == [None, None], answers
            given = [grant["item"]["id"] for answer in answers for grant in answer.reply]
            assert sorted(given) == [f"{number}-c", f"{number}-d"]
            assert [kinds(board, item).count("done") for item in finished] == [1, 1]
        assert_sound(board)
