"""What reads of a whole board cost on a large one: stats, who with 10,000 live claims, and doctor, in time and memory.

    python -m bench large --stores SQLite --sizes 1000,100000

`rows alone` is the limit: the same rows, read through a bare connection and thrown away. Times are medians in
milliseconds; doctor runs once on the largest board, as a command of its own, with its peak memory. `CPU` is the time
that the reader itself computed, which other programs on the machine hardly change.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import apsw
import psycopg

import dibs
from bench import boards
from dibs import config

ROUNDS = 9
SIZES = (1_000, 100_000, 1_000_000)
CLAIMS, CLAIMS_OF_SESSION = 10_000, 10
#: `dibs doctor`, and then the most memory that the process had: Linux counts the parent's in `ru_maxrss`.
DOCTOR = """
import time
from dibs.cli.main import main
code = main(["doctor"])
with open("/proc/self/status") as file:
    print("peak kB", *(line.split()[1] for line in file if line.startswith("VmHWM:")), time.process_time(), code)
"""
#: The tables that a read is about, in the order in which it reads them.
TABLES = {"stats": (), "who": ("claims", "sessions"), "doctor": ("items", "runs", "events")}


class Took(NamedTuple):
    """In milliseconds."""

    wall: float
    cpu: float


def measure(arguments: Sequence[str] = ()) -> tuple[str, list[dict[str, object]]]:
    parser = argparse.ArgumentParser(prog="python -m bench large")
    parser.add_argument("--stores", default="SQLite,PostgreSQL")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    asked = parser.parse_args(arguments)
    sizes = [int(size) for size in asked.sizes.split(",")]
    rows: list[dict[str, object]] = []
    for store in asked.stores.split(","):
        if store not in boards.NAMES:
            continue
        for size in sizes:
            url = boards.with_ended(store, size)
            with dibs.connect(url) as board:
                rows.append(_row(store, "stats", f"{size:,} ended", _median(board.stats)))
            if size == sizes[-1]:
                rows.append(_doctor(store, url, f"{size:,} ended"))
        rows.append(_who(store, boards.with_ended(store, sizes[-1])))
    return "Reads of large boards (ms; MB)", rows


def _row(
    store: str, read: str, board: str, took: Took, alone: float | None = None, megabytes: float | None = None
) -> dict[str, object]:
    named = {"store": store, "read": read, "board": board}
    return {**named, "ms": took.wall, "CPU, ms": took.cpu, "rows alone, ms": alone, "MB": megabytes}


def _doctor(store: str, url: str, board: str) -> dict[str, object]:
    place = {**os.environ, config.ENV_STORE: url}
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", DOCTOR], env=place, capture_output=True, text=True, check=True)
    wall = (time.perf_counter() - start) * 1000
    peak, cpu, code = done.stdout.rpartition("peak kB ")[2].split()
    assert code == "0", done.stdout[:1000]
    alone = _timed(lambda: _read_alone(url, TABLES["doctor"])).wall
    return _row(store, "doctor", board, Took(wall, float(cpu) * 1000), alone, int(peak) / 1024)


def _who(store: str, url: str) -> dict[str, object]:
    with dibs.connect(url) as board:
        missing = CLAIMS - len([line for line in board.who() if line.claim is not None])
        for start in range(0, missing, 1000):
            board.add_many([{"title": "an item", "id": f"held-{start + n}"} for n in range(1000)])
            for _ in range(1000 // CLAIMS_OF_SESSION):
                board.next(session=board.start_session("coder").id, n=CLAIMS_OF_SESSION, ttl_seconds=7200)
        took = _median(board.who)
    return _row(store, "who", f"{CLAIMS:,} live claims", took, _median(lambda: _read_alone(url, TABLES["who"])).wall)


def _read_alone(url: str, tables: Sequence[str]) -> None:
    if url.startswith("postgres"):
        with psycopg.connect(url) as connection:
            for table in tables:
                with connection.cursor(name="alone") as cursor:
                    cursor.itersize = 10_000
                    _count(cursor.execute(f"SELECT * FROM dibs.{table}".encode()))  # noqa: S608  # our own
    else:
        database = apsw.Connection(url, flags=apsw.SQLITE_OPEN_READONLY)
        for table in tables:
            _count(database.execute(f"SELECT * FROM {table}"))  # noqa: S608  # our own
        database.close()


def _count(rows: Any) -> int:
    return sum(1 for _ in rows)


def _median(read: Callable[[], object]) -> Took:
    read()
    took = [_timed(read) for _ in range(ROUNDS)]
    return Took(statistics.median(one.wall for one in took), statistics.median(one.cpu for one in took))


def _timed(read: Callable[[], object]) -> Took:
    start, computed = time.perf_counter(), time.process_time()
    read()
    return Took((time.perf_counter() - start) * 1000, (time.process_time() - computed) * 1000)
