"""A process is killed while it writes the log into the file on its way out: nothing is lost."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dibs.board import connect
from dibs.maintenance import doctor
from dibs.testing.invariants import assert_sound
from tests.fault.tracing import missing

pytestmark = pytest.mark.skipif(missing() is not None, reason=missing() or "")

ITEMS = 60
#: Adds items, says so, and leaves.
PROGRAM = """
import sys
from dibs.board import connect
with connect(sys.argv[1], folder="/") as board:
    board.add_many({"title": "t", "id": f"n{n}", "body": "x" * 1500} for n in range(int(sys.argv[2])))
    print("added", flush=True)
"""
#: System calls of the checkpoint, the file that they are about, and which of them is the last.
LAST = [
    *(("pwrite64", "board.db", when) for when in (1, 2, 7, 20, 40)),
    *(("fdatasync", "board.db", when) for when in (1,)),
    *(("ftruncate", "board.db-wal", when) for when in (1,)),
]


@pytest.mark.parametrize(("syscall", "name", "when"), LAST)
def test_who_is_killed_during_the_checkpoint_loses_nothing(folder: Path, syscall: str, name: str, when: int) -> None:
    place = folder / "board.db"
    connect(str(place), folder=str(folder), create=True).close()
    fault = ("-P", str(folder / name), "-e", f"trace={syscall}", "-e", f"inject={syscall}:signal=KILL:when={when}")
    done = subprocess.run(
        ["strace", "-f", "-qq", "-o", str(folder / "log"), *fault, sys.executable, "-c", PROGRAM, place, str(ITEMS)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "killed by SIGKILL" in (folder / "log").read_text(), "the checkpoint does not call it so often"
    assert done.stdout == "added\n", "it was killed before it left"
    with connect(str(place), folder=str(folder)) as board:
        assert len(board.list()) == ITEMS
        assert_sound(board)
        assert list(doctor.examine(board)) == []
        assert board.add("more").status == "ready"
