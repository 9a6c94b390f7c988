"""A command as a process group: begun only when the guardian knows of it, and ended as a whole."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

from dibs.worker import guardian

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: So long a group has to leave by itself before it is killed.
GRACE_SECONDS = 3.0
#: What was killed is gone at once, unless the system is busy with it.
KILLED_SECONDS = 2.0
LOOK_SECONDS_MIN = 0.002
LOOK_SECONDS_MAX = 0.05
#: Waits for a line, which comes when the guardian knows the group, then becomes the command. If the worker is killed
#: before, the line never comes.
STUB = 'read -r dibs_input && dibs_input=$1 && shift && exec "$@" <"$dibs_input"'
#: What the stub calls itself, and nobody else does: a complaint under this name says that the command never began.
NAME_BYTES = 4


class Guard:
    """A worker's side of its guardian; one that was killed is replaced."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._groups: set[int] = set()
        self._process: subprocess.Popen[bytes] | None = None

    def know(self, group: int) -> None:
        with self._lock:
            self._groups.add(group)
            if self._process is None or not self._told(group):
                self._start()

    def forget(self, group: int) -> None:
        with self._lock:
            self._groups.discard(group)
            if self._process is not None:
                self._write(b"-%d\n" % group)

    def close(self) -> None:
        """Let it go; it ends what is still left, and then itself."""
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
        if not all(self._told(group) for group in self._groups):
            raise OSError("the guardian of the command's processes does not answer")

    def _told(self, group: int) -> bool:
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


class Group:
    """The processes of one command."""

    def __init__(
        self, arguments: Sequence[str], environment: Mapping[str, str], standard_input: str, guard: Guard
    ) -> None:
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
            # Also without the terminal: a command that asks something there would wait for ever.
            start_new_session=True,
        )
        assert self.process.stdin is not None
        try:
            guard.know(self.process.pid)
            self.process.stdin.write(b"\n")
        except BrokenPipeError:
            pass  # it is gone already, which will be seen
        except BaseException:
            self.end()
            for pipe in (self.process.stdout, self.process.stderr):
                if pipe is not None:
                    pipe.close()
            raise
        finally:
            self.process.stdin.close()

    def wait(self, seconds: float) -> int | None:
        """The exit code of the command itself; None if it goes on."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def complaint(self, said: str) -> str | None:
        """Why the command could not begin, if that is what was said; it said nothing itself then."""
        mark = f"{self._name}: "
        return said.splitlines()[0].removeprefix(mark) if said.startswith(mark) else None

    def end(self) -> None:
        """Whatever is left of it, politely first; whoever else asks for it waits until it is so."""
        with self._ending:
            if self._is_over:
                return  # its number may be another group's by now
            try:
                self._end()
            except BaseException:  # somebody has no patience
                self._send(signal.SIGKILL)
                self._gone_after(KILLED_SECONDS)
                raise
            finally:
                self._is_over = True
                self._guard.forget(self.process.pid)

    def _end(self) -> None:
        if not self._gone_after(0):
            self._send(signal.SIGTERM)
            if not self._gone_after(GRACE_SECONDS):
                self._send(signal.SIGKILL)
                self._gone_after(KILLED_SECONDS)

    def _gone_after(self, seconds: float) -> bool:
        until, pause = time.monotonic() + seconds, LOOK_SECONDS_MIN
        while True:
            self.process.poll()
            # The number stays this group's as long as anybody is in it.
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


def _close(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    try:
        process.wait(2 * GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
