"""Fencing: a holder's verbs take effect iff (item, token, session) is the live claim. Everybody else is told which it
was (expired, taken over and by whom, finished, somebody else's, never given), and nothing changes.
"""

from __future__ import annotations

from dibs.errors import ClaimExpired, Invalid, ItemNotClaimed, NotClaimOwner
from dibs.testing.conformance.asking import TTL_SECONDS, added, expire, kinds, latest, refused, session, whole
from dibs.testing.harness import Harness

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from dibs.board import Board


def fenced(board: Board) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Every verb of a holder, callable as (item, session, token)."""
    for name in ("renew", "release", "done", "fail"):
        yield name, getattr(board, name)
    yield "progress", lambda item, **kwargs: board.progress(item, "still here", **kwargs)
    yield "edit", lambda item, **kwargs: board.edit(item, add_resources=["src"], **kwargs)


def assert_all_refused(board: Board, kind: type[Any], item: str, **kwargs: Any) -> dict[str, Any]:
    """Every holder's verb is refused so, and nothing changes; the facts of the last refusal."""
    before = whole(board, item)
    facts: dict[str, Any] = {}
    for name, verb in fenced(board):
        facts = refused(kind, verb, item, **kwargs).facts
        assert whole(board, item) == before, f"a refused {name} changed {item}"
    return facts


class TestFencing:
    def test_the_holder_is_accepted_with_and_without_a_token(self, harness: Harness) -> None:
        board = harness.board()
        me = session(board)
        for name in ("renew", "progress", "edit", "release", "done", "fail"):
            for with_token in (True, False):
                id = f"{name}-{with_token}"
                added(board, id)
                token = board.claim(id, session=me).claim.token if with_token else None
                if token is None:
                    board.claim(id, session=me)
                dict(fenced(board))[name](id, session=me, token=token)

    def test_another_session_is_told_whose_it_is(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        ann, bob = session(board, "ann"), session(board, "bob")
        board.claim("x", session=ann)
        for token in (None, 1):
            facts = assert_all_refused(board, NotClaimOwner, "x", session=bob, token=token)
            assert facts["holder"] == {"session": ann, "agent": "ann", "token": 1}

    def test_another_session_of_the_same_agent_is_refused(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        board.claim("x", session=session(board, "coder"))
        assert_all_refused(board, NotClaimOwner, "x", session=session(board, "coder"), token=1)

    def test_what_nobody_claimed_is_not_claimed(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        facts = assert_all_refused(board, ItemNotClaimed, "x", session=session(board))
        assert (facts["how"], facts["status"]) == ("never_claimed", "ready")

    def test_a_token_from_the_future_is_invalid(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        me = session(board)
        facts = assert_all_refused(board, Invalid, "x", session=me, token=1)
        assert facts["field"] == "token"
        board.claim("x", session=me)
        assert_all_refused(board, Invalid, "x", session=me, token=2)
        assert_all_refused(board, Invalid, "x", session=session(board), token=2)

    def test_an_expired_claim_is_lost_even_if_nobody_took_it(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        me = session(board)
        board.claim("x", session=me, ttl_seconds=TTL_SECONDS)
        expire(harness)
        for swept in (False, True):
            if swept:
                board.sweep()
            for token in (None, 1):
                facts = assert_all_refused(board, ClaimExpired, "x", session=me, token=token)
                assert (facts["how"], facts["taken_over_by"], facts["token"]) == ("expired", None, 1)

    def test_an_expired_holder_is_told_who_took_over(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        ann, bob = session(board, "ann"), session(board, "bob")
        board.claim("x", session=ann, ttl_seconds=TTL_SECONDS)
        expire(harness)
        board.claim("x", session=bob, ttl_seconds=TTL_SECONDS)
        for token in (None, 1):
            facts = assert_all_refused(board, ClaimExpired, "x", session=ann, token=token)
            assert facts["taken_over_by"] == {"session": bob, "agent": "bob", "token": 2}
        board.done("x", session=bob)
        facts = assert_all_refused(board, ClaimExpired, "x", session=ann, token=1)
        assert facts["taken_over_by"] == {"session": bob, "agent": "bob", "token": 2}
        assert facts["status"] == "done"

    def test_a_finished_claim_says_how_it_ended(self, harness: Harness) -> None:
        board = harness.board()
        me = session(board)
        ends: dict[str, Callable[[], object]] = {
            "released": lambda: board.release("released", session=me),
            "done": lambda: board.done("done", session=me),
            "failed": lambda: board.fail("failed", session=me),
            "force_released": lambda: board.force_release("force_released", reason="r"),
            "cancelled": lambda: board.cancel("cancelled"),
        }
        for how, end in ends.items():
            added(board, how)
            board.claim(how, session=me)
            end()
            for token in (None, 1):
                facts = assert_all_refused(board, ItemNotClaimed, how, session=me, token=token)
                assert facts["how"] == how
                assert facts["status"] == board.get(how).item.status

    def test_a_released_item_that_another_holds_names_both(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        ann, bob = session(board, "ann"), session(board, "bob")
        board.claim("x", session=ann)
        board.release("x", session=ann)
        board.claim("x", session=bob)
        facts = assert_all_refused(board, NotClaimOwner, "x", session=ann, token=1)
        assert facts["how"] == "released"
        assert facts["holder"] == {"session": bob, "agent": "bob", "token": 2}

    def test_a_spent_token_of_the_holder_itself_is_refused(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        me = session(board)
        board.claim("x", session=me)
        board.release("x", session=me)
        assert board.claim("x", session=me).claim.token == 2
        facts = assert_all_refused(board, NotClaimOwner, "x", session=me, token=1)
        assert facts["holder"]["token"] == 2
        assert board.done("x", session=me, token=2).item.status == "done"

    def test_somebody_elses_spent_token_opens_nothing(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        ann, bob, eve = session(board, "ann"), session(board, "bob"), session(board, "eve")
        board.claim("x", session=ann)
        board.release("x", session=ann)
        board.claim("x", session=bob)
        assert_all_refused(board, NotClaimOwner, "x", session=eve, token=1)
        assert_all_refused(board, NotClaimOwner, "x", session=bob, token=1)

    def test_a_run_ends_once(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        me = session(board)
        board.claim("x", session=me)
        ended = board.done("x", session=me, token=1, links={"pr": 7}, cost={"tokens": 9}, note="merged")
        assert (ended.item.status, ended.run.outcome, ended.run.reason) == ("done", "done", "merged")
        assert (ended.run.links, ended.run.cost) == ({"pr": 7}, {"tokens": 9})
        assert_all_refused(board, ItemNotClaimed, "x", session=me, token=1)
        assert board.get("x").runs == (ended.run,)

    def test_a_forced_release_tells_its_holder_and_retires_the_token(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        me = session(board, "ann")
        board.claim("x", session=me)
        ended = board.force_release("x", reason="stuck", actor="boss")
        assert (ended.item.status, ended.item.token, ended.item.strikes) == ("ready", 1, 0)
        assert (ended.run.outcome, ended.run.reason, ended.run.session) == ("force_released", "stuck", me)
        event = latest(board, "x")
        assert (event.kind, event.actor, event.session, event.agent) == ("force_released", "boss", me, "ann")
        assert event.data["reason"] == "stuck"
        assert_all_refused(board, ItemNotClaimed, "x", session=me, token=1)
        assert board.claim("x", session=me).claim.token == 2

    def test_a_forced_release_of_a_named_claim_spares_a_newer_one(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        ann, bob = session(board, "ann"), session(board, "bob")
        board.claim("x", session=ann)
        board.release("x", session=ann)
        board.claim("x", session=bob)
        before = whole(board, "x")
        facts = refused(NotClaimOwner, board.force_release, "x", reason="stuck", token=1).facts
        assert facts["holder"] == {"session": bob, "agent": "bob", "token": 2}
        assert whole(board, "x") == before
        assert board.force_release("x", reason="stuck", token=2).item.status == "ready"

    def test_a_forced_release_needs_somebody_to_take_it_from(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        before = whole(board, "x")
        refused(ItemNotClaimed, board.force_release, "x", reason="stuck")
        assert whole(board, "x") == before

    def test_a_claim_that_has_lapsed_is_not_taken_back_by_force(self, harness: Harness) -> None:
        """Expired is lost, recorded or not: nobody holds the item."""
        board = harness.board()
        added(board, "x", "y")
        me = session(board)
        for item, token in (("x", None), ("y", 1)):
            board.claim(item, session=me, ttl_seconds=TTL_SECONDS)
            expire(harness)
            refusal = refused(ItemNotClaimed, board.force_release, item, reason="stuck", token=token)
            assert refusal.facts["status"] == "ready"
            assert kinds(board, item) == ["added", "claimable", "claimed", "expired", "claimable"]
            assert board.get(item).item.strikes == 1

    def test_a_zombie_is_refused_and_told_who_took_over(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        zombie = harness.actor()
        me = zombie.ask("start_session", "ann").reply["id"]
        assert zombie.ask("claim", "x", session=me, ttl_seconds=TTL_SECONDS).reply["claim"]["token"] == 1
        zombie.stop()
        expire(harness)
        bob = session(board, "bob")
        board.claim("x", session=bob, ttl_seconds=TTL_SECONDS)
        before = whole(board, "x")
        zombie.resume()
        taken_over_by = {"session": bob, "agent": "bob", "token": 2}
        for verb in ("renew", "release", "done", "fail"):
            answer = zombie.ask(verb, "x", session=me, token=1)
            assert answer.error, f"a zombie's {verb} was accepted: {answer}"
            assert (answer.code, answer.error["taken_over_by"]) == ("CLAIM_EXPIRED", taken_over_by), verb
        answer = zombie.ask("progress", "x", "still here", session=me, token=1, recover=True)
        assert answer.error
        assert (answer.code, answer.error["taken_over_by"]) == ("CLAIM_EXPIRED", taken_over_by)
        beat = zombie.ask("heartbeat", session=me, holding={"x": 1}).reply
        assert beat["renewed"] == []
        assert (beat["lost"][0]["code"], beat["lost"][0]["holder"]) == ("CLAIM_EXPIRED", taken_over_by)
        assert whole(board, "x") == before
        assert board.done("x", session=bob, token=2).item.status == "done"


class TestManyAtOnce:
    def test_what_is_held_is_done_and_the_rest_is_told(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "a", "b", "late", "other", "free")
        board.add("behind both", id="behind", depends_on=["a", "b"])
        me, bob = session(board), session(board, "bob")
        for id in ("a", "b", "late"):
            board.claim(id, session=me, ttl_seconds=TTL_SECONDS if id == "late" else 7200)
        board.claim("other", session=bob, ttl_seconds=7200)
        expire(harness)
        untouched = {id: whole(board, id) for id in ("late", "other", "free")}
        finished = board.done_many(
            {"b": None, "a": 1, "late": 1, "other": None, "free": None, "nothing": 1}, session=me
        )
        assert [(end.item.id, end.item.status, end.run.outcome) for end in finished.ended] == [
            ("a", "done", "done"),
            ("b", "done", "done"),
        ]
        assert [(lost.item, lost.code) for lost in finished.lost] == [
            ("free", "TASK_NOT_CLAIMED"),
            ("late", "CLAIM_EXPIRED"),
            ("nothing", "TASK_NOT_FOUND"),
            ("other", "NOT_CLAIM_OWNER"),
        ]
        assert {id: whole(board, id) for id in untouched} == untouched
        assert board.get("behind").item.status == "ready"

    def test_a_token_that_is_over_ends_nothing(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        me = session(board)
        board.claim("x", session=me)
        board.release("x", session=me)
        board.claim("x", session=me)
        assert [lost.code for lost in board.done_many({"x": 1}, session=me).lost] == ["NOT_CLAIM_OWNER"]
        assert board.get("x").item.status == "in_progress"

    def test_asked_again_it_answers_the_same(self, harness: Harness) -> None:
        board, other = harness.board(), harness.board()
        added(board, "a", "b")
        me = session(board)
        board.claim("a", session=me)
        first = board.done_many({"a": 1, "b": None}, session=me, request_id="r-1")
        assert other.done_many({"a": 1, "b": None}, session=me, request_id="r-1") == first
        assert [event.kind for event in board.log("a")].count("done") == 1

    def test_what_has_to_be_approved_is_not_done_so(self, harness: Harness) -> None:
        board = harness.board()
        board.set_agent("careful", sensitive_actions=["mail"])
        board.add("a letter", id="letter", action="mail")
        me = session(board, "careful")
        board.claim("letter", session=me)
        (lost,) = board.done_many({"letter": None}, session=me).lost
        assert (lost.code, lost.how) == ("FORBIDDEN", "must_submit")
        assert board.get("letter").item.status == "in_progress"
