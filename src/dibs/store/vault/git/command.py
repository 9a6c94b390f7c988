"""Running git so that nothing it reads can make it do more than it was asked.

A pulled repository is hostile: it may bring attributes, hooks to copy, links, submodules and any path. So git is never
asked to write into the work tree, runs no hook, filter or monitor, follows no submodule and asks nobody anything. What
stands in the clone's own configuration is its owner's: remotes, credentials and identity are used as they are.
"""

from __future__ import annotations

import os
import re
import selectors
import signal
import subprocess
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: How long a command may take that asks nobody else, and one that talks to the remote.
LOCAL_SECONDS = 60.0
REMOTE_SECONDS = 30.0
#: How long a command that was told to end may take to clean up behind itself.
LAST_SECONDS = 2.0
LOOK_SECONDS = 0.01
#: A listing of a million paths. Whoever says more is not listened to.
OUTPUT_MAX = 256 * 1024 * 1024
SAID_MAX = 4096
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
_SAFE_WORDS = [word for setting in _SAFE for word in ("-c", setting)]
#: Set while a hook of somebody else's runs us, say: they would name another repository.
_FOREIGN = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_PREFIX",
    "GIT_COMMON_DIR",
    "GIT_NAMESPACE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_GRAFT_FILE",
    "GIT_SHALLOW_FILE",
    "GIT_REPLACE_REF_BASE",
    "GIT_QUARANTINE_PATH",
    "GIT_CONFIG_PARAMETERS",
    "GIT_EXTERNAL_DIFF",
    "GIT_TRACE",
    "GIT_TRACE_SETUP",
)
_SECRETS = re.compile(r"(?<=//)[^/@\s]+@")


class GitFailed(Exception):
    """Git said no, or nothing in time. `code` is its exit code, or none if it had to be ended; `said` what it said."""

    def __init__(self, word: str, code: int | None, said: str, output: bytes = b"") -> None:
        super().__init__(f"git {word}: {said or f'exit {code}'}")
        self.word, self.code, self.said, self.output = word, code, said, output


class Git:
    """Git on one repository; `folder` is where its work tree lies."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._environment = {name: value for name, value in os.environ.items() if name not in _FOREIGN}
        self._environment.update(
            LC_ALL="C",
            GIT_TERMINAL_PROMPT="0",
            GIT_OPTIONAL_LOCKS="0",
            GIT_NO_REPLACE_OBJECTS="1",
            GIT_CEILING_DIRECTORIES=os.path.dirname(folder),
        )

    def settle(self, git_dir: str) -> None:
        """Look for the repository nowhere but here from now on, whatever folders come to lie in the work tree."""
        self._environment.update(GIT_DIR=git_dir, GIT_WORK_TREE=self.folder)

    def run(
        self,
        *words: str,
        feed: Iterable[bytes] = (),
        seconds: float = LOCAL_SECONDS,
        index: str | None = None,
        heard: bytearray | None = None,
    ) -> bytes:
        """What git answers, given `feed` to read. `index` is used in the place of the person's own.

        Who feeds may wait for an answer: it is in `heard` as soon as it comes; nothing more to say so far is `b""`.
        """
        environment = self._environment if index is None else {**self._environment, "GIT_INDEX_FILE": index}
        process = subprocess.Popen(
            ["git", *_SAFE_WORDS, *words],
            cwd=self.folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # Its own session: it has no terminal to ask at, and is ended with all that it started.
            start_new_session=True,
        )
        try:
            talk = _Talk(process, feed, time.monotonic() + seconds, heard)
            over = talk.to_the_end()
        finally:
            _end(process)
            for pipe in (process.stdin, process.stdout, process.stderr):
                assert pipe is not None
                pipe.close()
        said = _readable(talk.said)
        if not over:
            why = "too much output" if len(talk.output) > OUTPUT_MAX else f"no answer within {seconds:g}s"
            raise GitFailed(words[0], None, f"{why}; {said}" if said else why, bytes(talk.output))
        if process.returncode:
            raise GitFailed(words[0], process.returncode, said, bytes(talk.output))
        return bytes(talk.output)

    def text(self, *words: str, seconds: float = LOCAL_SECONDS) -> str:
        return self.run(*words, seconds=seconds).decode(errors="replace").strip()

    def agrees(self, *words: str) -> bool:
        """The answer to a question that git answers by its exit code."""
        try:
            self.run(*words)
        except GitFailed as failed:
            if failed.code == 1:
                return False
            raise
        return True


class _Talk:
    """Feeding a process and listening to it at the same time, within a time and a size."""

    def __init__(
        self, process: subprocess.Popen[bytes], feed: Iterable[bytes], until: float, heard: bytearray | None
    ) -> None:
        self.output, self.said = bytearray() if heard is None else heard, bytearray()
        self._process, self._feed, self._until = process, iter(feed), until
        self._left = memoryview(b"")
        self._deaf = False

    def to_the_end(self) -> bool:
        """Whether it came to its end by itself."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ, self.output)
            selector.register(self._process.stderr, selectors.EVENT_READ, self.said)
            selector.register(self._process.stdin, selectors.EVENT_WRITE)
            os.set_blocking(self._process.stdin.fileno(), False)
            while selector.get_map():
                seconds = self._until - time.monotonic()
                if seconds <= 0 or len(self.output) > OUTPUT_MAX:
                    return False
                for key, _ in selector.select(seconds):
                    going_on = self._write(key.fd) if key.data is None else _read(key.fd, key.data)
                    if not going_on:
                        selector.unregister(key.fileobj)
                        self._deaf |= key.data is self.output
                        if key.data is None:
                            self._process.stdin.close()
                del self.said[:-SAID_MAX]
        try:
            self._process.wait(max(0.0, self._until - time.monotonic()))
        except subprocess.TimeoutExpired:
            return False
        return True

    def _write(self, pipe: int) -> bool:
        if not self._left:
            piece = None if self._deaf else next(self._feed, None)
            if piece is None:
                return False
            self._left = memoryview(piece)
        try:
            self._left = self._left[os.write(pipe, self._left[:_PIECE]) :]
        except BlockingIOError:
            pass
        except BrokenPipeError:
            return False
        return True


def _read(pipe: int, into: bytearray) -> bool:
    data = os.read(pipe, _PIECE)
    into += data
    return bool(data)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process that has not ended, and what it started: gently first, since it has locks to take away."""
    if process.returncode is not None:
        return
    _signal(process, signal.SIGTERM)
    until = time.monotonic() + LAST_SECONDS
    # Looked at, not waited for: once it is, its number may be another's.
    while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None and time.monotonic() < until:
        time.sleep(LOOK_SECONDS)
    _signal(process, signal.SIGKILL)
    process.wait()


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    try:
        os.killpg(process.pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def _readable(said: bytes | bytearray) -> str:
    """What git said, in one line, without what a remote's address says of its user."""
    lines = said.decode(errors="replace").splitlines()
    words = "; ".join(line.removeprefix("fatal: ").strip() for line in lines if line.strip())
    return "".join(letter for letter in _SECRETS.sub("", words) if letter.isprintable())[:SAID_MAX]


def fields(answer: bytes) -> Iterator[bytes]:
    """The parts of an answer given with -z."""
    return (part for part in answer.split(b"\0") if part)
