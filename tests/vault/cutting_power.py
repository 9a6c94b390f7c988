"""Two clones of a hub at work; the power of one of them, or of the hub, is cut; then a sync without hands."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from dibs.board import Board
from dibs.config import DEFAULTS
from dibs.errors import DibsError, StoreUnavailable
from dibs.store.vault.locks import OLD_SECONDS
from dibs.store.vault.store import VaultStore
from dibs.testing.invariants import assert_sound
from tests.vault.clones import git
from tests.vault.powercut import CutError, Disk
from tests.vault.sequences import owners_by_the_hub

#: How long the one who works is let work before the power is cut, at most.
WORK_SECONDS = 0.8
ITEMS = 8
UNMOUNT_SECONDS = 30.0
LOCKED_SECONDS = 2 * OLD_SECONDS


def cut_a_clone(disk: Disk, folder: Path, draw: random.Random) -> str | None:
    """What is wrong afterwards, if anything: with a clone whose machine lost power, and its hub elsewhere."""
    return _cut(disk, folder, folder / "hub.git", disk.place / "clone", draw)


def cut_a_hub(disk: Disk, folder: Path, draw: random.Random) -> str | None:
    return _cut(disk, folder, disk.place / "hub.git", folder / "clone", draw)


def _cut(disk: Disk, folder: Path, hub: Path, clone: Path, draw: random.Random) -> str | None:
    for path in (hub, clone, folder / "other"):
        if path.exists():
            shutil.rmtree(path)
    _make(hub, clone, folder / "other")
    subprocess.run(["sync", "-f", str(disk.place)], check=True)
    worker = subprocess.Popen(
        [sys.executable, "-m", "tests.vault.cutting_power", str(clone)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert worker.stdout is not None
    said = [worker.stdout.readline().strip()]
    time.sleep(draw.random() * WORK_SECONDS)
    disk.cut()
    worker.kill()
    said += worker.communicate()[0].splitlines()
    _take_out(disk)
    disk.mount()
    return _judged(hub, clone, folder / "other", [line.split() for line in said if line.endswith(" .")])


def _take_out(disk: Disk) -> None:
    """Once the gits that the worker had started have noticed."""
    end = time.monotonic() + UNMOUNT_SECONDS
    while True:
        try:
            disk.unmount()
            return
        except CutError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


def _make(hub: Path, clone: Path, other: Path) -> None:
    from dibs.store.vault import hub as hubs
    from tests.vault.clones import make_clone

    hubs.make(str(hub))
    for path in (clone, other):
        make_clone(path.parent, path.name, hub)
        with _Opened(path) as board:
            if path == clone:
                for number in range(ITEMS):
                    board.add("one", id=f"x{number}")
            board.sync()


def _judged(hub: Path, clone: Path, other: Path, said: list[list[str]]) -> str | None:
    try:
        with _Opened(clone) as board, _Opened(other) as elsewhere:
            for one in (board, elsewhere, board, elsewhere):
                _patiently(one.sync)
            for what, item, token, *_ in said:
                stands = elsewhere.get(item).item
                owners = owners_by_the_hub(hub, f"{item}.md")
                if stands.token < int(token) or int(token) not in owners:
                    return f"{item} was {what} under {token}; it is {stands.status} under {stands.token}"
                if what == "done" and stands.status != "done":
                    return f"{item} was done under {token}; it is {stands.status}"
            for id in [f"x{number}" for number in range(ITEMS)]:
                here, there = board.get(id).item, elsewhere.get(id).item
                if (here.status, here.token) != (there.status, there.token):
                    return f"{id} is {here.status} {here.token} here and {there.status} {there.token} there"
            session = board.start_session("after").id
            board.add("after", id="after")
            _patiently(lambda: board.claim("after", session=session))
            assert_sound(board)
            assert_sound(elsewhere)
    except (AssertionError, DibsError) as failure:
        return f"{type(failure).__name__}: {failure}"
    fsck = ["git", "-C", str(clone), "fsck", "--no-dangling"]
    found = subprocess.run(fsck, capture_output=True, text=True, check=False)
    return None if found.returncode == 0 else f"fsck: {found.stderr}"


def _patiently(work: Callable[[], object]) -> None:
    """As a loop does it: a lock that was left a moment ago may be of a git that cannot be seen. One on a hub is met by
    whoever pushes first, and a sync may have nothing to push."""
    end = time.monotonic() + LOCKED_SECONDS
    while True:
        try:
            work()
            return
        except StoreUnavailable:
            if time.monotonic() > end:
                raise
            time.sleep(0.5)


class _Opened:
    """A board that keeps nothing of its disk open in the end."""

    def __init__(self, clone: Path) -> None:
        self._board = Board(VaultStore(str(clone), DEFAULTS, create=True), DEFAULTS, actor="tester")

    def __enter__(self) -> Board:
        return self._board

    def __exit__(self, *_: object) -> None:
        self._board.close()


def work(clone: Path) -> None:
    """Claim, finish, add, write beside it and commit as a person does; each end said once it is acknowledged."""
    board = Board(VaultStore(str(clone), DEFAULTS), DEFAULTS, actor="tester")
    session = board.start_session("worker").id
    print("ready.", flush=True)
    for number in range(ITEMS):
        grant = board.claim(f"x{number}", session=session)
        print(f"claimed x{number} {grant.claim.token} .", flush=True)
        (clone / f"Notes-{number}.md").write_text("a person's\n")
        git(clone, "add", "-A")
        git(clone, "commit", "-qm", "a person's")
        board.done(f"x{number}", session=session)
        print(f"done x{number} {grant.claim.token} .", flush=True)
        board.sync()


if __name__ == "__main__":
    work(Path(sys.argv[1]))
