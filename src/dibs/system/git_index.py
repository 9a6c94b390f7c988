"""Whether a file or a folder comes from a commit of the repository in whose work tree it lies.

The author of a commit decides the content of such a file, and a checkout makes the caller its owner. This module reads
git's index and never runs git, because the settings of a repository can make git run any command. An index whose bytes
do not contain the name does not track the file, which settles nearly every case.
"""

from __future__ import annotations

import os
import stat

from dibs.system import trust

#: The versions of git's index in which each entry has its whole path.
WHOLE_PATHS = (2, 3)
BYTES_MAX = 1 << 26
HEADER = 12
#: The size of an entry before the hash of its content.
STATS = 40
#: The size of a hash: SHA-1, SHA-256. The index does not say which.
HASHES = (20, 32)
EXTENDED, LENGTH_MAX = 0x4000, 0xFFF
#: Case-insensitive file systems treat this character as an s.
LONG_S = "\u017f".encode()
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class UnknownFormat(Exception):
    """Why the index cannot be parsed."""


def problem(path: str, top: str, git_dir: str) -> str | None:
    """Why `path` is not trusted: git tracks it, or may track it, in the work tree `top` with this git directory."""
    inner = os.path.relpath(trust.canonical(path), os.path.realpath(top))
    try:
        tracked = any(_tracks(data, inner) for data in _indexes(git_dir))
    except OSError as error:
        return f"may come from a commit of this repository, whose index cannot be read ({error.strerror})"
    except UnknownFormat as reason:
        return f"may come from a commit of this repository, whose index {reason}"
    return "comes from a commit of this repository" if tracked else None


def _indexes(git_dir: str) -> list[bytes]:
    """The index, and the shared ones of a split index."""
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
            raise UnknownFormat("is not a regular file")
        with open(descriptor, "rb", closefd=False) as file:
            data = file.read(BYTES_MAX + 1)
    finally:
        os.close(descriptor)
    if len(data) > BYTES_MAX:
        raise UnknownFormat(f"is larger than {BYTES_MAX >> 20} MiB")
    if data[:4] != b"DIRC" or len(data) < HEADER:
        raise UnknownFormat("is not a git index")
    if int.from_bytes(data[4:8]) not in WHOLE_PATHS:
        raise UnknownFormat(f"has version {int.from_bytes(data[4:8])}, which does not hold whole paths")
    return data


def _tracks(data: bytes, inner: str) -> bool:
    """Whether an index has an entry for this path, for a path below it, or for a folder above it, which a sparse index
    has in place of the files in that folder."""
    name = os.fsencode(os.path.basename(inner)).lower()
    if name not in data.lower().replace(LONG_S, b"s") and b"sdir" not in data:
        return False
    read = [paths for size in HASHES if (paths := _paths(data, size)) is not None]
    if not read:
        raise UnknownFormat("has entries of an unknown format")
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
        # Padded with at least one NUL to a multiple of eight bytes.
        at += (end - at + 8) & ~7
    return paths


def _folded(path: bytes) -> str:
    """The same for all paths that some file system treats as equal."""
    from unicodedata import normalize

    return normalize("NFC", normalize("NFC", os.fsdecode(path)).casefold())
