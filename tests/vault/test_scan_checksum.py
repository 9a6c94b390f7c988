"""The number by which all files are compared with the index at once: another one whenever any file is."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from dibs.board import Board
from dibs.store.vault.scan import Scan, checksum_of
from dibs.store.vault.store import VaultStore
from tests.vault.conftest import move, put


def marks(board: Board) -> tuple[int | None, int]:
    """Of the files, and of what the index knows."""
    store = board.store
    assert isinstance(store, VaultStore)
    known: int = store.read(lambda t: t.checksum())  # type: ignore[attr-defined]
    return store.cycle.disk.checksum(), known


def touched(root: Path) -> None:
    os.utime(root / "Needs_Action/a.md", ns=(1, 1))


def swapped(root: Path) -> None:
    move(root, "Needs_Action/a.md", "Needs_Action/c.md")
    move(root, "Needs_Action/b.md", "Needs_Action/a.md")
    move(root, "Needs_Action/c.md", "Needs_Action/b.md")


CHANGES: dict[str, Callable[[Path], object]] = {
    "saved in place": lambda root: put(root, "Needs_Action/a.md", "# B\n"),
    "touched": touched,
    "new": lambda root: put(root, "Needs_Action/c.md"),
    "gone": lambda root: os.unlink(root / "Needs_Action/a.md"),
    "moved": lambda root: move(root, "Needs_Action/a.md", "Done/a.md"),
    "named anew": lambda root: move(root, "Needs_Action/a.md", "Needs_Action/c.md"),
    "names swapped": swapped,
    "taken by somebody": lambda root: move(root, "Needs_Action/a.md", "In_Progress/local/a.md"),
    "half moved": lambda root: move(root, "Needs_Action/a.md", "Done/.dibs-move-0123456789abcdef-a.md"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_every_change_changes_it_and_a_look_makes_both_the_same(
    board: Board, root: Path, change: Callable[[Path], object]
) -> None:
    put(root, "Needs_Action/a.md", "# A\n")
    put(root, "Needs_Action/b.md", "# B\n")
    put(root, "Needs_Action/ignored.txt")
    os.mkfifo(root / "Needs_Action/fifo.md")
    before, known = marks(board)
    assert before == known
    change(root)
    store = board.store
    assert isinstance(store, VaultStore)
    assert store.cycle.disk.checksum() != before
    board.list()
    now, known = marks(board)
    assert now == known


def test_it_is_the_sum_over_what_a_scan_finds(board: Board, root: Path) -> None:
    for number in range(20):
        put(root, f"Needs_Action/{number}.md")
    session = board.start_session("ann").id
    board.next(session=session, n=3)
    store = board.store
    assert isinstance(store, VaultStore)
    found = Scan(store.cycle.disk._root).found
    assert len(found) == 20
    assert store.cycle.disk.checksum() == sum(checksum_of(path, stamp) for path, stamp in found.items())
