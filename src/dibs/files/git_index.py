"""Whether a file or a folder was committed to the repository in whose work tree it lies.

Whoever wrote a commit decided what such a file says, and a checkout makes it the caller's own. Git's index is read
here, and git is never run: the settings of a repository can make git run any command. An index without the name in its
bytes does not track it, and that is all that is asked of nearly every repository.
"""

from __future__ import annotations

import os
import stat

from dibs.files import trust

#: Versions of git's index in which each entry has its whole path.
WHOLE_PATHS = (2, 3)
BYTES_MAX = 1 << 26
HEADER = 12
#: Of an entry, before the hash of its content.
STATS = 40
#: How long a hash is: SHA-1, SHA-256. The index does not say which.
HASHES = (20, 32)
EXTENDED, LENGTH_MAX = 0x4000, 0xFFF
#: Which file systems that fold case take for an s.
LONG_S = "\u017f".encode()
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class Unclear(Exception):
    """The index does not tell, for this reason."""


def problem(path: str, top: str, git_dir: str) -> str | None:
    """Why what lies at `path` is not believed: it is tracked by git, in the work tree `top` with this git directory, or
    may be."""
    inner = os.path.relpath(trust.canonical(path), os.path.realpath(top))
    try:
        tracked = any(_names(data, inner) for data in _indexes(git_dir))
    except OSError as error:
        return f"may have been committed to this repository, whose index cannot be read ({error.strerror})"
    except Unclear as reason:
        return f"may have been committed to this repository, whose index {reason}"
    return "was committed to this repository, by whoever wrote the commit" if tracked else None


def _indexes(git_dir: str) -> list[bytes]:
    """The index, and those that it may be split into."""
    try:
        own = _read(os.path.join(git_dir, "index"))
    except FileNotFoundError:
        return []
    if b"link" not in own:
        return [own]
    shared = [name for name in os.listdir(git_dir) if name.startswith("sharedindex.")]
    return [own, *(_read(os.path.join(git_dir, name)) for name in shared)]


def _read(path: str) -> bytes:
    descriptor = os.open(path, _FLAGS)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise Unclear("is no regular file")
        with open(descriptor, "rb", closefd=False) as file:
            data = file.read(BYTES_MAX + 1)
    finally:
        os.close(descriptor)
    if len(data) > BYTES_MAX:
        raise Unclear(f"is larger than {BYTES_MAX >> 20} MiB")
    if data[:4] != b"DIRC" or len(data) < HEADER:
        raise Unclear("is none")
    if int.from_bytes(data[4:8]) not in WHOLE_PATHS:
        raise Unclear(f"has version {int.from_bytes(data[4:8])}, which does not hold whole paths")
    return data


def _names(data: bytes, inner: str) -> bool:
    """Whether an index has an entry for this path, for something below it, or for a folder around it, which a sparse
    index has in place of what lies in there."""
    name = os.fsencode(os.path.basename(inner)).lower()
    if name not in data.lower().replace(LONG_S, b"s") and b"sdir" not in data:
        return False
    read = [paths for size in HASHES if (paths := _paths(data, size)) is not None]
    if not read:
        raise Unclear("has entries of an unknown form")
    wanted = _folded(os.fsencode(inner)) + "/"
    for path in (path for paths in read for path in paths):
        entry = _folded(path)
        if f"{entry}/".startswith(wanted) or (entry.endswith("/") and wanted.startswith(entry)):
            return True
    return False


def _paths(data: bytes, hash_size: int) -> list[bytes] | None:
    """The path of each entry; None if the entries do not have hashes of this size."""
    paths, at = [], HEADER
    for _ in range(int.from_bytes(data[8:12])):
        start = at + STATS + hash_size + 2
        flags = int.from_bytes(data[start - 2 : start])
        start += 2 if flags & EXTENDED else 0
        end = data.find(b"\0", start)
        if end < 0 or min(end - start, LENGTH_MAX) != flags & LENGTH_MAX:
            return None
        paths.append(data[start:end])
        # Filled up with at least one NUL to a multiple of eight bytes.
        at += (end - at + 8) & ~7
    return paths


def _folded(path: bytes) -> str:
    """Equal for paths that some file system takes for the same."""
    from unicodedata import normalize

    return normalize("NFC", normalize("NFC", os.fsdecode(path)).casefold())
