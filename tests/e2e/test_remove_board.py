"""`dibs remove-board` removes what dibs made for a board, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dibs.board import connect
from tests.e2e.conftest import Dibs, exported
from tests.e2e.terminal import Terminal
from tests.kit.postgres_server import PostgresServer

#: Opens the board, and claims x when a line arrives.
CLAIM_LATER = """
import sys
from dibs.board import connect
from dibs.errors import DibsError
board = connect()
board.start_session("late", id="late-1")
print("open", flush=True)
sys.stdin.readline()
try:
    board.claim("x", session="late-1")
except DibsError as error:
    print(error.code, flush=True)
"""


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def board_folder(dibs: Dibs) -> Path:
    return Path(dibs.json("config")["settings"][0]["value"]).parent


def test_nothing_of_a_board_is_left_and_everything_else_is(bare: Dibs) -> None:
    (bare.folder / "notes.txt").write_text("mine")
    before = tree(bare.folder)
    bare.ok("init")
    bare.ok("add", "t", "--id", "x")
    folder = board_folder(bare)
    answer = bare.json("remove-board", "--yes")
    assert str(folder / "board.db") in answer["removed"]
    assert answer["left"] == []
    assert not folder.exists()
    assert tree(bare.folder) == before
    assert bare("list").returncode == 1, "there is no board any more"


def test_files_that_dibs_did_not_make_stay(dibs: Dibs, tmp_path: Path) -> None:
    dibs.ok("add", "t", "--id", "x")
    folder = board_folder(dibs)
    (folder / "board.db.bak").write_text("a copy of mine")
    precious = tmp_path / "precious"
    precious.write_text("of somebody")
    os.symlink(precious, folder / "board.db-journal")
    # Such a link is refused by every command, so the board is not read.
    answer = dibs.json("remove-board", "--yes", "--force")
    assert {Path(path).name for path in answer["left"]} == {"board.db.bak", "board.db-journal"}
    assert precious.read_text() == "of somebody"
    assert (folder / "board.db.bak").read_text() == "a copy of mine"


def test_a_file_that_is_no_board_is_not_removed(bare: Dibs) -> None:
    (bare.folder / "letter.txt").write_text("Dear customer")
    code, error = bare.refused("remove-board", "--store", "letter.txt", "--yes", "--force")
    assert (code, error["code"]) == (1, "STORE_UNAVAILABLE")
    assert (bare.folder / "letter.txt").read_text() == "Dear customer"
    code, error = bare.refused("remove-board", "--store", "nowhere.db", "--yes", "--force")
    assert (code, error["code"]) == (1, "STORE_UNAVAILABLE")


def test_a_claimed_item_keeps_the_board(dibs: Dibs) -> None:
    dibs.ok("add", "t", "--id", "x")
    dibs.ok("claim", "x")
    before = exported(dibs)
    code, error = dibs.refused("remove-board", "--yes")
    assert (code, error["code"], error["items"]) == (4, "TASK_ALREADY_CLAIMED", ["x"])
    assert exported(dibs) == before
    dibs.ok("remove-board", "--yes", "--force")
    assert dibs("list").returncode == 1


def test_it_asks_first(dibs: Dibs) -> None:
    dibs.ok("add", "t", "--id", "x")
    code, error = dibs.refused("remove-board")
    assert (code, error["field"]) == (2, "yes")
    script = "dibs remove-board; echo left with $?"
    with Terminal(script, dibs.folder, dibs.environment | {"DIBS_AGENT": ""}) as terminal:
        terminal.read_until("with 1 item and all history? [y/N] ")
        terminal.type("n\n")
        terminal.read_until("left with 1")
    assert dibs.json("show", "x")["item"]["id"] == "x"


def test_a_process_that_has_it_open_finds_it_gone(dibs: Dibs) -> None:
    dibs.ok("add", "t", "--id", "x")
    command = [sys.executable, "-c", CLAIM_LATER]
    worker = subprocess.Popen(
        command, cwd=dibs.folder, env=dibs.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert worker.stdout is not None
    assert worker.stdout.readline() == "open\n"
    dibs.ok("remove-board", "--yes")
    said, _ = worker.communicate("\n")
    assert said == "STORE_UNAVAILABLE\n"
    assert dibs("list").returncode == 1, "it made no new one"


def test_the_markdown_files_of_a_vault_stay(bare: Dibs) -> None:
    bare.ok("vault", "init", "tasks")
    vault = bare.folder / "tasks"
    (vault / "Needs_Action" / "x.md").write_text("# X\n")
    bare.ok("list", folder=vault)
    before = tree(vault)
    answer = bare.json("remove-board", "--yes", folder=vault)
    after = tree(vault)
    assert not (vault / ".dibs").exists(), answer
    assert after == {path: text for path, text in before.items() if not path.startswith(".dibs")}
    assert [item["id"] for item in bare.json("list", folder=vault)["items"]] == ["x"], "the files are the board"


@pytest.fixture
def database(postgres_server: PostgresServer) -> Iterator[str]:
    name = f"{postgres_server.prefix}removal_{os.urandom(6).hex()}"
    postgres_server.create_database(name)
    yield postgres_server.url(name)
    postgres_server.drop_database(name)


def test_of_a_database_the_schema_goes_and_nothing_else(
    bare: Dibs, database: str, postgres_server: PostgresServer
) -> None:
    bare.ok("init", "--store", database)
    bare.ok("add", "t", "--id", "x", "--store", database)
    name = database.rpartition("/")[2].partition("?")[0]
    with postgres_server.connect(name) as connection:
        connection.execute("CREATE TABLE public.mine AS SELECT 1 AS one")
        connection.execute("CREATE VIEW public.open_items AS SELECT id FROM dibs.items")
    with connect(database, folder=str(bare.folder)) as board:
        board.start_session("coder", id="s1")
        board.claim("x", session="s1")
        assert bare.refused("remove-board", "--store", database, "--yes")[0] == 4
        board.release("x", session="s1")
    code, error = bare.refused("remove-board", "--store", database, "--yes")
    assert (code, "public.open_items" in error["message"]) == (1, True)
    with postgres_server.connect(name) as connection:
        connection.execute("DROP VIEW public.open_items")
    assert bare.json("remove-board", "--store", database, "--yes")["removed"] == ["schema dibs_uuid", "schema dibs"]
    with postgres_server.connect(name) as connection:
        (found,) = connection.execute(
            "SELECT to_regnamespace('dibs') IS NULL AND to_regnamespace('dibs_uuid') IS NULL, one FROM public.mine"
        ).fetchall()
    assert found == (True, 1)
    code, error = bare.refused("remove-board", "--store", database, "--yes", "--force")
    assert (code, error["field"]) == (1, "store")


def test_a_board_behind_a_server_is_removed_on_its_machine(bare: Dibs) -> None:
    code, error = bare.refused("remove-board", "--store", "http://127.0.0.1:9", "--yes", "--force")
    assert (code, error["field"]) == (1, "store")
