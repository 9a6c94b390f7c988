"""What the end-to-end tests stand on: real `dibs` processes on a board of their own, on and off a terminal.

Off a terminal is the rule here: every process gets a session of its own, without a controlling terminal, whatever
the tests themselves run in.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from tests.e2e.terminal import Terminal
from tests.kit.command_server import CommandServer
from tests.kit.small_disk import small_disk as small_disk_at
from tests.kit.waiting import PATIENCE_SECONDS, until

#: How long `until` pauses at least, and how much longer than its look took: a look that starts a command would else
#: take the processor from what it waits for.
PAUSE_SECONDS_MIN, PAUSE_FACTOR = 0.02, 3
#: Works on a board as fast as it can, in every way there is, until its stdin is closed.
BUSY = """
import select, sys
from dibs.board import connect
from dibs.errors import DibsError
board, name = connect(), sys.argv[1]
board.start_session(name, id=name)
submit = lambda item, session: board.submit(item, session=session, draft="d")
ends = [board.done, board.release, board.fail, board.done, submit]
number = 0
while not select.select([sys.stdin], [], [], 0)[0]:
    number += 1
    board.add("t", id=f"{name}-{number}", resources=[f"r{number % 3}"])
    board.add("t", id=f"{name}-{number}-next", depends_on=[f"{name}-{number}"], resources=[f"r{number % 5}"])
    board.soft_claim(f"{name}-{number}", session=name)
    for grant in board.next(session=name, n=2, types=["task"]):
        board.progress(grant.item.id, "a note", session=name)
        ends[number % len(ends)](grant.item.id, session=name)
    try:
        board.wait("hot", session=name, ttl_seconds=1)
        board.claim("hot", session=name)
        board.release("hot", session=name)
    except DibsError:
        pass
"""


class Dibs:
    """Calls `dibs` in a folder, as one session of one agent unless told otherwise."""

    #: Runs commands without the start of an interpreter, if there is one.
    server: CommandServer | None = None

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder = folder
        self.environment = environment

    def __call__(
        self,
        *words: str | bytes,
        folder: Path | None = None,
        input: str | bytes | None = None,
        environment: dict[str, str] | None = None,
        **options: Any,
    ) -> subprocess.CompletedProcess[str]:
        feed = input.encode() if isinstance(input, str) else input
        done = self._run(words, folder or self.folder, feed, self.environment | (environment or {}), **options)
        stdout, stderr = done.stdout.decode(errors="surrogateescape"), done.stderr.decode(errors="surrogateescape")
        assert "Traceback" not in stderr, stderr
        return subprocess.CompletedProcess(done.args, done.returncode, stdout, stderr)

    def _run(
        self,
        words: tuple[str | bytes, ...],
        folder: Path,
        feed: bytes | None,
        environment: dict[str, str],
        **options: Any,
    ) -> subprocess.CompletedProcess[bytes]:
        if self.server is not None and not options and self.server.fits(words, environment):
            return self.server.run(
                words, folder=str(folder), environment=environment, feed=feed, seconds_max=PATIENCE_SECONDS
            )
        return subprocess.run(
            [sys.executable, "-m", "dibs.cli.main", *words],
            cwd=folder,
            env=environment,
            input=feed,
            stdin=subprocess.DEVNULL if feed is None else None,
            capture_output=True,
            timeout=PATIENCE_SECONDS,
            start_new_session=True,
            check=False,
            **options,
        )

    def ok(self, *words: str | bytes, **options: Any) -> str:
        """What a command says that has to succeed."""
        done = self(*words, **options)
        assert done.returncode == 0, (words, done.returncode, done.stdout, done.stderr)
        return done.stdout

    def json(self, *words: str | bytes, **options: Any) -> Any:
        """What a command answers with `--json`, if it has to succeed."""
        return json.loads(self.ok(*words, "--json", **options))

    def refused(self, *words: str | bytes, **options: Any) -> tuple[int, dict[str, Any]]:
        """The exit code and the error of a command that has to be refused, with `--json`."""
        done = self(*words, "--json", **options)
        assert done.returncode != 0, done.stdout
        assert done.stderr == ""
        return done.returncode, json.loads(done.stdout)["error"]

    def start(self, *words: str, **options: Any) -> subprocess.Popen[str]:
        """A command that goes on in the background, its output a pipe."""
        return subprocess.Popen(
            [sys.executable, "-m", "dibs.cli.main", *words],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            **options,
        )

    def shell(self, script: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """A script of a shell without a terminal."""
        return subprocess.run(
            ["sh", "-c", script],
            cwd=self.folder,
            env=self.environment | environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            start_new_session=True,
            check=False,
        )

    def lapse(self) -> None:
        """Every claim on the folder's board expires now. A short TTL that really passes may pass too early as well."""
        with closing(apsw.Connection(str(self.folder / ".dibs" / "board.db"))) as connection:
            connection.set_busy_timeout(1000 * PATIENCE_SECONDS)
            connection.execute("UPDATE claims SET expires_at = claimed_at")

    def terminal(self, script: str, *, columns: int = 80, **environment: str) -> str:
        """What a script prints into a terminal of its own."""
        with Terminal(script, self.folder, self.environment | environment, columns=columns) as terminal:
            return terminal.read_to_end()


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment with a `dibs` in its PATH, and nothing of the caller's own dibs."""
    folder = tmp_path_factory.mktemp("bin")
    script = folder / "dibs"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -m dibs.cli.main "$@"\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    return {
        "PATH": f"{folder}:{os.environ['PATH']}",
        "HOME": str(folder),
        "LOGNAME": "alice",
        "LANG": "C.UTF-8",
        "TERM": "xterm",
        # Compiling dibs anew for every one of the hundreds of processes would double the time of all this.
        "PYTHONPYCACHEPREFIX": str(tmp_path_factory.mktemp("pycache")),
    }


@pytest.fixture(scope="session", autouse=True)
def command_server(environment: dict[str, str]) -> Iterator[None]:
    server = CommandServer(environment)
    # Other folders of tests import this fixture, and a process that runs their tests too has one for each folder.
    outer, Dibs.server = Dibs.server, server
    yield
    server.close()
    Dibs.server = outer


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]) -> Dibs:
    """A board that the tests of one file share, as session s1 of coder: for those that leave it as it is."""
    board = Dibs(tmp_path_factory.mktemp("shared"), environment | {"DIBS_SESSION": "s1", "DIBS_AGENT": "coder"})
    board.ok("init")
    return board


@pytest.fixture
def bare(tmp_path: Path, environment: dict[str, str]) -> Dibs:
    """Without a board, and without a session."""
    return Dibs(tmp_path, environment)


@pytest.fixture(scope="session")
def empty(tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]) -> Path:
    """A folder with an empty board. Copies of it are cheaper than hundreds of processes that make one."""
    board = Dibs(tmp_path_factory.mktemp("empty"), environment)
    board.ok("init")
    return board.folder


@pytest.fixture
def dibs(bare: Dibs, empty: Path) -> Dibs:
    """With an empty board, as session s1 of coder."""
    shutil.copytree(empty, bare.folder, dirs_exist_ok=True)
    return Dibs(bare.folder, bare.environment | {"DIBS_SESSION": "s1", "DIBS_AGENT": "coder"})


@pytest.fixture
def other(dibs: Dibs) -> Dibs:
    """The same board, as session s2 of reviewer."""
    return Dibs(dibs.folder, dibs.environment | {"DIBS_SESSION": "s2", "DIBS_AGENT": "reviewer"})


@pytest.fixture(scope="module")
def template(shared: Dibs) -> Dibs:
    """A board with something of everything on it."""
    dibs, other = shared, Dibs(shared.folder, shared.environment | {"DIBS_SESSION": "s2", "DIBS_AGENT": "reviewer"})
    dibs.ok("agent", "set", "coder", "--type", "task", "--claims-per-minute", "600", "--burst", "9", "--allow", "task")
    given = [
        {"id": "a", "title": "A — ünïcode \u202e", "body": "b\n\n\tc", "payload": {"deep": [1, 2.5, {"at": "x"}]}},
        {"id": "b", "title": "t", "resources": ["src/x"], "labels": ["l"], "not_before": "2001-01-01T00:00:00.123Z"},
        {"id": "c", "title": "t", "depends_on": ["b"], "timeout_seconds": 0.5 * 3600, "priority": -3},
        {"id": "d", "title": "t", "needs_approval": True, "phase": "1"},
        {"id": "e", "title": "t", "retries": 1},
    ]
    dibs.ok("add", "--file", "-", input="".join(json.dumps(one) + "\n" for one in given))
    dibs.ok("claim", "a", "--request-id", "r1")
    dibs.ok("progress", "a", "half way", "--meta", '{"done_at": 5, "percent": 0.1}')
    dibs.ok("done", "a", "--link", "pr=https://example.org/1", "--cost", '{"at": 12}')
    dibs.ok("claim", "b")
    dibs.ok("edit", "b", "--title", "u", "--label", "")
    other("claim", "b")
    other.ok("wait", "b")
    dibs.ok("approve", "d", "--actor", "alice")
    dibs.ok("claim", "d", "--soft")
    dibs.ok("claim", "e")
    dibs.ok("fail", "e", "--reason", "why not")
    dibs.ok("edit", "e", "--not-before", "2099-01-01")
    return dibs


@pytest.fixture
def worked(template: Dibs, dibs: Dibs) -> Dibs:
    """The same board, for one test alone."""
    shutil.copytree(template.folder, dibs.folder, dirs_exist_ok=True)
    return dibs


@pytest.fixture
def settings(bare: Dibs) -> Callable[..., None]:
    """Writes the folder's `dibs.toml`."""

    def write(**values: int | float) -> None:
        lines = [f"{name} = {value}" for name, value in values.items()]
        (bare.folder / "dibs.toml").write_text("\n".join(["[board]", *lines, ""]))

    return write


@pytest.fixture
def busy(dibs: Dibs, ended: Callable[[subprocess.Popen[str]], subprocess.Popen[str]]) -> Callable[[], None]:
    """A board on which three processes work as fast as they can, until this is called; they take items of type task."""
    dibs.ok("add", "In demand", "--id", "hot")
    workers = [
        ended(
            subprocess.Popen(
                [sys.executable, "-c", BUSY, f"worker-{number}"],
                cwd=dibs.folder,
                env=dibs.environment,
                stdin=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        for number in range(3)
    ]

    def stop() -> None:
        for worker in workers:
            _, stderr = worker.communicate(timeout=PATIENCE_SECONDS)
            assert (worker.returncode, stderr) == (0, "")

    until(lambda: len(dibs.json("list", "--all")["items"]) > 20)
    return stop


def exported(dibs: Dibs, store: str | None = None) -> str:
    """Everything on the folder's board, or on another one, as `dibs export` prints it."""
    return dibs.ok("export", *(() if store is None else ("--store", store)))


@pytest.fixture
def ended() -> Iterator[Callable[[subprocess.Popen[str]], subprocess.Popen[str]]]:
    """Sees to it that processes started by a test do not outlive it."""
    started: list[subprocess.Popen[str]] = []

    def keep(process: subprocess.Popen[str]) -> subprocess.Popen[str]:
        started.append(process)
        return process

    yield keep
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder with room for one megabyte."""
    with small_disk_at(tmp_path / "small", 1) as folder:
        yield folder


@pytest.fixture
def disk_of_a_board(tmp_path: Path) -> Iterator[Path]:
    """A folder with little room, though with as much as `doctor` asks for."""
    with small_disk_at(tmp_path / "disk", 32) as folder:
        yield folder
