"""Vaults with one mistake each."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from dibs.board import Board
from dibs.store.vault.disk import Disk
from dibs.store.vault.plan import Change
from dibs.store.vault.redo_log import Redo, RedoLog
from dibs.store.vault.safe_fs import Stamp, stamp_of
from dibs.store.vault.store import VaultStore
from tests.kit import vault


class Copying(Disk):
    """A file is not moved, but copied and then removed."""

    def move(self, path: str, to: str) -> None:
        os.makedirs(os.path.dirname(os.path.join(self.root, to)), exist_ok=True)
        self.create(to, self.read(path)[0])
        self.discard(path, self.read(path)[0])


class Overwriting(Disk):
    """A text is written over whatever is there."""

    def exchange(self, path: str, data: bytes, was: bytes, read: Stamp | None = None) -> Stamp:
        self._require_content(*self._open(path), was)
        draft = os.path.join(self.root, ".dibs", f"{os.urandom(8).hex()}.new")
        with open(draft, "wb") as file:
            file.write(data)
        put = stamp_of(os.stat(draft))
        os.rename(draft, os.path.join(self.root, path))
        return put


class Volatile(Disk):
    """What was moved is left to the system to bring to the disk."""

    def sync(self, folders: Iterable[str] = ()) -> None:
        pass


def copying(**kwargs: Any) -> Board:
    return _with(Copying, kwargs)


def overwriting(**kwargs: Any) -> Board:
    return _with(Overwriting, kwargs)


def volatile(**kwargs: Any) -> Board:
    board = _with(Volatile, kwargs)
    assert isinstance(board.store, VaultStore)
    # SQLite would bring the whole journal of the file system to the disk, and with it everything before.
    board.store.engine.connection().execute("PRAGMA synchronous = OFF").fetchall()
    return board


def unlogged(**kwargs: Any) -> Board:
    """Folders are not synced, and nothing is logged in place of that."""

    def put(self: RedoLog, change: Change, stamp: Stamp) -> bool:
        return True

    RedoLog.put = put  # type: ignore[method-assign]  # in a process of its own
    return vault.open_board(**kwargs)


def unread_log(**kwargs: Any) -> Board:
    """What is in the log is not brought back."""

    def find_lost(self: RedoLog, seen: Mapping[str, Stamp]) -> list[Redo]:
        return []

    RedoLog.find_lost = find_lost  # type: ignore[method-assign]  # in a process of its own
    return vault.open_board(**kwargs)


def _with(disk: type[Disk], kwargs: dict[str, Any]) -> Board:
    board = vault.open_board(**kwargs)
    assert isinstance(board.store, VaultStore)
    board.store.cycle.disk = disk(board.store.root)
    return board
