"""Answers that say what happened: added or there already, what an edit replaced, and what will never move."""

from __future__ import annotations

from dibs.errors import Invalid
from dibs.testing.conformance.asking import added, kinds, refused, session
from dibs.testing.harness import Harness

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class TestAnswers:
    def test_a_new_item_is_told_from_one_that_was_there(self, harness: Harness) -> None:
        board = harness.board()
        assert not board.add("do x", id="x", labels=["a"]).existed
        assert board.add("do x", id="x", labels=["a"]).existed
        both = board.add_many([{"id": "x", "title": "do x", "labels": ["a"]}, {"id": "y", "title": "do y"}])
        assert [(item.id, item.existed) for item in both] == [("x", True), ("y", False)]
        assert kinds(board, "x") == ["added", "claimable"]

    def test_an_item_that_was_edited_since_was_there_too(self, harness: Harness) -> None:
        board = harness.board()
        board.add("do x", id="x")
        board.edit("x", title="do more")
        for title in ("do x", "do more"):
            again = board.add(title, id="x")
            assert (again.existed, again.title) == (True, "do more")

    def test_a_repeated_request_says_again_that_the_item_is_new(self, harness: Harness) -> None:
        board = harness.board()
        first = board.add("do x", id="x", request_id="r")
        assert not first.existed
        assert board.add("do x", id="x", request_id="r") == first
        assert board.add("do x", id="x", request_id="another").existed

    def test_a_taken_id_is_refused_with_what_differs(self, harness: Harness) -> None:
        board = harness.board()
        board.add("do x", id="x", labels=["a"], priority=3)
        facts = refused(Invalid, board.add, "do y", id="x", labels=["b"], priority=3).facts
        assert (facts["field"], facts["item"], sorted(facts["differs"])) == ("id", "x", ["labels", "title"])

    def test_an_edit_says_what_it_replaced(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "one", "two")
        then = harness.clock.now() + 3_600_000
        board.add("do x", id="x", labels=["a", "b"], resources=["src"], depends_on=["one"], payload={"at": [1]})
        assert board.edit("x", labels=["c"], priority=5).before == {"labels": ["a", "b"]}
        assert board.edit("x", resources=[]).before == {"resources": ["src"]}
        assert board.edit("x", depends_on=["two"]).before == {"depends_on": ["one"]}
        assert board.edit("x", type="bug").before == {"type": "task", "action": "task"}
        assert board.edit("x", payload={}).before == {"payload": {"at": [1]}}
        assert board.edit("x", depends_on=[], not_before=then).before == {
            "depends_on": ["two"],
            "not_before": None,
            "status": "blocked",
        }
        assert board.edit("x", not_before=None).before == {"not_before": then, "status": "scheduled"}

    def test_an_edit_that_changes_nothing_says_so(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", labels=["a"])
        edited = board.edit("x", labels=["a"], title="do x")
        assert (edited.before, edited.labels) == ({}, ("a",))

    def test_a_repeated_request_says_again_what_the_edit_replaced(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", labels=["a"])
        first = board.edit("x", labels=["b"], request_id="r")
        board.edit("x", labels=["c"])
        assert board.edit("x", labels=["b"], request_id="r") == first
        assert first.before == {"labels": ["a"]}

    def test_an_edit_that_withdraws_an_approval_says_so(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", needs_approval=True)
        board.approve("x")
        assert board.edit("x", priority=9).before == {"priority": 5}, "an approval is not about the priority"
        withdrawn = {"approved": True, "needs_approval": False, "status": "ready"}
        assert board.edit("x", body="delete everything").before == {"body": "", **withdrawn}

    def test_what_can_never_move_as_things_stand_is_said(self, harness: Harness) -> None:
        board = harness.board()
        me = session(board)
        ends: dict[str, Callable[[str], object]] = {
            "failed": lambda item: board.fail(item, session=me),
            "rejected": lambda item: board.reject(item, session=me, reason="no"),
            "cancelled": lambda item: board.cancel(item),
        }
        added(board, "moves", "free")
        for way, end in ends.items():
            added(board, way)
            board.claim(way, session=me)
            end(way)
            new = board.add("do it", id=f"after-{way}", depends_on=[way, "moves"])
            again = board.add("do it", id=f"after-{way}", depends_on=[way, "moves"])
            edited = board.edit("free", depends_on=[way, "moves"])
            for answer in (new, again, edited):
                found = {blocker.item: (blocker.status, blocker.will_move) for blocker in answer.blockers}
                assert found == {way: (way, False), "moves": ("ready", True)}, way
        assert board.edit("free", depends_on=[]).blockers == ()
