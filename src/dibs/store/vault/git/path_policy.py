"""Which paths of a repository dibs writes to disk, and which are task files.

A pulled tree may hold anything: links, submodules, `..`, `.git` in any spelling, names that collide on another file
system. Files with hidden names control programs (plugins, settings, attributes, ignore rules), and a settings file
controls dibs. dibs keeps all these entries in the trees that it commits, but neither writes them to disk nor reads them
there: only the user's git does.
"""

from __future__ import annotations

import unicodedata

from dibs.config import FILE_NAME as SETTINGS
from dibs.store.vault.layout import APPROVED, ARCHIVE, FOLDERS, HELD, SUFFIX
from dibs.store.vault.safe_fs import why_name_unfit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

#: The hidden folder that dibs does read and write.
SESSIONS = ".dibs-sessions"
FILE_MODES = ("100644", "100755", "100664")
PATH_BYTES_MAX = 1024
DEPTH_MAX = 32

_TASK_FOLDERS = frozenset({*FOLDERS.values(), APPROVED, ARCHIVE})


def why_unfit(path: str, mode: str) -> str | None:
    """Why this entry of a tree is never written to disk; None if it may be."""
    if mode == "120000":
        return "a symbolic link"
    if mode == "160000":
        return "a submodule"
    if mode not in FILE_MODES:
        return f"an entry of mode {mode}"
    if len(path.encode(errors="surrogateescape")) > PATH_BYTES_MAX or path.count("/") >= DEPTH_MAX:
        return "a path that is too long"
    parts = path.split("/")
    if parts[0] == SESSIONS and len(parts) == 2:
        del parts[0]
    return next((why for part in parts if (why := _why_unfit(part)) is not None), None)


def _why_unfit(name: str) -> str | None:
    if "\\" in name or not name.isprintable():
        return "a name with control characters, or one that is not UTF-8"
    folded = fold_case(name)
    if folded == SETTINGS:
        return "a file of settings for dibs"
    if folded.startswith("git~"):
        return "a name that means git's own folder on some file systems"
    why = why_name_unfit(name)
    return None if why is None else f"a name that {why}"


def fold_case(path: str) -> str:
    """A key that is equal for two names which a case-insensitive file system does not distinguish."""
    shown = "".join(letter for letter in path if unicodedata.category(letter) != "Cf")
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", shown).casefold())


def case_twins(paths: Iterable[str]) -> set[str]:
    """The paths that differ from another one only by case."""
    seen: dict[str, str] = {}
    found = set()
    for path in paths:
        key = path.lower() if path.isascii() else fold_case(path)
        other = seen.setdefault(key, path)
        if other != path:
            found |= {other, path}
    return found


def task_name(path: str) -> str | None:
    """The file name, if this is a task file, in whatever folder; None for any other file."""
    if not path.endswith(SUFFIX):
        return None
    place, _, name = path.rpartition("/")
    folder, _, below = place.partition("/")
    if folder not in _TASK_FOLDERS or "/" in below or (below and folder != HELD):
        return None
    return name


def folders_above(path: str) -> Iterable[str]:
    return (path[:at] for at, letter in enumerate(path) if letter == "/")
