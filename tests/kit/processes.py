"""Other processes' children: found, and waited for although they are not ours."""

from __future__ import annotations

import os
import signal
import subprocess
import time

POLL_SECONDS = 0.005
KILLED_SECONDS_MAX = 10.0


def children(parent: int) -> list[int]:
    return [pid for pid, of, state in _all() if of == parent and state != "Z"]


def alive(pids: list[int]) -> list[int]:
    """Those that are still at work. One that nobody has buried holds nothing any more."""
    working = {pid for pid, _, state in _all() if state != "Z"}
    return [pid for pid in pids if pid in working]


def await_gone(pids: list[int], patience_seconds: float) -> None:
    """Wait for them to end by themselves, then kill those that have not."""
    left = left_after(patience_seconds, pids)
    for pid in left:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    stuck = left_after(KILLED_SECONDS_MAX, left)
    assert not stuck, f"killed and still there: {stuck}"


def left_after(patience_seconds: float, pids: list[int]) -> list[int]:
    """Those that have not ended by themselves within that time."""
    end = time.monotonic() + patience_seconds
    while pids and time.monotonic() < end:
        time.sleep(POLL_SECONDS)  # bounded polling: only a parent can wait for a process
        pids = alive(pids)
    return pids


def _all() -> list[tuple[int, int, str]]:
    """Pid, parent and state of every process."""
    if not os.path.exists("/proc/self/stat"):
        listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,state="], capture_output=True, text=True, check=True)
        return [(int(pid), int(of), state[0]) for pid, of, state in map(str.split, listed.stdout.splitlines())]
    found = (_stat(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return [one for one in found if one is not None]


def _stat(pid: int) -> tuple[int, int, str] | None:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            # The name before it may hold anything but ends with the last bracket.
            state, of = file.read().rpartition(")")[2].split()[:2]
    except (FileNotFoundError, ProcessLookupError):
        return None
    return pid, int(of), state


def is_stopped(pid: int) -> bool:
    """A signal to stop takes effect some time after it was sent."""
    return (pid, "T") in [(one, state) for one, _, state in _all()]


def with_variable(name: str, value: str) -> list[int]:
    """Those in whose environment this is, and that are at work: whoever was started by one of them has it as well."""
    wanted = f"{name}={value}".encode()
    return [pid for pid, _, state in _all() if state != "Z" and wanted in _environment(pid)]


def command(pid: int) -> list[str]:
    return [word.decode(errors="replace") for word in _words(pid, "cmdline")[:-1]]


def _environment(pid: int) -> list[bytes]:
    return _words(pid, "environ")


def _words(pid: int, name: str) -> list[bytes]:
    """Those of a file that ends each with a zero byte; none if the process is gone."""
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read().split(b"\0")
    except OSError:
        return []
