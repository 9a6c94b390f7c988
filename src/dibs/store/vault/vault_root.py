"""The folder of a vault: where a vault may be made, whether it is complete, and whether it has a git remote.

Git removes a folder with its last file, so after another clone's claim and a pull `Needs_Action` may be missing from a
sound vault. An unmounted drive, or a branch without the vault, looks the same, but must not be taken for the removal of
all tasks. The files that were in the folder show which case it is.
"""

from __future__ import annotations

import os

from dibs.errors import Invalid, StoreUnavailable
from dibs.model import READY
from dibs.store.vault.layout import FOLDERS, HIDDEN, INDEX, name_of
from dibs.store.vault.safe_fs import version_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from dibs.store.vault.git.sync import Sync
    from dibs.store.vault.index import Entry

SHOWN_MAX = 3


def has_ready(root: str) -> bool:
    return os.path.isdir(_ready(root))


def is_vault(root: str) -> bool:
    """Whether this folder is a vault: it has the folder `Needs_Action`, or an index."""
    return has_ready(root) or os.path.isfile(os.path.join(root, HIDDEN, INDEX))


def require_suitable(root: str) -> None:
    """Raise unless a vault may be made here, or is one already."""
    if is_vault(root):
        return
    above = root
    while True:
        if above != root and is_vault(above):
            raise Invalid(f"{root} is inside the vault {above}; make the new vault outside of it", field="path")
        if _is_git_dir(above):
            raise Invalid(
                f"{above} is a bare git repository without a work tree; make the vault in a clone of it", field="path"
            )
        if os.path.dirname(above) == above:
            return
        above = os.path.dirname(above)


def restore_ready_folder(
    root: str,
    known: Mapping[str, Entry],
    seen: Iterable[str],
    were_removed: Callable[[list[str]], bool],
) -> None:
    """Make the folder `Needs_Action` again, if each of its files is elsewhere in the vault or was removed by a
    commit."""
    elsewhere = {name_of(path) for path in seen}
    lost = sorted(
        path
        for path, entry in known.items()
        if entry.item is not None and path.startswith(f"{FOLDERS[READY]}/")
        if name_of(path) not in elsewhere
    )
    if lost and not were_removed(lost):
        raise missing(root, lost)
    os.makedirs(_ready(root), exist_ok=True)


def missing(root: str, lost: list[str]) -> StoreUnavailable:
    names = ", ".join(map(name_of, lost[:SHOWN_MAX]))
    more = f" and {len(lost) - SHOWN_MAX} more" if len(lost) > SHOWN_MAX else ""
    what = f", nor its files {names}{more}" if lost else ""
    return StoreUnavailable(
        f"{root} has no folder {FOLDERS[READY]} any more{what}; bring it back or, if its files were removed for good,"
        f" confirm that with: mkdir {_ready(root)}",
        path=root,
    )


class RemoteLookup:
    """The git remote of a vault, found when it is first needed and again when the repository changed."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._signature = self._read_signature()
        #: Whether there may be a remote.
        self.is_clone = self._signature[0]
        self._sync: Sync | None = None

    def get(self) -> Sync | None:
        if not self.is_clone:
            return None
        if self._sync is None:
            from dibs.store.vault.git import sync

            self._sync = sync.find(self._root)
            self.is_clone = self._sync is not None
        return self._sync

    def recheck(self) -> None:
        """Look again if the user has checked out another branch since, or configured an upstream."""
        if self._sync is not None and self._sync.has_no_branch:
            self.close()
        if self._sync is None:
            signature = self._read_signature()
            self.is_clone |= signature != self._signature and signature[0]
            self._signature = signature

    def close(self) -> None:
        if self._sync is not None:
            self._sync.close()
            self._sync = None

    def _read_signature(self) -> tuple[bool, *tuple[tuple[int, int] | None, ...]]:
        """What changes when another branch is checked out or gets an upstream."""
        git = os.path.join(self._root, ".git")
        return os.path.lexists(git), *(version_of(os.path.join(git, name)) for name in ("HEAD", "config"))


def _ready(root: str) -> str:
    return os.path.join(root, FOLDERS[READY])


def _is_git_dir(folder: str) -> bool:
    """By the entries by which git itself recognises one."""
    inside = (os.path.join(folder, name) for name in ("objects", "refs"))
    return os.path.lexists(os.path.join(folder, "HEAD")) and all(map(os.path.isdir, inside))
