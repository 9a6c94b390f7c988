"""Files that are named anew, duplicated, or not written yet: what people do in an editor all day."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from dibs.board import Board
from dibs.errors import StoreUnavailable
from dibs.maintenance import doctor
from dibs.testing.harness import Harness
from dibs.testing.invariants import assert_sound
from tests.vault.conftest import move, places, put
from tests.vault.test_by_hand import forget_the_index, kinds, start

# Named anew


def test_a_file_that_is_named_anew_is_the_same_item(board: Board, root: Path) -> None:
    put(root, "Needs_Action/x.md", "# X\n\nAbout x.\n")
    board.get("x")
    move(root, "Needs_Action/x.md", "Needs_Action/Call Bob.md")
    assert [(item.id, item.status, item.title) for item in board.list()] == [("x", "ready", "X")]
    assert places(root) == ["Needs_Action/Call Bob.md"]
    session = start(board)
    board.claim("x", session=session)
    assert places(root) == ["In_Progress/coder/Call Bob.md"]
    board.done("x", session=session)
    assert places(root) == ["Done/Call Bob.md"]
    assert_sound(board)


def test_a_title_that_comes_from_the_name_goes_with_it(board: Board, root: Path) -> None:
    put(root, "Needs_Action/milk.md", "two bottles")
    assert board.get("milk").item.title == "milk"
    move(root, "Needs_Action/milk.md", "Needs_Action/Buy milk.md")
    assert (board.get("milk").item.title, kinds(board, "milk")[-1]) == ("Buy milk", "edited")


def test_a_held_file_that_is_named_anew_stays_held_under_its_token(board: Board, root: Path) -> None:
    put(root, "Needs_Action/x.md", "# X\n")
    session = start(board)
    grant = board.claim("x", session=session)
    move(root, "In_Progress/coder/x.md", "In_Progress/coder/y.md")
    claim = board.get("x").claim
    assert claim is not None
    assert (claim.session, claim.token) == (session, grant.claim.token)
    assert board.done("x", session=session, token=grant.claim.token).item.status == "done"
    assert places(root) == ["Done/y.md"]
    assert_sound(board)


def test_one_that_was_saved_as_well_is_known_by_what_dibs_wrote(board: Board, root: Path) -> None:
    put(root, "Needs_Action/x.md", "# X\n")
    session = start(board)
    grant = board.claim("x", session=session)
    text = (root / "In_Progress/coder/x.md").read_text()
    (root / "In_Progress/coder/x.md").unlink()
    put(root, "In_Progress/coder/y.md", text.replace("# X\n", "# Why\n"))
    detail = board.get("x")
    assert detail.item.title == "Why"
    assert detail.claim is not None
    assert detail.claim.token == grant.claim.token
    assert len(board.list()) == 1
    assert_sound(board)


def test_a_file_named_anew_and_moved_says_what_the_move_says(board: Board, root: Path) -> None:
    put(root, "Needs_Action/x.md", "# X\n")
    session = start(board)
    board.claim("x", session=session)
    move(root, "In_Progress/coder/x.md", "Done/over and done.md")
    assert board.get("x").item.status == "done"
    assert places(root) == ["Done/over and done.md"]
    assert_sound(board)


def test_the_item_outlives_the_index(harness: Harness, board: Board, root: Path) -> None:
    put(root, "Needs_Action/x.md", "# X\n")
    board.get("x")
    move(root, "Needs_Action/x.md", "Needs_Action/y.md")
    assert board.get("x").item.status == "ready"
    forget_the_index(root)
    assert [item.id for item in harness.board().list()] == ["x"]


def test_the_name_is_free_for_another_item_at_once(board: Board, root: Path) -> None:
    """As whoever makes one note after the other does, each named `Untitled` at first."""
    for number in range(3):
        put(root, "Needs_Action/Untitled.md", f"note {number}")
        assert f"note {number}" in [item.body for item in board.list()]
        move(root, "Needs_Action/Untitled.md", f"Needs_Action/note {number}.md")
    found = {item.id: item for item in board.list()}
    assert len(found) == 3
    assert {item.status for item in found.values()} == {"ready"}
    assert sorted(item.title for item in found.values()) == ["note 0", "note 1", "note 2"]
    assert not list(doctor.examine(board))
    assert_sound(board)


def test_a_program_that_claims_a_new_file_of_that_name_has_it(board: Board, root: Path) -> None:
    put(root, "Needs_Action/x.md", "# X\n")
    board.get("x")
    move(root, "Needs_Action/x.md", "Needs_Action/y.md")
    board.get("x")
    put(root, "In_Progress/local/x.md", "# Another\n")
    [other] = [item for item in board.list() if item.id != "x"]
    claim = board.get(other.id).claim
    assert (other.status, claim is not None and claim.agent) == ("in_progress", "local")
    assert places(root) == ["In_Progress/local/x.md", "Needs_Action/y.md"]
    assert_sound(board)


def test_a_new_file_with_the_inode_of_one_that_is_gone_is_a_new_item(board: Board, root: Path) -> None:
    put(root, "Needs_Action/x.md", "# X\n")
    board.get("x")
    (root / "Needs_Action/x.md").unlink()
    put(root, "Needs_Action/y.md", "# Y and more\n")
    assert {item.id: item.status for item in board.list()} == {"x": "cancelled", "y": "ready"}


def test_a_name_that_another_item_has_in_another_folder_is_told(board: Board, root: Path) -> None:
    put(root, "Done/y.md", "# Y\n")
    put(root, "Needs_Action/x.md", "# X\n")
    assert len(board.list()) == 2
    move(root, "Needs_Action/x.md", "Needs_Action/y.md")
    session = start(board)
    assert board.claim("x", session=session).item.title == "X"
    assert any("have one name" in finding.what for finding in doctor.examine(board))
    with pytest.raises(StoreUnavailable, match="rename one of them"):
        board.done("x", session=session)
    move(root, "In_Progress/coder/y.md", "In_Progress/coder/x.md")
    assert board.done("x", session=session).item.status == "done"
    assert places(root) == ["Done/x.md", "Done/y.md"]
    assert not list(doctor.examine(board))
    assert_sound(board)


# Duplicated


def duplicate(root: Path, path: str, to: str) -> None:
    """As an editor does: a new file with the same text."""
    (root / to).write_bytes((root / path).read_bytes())


@pytest.mark.parametrize("named", ["In_Progress/coder/x 1.md", "In_Progress/other/x 1.md", "Needs_Action/x 1.md"])
def test_a_duplicate_of_a_held_file_is_a_new_item_that_nobody_holds(board: Board, root: Path, named: str) -> None:
    put(root, "Needs_Action/x.md", "# X\n\nAbout x.\n")
    session = start(board)
    grant = board.claim("x", session=session)
    (root / named).parent.mkdir(exist_ok=True)
    duplicate(root, "In_Progress/coder/x.md", named)
    held, other = sorted(board.list(), key=lambda item: len(item.id))
    assert (held.id, held.status, held.token) == ("x", "in_progress", grant.claim.token)
    assert (other.status, other.title, other.attempts) == ("ready", "X", 0)
    assert board.get(other.id).claim is None
    assert places(root) == ["In_Progress/coder/x.md", "Needs_Action/x 1.md"]
    again = board.claim(other.id, session=start(board, "local"))
    assert again.claim.token > grant.claim.token, "what stands in its text is not given again"
    assert board.done("x", session=session, token=grant.claim.token).item.status == "done"
    assert not list(doctor.examine(board))
    assert_sound(board)


def test_a_duplicate_of_a_file_that_was_named_anew_is_a_new_item_too(board: Board, root: Path) -> None:
    put(root, "Needs_Action/x.md", "# X\n")
    session = start(board)
    board.claim("x", session=session)
    move(root, "In_Progress/coder/x.md", "In_Progress/coder/y.md")
    board.get("x")
    duplicate(root, "In_Progress/coder/y.md", "In_Progress/coder/y 1.md")
    assert sorted(item.status for item in board.list()) == ["in_progress", "ready"]
    assert places(root) == ["In_Progress/coder/y.md", "Needs_Action/y 1.md"]
    assert_sound(board)


def test_a_duplicate_is_the_same_new_item_without_the_index(harness: Harness, board: Board, root: Path) -> None:
    put(root, "Needs_Action/x.md", "# X\n")
    session = start(board)
    board.claim("x", session=session)
    duplicate(root, "In_Progress/coder/x.md", "In_Progress/coder/x 1.md")
    before = {item.id: item.status for item in board.list()}
    forget_the_index(root)
    assert {item.id: item.status for item in harness.board().list()} == before


def test_a_new_index_that_finds_a_held_file_and_its_duplicate_has_one_claim(
    harness: Harness, board: Board, root: Path
) -> None:
    put(root, "Needs_Action/x.md", "# X\n")
    session = start(board)
    grant = board.claim("x", session=session)
    duplicate(root, "In_Progress/coder/x.md", "In_Progress/coder/x 1.md")
    forget_the_index(root)
    other = harness.board()
    assert sorted(item.status for item in other.list()) == ["in_progress", "ready"]
    claim = other.get("x").claim
    assert claim is not None
    assert (claim.session, claim.token) == (session, grant.claim.token)
    assert_sound(other)


# Not written yet


@pytest.mark.parametrize("text", ["", "\n", " \n\n"])
def test_a_file_without_a_text_is_no_item_until_it_has_one(board: Board, root: Path, text: str) -> None:
    put(root, "Needs_Action/Untitled.md", text)
    session = start(board)
    assert not board.next(session=session)
    assert not board.list()
    assert not list(doctor.examine(board))
    put(root, "Needs_Action/Untitled.md", "buy milk")
    assert [grant.item.title for grant in board.next(session=session)] == ["Untitled"]
    assert_sound(board)


def test_an_item_whose_text_was_deleted_is_still_the_item(board: Board, root: Path) -> None:
    put(root, "Needs_Action/x.md", "# X\n")
    board.get("x")
    put(root, "Needs_Action/x.md", "")
    assert board.get("x").item.status == "ready"


# Where nobody looks


def test_folders_among_the_files_are_told(board: Board, root: Path) -> None:
    put(root, "Needs_Action/sub/x.md", "# X\n")
    put(root, "In_Progress/coder/later/y.md", "# Y\n")
    put(root, "Needs_Action/.obsidian/z.md", "# Z\n")
    assert not board.list()
    told = sorted(finding.what for finding in doctor.examine(board))
    assert [what.partition(" ")[0] for what in told] == ["In_Progress/coder/later", "Needs_Action/sub"]
    shutil.rmtree(root / "Needs_Action/sub")
    shutil.rmtree(root / "In_Progress/coder/later")
    assert not list(doctor.examine(board))


def test_two_files_of_one_name_that_expire_together_do_not_hold_up_the_board(
    harness: Harness, board: Board, root: Path
) -> None:
    ann, bob = (board.start_session(agent).id for agent in ("ann", "bob"))
    put(root, "Needs_Action/x.md", "# X\n")
    board.claim("x", session=ann)
    harness.clock.advance(61)  # what comes to its old path now is no late save
    board.add("Z", id="z")
    put(root, "Needs_Action/x.md", "---\nid: y\n---\n# Y\n")
    board.claim("y", session=bob)
    harness.clock.advance(3 * 3600)
    board.sweep()
    assert {item.id: item.status for item in board.list()} == dict.fromkeys("xyz", "ready")
    held = [path for path in places(root) if path.startswith("In_Progress/")]
    assert len(held) == 1, "one of them is in the way of the other"
    assert "Needs_Action/x.md" in places(root)
    assert any("in the way" in finding.what for finding in doctor.examine(board))
    move(root, held[0], "Needs_Action/other.md")
    assert {item.status for item in board.list()} == {"ready"}
    assert sorted(path for path in places(root)) == ["Needs_Action/other.md", "Needs_Action/x.md", "Needs_Action/z.md"]
    assert_sound(board)
