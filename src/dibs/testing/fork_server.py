"""The green room: a process in which everything is imported, and which forks an actor whenever one is called.

To start Python and import a store's driver costs many times what a fork does. The room opens no board and starts no
thread, so that an actor out of it is as fresh as one that was started. It ends with the process that called it, and
its actors with their orders. A room can fork other programs than actors: any function of a module that it imports.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ACTOR = "dibs.testing.actor:main"
#: What actors import late, whatever their board is.
MODULES = ("dibs.testing.scenes", "dibs.testing.storm")
CALL_BYTES_MAX, LINE_BYTES_MAX = 1 << 16, 64
STOPPED = b"stopped"
_rooms: dict[tuple[int, str], Room] = {}


class Called:
    """An actor's process, a child of its room, which tells what becomes of it."""

    def __init__(self, told: socket.socket) -> None:
        self._told, self._buffer = told, b""
        self.returncode: int | None = None
        self.pid = int(self._line())

    def poll(self) -> int | None:
        """How it ended, if it has."""
        while self.returncode is None and self._hears(0):
            self._hear()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        end = None if timeout is None else time.monotonic() + timeout
        while self.returncode is None:
            if not self._hears(None if end is None else end - time.monotonic()):
                raise subprocess.TimeoutExpired(["actor"], timeout or 0)
            self._hear()
        return self.returncode

    def await_stop(self, timeout: float) -> bool:
        """Whether it was suspended, and did not end instead or go on for too long."""
        end = time.monotonic() + timeout
        while self.returncode is None and self._hears(end - time.monotonic()):
            if self._hear() == STOPPED:
                return True
        return False

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def close(self) -> None:
        self._told.close()

    def _hears(self, seconds: float | None) -> bool:
        if b"\n" in self._buffer:
            return True
        poll = select.poll()
        poll.register(self._told, select.POLLIN)
        return bool(poll.poll(None if seconds is None else max(seconds, 0) * 1000))

    def _hear(self) -> bytes:
        line = self._line()
        if line != STOPPED:
            self.returncode = int(line)
        return line

    def _line(self) -> bytes:
        while b"\n" not in self._buffer:
            read = self._told.recv(LINE_BYTES_MAX)
            assert read, "the green room is gone, and nobody had asked it to go"
            self._buffer += read
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line


class Room:
    """A room that imports these modules, and whose forks run `program`, a function as `module:name`."""

    def __init__(self, *modules: str, program: str = ACTOR, environment: dict[str, str] | None = None) -> None:
        mine, its = socket.socketpair()
        with its:
            command = [sys.executable, "-m", __name__, str(its.fileno()), program, *modules]
            self._process = subprocess.Popen(
                command, pass_fds=[its.fileno()], stdin=subprocess.DEVNULL, env=environment
            )
        self._calls = mine
        atexit.register(self.close)

    def call(
        self,
        stdin: int,
        stdout: int,
        stderr: int,
        *,
        words: Sequence[str] = (),
        folder: str | None = None,
        environment: dict[str, str] | None = None,
        own_session: bool = False,
    ) -> Called:
        """A fork that reads and writes these files. Without others, its folder and environment are this process's."""
        mine, its = socket.socketpair()
        with its:
            order = {
                "words": list(words),
                "folder": os.getcwd() if folder is None else folder,
                "environment": dict(os.environ) if environment is None else environment,
                "own_session": own_session,
            }
            call = json.dumps(order).encode() + b"\n"
            assert len(call) <= CALL_BYTES_MAX, f"an environment of {len(call)} bytes"
            socket.send_fds(self._calls, [call], [stdin, stdout, stderr, its.fileno()])
        return Called(mine)

    def close(self) -> None:
        self._calls.close()
        self._process.wait()


def room_for(call: str) -> Room:
    """The room of this process for actors whose boards this function opens."""
    module = call.partition(":")[0]
    key = (os.getpid(), module)
    if key not in _rooms:
        _rooms[key] = Room(*MODULES, module)
    return _rooms[key]


def main() -> None:
    calls, program, modules = socket.socket(fileno=int(sys.argv[1])), sys.argv[2], sys.argv[3:]
    for name in modules:
        importlib.import_module(name)
    module, _, name = program.partition(":")
    act: Callable[[], None] = getattr(importlib.import_module(module), name)
    # Collected by every actor for itself, what all of them share would be copied for each.
    gc.freeze()
    told: dict[int, int] = {}
    # A signal that comes right before a call that waits does not end it: whoever waits for calls waits for this, too.
    woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: _tell(told))
    # An interrupt at the terminal is for the tests and for actors.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while call := _heard(calls, woken):
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
        said, files = call
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            _become_actor(calls, {**told, -1: woken, -2: wake}, said, files)
            # Not left by force: whatever a process does when it ends, an actor does as well.
            act()
            return
        told[pid] = files[3]
        for file in files[:3]:
            os.close(file)
        os.write(files[3], b"%d\n" % pid)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])


def _heard(calls: socket.socket, woken: int) -> tuple[bytes, list[int]] | None:
    """The next call and the files that came with it."""
    poll = select.poll()
    poll.register(calls, select.POLLIN)
    poll.register(woken, select.POLLIN)
    while calls.fileno() not in {file for file, _ in poll.poll()}:
        os.read(woken, LINE_BYTES_MAX)
    said, files, _, _ = socket.recv_fds(calls, CALL_BYTES_MAX, 4)
    while said and not said.endswith(b"\n"):
        said += calls.recv(CALL_BYTES_MAX)
    return (said, files) if said else None


def _become_actor(calls: socket.socket, told: dict[int, int], said: bytes, files: list[int]) -> None:
    """With files, signals, environment and folder as if it had been started by who called it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
    for number, file in enumerate(files[:3]):
        os.dup2(file, number)
    calls.close()
    for file in (*told.values(), *files):
        os.close(file)
    call = json.loads(said)
    os.environ.clear()
    os.environ.update(call["environment"])
    os.chdir(call["folder"])
    sys.argv[1:] = call["words"]
    if call["own_session"]:
        os.setsid()


def _tell(told: dict[int, int]) -> None:
    """Whoever called those who stopped or ended hears of it."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
        except ChildProcessError:
            return
        if pid == 0:
            return
        stopped = os.WIFSTOPPED(status)
        try:
            os.write(told[pid], b"%b\n" % (STOPPED if stopped else b"%d" % os.waitstatus_to_exitcode(status)))
        except BrokenPipeError:
            pass  # nobody wants to know any more
        if not stopped:
            os.close(told.pop(pid))


if __name__ == "__main__":
    main()
