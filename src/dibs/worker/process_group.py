"""A command as a process group: started only once the guardian knows the group, and ended as a whole."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

from dibs.system import owner
from dibs.worker import guardian

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dibs.model import Owner

#: How long a group has to exit after SIGTERM.
GRACE_SECONDS = 3.0
#: How long the system may take to end a process after SIGKILL.
KILLED_SECONDS = 2.0
LOOK_SECONDS_MIN = 0.002
LOOK_SECONDS_MAX = 0.05
#: Waits for a line on stdin, then becomes the command. The worker writes the line once the guardian knows the group, so
#: no command runs for a worker that was killed before that.
STUB = 'read -r dibs_input && dibs_input=$1 && shift && exec "$@" <"$dibs_input"'
#: The stub has a random name: an error message under that name means that the command was never started.
NAME_BYTES = 4


class Guard:
    """The worker's end of the pipe to its guardian. A guardian that was killed is replaced."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._groups: set[int] = set()
        self._process: subprocess.Popen[bytes] | None = None

    def add(self, group: int) -> None:
        with self._lock:
            self._groups.add(group)
            if self._process is None or not self._announce(group):
                self._start()

    def remove(self, group: int) -> None:
        with self._lock:
            self._groups.discard(group)
            if self._process is not None:
                self._write(b"-%d\n" % group)

    def close(self) -> None:
        """Close the pipe: the guardian ends the groups that are left, and exits."""
        with self._lock:
            process, self._process = self._process, None
        if process is not None:
            _close(process)

    def _start(self) -> None:
        if self._process is not None:
            _close(self._process)
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", guardian.__file__],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        if not all(self._announce(group) for group in self._groups):
            raise OSError("the guardian process of the command does not answer")

    def _announce(self, group: int) -> bool:
        assert self._process is not None
        assert self._process.stdout is not None
        return self._write(b"+%d\n" % group) and bool(self._process.stdout.readline())

    def _write(self, line: bytes) -> bool:
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line)
        except OSError:
            return False
        return True


class ProcessGroup:
    """The processes of one command."""

    def __init__(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        standard_input: str,
        guard: Guard,
        *,
        folder: str | None = None,
        announce: Callable[[int], None] = lambda group: None,
    ) -> None:
        """The command runs in `folder`. `announce` is called with the number of the group before the command runs."""
        self._guard = guard
        self._name = f"dibs-{os.urandom(NAME_BYTES).hex()}"
        self._ending, self._is_over = threading.Lock(), False
        self.process = subprocess.Popen(
            ["/bin/sh", "-c", STUB, self._name, standard_input, *arguments],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            cwd=folder,
            # Without a terminal: a command that prompts there would wait for ever.
            start_new_session=True,
        )
        assert self.process.stdin is not None
        try:
            guard.add(self.process.pid)
            announce(self.process.pid)
            self.process.stdin.write(b"\n")
        except BrokenPipeError:
            pass  # the stub has exited, which `wait` reports
        except BaseException:
            self.end()
            for pipe in (self.process.stdout, self.process.stderr):
                if pipe is not None:
                    pipe.close()
            raise
        finally:
            self.process.stdin.close()

    def wait(self, seconds: float) -> int | None:
        """The exit code of the command; None if it is still running."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def start_error(self, output: str) -> str | None:
        """Why the command could not be started, if its output says so."""
        mark = f"{self._name}: "
        return output.splitlines()[0].removeprefix(mark) if output.startswith(mark) else None

    def end(self) -> None:
        """End the processes that are left, first with SIGTERM, then with SIGKILL. Concurrent callers wait for it."""
        with self._ending:
            if self._is_over:
                return  # the number may belong to another group by now
            try:
                self._end()
            except BaseException:  # interrupted
                self._send(signal.SIGKILL)
                self._wait_until_gone(KILLED_SECONDS)
                raise
            finally:
                self._is_over = True
                self._guard.remove(self.process.pid)

    def _end(self) -> None:
        if not self._wait_until_gone(0):
            self._send(signal.SIGTERM)
            if not self._wait_until_gone(GRACE_SECONDS):
                self._send(signal.SIGKILL)
                self._wait_until_gone(KILLED_SECONDS)

    def _wait_until_gone(self, seconds: float) -> bool:
        until, pause = time.monotonic() + seconds, LOOK_SECONDS_MIN
        while True:
            self.process.poll()
            # The number is not reused while the group has a process.
            if not self._send(0):
                return True
            if time.monotonic() >= until:
                return False
            time.sleep(pause)
            pause = min(2 * pause, LOOK_SECONDS_MAX)

    def _send(self, number: int) -> bool:
        try:
            os.killpg(self.process.pid, number)
        except OSError:
            return False
        return True


def is_running(group: int, leader: Owner | None) -> bool:
    """Whether a process of the group is alive. `leader` was its first process, if the system tells processes apart."""
    if leader is not None:
        return owner.is_group_alive(leader)
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # alive, and another user's
    return True


def _close(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    try:
        process.wait(2 * GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
