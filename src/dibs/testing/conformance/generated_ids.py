"""Generated ids: the words of the title, then a number; a random part where clones cannot see each other."""

from __future__ import annotations

import re

from dibs.testing.conformance.asking import added, session
from dibs.testing.harness import Harness
from dibs.testing.invariants import assert_sound

ADDERS, EACH = 4, 5
#: The ends of ids that a vault with a remote gives.
RANDOM = re.compile(r"[a-z0-9]{8}")


def has_clones(harness: Harness) -> bool:
    """Whether this store gives ids with a random part, as the contract says of a vault with a remote."""
    return RANDOM.fullmatch(harness.board().add("a probe").id.rpartition("-")[2]) is not None


class TestGeneratedIds:
    def test_an_id_is_the_words_of_the_title_and_then_a_number(self, harness: Harness) -> None:
        board = harness.board()
        ids = [board.add("Fix the login!").id for _ in range(3)]
        if has_clones(harness):
            assert len(set(ids)) == 3
            assert all(re.fullmatch(r"fix-the-login-[a-z0-9]{8}", id) for id in ids), ids
            return
        assert ids == ["fix-the-login", "fix-the-login-2", "fix-the-login-3"]
        assert board.add("fix  THE login").id == "fix-the-login-4"
        assert board.add("\U0001f30d").id == "item"
        assert board.add("x" * 500).id == "x" * 40
        assert_sound(board)

    def test_no_item_that_exists_is_taken_for_another(self, harness: Harness) -> None:
        board = harness.board()
        if has_clones(harness):
            return
        added(board, "fix-login", "fix-login-2", "fix-login-4", "fix-login-x")
        board.cancel("fix-login")
        me = session(board)
        board.claim("fix-login-2", session=me)
        board.done("fix-login-2", session=me)
        found = [board.add("Fix login") for _ in range(3)]
        assert not any(one.existed for one in found)
        assert all(re.fullmatch(r"fix-login-\d", one.id) for one in found)
        assert len({one.id for one in found} | {"fix-login-2", "fix-login-4"}) == 5
        # The title is what another id would be.
        assert board.add("Fix login 4").id == "fix-login-4-2"

    def test_the_items_of_one_call_get_different_ids(self, harness: Harness) -> None:
        board = harness.board()
        new = [{"title": "Fix login"}, {"title": "Fix login"}, {"title": "other", "id": "fix-login-2"}]
        ids = [one.id for one in board.add_many([*new, {"title": "Fix login"}])]
        assert len(set(ids)) == 4
        if not has_clones(harness):
            assert ids == ["fix-login", "fix-login-3", "fix-login-2", "fix-login-4"]

    def test_a_repeated_request_answers_the_same_id(self, harness: Harness) -> None:
        board = harness.board()
        first = board.add("Fix login", request_id="r")
        assert harness.board().add("Fix login", request_id="r") == first
        many = board.add_many([{"title": "Fix login"}] * 3, request_id="s")
        assert harness.board().add_many([{"title": "Fix login"}] * 3, request_id="s") == many
        assert len(board.list()) == 4

    def test_a_subject_is_claimed_under_a_generated_id(self, harness: Harness) -> None:
        board = harness.board()
        me = session(board)
        first = board.claim_subject("https://example.org/1", title="Fix login", session=me).item.id
        again = board.claim_subject("https://example.org/1", title="Fix login", session=me)
        other = board.claim_subject("https://example.org/2", title="Fix login", session=me).item.id
        assert (again.item.id, again.renewed) == (first, True)
        assert len({first, other}) == 2
        assert board.add("Fix login", subject="https://example.org/1").id == first

    def test_those_who_add_one_title_at_once_get_different_ids(self, harness: Harness) -> None:
        """Real processes."""
        board = harness.board()
        clones, actors, gate = has_clones(harness), harness.actors(ADDERS), harness.gate()
        ids = []
        for _ in range(EACH):
            for actor in actors:
                actor.send("add", "Fix login", at=gate)
            gate.open()
            answers = [actor.answer() for actor in actors]
            gate.close()
            assert [answer.code for answer in answers] == [None] * ADDERS
            ids += [answer.reply["id"] for answer in answers]
        assert len(set(ids)) == len(ids) == ADDERS * EACH
        if not clones:
            numbered = [f"fix-login-{number}" for number in range(2, len(ids) + 1)]
            assert sorted(ids) == sorted(["fix-login", *numbered])
        assert_sound(board)
