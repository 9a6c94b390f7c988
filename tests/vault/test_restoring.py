"""A vault that is brought back from a backup: the files follow, and nothing that people wrote is gone."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from dibs.board import Board
from dibs.store.vault.index import TABLES
from dibs.testing.harness import Harness
from dibs.testing.invariants import assert_sound
from tests.vault.conftest import forget_index, move, places, put

K = "Needs_Action/k.md"


def backup(board: Board, root: Path) -> str:
    path = str(root.parent / "backup")
    board.backup(path)
    return path


def test_what_was_written_since_the_backup_is_in_conflicts(board: Board, root: Path) -> None:
    put(root, K, "# K\n\nshort\n")
    put(root, "Needs_Action/same.md", "# Same\n")
    board.list()
    path = backup(board, root)
    put(root, K, "# K\n\nshort\nhours of writing\n")
    board.restore(path)
    assert places(root) == ["Conflicts/k.md", K, "Needs_Action/same.md"]
    assert (root / "Conflicts/k.md").read_text() == "# K\n\nshort\nhours of writing\n"
    assert "hours" not in (root / K).read_text()
    assert any("1 in Conflicts: k.md" in what for what, _ in board.store.remarks())
    assert_sound(board)


def test_what_dibs_wrote_since_the_backup_is_nobodys_text(board: Board, root: Path) -> None:
    put(root, K, "# K\n\nshort\n")
    board.list()
    path = backup(board, root)
    session = board.start_session("coder").id
    board.claim("k", session=session)
    board.done("k", session=session)
    board.restore(path)
    assert places(root) == [K]
    assert_sound(board)


def test_the_file_of_an_item_that_the_backup_lacks_is_archived(board: Board, root: Path) -> None:
    put(root, K, "# K\n")
    board.list()
    path = backup(board, root)
    put(root, "Needs_Action/later.md", "# Later\n")
    board.list()
    board.restore(path)
    assert places(root) == ["Archive/later.md", K]
    assert_sound(board)


def test_a_file_without_a_text_is_left_alone(board: Board, root: Path) -> None:
    put(root, K, "# K\n")
    board.list()
    path = backup(board, root)
    put(root, "Needs_Action/new.md", "")
    board.restore(path)
    assert places(root) == [K, "Needs_Action/new.md"]
    put(root, "Needs_Action/new.md", "# New\n")
    assert board.get("new").item.title == "New"


@pytest.mark.parametrize("forgetting", [False, True])
@pytest.mark.parametrize("to", ["Needs_Action", "In_Progress/coder"])
def test_a_token_given_since_the_backup_is_not_given_again(
    board: Board, root: Path, to: str, *, forgetting: bool
) -> None:
    put(root, K, "# K\n")
    session = board.start_session("coder").id
    board.claim("k", session=session)
    board.done("k", session=session)
    path = backup(board, root)
    move(root, "Done/k.md", K)
    given = board.claim("k", session=session).claim.token
    board.restore(path)
    put(root, "Done/k.md", (root / "Done/k.md").read_text() + "written below\n")
    board.edit("k", title="K again")
    if forgetting:
        forget_index(root)
    assert board.get("k").item.status == "done"
    move(root, "Done/k.md", f"{to}/k.md")
    if to == "Needs_Action":
        board.claim("k", session=board.start_session("coder").id)
    claim = board.get("k").claim
    assert claim is not None
    assert claim.token > given
    assert_sound(board)


def test_an_index_and_a_backup_that_lack_a_younger_table_get_it(harness: Harness, board: Board, root: Path) -> None:
    board.list()
    path = backup(board, root)
    board.close()
    connection = apsw.Connection(str(root / ".dibs/vault.db"))
    connection.execute("DROP TABLE vault_told; DROP TABLE vault_redo")
    connection.close()
    connection = apsw.Connection(path)  # a backup has none of these tables; a copy that SQLite made has some
    for statement in TABLES:
        if "vault_told" not in statement and "vault_redo" not in statement:
            connection.execute(statement)
    connection.close()
    again = harness.board()
    for restores in (False, True):
        if restores:
            again.restore(path)
        put(root, "Needs_Action/k.md", "# K\n\n# Claimed Task: k\n\n**Claimed By**: cloud\n\n## Progress\n")
        assert again.get("k").item.status == "ready"
        connection = apsw.Connection(str(root / ".dibs/vault.db"))
        assert connection.execute("SELECT item, mark FROM vault_told").fetchall() == [("k", "cloud  1")]
        connection.close()
    assert_sound(again)


def test_a_claim_of_another_program_from_before_the_restore_does_not_count(board: Board, root: Path) -> None:
    put(root, K, "# K\n\n# Claimed Task: k\n\n**Claimed By**: cloud\n\n## Progress\n")
    assert board.get("k").item.status == "ready"
    path = backup(board, root)
    board.restore(path)
    put(root, K, (root / K).read_text() + "\nmore\n")
    assert board.get("k").item.status == "ready"
    assert board.get("k").runs == ()


def test_the_backup_of_another_vault_is_not_lost_when_the_vault_is_opened_again(harness: Harness, root: Path) -> None:
    """A machine is gone: the vault is made again in another folder, and its index is not one that was copied there."""
    board = harness.board()
    board.add("t", id="x")
    session = board.start_session("coder").id
    board.claim("x", session=session)
    path = backup(board, root)
    with harness.elsewhere() as other:
        copy = other.board()
        copy.restore(path)
        events = copy.events()
        assert copy.get("x").item.title == "t"
        copy.close()
        again = other.board()
        assert again.events() == events
        assert again.claim("x", session=again.start_session("coder").id).claim.token > 1_000_000
        assert_sound(again)


@pytest.mark.parametrize("first", ["Done", "Needs_Action"])
def test_of_two_files_of_one_item_the_one_in_its_place_is_restored(board: Board, root: Path, first: str) -> None:
    second = "Needs_Action" if first == "Done" else "Done"
    put(root, f"{first}/x.md", "# The item\n")
    assert [item.id for item in board.list()] == ["x"]
    put(root, f"{second}/x.md", "# Another one\n")
    board.list()
    board.backup(str(root.parent / "backup"))
    board.restore(str(root.parent / "backup"))
    assert board.get("x").item.title == "The item"
    assert "The item" in (root / first / "x.md").read_text()
    assert "Another one" in (root / second / "x.md").read_text()
    put(root, "Needs_Action/y.md", "# The next change\n")
    board.list()
    assert ["is x already" in what for what, _ in board.store.remarks()] == [True], board.store.remarks()
