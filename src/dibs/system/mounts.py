"""Which file system a path lies on."""

from __future__ import annotations

import os

#: How the kernel writes the characters of a mount point that would break its table.
_ESCAPES = (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\"))


def filesystem_type(path: str) -> str:
    """The type of the innermost mount that holds this path, such as `ext4`; empty where the system does not say."""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read().splitlines()
    except OSError:
        return ""
    inside = os.path.realpath(path).rstrip("/") + "/"
    best, kind = "", ""
    for line in lines:
        mount, _, source = line.partition(" - ")
        point = mount.split(" ")[4]
        for escape, character in _ESCAPES if "\\" in point else ():
            point = point.replace(escape, character)
        if len(point) >= len(best) and inside.startswith(point.rstrip("/") + "/"):
            best, kind = point, source.split(" ")[0]
    return kind
