"""Vaults with one mistake each."""

from __future__ import annotations

import os
from typing import Any

from dibs.board import Board
from dibs.store.vault.disk import Disk
from dibs.store.vault.store import VaultStore
from dibs.testing import vault


class Copying(Disk):
    """A file is not moved, but copied and then removed."""

    def move(self, path: str, to: str) -> None:
        os.makedirs(os.path.dirname(os.path.join(self.root, to)), exist_ok=True)
        self.create(to, self.read(path)[0])
        self.discard(path, self.read(path)[0])


class Overwriting(Disk):
    """A text is written over whatever is there."""

    def exchange(self, path: str, data: bytes, was: bytes) -> None:
        self._expected(*self._at(path), was)
        draft = os.path.join(self.root, ".dibs", f"{os.urandom(8).hex()}.new")
        with open(draft, "wb") as file:
            file.write(data)
        os.rename(draft, os.path.join(self.root, path))


def copying(**kwargs: Any) -> Board:
    return _with(Copying, kwargs)


def overwriting(**kwargs: Any) -> Board:
    return _with(Overwriting, kwargs)


def _with(disk: type[Disk], kwargs: dict[str, Any]) -> Board:
    board = vault.open_board(**kwargs)
    assert isinstance(board.store, VaultStore)
    board.store._disk = disk(board.store.root)
    return board
