"""Runs git so that a hostile repository cannot make it do more than the command.

A pulled repository may bring attributes, hooks, links, submodules and any path. So dibs never has git write into the
work tree; git runs no hook, filter or monitor, follows no submodule and prompts for nothing. The clone's own
configuration is trusted: remotes, credentials and identity are used as they are.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time

from dibs.system import git_process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: How long a local command may take, and one that talks to the remote.
LOCAL_SECONDS = 60.0
REMOTE_SECONDS = 30.0
#: How long a terminated command may take to remove its locks.
TERMINATE_SECONDS = 2.0
POLL_SECONDS = 0.01
#: Enough for a listing of a million paths.
OUTPUT_MAX = 256 * 1024 * 1024
STDERR_MAX = 4096
_PIECE = 1 << 16

_SAFE = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "core.attributesFile=/dev/null",
    "core.symlinks=false",
    "core.quotePath=false",
    "protocol.ext.allow=never",
    "submodule.recurse=false",
    "fetch.recurseSubmodules=false",
    "push.recurseSubmodules=no",
    "push.gpgSign=false",
    "push.followTags=false",
    "commit.gpgsign=false",
    "gc.auto=0",
    "core.fsync=all",
    "core.fsyncMethod=fsync",
    "maintenance.auto=false",
)
_SAFE_OPTIONS = [option for setting in _SAFE for option in ("-c", setting)]


class GitFailed(Exception):
    """`code` is git's exit code, or None if it was killed; `stderr` its messages in one line."""

    def __init__(self, command: str, code: int | None, stderr: str, output: bytes = b"") -> None:
        super().__init__(f"git {command}: {stderr or f'exit {code}'}")
        self.command, self.code, self.stderr, self.output = command, code, stderr, output


class Git:
    """Git on one repository; `folder` is its work tree."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._environment = git_process.environment()
        self._environment.update(
            LC_ALL="C",
            GIT_TERMINAL_PROMPT="0",
            GIT_OPTIONAL_LOCKS="0",
            GIT_NO_REPLACE_OBJECTS="1",
            GIT_CEILING_DIRECTORIES=os.path.dirname(folder),
        )

    def pin(self, git_dir: str) -> None:
        """Use this repository from now on, without a search."""
        self._environment.update(GIT_DIR=git_dir, GIT_WORK_TREE=self.folder)

    def run(
        self,
        *words: str,
        feed: Iterable[bytes] = (),
        seconds: float = LOCAL_SECONDS,
        index: str | None = None,
        heard: bytearray | None = None,
    ) -> bytes:
        """Run a command with `feed` as its input; return its output. `index` replaces the user's index file.

        A feed may depend on the output: it arrives in `heard` as it comes, and the feed yields `b""` to wait.
        """
        environment = self._environment if index is None else {**self._environment, "GIT_INDEX_FILE": index}
        process = subprocess.Popen(
            ["git", *_SAFE_OPTIONS, *words],
            cwd=self.folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # A session of its own, so that it has no terminal to prompt at, and its process group can be killed.
            start_new_session=True,
        )
        try:
            dialog = _Dialog(process, feed, time.monotonic() + seconds, heard)
            has_ended = dialog.run()
        finally:
            _terminate(process)
            for pipe in (process.stdin, process.stdout, process.stderr):
                assert pipe is not None
                pipe.close()
        stderr = git_process.message(dialog.stderr)[:STDERR_MAX]
        if not has_ended:
            why = "too much output" if len(dialog.output) > OUTPUT_MAX else f"no answer within {seconds:g}s"
            raise GitFailed(words[0], None, f"{why}; {stderr}" if stderr else why, bytes(dialog.output))
        if process.returncode:
            raise GitFailed(words[0], process.returncode, stderr, bytes(dialog.output))
        return bytes(dialog.output)

    def text(self, *words: str, seconds: float = LOCAL_SECONDS) -> str:
        return self.run(*words, seconds=seconds).decode(errors="replace").strip()

    def succeeds(self, *words: str) -> bool:
        """True if the command exits with 0, False if with 1; any other end raises."""
        try:
            self.run(*words)
        except GitFailed as failed:
            if failed.code == 1:
                return False
            raise
        return True


class _Dialog:
    """Feeds a process and reads its output at the same time, within limits of time and size."""

    def __init__(
        self, process: subprocess.Popen[bytes], feed: Iterable[bytes], until: float, heard: bytearray | None
    ) -> None:
        self.output, self.stderr = bytearray() if heard is None else heard, bytearray()
        self._process, self._feed, self._until = process, iter(feed), until
        self._unsent = memoryview(b"")
        self._output_closed = False

    def run(self) -> bool:
        """Run to the end; return whether the process ended by itself."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ, self.output)
            selector.register(self._process.stderr, selectors.EVENT_READ, self.stderr)
            selector.register(self._process.stdin, selectors.EVENT_WRITE)
            os.set_blocking(self._process.stdin.fileno(), False)
            while selector.get_map():
                seconds = self._until - time.monotonic()
                if seconds <= 0 or len(self.output) > OUTPUT_MAX:
                    return False
                for key, _ in selector.select(seconds):
                    is_open = self._write(key.fd) if key.data is None else _read(key.fd, key.data)
                    if not is_open:
                        selector.unregister(key.fileobj)
                        self._output_closed |= key.data is self.output
                        if key.data is None:
                            self._process.stdin.close()
                del self.stderr[:-STDERR_MAX]
        try:
            self._process.wait(max(0.0, self._until - time.monotonic()))
        except subprocess.TimeoutExpired:
            return False
        return True

    def _write(self, pipe: int) -> bool:
        if not self._unsent:
            piece = None if self._output_closed else next(self._feed, None)
            if piece is None:
                return False
            self._unsent = memoryview(piece)
        try:
            self._unsent = self._unsent[os.write(pipe, self._unsent[:_PIECE]) :]
        except BlockingIOError:
            pass
        except BrokenPipeError:
            return False
        return True


def _read(pipe: int, into: bytearray) -> bool:
    data = os.read(pipe, _PIECE)
    into += data
    return bool(data)


def _terminate(process: subprocess.Popen[bytes]) -> None:
    """End a process and its children: with SIGTERM first, so that it removes its locks."""
    if process.returncode is not None:
        return
    _signal(process, signal.SIGTERM)
    until = time.monotonic() + TERMINATE_SECONDS
    # WNOWAIT does not reap the process: once reaped, its pid could belong to another process before the SIGKILL.
    while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None and time.monotonic() < until:
        time.sleep(POLL_SECONDS)
    _signal(process, signal.SIGKILL)
    process.wait()


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    try:
        os.killpg(process.pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def fields(answer: bytes) -> Iterator[bytes]:
    """The parts of an output with -z."""
    return (part for part in answer.split(b"\0") if part)
