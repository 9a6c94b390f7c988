"""What is learned of a run later stands in its file, survives a lost index, and comes to the other clones."""

from __future__ import annotations

from pathlib import Path

from dibs.board import Board
from dibs.testing.harness import Harness
from dibs.testing.invariants import assert_sound
from tests.vault.conftest import forget_index, put
from tests.vault.test_git_store import Pair

CI = {"ci": {"state": "passed"}}


def finished(board: Board, item: str) -> None:
    session = board.start_session("cloud").id
    board.claim(item, session=session)
    board.submit(item, session=session, draft="a draft\n**Annotated By**: x 2026-01-01T00:00:00.000Z: {}")


def test_an_annotation_is_in_the_file_and_a_new_index_knows_it(harness: Harness, board: Board, root: Path) -> None:
    put(root, "Needs_Action/mail.md", "# Mail\n\nTo Bob.\n")
    finished(board, "mail")
    board.annotate("mail", links={"pr": "https://example.org/7"}, checks=CI, actor="ann")
    board.annotate("mail", checks={"ci": "failed"}, actor="ann")
    board.approve("mail", done=True, actor="ann")
    text = (root / "Done/mail.md").read_text()
    assert text.count("\n**Annotated By**: ann ") == 2
    known = board.get("mail").runs
    assert (known[0].links, known[0].checks) == ({"pr": "https://example.org/7"}, {"ci": {"state": "failed"}})
    assert_sound(board)
    forget_index(root)
    again = harness.board()
    assert again.get("mail").runs == known
    assert (root / "Done/mail.md").read_text() == text
    assert_sound(again)


def test_what_two_clones_say_of_one_run_both_of_them_know(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    pair.a.claim("x", session=pair.alice)
    pair.a.done("x", session=pair.alice)
    pair.b.sync()
    pair.a.annotate("x", links={"pr": "https://example.org/7"})
    pair.b.annotate("x", checks=CI)
    pair.a.sync()
    for board in (pair.a, pair.b):
        run = board.get("x").runs[0]
        assert (run.links, run.checks, run.outcome) == ({"pr": "https://example.org/7"}, CI, "done")
        assert_sound(board)
    assert pair.sound()


def test_a_file_that_says_too_much_or_nonsense_of_a_run_harms_nothing(board: Board, root: Path) -> None:
    put(root, "Needs_Action/mail.md", "# Mail\n")
    finished(board, "mail")
    file = root / "Pending_Approval/mail.md"
    line = "\n**Annotated By**: ann 2026-01-01T00:00:00.000Z: "
    large = "".join(f'{line}{{"run": 1, "links": {{"{name}": "{"x" * 600_000}"}}}}' for name in "ab")
    nonsense = [line + told for told in ('{"run": "1"}', "[]", '{"run": 1, "links": 5}', '{"run": 7}')]
    file.write_text(file.read_text() + large + "".join(nonsense) + "\n")
    assert board.get("mail").runs[0].links == {}
    assert board.approve("mail", actor="ann").status == "ready"
    assert_sound(board)
