"""A vault at rest: nobody writes any more, and whatever came late has been dealt with."""

from __future__ import annotations

import os
import time
from pathlib import Path

from dibs.board import Board
from dibs.store.vault.late_saves import QUIET_SECONDS
from dibs.store.vault.store import VaultStore
from tests.kit.waiting import PATIENCE_SECONDS


def settled(board: Board) -> None:
    """Look until a look finds no late save any more."""
    store = board.store
    assert isinstance(store, VaultStore)
    end = time.monotonic() + PATIENCE_SECONDS
    quiet_since = time.monotonic()
    while time.monotonic() - quiet_since < QUIET_SECONDS + 0.5:
        assert time.monotonic() < end, "late saves keep coming"
        before = _listing(store.root)
        mark = os.path.join(store.root, ".dibs", "late-saves-looked-for")
        if os.path.exists(mark):
            os.utime(mark, (0, 0))
        store.write(lambda t: None)
        if _listing(store.root) != before:
            quiet_since = time.monotonic()
        time.sleep(0.1)


def texts(root: Path, name: str) -> dict[str, str]:
    """Every file of that name in the vault, by its path."""
    found = {str(file.relative_to(root)): file.read_bytes().decode() for file in root.rglob(name)}
    return {path: text for path, text in found.items() if not path.startswith(".dibs/")}


def _listing(root: str) -> list[tuple[str, int, int]]:
    """Every file outside `.dibs`, and every displaced text."""
    found = []
    for place, _, names in os.walk(root):
        if "/.dibs" not in place or place.endswith("/displaced"):
            for name in names:
                one = os.stat(os.path.join(place, name))
                found.append((os.path.join(place, name), one.st_size, one.st_mtime_ns))
    return sorted(found)
