"""What is in `board.db` alone, as somebody copies it who does not know of `board.db-wal`.

Every process but a command leaves a complete file. A command leaves that to others, because it would take it as long as
all its work.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from dibs.board import connect
from tests.e2e.conftest import Dibs
from tests.server.process import Serving

BOARD = Path(".dibs/board.db")


def copied(dibs: Dibs) -> list[str]:
    """The items in a copy of the file alone."""
    folder = dibs.folder / f"copy-{os.urandom(3).hex()}"
    folder.mkdir()
    shutil.copy(dibs.folder / BOARD, folder / "board.db")
    return sorted(item["id"] for item in dibs.json("list", "--all", "--store", str(folder / "board.db"))["items"])


def everything(dibs: Dibs) -> list[str]:
    return sorted(item["id"] for item in dibs.json("list", "--all")["items"])


def add_items(dibs: Dibs) -> None:
    dibs.ok("add", "--file", "-", input="".join(f'{{"title": "t", "id": "n{number}"}}\n' for number in range(20)))


def import_a_board(dibs: Dibs) -> None:
    add_items(dibs)
    dibs.ok("export", "board.jsonl")
    shutil.rmtree(dibs.folder / ".dibs")
    dibs.ok("init")
    dibs.ok("import", "board.jsonl")


def restore_a_board(dibs: Dibs) -> None:
    add_items(dibs)
    dibs.ok("backup", "board.backup")
    dibs.ok("add", "later", "--id", "later")
    dibs.ok("restore", "board.backup", "--yes")


def back_up(dibs: Dibs) -> None:
    dibs.ok("add", "t", "--id", "x")
    dibs.ok("backup", "board.backup")


def migrate(dibs: Dibs) -> None:
    dibs.ok("add", "t", "--id", "x")
    dibs.ok("migrate")


def work(dibs: Dibs) -> None:
    dibs.ok("add", "t", "--id", "x")
    dibs.ok("work", "--once", "--", "true")


def execute(dibs: Dibs) -> None:
    dibs.ok("add", "t", "--id", "x")
    dibs.ok("exec", "x", "--", "true")


def program(dibs: Dibs) -> None:
    with connect(str(dibs.folder / BOARD), folder=str(dibs.folder)) as board:
        board.add("t", id="x")


def serve(dibs: Dibs) -> None:
    with Serving(dibs.folder, store=str(dibs.folder / BOARD)) as serving:
        assert serving.dibs("add", "t", "--id", "x").returncode == 0
        assert serving.stop(signal.SIGTERM) == 0


LEAVING: list[Callable[[Dibs], None]] = [
    *(add_items, import_a_board, restore_a_board, back_up, migrate),
    *(work, execute, program, serve),
]


def test_a_new_board_is_complete(bare: Dibs) -> None:
    bare.ok("init")
    assert copied(bare) == []


@pytest.mark.parametrize("leave", LEAVING, ids=lambda leave: leave.__name__)
def test_what_a_process_leaves_is_in_the_file_alone(dibs: Dibs, leave: Callable[[Dibs], None]) -> None:
    leave(dibs)
    assert copied(dibs) == everything(dibs) != []


def test_a_command_leaves_the_log_to_others(dibs: Dibs) -> None:
    dibs.ok("add", "t", "--id", "x")
    before = (dibs.folder / BOARD).read_bytes()
    dibs.ok("claim", "x")
    assert os.path.getsize(f"{dibs.folder / BOARD}-wal") > 0
    assert (dibs.folder / BOARD).read_bytes() == before


def test_the_index_of_a_vault_is_complete_too(bare: Dibs) -> None:
    bare.ok("vault", "init", "v")
    bare.ok("add", "--file", "-", "--store", "vault:v", input='{"title": "t", "id": "x"}\n')
    assert os.path.getsize(bare.folder / "v/.dibs/vault.db-wal") == 0


@pytest.mark.parametrize("content", [b"", None], ids=["no byte", "no schema"])
def test_a_file_without_its_log_says_what_it_may_lack(bare: Dibs, tmp_path: Path, content: bytes | None) -> None:
    if content is None:
        with connect(str(tmp_path / "first.db"), folder=str(tmp_path), create=True):
            content = (tmp_path / "first.db").read_bytes()  # its schema is in the log only
    (bare.folder / "copy.db").write_bytes(content)
    for _ in range(2):  # SQLite leaves an empty -wal when it opens the file
        code, error = bare.refused("list", "--store", "copy.db")
        assert code == 1
        assert "the copy lacks the file -wal" in error["message"]
        assert "dibs backup" in error["message"]
        assert "dibs init" in error["message"]
