"""The tokens of a claim, in a file that a worker has for each command it runs: the one it began with, then those that
it was recovered under, by the worker or by the command itself. An environment cannot be changed from outside.
"""

from __future__ import annotations

import os

#: More than anybody writes there.
BYTES_MAX = 1 << 16
DIGITS_MAX = 20
#: The command may have put a link there, or a pipe, and the worker may be allowed more than the command is.
FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def written(path: str) -> list[int]:
    """In order; none if the file is gone, and with it the worker."""
    try:
        with open(os.open(path, os.O_RDONLY | FLAGS), "rb") as file:
            words = file.read(BYTES_MAX).split()
    except OSError:
        return []
    return [int(word) for word in words if word.isdigit() and len(word) < DIGITS_MAX]


def write_down(path: str, token: int) -> None:
    """Only a help: where it cannot be written, what comes under the old token is refused."""
    try:
        file = os.open(path, os.O_WRONLY | os.O_APPEND | FLAGS)
    except OSError:
        return
    try:
        os.write(file, b"%d\n" % token)
    except OSError:
        pass
    finally:
        os.close(file)
