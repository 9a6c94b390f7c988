"""Lists that an edit changes in part: labels and dependencies are added and removed in one transaction."""

from __future__ import annotations

from dibs.errors import Invalid, ItemChanged
from dibs.testing.conformance.asking import added, refused, session, whole
from dibs.testing.harness import Harness
from dibs.testing.invariants import assert_sound

ADDERS = 4


class TestChangedLists:
    def test_labels_are_added_and_removed(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", labels=["one", "two"])
        edited = board.edit("x", add_labels=["three", "one"], remove_labels=["two", "absent"])
        assert (edited.labels, edited.before) == (("one", "three"), {"labels": ["one", "two"]})
        assert board.get("x").item.labels == ("one", "three")
        assert board.log("x")[-1].data == {"labels": ["one", "three"]}
        revision = edited.revision
        assert board.edit("x", add_labels=["one"], remove_labels=["two"]).revision == revision, "nothing changes"
        assert board.edit("x", add_labels=["new"], remove_labels=["new"]).labels == ("one", "three")
        first = board.edit("x", add_labels=["four"], request_id="r")
        assert harness.board().edit("x", add_labels=["four"], request_id="r") == first

    def test_dependencies_are_added_and_removed(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "a", "b")
        added(board, "x", depends_on=["a"])
        edited = board.edit("x", add_needs=["b"], remove_needs=["a"])
        assert (edited.depends_on, edited.status) == (("b",), "blocked")
        assert [one.item for one in edited.blockers] == ["b"]
        assert board.edit("x", remove_needs=["b", "absent"]).status == "ready"
        assert board.edit("x", add_needs=["a"]).status == "blocked"
        me = session(board)
        board.claim("a", session=me)
        board.done("a", session=me)
        assert board.get("x").item.status == "ready"
        assert board.edit("x", add_needs=["a", "b"]).depends_on == ("a", "b")
        assert_sound(board)

    def test_what_a_whole_list_could_not_say_is_refused_and_changes_nothing(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "a", "b")
        added(board, "x", labels=[f"label-{number}" for number in range(64)], depends_on=["a"])
        before = whole(board, "x")
        assert refused(Invalid, board.edit, "x", add_labels=["one more"]).facts["field"] == "add_labels"
        assert refused(Invalid, board.edit, "x", add_labels=["more"]).facts["field"] == "labels"
        assert refused(Invalid, board.edit, "x", add_needs=["nosuch"]).facts["field"] == "depends_on"
        assert refused(Invalid, board.edit, "a", add_needs=["x"]).facts["field"] == "depends_on", "a cycle"
        for given in ({"labels": ["z"], "add_labels": ["more"]}, {"depends_on": ["b"], "remove_needs": ["a"]}):
            assert refused(Invalid, board.edit, "x", **given).facts["field"] in ("add_labels", "remove_needs")
        refused(ItemChanged, board.edit, "x", add_labels=["z"], revision=board.get("x").item.revision + 1)
        assert whole(board, "x") == before

    def test_whoever_adds_at_the_same_time_takes_nothing_from_another(self, harness: Harness) -> None:
        """Real processes: each adds a label and a dependency of its own, and none of them is lost."""
        board = harness.board()
        names = [f"mine-{number}" for number in range(ADDERS)]
        added(board, "x", *names)
        actors, gate = harness.actors(ADDERS), harness.gate()
        for actor, name in zip(actors, names, strict=True):
            actor.send("edit", "x", add_labels=[name], add_needs=[name], at=gate)
        gate.open()
        assert [actor.answer().code for actor in actors] == [None] * ADDERS
        item = board.get("x").item
        assert (sorted(item.labels), sorted(item.depends_on), item.status) == (names, names, "blocked")
        assert_sound(board)
