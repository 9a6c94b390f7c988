"""Idempotency: a request id is answered once and then remembered, so that an unknown outcome can be asked for again."""

from __future__ import annotations

import json
from typing import Any

from dibs import api_keys
from dibs.errors import Invalid, ItemAlreadyClaimed
from dibs.testing.conformance.asking import TTL_SECONDS, added, expire, kinds, refused, session
from dibs.testing.harness import Harness

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.board import Board

DAY_SECONDS = 86400.0
#: Fields with a caller's own JSON.
OF_CALLERS = frozenset({"payload", "meta", "links", "cost", "checks", "before"})
#: So many answers that are too old are kept, since a clock may have leapt.
OUTDATED_KEPT = 1000


class TestIdempotency:
    def test_every_verb_gives_the_same_answer_and_does_nothing_again(self, harness: Harness) -> None:
        board, other = harness.board(), harness.board()
        added(board, "claim", "progress", "release", "done", "fail", "retry", "force", "cancel", "edit", "recover")
        me = session(board)
        for id in ("progress", "release", "done", "fail", "retry", "force", "recover"):
            board.claim(id, session=me, ttl_seconds=TTL_SECONDS if id == "recover" else 7200)
        board.fail("retry", session=me)
        expire(harness)
        asked: dict[str, Callable[[Board], object]] = {
            "add": lambda b: b.add_many(
                [{"id": "new", "title": "new"}, {"title": "without an id"}], request_id="r-add"
            ),
            "edit": lambda b: b.edit("edit", title="new", request_id="r-edit"),
            "cancel": lambda b: b.cancel("cancel", request_id="r-cancel"),
            "retry": lambda b: b.retry("retry", request_id="r-retry"),
            "claim": lambda b: b.claim("claim", session=me, request_id="r-claim"),
            "recover": lambda b: b.recover("recover", session=me, token=1, request_id="r-recover"),
            "progress": lambda b: b.progress("progress", "n", session=me, request_id="r-progress"),
            "release": lambda b: b.release("release", session=me, request_id="r-release"),
            "done": lambda b: b.done("done", session=me, token=1, links={"pr": 1}, request_id="r-done"),
            "fail": lambda b: b.fail("fail", session=me, request_id="r-fail"),
            "force_release": lambda b: b.force_release("force", reason="r", request_id="r-force"),
            "next": lambda b: b.next(session=me, n=2, request_id="r-next"),
        }
        for verb, ask in asked.items():
            first = ask(board)
            events = len(board.events(limit=10_000))
            harness.clock.advance(30)
            assert ask(other) == first, verb
            assert len(board.events(limit=10_000)) == events, f"{verb} was done again"

    def test_what_ends_without_a_token_gives_the_same_answer_and_does_nothing_again(self, harness: Harness) -> None:
        board, other = harness.board(), harness.board()
        added(board, "held", "soft", "kept")
        me = session(board)
        board.claim("held", session=session(board))
        board.claim("kept", session=me)
        board.wait("held", session=me)
        board.soft_claim("soft", session=me)
        asked: dict[str, Callable[[Board], object]] = {
            "leave": lambda b: b.leave("held", session=me, request_id="r-leave"),
            "soft_release": lambda b: b.soft_release("soft", session=me, request_id="r-soft"),
            "end_session": lambda b: b.end_session(me, reason="lunch", request_id="r-end"),
        }
        for verb, ask in asked.items():
            first = ask(board)
            events = len(board.events(limit=10_000))
            harness.clock.advance(30)
            assert ask(other) == first, verb
            assert len(board.events(limit=10_000)) == events, f"{verb} was done again"
        refused(Invalid, board.leave, "soft", session=me, request_id="r-leave")
        refused(Invalid, board.end_session, me, reason="supper", request_id="r-end")

    def test_a_key_is_revoked_once_and_no_answer_tells_its_digest(self, harness: Harness) -> None:
        board, other = harness.board(), harness.board()
        key, secret = board.create_key("viewer")
        first = board.revoke_key(key.id, request_id="r")
        assert (first.id, first.digest) == (key.id, "")
        assert first.revoked_at is not None
        harness.clock.advance(30)
        assert other.revoke_key(key.id, request_id="r") == first
        refused(Invalid, board.revoke_key, key.id)
        kept = [data for kind, data in board.export() if kind == "request"]
        assert kept, "the answer is not kept"
        assert api_keys.digest(secret) not in str(kept)

    def test_a_key_is_found_while_it_is_good(self, harness: Harness) -> None:
        board = harness.board()
        lasting, _ = board.create_key("viewer")
        passing, _ = board.create_key("viewer", seconds=TTL_SECONDS)
        assert [getattr(board.store.find_key(key.id), "id", None) for key in (lasting, passing)] == [
            lasting.id,
            passing.id,
        ]
        expire(harness)
        assert board.store.find_key(lasting.id) is not None
        assert board.store.find_key(passing.id) is None, "its time is over"
        board.revoke_key(lasting.id)
        assert board.store.find_key(lasting.id) is None
        assert board.store.find_key("nobody") is None

    def test_the_very_same_key_is_kept_once(self, harness: Harness) -> None:
        board, other = harness.board(), harness.board()
        key, _ = api_keys.new("agent", "coder")
        first = board.store.put_key(key, seconds=600)
        harness.clock.advance(30)
        assert other.store.put_key(key, seconds=600) == first
        others = (key.replace(role="admin"), key.replace(agent=None), key.replace(digest=api_keys.digest("another")))
        for another in others:
            refused(Invalid, board.store.put_key, another, seconds=600)
        refused(Invalid, board.store.put_key, key)
        there = board.keys()
        assert [(one.role, one.agent) for one in there if one.id == key.id] == [("agent", "coder")]

    def test_a_repeated_next_does_not_hand_out_more(self, harness: Harness) -> None:
        board = harness.board()
        added(board, *"abc")
        me = session(board)
        first = board.next(session=me, request_id="r")
        assert board.next(session=me, request_id="r") == first
        assert [item.status for item in board.list()] == ["in_progress", "ready", "ready"]

    def test_a_done_whose_answer_was_lost_can_be_asked_again(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        me = session(board)
        board.claim("x", session=me)
        ended = board.done("x", session=me, token=1, request_id="r")
        assert board.done("x", session=me, token=1, request_id="r") == ended
        assert kinds(board, "x") == ["added", "claimable", "claimed", "done"]

    def test_other_input_under_the_same_id_is_invalid_and_does_nothing(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", "y")
        me = session(board)
        first = board.claim("x", session=me, request_id="r")
        refused(Invalid, board.claim, "y", session=me, request_id="r")
        refused(Invalid, board.done, "x", session=me, request_id="r")
        refused(Invalid, board.next, session=me, request_id="r")
        assert board.get("y").item.status == "ready"
        assert board.get("x").item.status == "in_progress"
        assert board.claim("x", session=me, request_id="r") == first

    def test_refusals_are_not_kept(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        ann, bob = session(board, "ann"), session(board, "bob")
        board.claim("x", session=ann)
        refused(ItemAlreadyClaimed, board.claim, "x", session=bob, request_id="r")
        board.release("x", session=ann)
        assert board.claim("x", session=bob, request_id="r").claim.token == 2

    def test_nothing_is_not_kept(self, harness: Harness) -> None:
        board = harness.board()
        me = session(board)
        assert board.next(session=me, request_id="r") == ()
        added(board, "x")
        assert board.next(session=me, request_id="r")[0].item.id == "x"

    def test_that_none_of_many_items_was_done_is_an_answer_and_kept(self, harness: Harness) -> None:
        board, other = harness.board(), harness.board()
        added(board, "x", "y")
        me = session(board)
        first = board.done_many({"x": None, "y": None}, session=me, request_id="r")
        assert ([one.item for one in first.lost], first.ended) == (["x", "y"], ())
        board.claim("x", session=me)
        assert other.done_many({"x": None, "y": None}, session=me, request_id="r") == first
        assert board.get("x").item.status == "in_progress"

    def test_a_kept_answer_outlives_its_claim(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        me = session(board)
        first = board.claim("x", session=me, ttl_seconds=TTL_SECONDS, request_id="r")
        expire(harness)
        board.claim("x", session=session(board))
        assert board.claim("x", session=me, ttl_seconds=TTL_SECONDS, request_id="r") == first
        assert board.get("x").item.token == 2

    def test_answers_are_kept_across_a_leap_of_the_clock(self, harness: Harness) -> None:
        """It was set wrong, or the machine slept: a retry that comes seconds later is still one."""
        board = harness.board()
        added(board, "x", "y")
        me = session(board)
        first = board.next(session=me, request_id="r")
        edited = board.edit("y", title="other", request_id="e")
        for leap in (DAY_SECONDS + 60, 365 * DAY_SECONDS):
            harness.clock.advance(leap)
            board.sweep()
            assert board.next(session=me, request_id="r") == first
            assert board.edit("y", title="other", request_id="e") == edited
        assert len(board.runs(session=me)) == 1

    def test_answers_are_kept_for_a_day_and_until_many_others_are_as_old(self, harness: Harness) -> None:
        """Then they are forgotten, and the verb is done anew."""
        board = harness.board()
        added(board, "x", "y")
        me = session(board)
        first = board.next(session=me, request_id="r")
        records = list(board.export())
        kept = next(data for kind, data in records if kind == "request")
        others = [("request", {**kept, "id": f"other-{n}", "at": kept["at"] + 1}) for n in range(OUTDATED_KEPT)]
        with harness.elsewhere() as other:
            copy = other.board()
            copy.load([*records, *others])
            harness.clock.advance(DAY_SECONDS - 60)
            copy.sweep()
            assert copy.next(session=me, request_id="r") == first, "the day is not over"
            harness.clock.advance(120)
            copy.sweep()
            copy.start_session("coder", id=me)
            assert copy.next(session=me, request_id="r")[0].claim.token == 2
            assert sum(kind == "request" for kind, _ in copy.export()) == OUTDATED_KEPT + 1

    def test_what_a_newer_version_wrote_is_read_without_the_fields_that_this_one_does_not_know(
        self, harness: Harness
    ) -> None:
        """While a fleet is upgraded, both versions read the same answers, records and events."""
        board = harness.board()
        added(board, "x", "y", "z")
        me = session(board)
        asked: dict[str, Callable[[Board], object]] = {
            "add": lambda b: b.add("new", id="new", request_id="r-add"),
            "edit": lambda b: b.edit("z", title="new", request_id="r-edit"),
            "next": lambda b: b.next(session=me, request_id="r-next"),
            "claim": lambda b: b.claim("y", session=me, request_id="r-claim"),
            "progress": lambda b: b.progress("y", "half", session=me, meta={"at": 50}, request_id="r-progress"),
            "done": lambda b: b.done("y", session=me, request_id="r-done"),
            "done_many": lambda b: b.done_many({"x": None}, session=me, request_id="r-done-many"),
            "end_session": lambda b: b.end_session(me, request_id="r-end"),
        }
        first = {verb: ask(board) for verb, ask in asked.items()}
        detail, events = board.get("y"), board.log("y")
        with harness.elsewhere() as other:
            copy = other.board()
            copy.load((kind, data if kind == "board" else _of_a_newer_version(data)) for kind, data in board.export())
            for verb, ask in asked.items():
                assert ask(copy) == first[verb], verb
            assert copy.get("y") == detail
            assert [event.kind for event in copy.log("y")] == [event.kind for event in events]
            again = copy.add("do z", id="z2")
            assert (again.existed, again.payload) == (False, {})

    def test_one_id_of_two_callers_is_two_requests(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", "y")
        ann, bob = session(board, "ann"), session(board, "bob")
        assert board.next(session=ann, request_id="r")[0].item.id == "x"
        assert board.next(session=bob, request_id="r")[0].item.id == "y"

    def test_duplicates_at_the_same_time_are_one_request(self, harness: Harness) -> None:
        board = harness.board()
        added(board, *"abcdefgh")
        me = session(board)
        gate, actors = harness.gate(), harness.actors(4)
        for actor in actors:
            actor.send("next", session=me, request_id="r", at=gate)
        gate.open()
        answers = [actor.answer() for actor in actors]
        assert all(answer.reply == answers[0].reply for answer in answers), answers
        assert len(answers[0].reply) == 1
        assert len(board.runs(session=me)) == 1


def _of_a_newer_version(data: Any) -> Any:
    """Records as a version writes them that knows one more field of everything, also of the answers that it keeps. What
    callers gave is as it was."""
    if isinstance(data, list):
        return [_of_a_newer_version(one) for one in data]
    if not isinstance(data, dict):
        return data
    known = {name: value if name in OF_CALLERS else _of_a_newer_version(value) for name, value in data.items()}
    if "answer" in known:
        known["answer"] = json.dumps(_of_a_newer_version(json.loads(known["answer"])))
    return {**known, "of_the_next_version": [{"a": 1}]}
