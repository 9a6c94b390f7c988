"""The free space of the disk that a file is on."""

from __future__ import annotations

import os

#: Below this a disk counts as full: the largest request that a board accepts would not fit twice.
FREE_BYTES_MIN = 16_000_000


def free_bytes(path: str) -> int:
    """What an ordinary user can still write on the disk of this file or folder."""
    found = os.statvfs(path)
    return found.f_bavail * found.f_frsize


def is_read_only(path: str) -> bool:
    return bool(os.statvfs(path).f_flag & os.ST_RDONLY) or not os.access(path, os.W_OK)


def shortage(path: str) -> str | None:
    """What to say about a disk that is full or nearly so."""
    free = free_bytes(path)
    if free >= FREE_BYTES_MIN:
        return None
    return f"the disk of {path} has {free / 1e6:.1f} MB left, and dibs needs {FREE_BYTES_MIN / 1e6:.0f} MB"
