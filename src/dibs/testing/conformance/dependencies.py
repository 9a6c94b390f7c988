"""Dependencies: an item is blocked until everything it depends on is done, and only done will do. Nothing that happens
at the same time leaves it blocked for ever.
"""

from __future__ import annotations

from collections import Counter

from dibs.errors import Invalid, ItemNotClaimable
from dibs.testing import sizes
from dibs.testing.conformance.asking import added, ids, kinds, refused, session, whole
from dibs.testing.harness import Harness
from dibs.testing.invariants import assert_sound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.board import Board
    from dibs.model import Blocker

ROUNDS, ROUNDS_SOAK = 60, 300


def finish(board: Board, *items: str) -> None:
    me = session(board, "finisher")
    for item in items:
        board.claim(item, session=me)
        board.done(item, session=me)


def status(board: Board, item: str) -> str:
    return board.get(item).item.status


def blocker(board: Board, item: str) -> Blocker:
    """The one thing that the item waits for."""
    (found,) = board.get(item).blockers
    return found


class TestDependencies:
    def test_an_item_is_blocked_until_all_it_depends_on_is_done(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "a", "b")
        added(board, "x", depends_on=["a", "b"])
        assert status(board, "x") == "blocked"
        assert [one.item for one in board.get("x").blockers] == ["a", "b"]
        finish(board, "a")
        assert (status(board, "x"), blocker(board, "x").item) == ("blocked", "b")
        finish(board, "b")
        assert (status(board, "x"), board.get("x").blockers) == ("ready", ())
        assert kinds(board, "x") == ["added", "unblocked", "claimable"]

    def test_done_frees_what_depended_on_it_in_the_same_step(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "a")
        added(board, "x", "y", depends_on=["a"])
        finish(board, "a")
        *_, done = board.log("a")
        freed = [event for event in board.events(after=done.id) if event.kind == "unblocked"]
        assert sorted(event.item for event in freed) == ["x", "y"]
        assert {event.at for event in freed} == {done.at}

    def test_a_blocked_item_cannot_be_claimed_by_id_and_names_what_it_waits_for(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "a", "b")
        added(board, "x", depends_on=["a", "b"])
        before = whole(board, "x")
        facts = refused(ItemNotClaimable, board.claim, "x", session=session(board)).facts
        assert (facts["status"], facts["blocked_by"]) == ("blocked", ["a", "b"])
        assert "a" in facts["why"]
        assert whole(board, "x") == before

    def test_next_does_not_hand_out_what_is_blocked(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "a")
        added(board, "x", depends_on=["a"], priority=10)
        me = session(board)
        assert ids(board.next(session=me, n=10)) == ["a"]
        board.done("a", session=me)
        assert ids(board.next(session=me, n=10)) == ["x"]

    def test_a_dependency_that_is_done_already_blocks_nothing(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "a")
        finish(board, "a")
        added(board, "x", depends_on=["a"])
        assert status(board, "x") == "ready"

    def test_approving_as_done_satisfies(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "a")
        added(board, "x", depends_on=["a"])
        me = session(board)
        board.claim("a", session=me)
        board.submit("a", session=me, draft="like this")
        assert (status(board, "x"), blocker(board, "x").status) == ("blocked", "pending_approval")
        board.approve("a", done=True, actor="boss")
        assert status(board, "x") == "ready"
        assert ids(board.next(session=me)) == ["x"]

    def test_any_other_end_keeps_it_blocked_and_is_named_as_not_moving(self, harness: Harness) -> None:
        board = harness.board()
        me = session(board)
        ends: dict[str, Callable[[str], object]] = {
            "failed": lambda item: board.fail(item, session=me),
            "rejected": lambda item: board.reject(item, session=me, reason="no"),
            "cancelled": lambda item: board.cancel(item),
        }
        for way, end in ends.items():
            added(board, way)
            added(board, f"after-{way}", depends_on=[way])
            board.claim(way, session=me)
            assert blocker(board, f"after-{way}").will_move
            end(way)
            found = blocker(board, f"after-{way}")
            assert (found.item, found.status, found.will_move) == (way, way, False)
            assert status(board, f"after-{way}") == "blocked"
            facts = refused(ItemNotClaimable, board.claim, f"after-{way}", session=me).facts
            assert way in facts["why"]

    def test_a_failed_dependency_that_is_tried_again_can_still_satisfy(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "a")
        added(board, "x", depends_on=["a"])
        me = session(board)
        board.claim("a", session=me)
        board.fail("a", session=me)
        board.retry("a")
        assert blocker(board, "x").will_move
        finish(board, "a")
        assert status(board, "x") == "ready"

    def test_a_dependency_can_be_dropped(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "a", "b")
        added(board, "x", depends_on=["a", "b"])
        board.cancel("a")
        assert board.edit("x", depends_on=["b"]).status == "blocked"
        assert blocker(board, "x").item == "b"
        assert board.edit("x", depends_on=[]).status == "ready"
        assert ids(board.next(session=session(board), n=10)) == ["b", "x"]

    def test_a_dependency_can_be_taken_on(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "a", "x")
        assert board.edit("x", depends_on=["a"]).status == "blocked"
        refused(ItemNotClaimable, board.claim, "x", session=session(board))
        finish(board, "a")
        assert status(board, "x") == "ready"

    def test_what_a_claimed_item_takes_on_counts_when_it_comes_back(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "a", "x")
        me = session(board)
        board.claim("x", session=me)
        assert board.edit("x", depends_on=["a"]).status == "in_progress"
        board.release("x", session=me)
        assert status(board, "x") == "blocked"
        finish(board, "a")
        assert status(board, "x") == "ready"

    def test_a_freed_item_goes_to_where_it_rests(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "a")
        added(board, "later", depends_on=["a"], not_before=harness.clock.now() + 60_000)
        added(board, "asked", depends_on=["a"], needs_approval=True)
        added(board, "aside", depends_on=["a"])
        board.park("aside")
        refused(ItemNotClaimable, board.claim, "aside", session=session(board))
        finish(board, "a")
        found = {item: status(board, item) for item in ("later", "asked", "aside")}
        assert found == {"later": "scheduled", "asked": "pending_approval", "aside": "parked"}
        assert board.unpark("aside").status == "ready"
        assert board.approve("asked").status == "ready"

    def test_an_approved_item_can_still_be_blocked(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "a")
        added(board, "x", depends_on=["a"], needs_approval=True)
        assert status(board, "x") == "pending_approval"
        assert board.approve("x").status == "blocked"
        finish(board, "a")
        assert status(board, "x") == "ready"

    def test_a_chain_moves_link_by_link(self, harness: Harness) -> None:
        board = harness.board()
        board.add_many(
            [
                {"id": "c", "title": "last", "depends_on": ["b"]},
                {"id": "b", "title": "then", "depends_on": ["a"]},
                {"id": "a", "title": "first"},
            ]
        )
        for item in ("a", "b", "c"):
            assert ids(board.list(statuses=["ready"])) == [item]
            finish(board, item)
        assert_sound(board)

    def test_an_unknown_dependency_is_refused_and_nothing_is_added(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "a")
        items = [{"id": "x", "title": "x"}, {"id": "y", "title": "y", "depends_on": ["a", "nowhere"]}]
        refusal = refused(Invalid, board.add_many, items)
        assert refusal.facts["field"] == "depends_on"
        assert "nowhere" in refusal.message
        assert ids(board.list()) == ["a"]
        before = whole(board, "a")
        refused(Invalid, board.edit, "a", depends_on=["nowhere"])
        assert whole(board, "a") == before

    def test_a_circle_is_refused_and_nothing_changes(self, harness: Harness) -> None:
        board = harness.board()
        refused(Invalid, board.add, "itself", id="self", depends_on=["self"])
        circle = [
            {"id": "a", "title": "a", "depends_on": ["c"]},
            {"id": "b", "title": "b", "depends_on": ["a"]},
            {"id": "c", "title": "c", "depends_on": ["b"]},
        ]
        refused(Invalid, board.add_many, circle)
        assert board.list() == ()
        board.add_many([{**circle[0], "depends_on": []}, *circle[1:]])
        before = whole(board, "a")
        for needs in (["c"], ["b"], ["a"]):
            assert refused(Invalid, board.edit, "a", depends_on=needs).facts["field"] == "depends_on"
        assert whole(board, "a") == before
        added(board, "d")
        assert board.edit("a", depends_on=["d"]).status == "blocked"
        refused(Invalid, board.edit, "d", depends_on=["c"])

    def test_what_is_named_twice_is_one_dependency(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "a")
        added(board, "x", depends_on=["a", "a"])
        assert blocker(board, "x").item == "a"
        finish(board, "a")
        assert status(board, "x") == "ready"


class TestFinishingTogether:
    """Real processes."""

    def test_two_parents_that_finish_at_once_free_the_child(self, harness: Harness) -> None:
        board = harness.board()
        actors, gate = harness.actors(2), harness.gate()
        sessions = [session(board, f"agent-{number}") for number in range(2)]
        last: Counter[str] = Counter()
        for number in range(sizes.rounds(ROUNDS, ROUNDS_SOAK)):
            parents, child = [f"{number}-left", f"{number}-right"], f"{number}-child"
            added(board, *parents)
            added(board, child, depends_on=parents)
            for actor, me, parent in zip(actors, sessions, parents, strict=True):
                board.claim(parent, session=me)
                actor.send("done", parent, session=me, at=gate)
            gate.open()
            answers = [actor.answer() for actor in actors]
            gate.close()
            assert [answer.code for answer in answers] == [None, None]
            assert status(board, child) == "ready", f"round {number}: the child was left blocked"
            last[max(parents, key=lambda parent: board.log(parent)[-1].id).partition("-")[2]] += 1
        print(f"two parents at once, {sum(last.values())} rounds: the last was {dict(last)}")
        assert_sound(board)

    def test_a_child_added_while_its_parent_finishes_is_free(self, harness: Harness) -> None:
        board = harness.board()
        finisher, adder = harness.actors(2)
        gate, me = harness.gate(), session(board)
        born: Counter[str] = Counter()
        for number in range(sizes.rounds(ROUNDS, ROUNDS_SOAK)):
            parent, child = f"{number}-parent", f"{number}-child"
            added(board, parent)
            board.claim(parent, session=me)
            asked = (
                (finisher, "done", (parent,), {"session": me}),
                (adder, "add", ("child",), {"id": child, "depends_on": [parent]}),
            )
            # Who comes to the gate first has a small lead, so they take turns at that.
            for actor, verb, args, kwargs in asked if number % 2 else reversed(asked):
                actor.send(verb, *args, at=gate, **kwargs)
            gate.open()
            answers = [finisher.answer(), adder.answer()]
            gate.close()
            assert [answer.code for answer in answers] == [None, None]
            assert status(board, child) == "ready", f"round {number}: the child was left blocked"
            born[board.log(child)[0].status] += 1
        print(f"add beside done, {sum(born.values())} rounds: the child was born {dict(born)}")
        assert set(born) == {"blocked", "ready"}, f"one side won every time: {dict(born)}"
        assert_sound(board)
