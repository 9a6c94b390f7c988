"""`dibs copy` and `dibs migrate` on files: nothing is lost, whoever works meanwhile, and a refusal changes nothing."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable

import pytest

from dibs.board import connect
from dibs.store.sqlite.database import SCHEMA_VERSION
from dibs.testing.invariants import assert_sound
from tests.e2e.conftest import Dibs, exported

#: Copies a board, and is killed when so many records have passed.
DIE_ON_THE_WAY = """
import os, signal, sys
from dibs.board import Board
export = Board.export
def dying(self):
    for number, record in enumerate(export(self), start=1):
        if number == int(sys.argv[1]):
            os.kill(os.getpid(), signal.SIGKILL)
        yield record
Board.export = dying
from dibs.cli.main import main
main(sys.argv[2:])
"""


def test_a_copy_is_the_same_board(worked: Dibs) -> None:
    text = exported(worked)
    kinds = Counter(json.loads(line)["record"] for line in text.splitlines())
    answer = worked.json("copy", ".", "new.db")
    assert answer == {
        "from": str(worked.folder / ".dibs" / "board.db"),
        "to": str(worked.folder / "new.db"),
        "records": len(text.splitlines()),
        "copied": dict(kinds),
    }
    assert exported(worked, "new.db") == text
    assert worked.json("doctor", "--store", "new.db")["sound"]
    with connect(str(worked.folder / "new.db")) as board:
        assert_sound(board)
    # The holder goes on under its token, and what it is told again under a request id is what it was told before.
    assert worked.json("done", "b", "--token", "1", "--store", "new.db")["run"]["token"] == 1
    assert worked.json("claim", "a", "--request-id", "r1", "--store", "new.db")["claim"]["token"] == 1
    assert exported(worked) == text


def test_it_says_what_was_copied_and_what_to_do_next(worked: Dibs) -> None:
    said = worked.ok("copy", ".dibs/board.db", "sqlite:there/new.db")
    assert f"to {worked.folder / 'there' / 'new.db'}, and verified" in said
    assert "5 items, 3 runs" in said
    assert f"{worked.folder / '.dibs' / 'board.db'} is unchanged" in said
    assert "DIBS_STORE" in said


def test_a_long_copy_shows_its_progress_on_a_terminal(dibs: Dibs) -> None:
    dibs.ok("add", "--file", "-", input='{"title": "t"}\n' * 500)
    said = dibs.terminal("dibs copy . new.db")
    assert re.search(r"copied 1,000 of about 1,\d\d\d records, \d\d%", said)
    assert re.search(r"checked 1,000 of 1,501 records, 66%", said)


def test_agents_of_dibs_toml_stay_out_of_it(worked: Dibs) -> None:
    (worked.folder / "dibs.toml").write_text('[agents.somebody]\ntypes = ["bug"]\n')
    worked.ok("copy", ".", "new.db")
    (worked.folder / "dibs.toml").unlink()
    assert exported(worked, "new.db") == exported(worked)


def test_a_board_in_full_use_is_copied_as_it_was_at_one_instant(dibs: Dibs, busy: Callable[[], None]) -> None:
    copies = [dibs.json("copy", ".", f"new-{number}.db") for number in range(3)]
    busy()
    assert copies[0]["records"] < copies[-1]["records"], "nobody worked meanwhile"
    for copy in copies:
        with connect(copy["to"]) as board:
            assert_sound(board)


def test_a_copy_wants_an_empty_place(worked: Dibs) -> None:
    worked.ok("init", "--store", "new.db")
    worked.ok("add", "t", "--id", "mine", "--store", "new.db")
    before, there = exported(worked), exported(worked, "new.db")
    code, error = worked.refused("copy", ".", "new.db")
    assert (code, error["code"], error["field"]) == (1, "INVALID", "to")
    assert str(worked.folder / "new.db") in error["message"]
    assert (exported(worked), exported(worked, "new.db")) == (before, there)


@pytest.mark.parametrize("same", [".dibs/board.db", "sqlite:.dibs/board.db", ".dibs/../.dibs/board.db", "link.db"])
def test_a_board_is_not_copied_to_itself(worked: Dibs, same: str) -> None:
    (worked.folder / "link.db").symlink_to(worked.folder / ".dibs" / "board.db")
    before = exported(worked)
    code, error = worked.refused("copy", ".", same)
    assert (code, error["code"], error["field"]) == (1, "INVALID", "to")
    assert exported(worked) == before


@pytest.mark.parametrize("source", ["nowhere.db", "text", "empty", "redis://localhost", "folder"])
def test_what_is_no_board_is_not_copied_and_nothing_is_made(bare: Dibs, source: str) -> None:
    (bare.folder / "text").write_text("this is no board" * 1000)
    (bare.folder / "empty").touch()
    (bare.folder / "folder").mkdir()
    code, error = bare.refused("copy", source, "new.db")
    assert (code, error["code"] in ("INVALID", "STORE_UNAVAILABLE")) == (1, True)
    assert not (bare.folder / "new.db").exists()


@pytest.mark.parametrize("words", [(".",), (".", ""), ("", "new.db"), (".", "new.db", "--store", "x.db")], ids=" ".join)
def test_copy_takes_two_boards_and_no_other(worked: Dibs, words: tuple[str, ...]) -> None:
    assert worked.refused("copy", *words)[0] == 2
    assert not (worked.folder / "new.db").exists()


@pytest.mark.parametrize("number", [1, 12])
def test_a_copy_that_is_killed_leaves_an_empty_board_and_can_be_done_again(worked: Dibs, number: int) -> None:
    before = exported(worked)
    command = [sys.executable, "-c", DIE_ON_THE_WAY, str(number), "copy", ".", "new.db"]
    killed = subprocess.run(command, cwd=worked.folder, env=worked.environment, capture_output=True, check=False)
    assert (killed.returncode, killed.stdout) == (-signal.SIGKILL, b"")
    assert os.path.exists(worked.folder / "new.db")
    assert [json.loads(line)["record"] for line in exported(worked, "new.db").splitlines()] == ["board"]
    worked.ok("copy", ".", "new.db")
    assert exported(worked, "new.db") == exported(worked) == before


def test_migrate_says_what_a_file_has(dibs: Dibs) -> None:
    path = str(dibs.folder / ".dibs" / "board.db")
    answer = dibs.json("migrate")
    assert answer == {"store": path, "before": SCHEMA_VERSION, "after": SCHEMA_VERSION}
    assert dibs.ok("migrate", "--store", path) == f"nothing to migrate: {path} has schema {SCHEMA_VERSION}\n"


def test_migrate_makes_no_board(bare: Dibs) -> None:
    assert bare.refused("migrate")[1]["field"] == "store"
    code, error = bare.refused("migrate", "--store", "nowhere.db")
    assert (code, error["code"]) == (1, "STORE_UNAVAILABLE")
    assert "dibs init" in error["message"]
    assert not list(bare.folder.iterdir())


def test_migrate_refuses_a_board_of_a_newer_version(dibs: Dibs) -> None:
    import apsw

    connection = apsw.Connection(str(dibs.folder / ".dibs" / "board.db"))
    connection.execute("PRAGMA user_version = 99").fetchall()
    connection.close()
    code, error = dibs.refused("migrate")
    assert (code, error["code"], error["schema"]) == (1, "STORE_UNAVAILABLE", 99)
