"""Runs git: the only module that starts it.

A repository may be hostile: its commits bring attributes, hooks, links, submodules and any path. So git runs no hook,
filter or monitor, follows no submodule, and prompts for nothing, unless a caller needs git as its user has it. The
configuration of a clone is trusted, because no pull can set it: remotes, credentials and identity are used as they are.
"""

from __future__ import annotations

import os
import re
import selectors
import signal
import subprocess
import time
from contextlib import ExitStack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import IO

#: How long a local command may take, and one that talks to a remote.
LOCAL_SECONDS = 60.0
REMOTE_SECONDS = 30.0
#: How long a terminated command may take to remove its locks.
TERMINATE_SECONDS = 2.0
POLL_SECONDS = 0.01
#: Enough for a listing of a million paths.
OUTPUT_MAX = 256 * 1024 * 1024
STDERR_MAX = 4096
_PIECE = 1 << 16

#: Set while dibs runs inside a hook of git, for instance: they name a repository, its index and its objects.
_OF_REPOSITORY = frozenset(
    {
        *("GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_PREFIX", "GIT_NAMESPACE", "GIT_INDEX_FILE"),
        *("GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_QUARANTINE_PATH", "GIT_SHALLOW_FILE"),
        "GIT_CONFIG_PARAMETERS",
    }
)
#: They change what git answers, or run a program.
_OF_ANSWERS = frozenset({"GIT_GRAFT_FILE", "GIT_REPLACE_REF_BASE", "GIT_EXTERNAL_DIFF", "GIT_TRACE", "GIT_TRACE_SETUP"})
#: What a program in another repository must not inherit.
FOREIGN = _OF_REPOSITORY | _OF_ANSWERS
_ALWAYS = {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"}
#: The objects themselves, not what replaces them here or is grafted onto them.
_SAFE_ENVIRONMENT = {"GIT_NO_REPLACE_OBJECTS": "1", "GIT_GRAFT_FILE": os.devnull}
_NO_MONITOR = "core.fsmonitor=false"
_SAFE = (
    "core.hooksPath=/dev/null",
    _NO_MONITOR,
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
    # Git would print it about the empty graft file.
    "advice.graftFileDeprecated=false",
)
_SECRETS = re.compile(r"(?<=//)[^/\s]+@")


class GitFailed(Exception):
    """`code` is git's exit code, or None if it was killed; `stderr` its messages in one line."""

    def __init__(self, command: str, code: int | None, stderr: str, output: bytes = b"") -> None:
        super().__init__(f"git {command}: {stderr or f'exit {code}'}")
        self.command, self.code, self.stderr, self.output = command, code, stderr, output


class GitNotStarted(OSError):
    """Git is not installed, or the system cannot start it; `strerror` says which."""

    strerror: str


class Git:
    """Git in one folder, which is the top of a work tree or a bare repository.

    With `in_hook`, a hook of git may be the caller: git's variables, which name the repository, stay as they are. With
    `as_user`, git runs as its user has it, with hooks, filters, submodules and replaced objects. With either, the
    repository is that around the folder.
    """

    def __init__(self, folder: str = os.curdir, *, in_hook: bool = False, as_user: bool = False) -> None:
        self.folder = folder
        self._as_user = as_user
        cleared = _OF_ANSWERS if in_hook else FOREIGN
        self._environment = {name: value for name, value in os.environ.items() if name not in cleared} | _ALWAYS
        if not as_user:
            self._environment |= _SAFE_ENVIRONMENT
        if not (in_hook or as_user):
            self._environment["GIT_CEILING_DIRECTORIES"] = os.path.dirname(folder)
        self._options = [word for one in ((_NO_MONITOR,) if as_user else _SAFE) for word in ("-c", one)]

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
        keeps_open: int | None = None,
    ) -> bytes:
        """Run a command with `feed` as its input; return its output. `index` replaces the user's index file.

        A feed may depend on the output: it arrives in `heard` as it comes, and the feed yields `b""` to wait. Git has
        the descriptor `keeps_open` until it ends, also if dibs is killed.
        """
        environment = self._environment if index is None else {**self._environment, "GIT_INDEX_FILE": index}
        with ExitStack() as stack:
            may_run_hooks = self._as_user and words[0] != "config"
            files = [stack.enter_context(file) for file in _temporary_files()] if may_run_hooks else []
            process = self._start(words, environment, files, keeps_open)
            dialog = _Dialog(process, feed, time.monotonic() + seconds, heard)
            try:
                has_ended = dialog.run()
            finally:
                _terminate(process)
                for pipe in (process.stdin, process.stdout, process.stderr):
                    if pipe is not None:
                        pipe.close()
            for file, into in zip(files, (dialog.output, dialog.stderr), strict=False):
                file.seek(0)
                into += file.read(OUTPUT_MAX + 1)
        return dialog.answer(words[0], process.returncode if has_ended else None, seconds)

    def _start(
        self, words: Sequence[str], environment: dict[str, str], files: Sequence[IO[bytes]], keeps_open: int | None
    ) -> subprocess.Popen[bytes]:
        stdout, stderr = files or (subprocess.PIPE, subprocess.PIPE)
        try:
            return subprocess.Popen(
                ["git", *self._options, *words],
                cwd=self.folder,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=stdout,
                stderr=stderr,
                # A session of its own, so that it has no terminal to prompt at, its process group can be killed, and a
                # Ctrl-C is for dibs alone.
                start_new_session=True,
                pass_fds=() if keeps_open is None else (keeps_open,),
            )
        except OSError as error:
            is_missing = isinstance(error, FileNotFoundError) and error.filename == "git"
            why = "is not installed, or not in the PATH" if is_missing else f"cannot be started: {error.strerror}"
            raise GitNotStarted(error.errno, f"git {why}") from error

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
        with selectors.DefaultSelector() as selector:
            for pipe, into in ((self._process.stdout, self.output), (self._process.stderr, self.stderr)):
                if pipe is not None:
                    selector.register(pipe, selectors.EVENT_READ, into)
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

    def answer(self, command: str, code: int | None, seconds: float) -> bytes:
        """The output of a command that exited with this code; None if it did not end by itself."""
        stderr = _message(self.stderr)[:STDERR_MAX]
        if code == 0 and len(self.output) <= OUTPUT_MAX:
            return bytes(self.output)
        if code is None or code == 0:
            why = "too much output" if len(self.output) > OUTPUT_MAX else f"no answer within {seconds:g}s"
            code, stderr = None, f"{why}; {stderr}" if stderr else why
        raise GitFailed(command, code, stderr, bytes(self.output))

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


def _temporary_files() -> Iterable[IO[bytes]]:
    """For the output where hooks run: a process that a hook leaves in the background would keep pipes open."""
    from tempfile import TemporaryFile

    try:
        return TemporaryFile(), TemporaryFile()
    except OSError as error:
        raise GitNotStarted(error.errno, f"git cannot be started: {error.strerror}") from error


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


def _message(stderr: bytes | bytearray) -> str:
    """Git's messages in one line, without the credentials in a remote's address."""
    lines = stderr.decode(errors="replace").splitlines()
    text = "; ".join(line.removeprefix("fatal: ").strip() for line in lines if line.strip())
    return "".join(letter for letter in _SECRETS.sub("", text) if letter.isprintable())
