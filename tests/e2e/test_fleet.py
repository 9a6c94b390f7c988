"""A fleet of `dibs work` processes with kills: every item is done, the history is sound, nobody starves, nothing stays.

`DIBS_SOAK` makes it fifty workers on a thousand items, and more kills.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from dibs.board import Board, connect, make
from dibs.testing import sizes
from dibs.testing.invariants import assert_sound
from tests.kit.postgres_server import PostgresServer
from tests.kit.processes import with_variable
from tests.kit.waiting import until
from tests.server.process import Serving

WORKERS = 8 if sizes.FACTOR == 1 else 50
ITEMS = 80 if sizes.FACTOR == 1 else 1000
KILLS = 4 if sizes.FACTOR == 1 else 40
#: Between two kills there is time to take something.
PAUSE_SECONDS = 0.15
SECONDS_MAX = 60.0 if sizes.FACTOR == 1 else 600.0
MARKER = "DIBS_TEST_FLEET"
#: A claim that nobody renews comes back soon, should its owner's death not be seen.
SETTINGS = "[board]\nttl_seconds_min = 1\nheartbeat_seconds = 1\nmax_strikes = 50\n"
TTL = "10s"
COMMAND = ("sleep", "0.1")


class Fleet:
    """Workers by their agents' names; those that are killed are replaced by others of another name."""

    def __init__(self, folder: Path, store: str, home: Path) -> None:
        self.folder, self.marker = folder, f"fleet-{os.urandom(8).hex()}"
        (folder / "dibs.toml").write_text(SETTINGS)
        (folder / "tmp").mkdir()
        self._environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "DIBS_STORE": store,
            # Where a worker that is killed leaves its folder.
            "TMPDIR": str(folder / "tmp"),
            MARKER: self.marker,
        }
        self._log = open(folder / "log", "w+")  # noqa: SIM115 - open as long as the fleet
        self.workers: dict[str, subprocess.Popen[bytes]] = {}
        self.killed: set[str] = set()

    def start(self) -> None:
        name = f"w{len(self.workers)}"
        self.workers[name] = subprocess.Popen(
            [sys.executable, "-m", "dibs.cli.main", "work", "--agent", name, "--ttl", TTL, "--", *COMMAND],
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._log,
            start_new_session=True,
        )

    def kill_one(self, draw: random.Random) -> None:
        name = draw.choice(sorted(self.workers.keys() - self.killed))
        self.killed.add(name)
        self.workers[name].kill()
        self.workers[name].wait()

    def stop(self, board: Board) -> None:
        """Politely; every one that was not killed leaves in peace, once it has begun."""
        names = self.workers.keys() - self.killed
        until(lambda: names <= {view.session.agent for view in board.sessions()}, seconds=SECONDS_MAX)
        going_on = [self.workers[name] for name in names]
        for worker in going_on:
            worker.send_signal(signal.SIGTERM)
        assert {worker.wait(30) for worker in going_on} == {0}, self.log()

    def log(self) -> str:
        self._log.seek(0)
        return self._log.read()

    def close(self) -> None:
        for worker in self.workers.values():
            worker.kill()
            worker.wait()
        self._log.close()


@contextmanager
def fleet(folder: Path, store: str, home: Path | None = None) -> Iterator[Fleet]:
    fleet = Fleet(folder, store, home or folder)
    try:
        yield fleet
    finally:
        fleet.close()


def work_through_kills(fleet: Fleet, board: Board) -> None:
    seed = sizes.seed()
    print(f"DIBS_SEED={seed}")
    draw = random.Random(seed)
    for _ in range(WORKERS):
        fleet.start()
    until(lambda: len(board.sessions()) == WORKERS, seconds=SECONDS_MAX)
    began = time.monotonic()
    board.add_many([{"id": f"i{number}", "title": "t"} for number in range(ITEMS)])
    for _ in range(KILLS):
        time.sleep(PAUSE_SECONDS * 2 * draw.random())
        fleet.kill_one(draw)
        fleet.start()
    until(lambda: _all_done(board), seconds=SECONDS_MAX)
    took = time.monotonic() - began
    fleet.stop(board)
    until(lambda: not with_variable(MARKER, fleet.marker), seconds=15)
    assert "Traceback" not in fleet.log()
    assert_sound(board, f"DIBS_SEED={seed}")
    runs = board.runs(limit=100_000)
    done = Counter(run.agent for run in runs if run.outcome == "done")
    assert sum(done.values()) == ITEMS
    assert {run.agent for run in runs if run.outcome not in ("done", "released")} <= fleet.killed
    stayed = [done[f"w{number}"] for number in range(WORKERS) if f"w{number}" not in fleet.killed]
    share = min(stayed) / max(stayed)
    print(f"{ITEMS} items in {took:.1f} s, share of the slowest {share:.2f}: {sorted(stayed)}")
    # How large the smallest share is depends on what else the machine does.
    assert share > 0, f"DIBS_SEED={seed} a worker was given nothing: {sorted(stayed)}"


def _all_done(board: Board) -> bool:
    if sizes.FACTOR == 1:
        # Those who wait look for dead owners every few seconds; a commit has no time for that.
        board.sweep()
    return board.stats().items.get("done") == ITEMS


def test_on_sqlite(tmp_path: Path) -> None:
    store = str(tmp_path / "board.db")
    make(store)
    with closing(connect(store)) as board, fleet(tmp_path, store) as workers:
        work_through_kills(workers, board)


def test_on_postgresql(postgres_server: PostgresServer, tmp_path: Path) -> None:
    name = f"{postgres_server.prefix}fleet_{os.urandom(6).hex()}"
    postgres_server.create_database(name)
    store = postgres_server.url(name)
    try:
        make(store)
        with closing(connect(store)) as board, fleet(tmp_path, store) as workers:
            work_through_kills(workers, board)
    finally:
        postgres_server.drop_database(name)


@pytest.mark.soak
def test_over_http(tmp_path: Path) -> None:
    store = str(tmp_path / "board.db")
    make(store)
    (tmp_path / "dibs.toml").write_text(SETTINGS)
    (tmp_path / "fleet").mkdir()
    with (
        Serving(tmp_path, "--quiet", store=store) as server,
        closing(connect(store)) as board,
        fleet(tmp_path / "fleet", server.url, home=tmp_path) as workers,
    ):
        work_through_kills(workers, board)
