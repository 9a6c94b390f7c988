"""A process that outlives a killed worker, and ends the process groups that the worker leaves behind.

A worker starts one (`python -I -S guardian.py`) and writes the process groups to its stdin: `+123` for a new one, which
is acknowledged, `-123` for one that has ended. When the worker exits, however that happens, the pipe is closed, and the
guardian ends every group that is left: first with SIGTERM, then with SIGKILL. It imports nothing of dibs.
"""

from __future__ import annotations

import os
import signal
import sys
import time

#: How long a group has to exit after SIGTERM.
GRACE_SECONDS = 3.0
LOOK_SECONDS = 0.05
#: To `kill`, 0, 1 and negative numbers mean something else than one group.
GROUP_MIN = 2
GROUP_MAX = 2**31 - 1


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    end(listen())


def listen() -> set[int]:
    """The groups that were left when the worker exited."""
    groups: set[int] = set()
    for line in sys.stdin.buffer:
        # A killed worker may leave half a line, and half a number is the number of another group.
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
                pass  # the worker has exited
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
    """Send a signal; return whether the group still has processes."""
    try:
        os.killpg(group, number)
    except OSError:
        return False
    return True


if __name__ == "__main__":
    main()
