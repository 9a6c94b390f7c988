"""Removes what dibs keeps about a vault in its folder `.dibs`. The markdown files are the board, and stay."""

from __future__ import annotations

import os

from dibs.store.sqlite import removal
from dibs.store.vault.disk import Disk
from dibs.store.vault.git.worktree import STAMPS
from dibs.store.vault.late_saves import FOLDER as DISPLACED
from dibs.store.vault.layout import HIDDEN, INDEX
from dibs.store.vault.safe_fs import TEMPORARY
from dibs.store.vault.write_cycle import LATE_SAVES_MARK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def remove(root: str, wait_seconds: float, check: Callable[[], None]) -> list[str]:
    """Remove the index of the vault at `root`, unless `check` refuses it; return the removed paths. A folder with texts
    of editors that saved late stays."""
    root = os.path.abspath(root)
    folder = os.path.join(root, HIDDEN)
    # Before the lock is taken: a read of a vault records what it finds changed in the files.
    check()
    removed = removal.remove(os.path.join(folder, INDEX), wait_seconds, lambda: _sync_folders(root))
    for name in (STAMPS, LATE_SAVES_MARK, ".gitignore"):
        removed += removal.unlink_files(os.path.join(folder, name), ("",))
    for inner in (DISPLACED, TEMPORARY, HIDDEN):
        removed += removal.remove_folder(os.path.join(root, inner))
    return removed


def _sync_folders(root: str) -> None:
    """Without the log in the index, nothing brings files back after a power cut."""
    disk = Disk(root)
    try:
        disk.sync_all()
    finally:
        disk.close()
