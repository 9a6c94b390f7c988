"""Which paths of a repository may become files of a vault, and which name a task.

A pulled tree is anybody's: links, submodules, `..`, `.git` in any spelling, names that are one name on another file
system. And what has a hidden name is often read by programs as what they are to do (plugins, settings, attributes, and
what to ignore: without that, the next push would take along what its owner keeps to themselves); and so do we read our
own settings. All this is left in the tree as it is, and is neither written to disk nor taken from there: that is for
its owner's git.
"""

from __future__ import annotations

import unicodedata

from dibs.config import FILE_NAME as SETTINGS
from dibs.store.vault.layout import APPROVED, ARCHIVE, FOLDERS, HELD, SUFFIX
from dibs.store.vault.safe_fs import unfit_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

#: The hidden name that we do read and write.
SESSIONS = ".dibs-sessions"
FILE_MODES = ("100644", "100755", "100664")
PATH_BYTES_MAX = 1024
DEPTH_MAX = 32

_TASK_FOLDERS = frozenset({*FOLDERS.values(), APPROVED, ARCHIVE})


def why_unfit(path: str, mode: str) -> str | None:
    """Why this entry of a tree is never written to disk; none if it may be."""
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
    alike = folded(name)
    if alike == SETTINGS:
        return "a file of settings for dibs"
    if alike.startswith("git~"):
        return "a name that stands for git's own folder elsewhere"
    why = unfit_name(name)
    return None if why is None else f"a name that {why}"


def folded(path: str) -> str:
    """What two names have in common that are the same on a file system which does not know upper from lower case."""
    shown = "".join(letter for letter in path if unicodedata.category(letter) != "Cf")
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", shown).casefold())


def twins(paths: Iterable[str]) -> set[str]:
    """The paths of which another one is the same but for case."""
    seen: dict[str, str] = {}
    found = set()
    for path in paths:
        # Plain lower case is one name with itself only; the common case costs nothing.
        key = path.lower() if path.isascii() else folded(path)
        other = seen.setdefault(key, path)
        if other != path:
            found |= {other, path}
    return found


def task_name(path: str) -> str | None:
    """The name of the task whose file this is, in whatever folder it lies; none for any other file."""
    if not path.endswith(SUFFIX):
        return None
    place, _, name = path.rpartition("/")
    folder, _, below = place.partition("/")
    if folder not in _TASK_FOLDERS or "/" in below or (below and folder != HELD):
        return None
    return name


def folders_above(path: str) -> Iterable[str]:
    return (path[:at] for at, letter in enumerate(path) if letter == "/")
