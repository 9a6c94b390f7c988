"""The server crashes under load, again and again: what was acknowledged is there, once, and the workers go on."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from dibs.testing import sizes
from dibs.testing.conformance.asking import added
from tests.kit import postgres
from tests.kit.outage_workers import Troupe, assert_nothing_lost, in_flight, in_words, silences
from tests.kit.postgres import PostgresHarness
from tests.kit.postgres_server import POLL_SECONDS, START_SECONDS_MAX, LocalServer
from tests.kit.processes import await_gone

WORKERS, ITEMS, CRASHES = 4, 24, sizes.rounds(8, 20)
CRASHES_MAX = 5 * CRASHES
#: Answers that workers cannot but meet; without them nobody was disturbed.
MET = ("unknown", "TASK_ALREADY_CLAIMED")
KINDS = ("backend killed", "postmaster killed", "stopped at once", "backend terminated", "postmaster killed",
         "stopped at once")  # fmt: skip
CALM_SECONDS_MAX = 0.25
#: What a worker may go without an answer; two thirds of it are for a machine that others use as well.
SERVICE_SECONDS_MAX = 15.0
RECOVERED = "automatic recovery in progress"
BUSY = "SELECT pid FROM pg_stat_activity WHERE datname = %s AND application_name = 'dibs' AND state = 'active'"


@pytest.fixture
def server() -> Iterator[LocalServer]:
    with LocalServer(durable=True) as server:
        yield server


@pytest.fixture
def harness(server: LocalServer, folder: Path) -> Iterator[PostgresHarness]:
    with postgres.harness(server, folder) as harness:
        yield harness


def test_crashes_under_load_lose_nothing_that_was_acknowledged(server: LocalServer, harness: PostgresHarness) -> None:
    seed = sizes.seed()
    draw = random.Random(seed)
    board = harness.board()
    added(board, *(f"item-{number:02}" for number in range(ITEMS)))
    crashes: list[tuple[str, int, int]] = []
    with Troupe(harness.recipe(), harness.folder, WORKERS, seed) as troupe:
        for number in range(CRASHES_MAX):
            # On a busy machine there are few calls between two crashes, and it takes more of them.
            if number >= CRASHES and troupe.have_met(*MET):
                break
            # The moment is what is random here; nothing is waited for.
            time.sleep(draw.random() * CALM_SECONDS_MAX)
            kind = KINDS[number % len(KINDS)]
            crashes.append((kind, *crash(server, harness.database, kind, draw)))
            troupe.await_answers()
        counts = troupe.stop()
        calls = troupe.calls()
    hit = [in_flight(calls, at_ns) for _, at_ns, _ in crashes]
    quiet = silences(calls, [down_ns for _, _, down_ns in crashes])
    print(f"seed {seed}: {dict(Counter(kind for kind, _, _ in crashes))}, {sum(hit)} calls in flight; {dict(counts)};")
    print(f"{len(calls)} calls; longest without an answer, by crash: {in_words(quiet)}")
    assert sum(map(bool, hit)) > 0.7 * len(crashes), f"seed {seed}: most crashes hit nobody: {hit}"
    assert max(quiet) < SERVICE_SECONDS_MAX, f"seed {seed}: somebody went without an answer for {max(quiet):.1f} s"
    for met in ("reconnects", *MET):
        assert counts[met] > 0, f"seed {seed}: nobody met {met}: {dict(counts)}"
    assert_nothing_lost(calls, board, f"seed {seed}:")


def crash(server: LocalServer, database: str, kind: str, draw: random.Random) -> tuple[int, int]:
    """Let it happen, and wait until the server is back; when it began and when all was down, on the clock of calls."""
    recoveries = _recoveries(server)
    victim = draw.choice(_busy_backends(server, database)) if kind.startswith("backend") else 0
    at_ns = time.monotonic_ns()
    match kind:
        case "backend killed":
            os.kill(victim, signal.SIGKILL)
            await_gone([victim], START_SECONDS_MAX)
        case "backend terminated":
            with server.connect() as connection:
                assert connection.execute("SELECT pg_terminate_backend(%s)", [victim]).fetchone() == (True,)
            await_gone([victim], START_SECONDS_MAX)
            return at_ns, time.monotonic_ns()
        case "postmaster killed":
            server.kill_postmaster()
        case "stopped at once":
            server.stop("immediate")
    down_ns = time.monotonic_ns()
    if kind != "backend killed":
        assert not server.running
        server.start()
    _await_recovery(server, recoveries)
    return at_ns, down_ns


def _busy_backends(server: LocalServer, database: str) -> list[int]:
    """Those that serve a call at this moment."""
    end = time.monotonic() + START_SECONDS_MAX
    with server.connect() as connection:
        while time.monotonic() < end:
            busy: list[int] = [pid for (pid,) in connection.execute(BUSY, [database])]
            if busy:
                return busy
    raise AssertionError("no worker asks for anything")


def _recoveries(server: LocalServer) -> int:
    with open(server.log, encoding="utf-8", errors="replace") as log:
        return log.read().count(RECOVERED)


def _await_recovery(server: LocalServer, before: int) -> None:
    """It noticed that it had crashed, and has come back."""
    end = time.monotonic() + START_SECONDS_MAX
    while _recoveries(server) == before:
        assert time.monotonic() < end, f"it never recovered from anything\n{server.said()}"
        time.sleep(POLL_SECONDS)  # bounded polling: a log tells nobody
    server.await_ready()
