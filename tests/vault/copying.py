"""A vault with one mistake: a file is not moved, but copied and then removed."""

from __future__ import annotations

import os
from typing import Any

from dibs.board import Board
from dibs.store.vault.disk import Disk
from dibs.store.vault.store import VaultStore
from dibs.testing import vault


class Copying(Disk):
    def move(self, path: str, to: str) -> None:
        os.makedirs(os.path.dirname(os.path.join(self.root, to)), exist_ok=True)
        self.create(to, self.read(path)[0])
        self.discard(path, self.read(path)[0])


def open_board(**kwargs: Any) -> Board:
    board = vault.open_board(**kwargs)
    assert isinstance(board.store, VaultStore)
    board.store._disk = Copying(board.store.root)
    return board
