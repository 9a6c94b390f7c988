"""The folder that a vault is: where one may be made, and what if the folder that tasks are taken from is gone.

Git removes a folder with its last file, so after somebody's claim and a pull it is gone, and nothing else is wrong. But
a drive that is not there and a branch without the vault look the same, and are no reason to believe that all tasks were
taken away. What tells them apart is what became of the files.
"""

from __future__ import annotations

import os

from dibs.errors import Invalid, StoreUnavailable
from dibs.model import READY
from dibs.store.vault.layout import FOLDERS, HIDDEN, INDEX

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from dibs.store.vault.file_index import Entry

SHOWN_MAX = 3


def has_ready(root: str) -> bool:
    return os.path.isdir(_ready(root))


def is_vault(root: str) -> bool:
    """Whether this folder is one: it has the folder that tasks are taken from, or an index."""
    return has_ready(root) or os.path.isfile(os.path.join(root, HIDDEN, INDEX))


def require_fit(root: str) -> None:
    """That a vault may be made here. One that is there already may stay."""
    if is_vault(root):
        return
    above = root
    while True:
        if above != root and is_vault(above):
            raise Invalid(f"{root} lies in a vault, {above}: a vault is made beside another, not in it", field="path")
        if _is_git_dir(above):
            raise Invalid(
                f"{above} is a bare git repository, with no work tree: make the vault in a clone of it", field="path"
            )
        if os.path.dirname(above) == above:
            return
        above = os.path.dirname(above)


def make_again(
    root: str,
    known: Mapping[str, Entry],
    seen: Iterable[str],
    were_removed: Callable[[list[str]], bool],
) -> None:
    """Make the folder, if every file that lay in it lies elsewhere in the vault, or was removed by a commit."""
    elsewhere = {path.rpartition("/")[2] for path in seen}
    lost = sorted(
        path
        for path, entry in known.items()
        if entry.item is not None and path.startswith(f"{FOLDERS[READY]}/")
        if path.rpartition("/")[2] not in elsewhere
    )
    if lost and not were_removed(lost):
        raise missing(root, lost)
    os.makedirs(_ready(root), exist_ok=True)


def missing(root: str, lost: list[str]) -> StoreUnavailable:
    names = ", ".join(path.rpartition("/")[2] for path in lost[:SHOWN_MAX])
    more = f" and {len(lost) - SHOWN_MAX} more" if len(lost) > SHOWN_MAX else ""
    what = f", nor what lay in it: {names}{more}" if lost else ""
    return StoreUnavailable(
        f"{root} has no folder {FOLDERS[READY]} any more{what}; bring it back or, if all of it was taken away for good,"
        f" say so with: mkdir {_ready(root)}",
        path=root,
    )


def _ready(root: str) -> str:
    return os.path.join(root, FOLDERS[READY])


def _is_git_dir(folder: str) -> bool:
    """By what git itself knows one by."""
    inside = (os.path.join(folder, name) for name in ("objects", "refs"))
    return os.path.lexists(os.path.join(folder, "HEAD")) and all(map(os.path.isdir, inside))
