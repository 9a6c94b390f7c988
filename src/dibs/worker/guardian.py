"""Outlives a worker that was killed, and ends the process groups it leaves behind.

A worker starts one (`python -I -S guardian.py`) and tells it on its stdin which groups there are: `+123` for a new one,
which is answered, `-123` for one that is gone. When the worker is gone, however it went, its end of the pipe is closed:
then every group that is left is ended, politely first. It knows nothing but numbers, and imports nothing of dibs.
"""

from __future__ import annotations

import os
import signal
import sys
import time

#: So long a group has to leave by itself.
GRACE_SECONDS = 3.0
LOOK_SECONDS = 0.05
#: 0, 1 and what is below mean others than one group to `kill`.
GROUP_MIN = 2
GROUP_MAX = 2**31 - 1


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    end(listen())


def listen() -> set[int]:
    """The groups that were there when the worker was gone."""
    groups: set[int] = set()
    for line in sys.stdin.buffer:
        # A worker that is killed may leave half a line, and half a number is another number.
        if not line.endswith(b"\n") or not line[1:-1].isdigit():
            continue
        group = int(line[1:])
        if line.startswith(b"-"):
            groups.discard(group)
        elif line.startswith(b"+") and GROUP_MIN <= group <= GROUP_MAX and group != os.getpgid(0):
            groups.add(group)
            try:
                os.write(1, b"known\n")
            except OSError:
                pass  # nobody waits for it any more
    return groups


def end(groups: set[int]) -> None:
    left = {group for group in groups if send(group, signal.SIGTERM)}
    until = time.monotonic() + GRACE_SECONDS
    while left and time.monotonic() < until:
        time.sleep(LOOK_SECONDS)
        left = {group for group in left if send(group, 0)}
    for group in left:
        send(group, signal.SIGKILL)


def send(group: int, number: int) -> bool:
    """Whether there was anybody to hear it."""
    try:
        os.killpg(group, number)
    except OSError:
        return False
    return True


if __name__ == "__main__":
    main()
