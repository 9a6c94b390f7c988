"""A board that cannot be used: damaged, in the way, read-only, without room, or locked by somebody who stopped."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from tests.e2e.conftest import Dibs
from tests.e2e.users import IS_OPEN
from tests.kit.small_disk import fill
from tests.kit.waiting import PATIENCE_SECONDS, until

COMMANDS = (("list",), ("claim", "x"), ("add", "t"), ("who",), ("doctor",))
#: Root may write everywhere, so it becomes nobody first, with everything imported that nobody could not read.
AS_NOBODY = """
import os, sys
import dibs.cli.claim_commands, dibs.cli.identity, dibs.cli.items, dibs.cli.main, dibs.cli.admin
import dibs.store.sqlite.store
if os.geteuid() == 0:
    os.setgroups([]), os.setgid(65534), os.setuid(65534)
sys.exit(dibs.cli.main.main(sys.argv[1:]))
"""
#: Takes the board's lock, as any writer does, and stays there.
HOLD_THE_LOCK = """
import sys, time
from dibs.config import Settings
from dibs.store.sqlite.lock import FairLock
lock = FairLock(sys.argv[1], 10)
lock.acquire()
print("held", flush=True)
time.sleep(60)
"""


@pytest.fixture
def path(dibs: Dibs) -> Path:
    dibs.ok("add", "Fix login", "--id", "x")
    return dibs.folder / ".dibs" / "board.db"


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("content", [b"this is no database at all" * 100, b"\0" * 8192])
def test_a_damaged_file_is_told_in_one_line(dibs: Dibs, path: Path, content: bytes, words: tuple[str, ...]) -> None:
    path.write_bytes(content)
    for side in ("-wal", "-shm"):
        path.with_name(path.name + side).unlink(missing_ok=True)
    code, error = dibs.refused(*words)
    assert (code, error["code"]) == (1, "STORE_UNAVAILABLE")
    assert str(path) in error["message"]
    assert dibs(*words).stderr.count("\n") == 1
    assert path.read_bytes() == content


def test_a_board_whose_sessions_cannot_be_read_is_restored_by_an_agents_session(dibs: Dibs, path: Path) -> None:
    """The name for the history is looked up on the board that is damaged."""
    dibs.ok("session", "start", "--id", "s1")
    dibs.ok("backup", "b.db")
    connection = apsw.Connection(str(path))
    where = "SELECT rootpage, page_size FROM sqlite_schema, pragma_page_size WHERE name = 'sessions'"
    page, size = (int(str(value)) for value in connection.execute(where).fetchall()[0])
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    connection.close()
    with path.open("r+b") as file:
        file.seek(size * (page - 1))
        file.write(b"\xff" * size)
    unnamed = {"DIBS_AGENT": ""}
    assert dibs.refused("sessions", environment=unnamed)[1]["code"] == "STORE_UNAVAILABLE"
    dibs.ok("restore", "b.db", "--yes", environment=unnamed)
    assert dibs.json("events", "--kind", "restored")["events"][0]["actor"] == "s1"


@pytest.mark.parametrize("words", [*COMMANDS, ("init",)], ids=" ".join)
def test_a_directory_in_its_place_is_told_in_one_line(dibs: Dibs, path: Path, words: tuple[str, ...]) -> None:
    path.unlink()
    path.mkdir()
    code, error = dibs.refused(*words)
    assert (code, error["code"]) == (1, "STORE_UNAVAILABLE")
    assert "is a directory" in error["message"]


def test_a_database_of_another_program_is_refused(dibs: Dibs, path: Path) -> None:
    import sqlite3

    for file in path.parent.iterdir():
        file.unlink()
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE t (a)")
    other.close()
    assert "another program" in dibs.refused("list")[1]["message"]
    assert dibs.refused("init")[0] == 1


@pytest.fixture
def locked(bare: Dibs) -> Iterator[Path]:
    """A folder with a board in it, neither of them writable."""
    folder = Path(tempfile.mkdtemp(prefix="dibs-read-only-"))
    bare.ok("init", folder=folder)
    paths = [folder, folder / ".dibs", *(folder / ".dibs").iterdir()]
    for path in paths:
        path.chmod(0o555 if path.is_dir() else 0o444)
    yield folder
    for path in paths:
        path.chmod(0o755)
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    "words",
    [("add", "t"), ("claim", "x", "--session", "s1", "--agent", "coder"), ("init", "--store", "new.db")],
    ids=" ".join,
)
def test_a_read_only_folder_is_told_in_one_line(bare: Dibs, locked: Path, words: tuple[str, ...]) -> None:
    if os.geteuid() == 0 and not IS_OPEN:
        pytest.skip("root may write anywhere, and nobody else can read this checkout")
    command = [sys.executable, "-c", AS_NOBODY, *words, "--json"]
    done = subprocess.run(command, cwd=locked, env=bare.environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "")
    error = json.loads(done.stdout)["error"]
    assert error["code"] == "STORE_UNAVAILABLE"
    assert str(locked) in error["message"]


def test_a_full_disk_is_told_in_one_line_and_changes_nothing(bare: Dibs, disk_of_a_board: Path) -> None:
    bare.ok("init", folder=disk_of_a_board)
    bare.ok("add", "First", "--id", "first", folder=disk_of_a_board)
    filler = fill(disk_of_a_board)
    code, error = bare.refused("add", "Second", "--body", "x" * 100_000, folder=disk_of_a_board)
    assert (code, error["code"]) == (75, "STORE_UNAVAILABLE")
    filler.unlink()
    assert [item["id"] for item in bare.json("list", folder=disk_of_a_board)["items"]] == ["first"]
    bare.ok("add", "Second", "--id", "second", folder=disk_of_a_board)
    assert bare.json("doctor", folder=disk_of_a_board)["sound"]


def test_a_stopped_process_with_the_lock_makes_others_exit_75(
    settings: Callable[..., None], dibs: Dibs, path: Path, ended: Any
) -> None:
    settings(lock_wait_seconds=1)
    holder = ended(
        subprocess.Popen(
            [sys.executable, "-c", HOLD_THE_LOCK, str(path)], env=dibs.environment, stdout=subprocess.PIPE, text=True
        )
    )
    assert holder.stdout.readline() == "held\n"
    holder.send_signal(signal.SIGSTOP)
    began = time.monotonic()
    code, error = dibs.refused("claim", "x")
    assert (code, error["code"]) == (75, "STORE_UNAVAILABLE")
    assert f"process {holder.pid}" in error["message"]
    assert time.monotonic() - began < 5
    assert dibs.json("show", "x")["item"]["status"] == "ready"  # reading needs no lock
    holder.kill()
    holder.wait()
    dibs.ok("session", "start", "--id", "s1")
    dibs.ok("claim", "x")


def test_a_board_that_vanished_says_what_to_type(dibs: Dibs, path: Path) -> None:
    error = dibs.refused("list", "--store", str(path) + ".gone")[1]
    assert "dibs init" in error["message"]
    shutil.rmtree(path.parent)
    assert dibs("list").stderr == "dibs: no board here or above; make one with: dibs init\n"


def test_a_folder_that_vanished_is_told_in_one_line(dibs: Dibs) -> None:
    gone = dibs.folder / "gone"
    gone.mkdir()
    done = dibs.shell(f"cd {gone} && rmdir {gone} && dibs list")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "dibs: the current folder no longer exists; cd to another one"
    assert "Traceback" not in done.stderr


def test_a_closed_pipe_ends_it_quietly(dibs: Dibs, path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "dibs.cli.main", "list"]
    done = subprocess.run(
        command, cwd=dibs.folder, env=dibs.environment, stdout=writing, stderr=subprocess.PIPE, check=False
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


def test_a_full_stdout_is_an_error(dibs: Dibs, path: Path) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full here")
    done = dibs.shell("dibs list >/dev/full")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)


def test_an_interrupt_exits_130_quietly(dibs: Dibs, ended: Any) -> None:
    waiting = ended(dibs.start("next", "--wait", "60s"))
    until(lambda: dibs.json("sessions")["sessions"])
    waiting.send_signal(signal.SIGINT)
    stdout, stderr = waiting.communicate(timeout=PATIENCE_SECONDS)
    assert (waiting.returncode, stdout, stderr) == (130, "", "")
