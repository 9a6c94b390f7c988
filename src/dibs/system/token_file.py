"""The tokens of a claim, in a file that a worker makes for each command: the first one, then those of recoveries
by the worker or by the command. The environment of a running command cannot be changed.
"""

from __future__ import annotations

import os

#: The most that is read: a file that grew larger was not written by dibs.
BYTES_MAX = 1 << 16
DIGITS_MAX = 20
#: The command may have put a link or a pipe there, and the worker may have more rights than the command.
FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def read(path: str) -> list[int]:
    """The tokens in order; an empty list if the worker has exited and removed the file."""
    try:
        with open(os.open(path, os.O_RDONLY | FLAGS), "rb") as file:
            words = file.read(BYTES_MAX).split()
    except OSError:
        return []
    return [int(word) for word in words if word.isdigit() and len(word) < DIGITS_MAX]


def append(path: str, token: int) -> None:
    """Best effort: if this fails, a call under the old token is refused."""
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
