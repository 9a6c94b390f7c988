"""What a dashboard reads of a grown board: a million ended items, a thousand sessions with owners on this machine.

    python -m bench dashboard --ended 1000000 --stores SQLite

The ended items of a SQLite board are made once, into a cache outside of the checkout, and copied.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import statistics
import time
from collections.abc import Callable, Iterator, Sequence

import apsw
import psycopg

import dibs
from bench import boards
from dibs.board import Board
from dibs.store.sqlite.database import SCHEMA_VERSION

ENDED = 1_000_000
SESSIONS = 1_000
READY = 2_000
ROUNDS = 9
#: The ended items span a week.
SPAN_MILLISECONDS = 7 * 86_400_000
CATCH_UP = 100_000
TARGETS = {"stats": 10.0, "view": 150.0, "who, 1,000 local owners": 50.0}


_TIMES = {"items": {"created_at": 0, "updated_at": 400}, "runs": {"started_at": 200, "ended_at": 400}}


def measure(arguments: Sequence[str] = ()) -> tuple[str, list[dict[str, object]]]:
    parser = argparse.ArgumentParser(prog="bench dashboard")
    parser.add_argument("--ended", type=int, default=ENDED)
    parser.add_argument("--stores", default="SQLite,PostgreSQL")
    asked = parser.parse_args(arguments)
    rows: list[dict[str, object]] = []
    with boards.stores() as stores:
        for store in asked.stores.split(","):
            if store in stores:
                url = stores[store]()
                FILL[store](url, asked.ended)
                with dibs.connect(url) as board:
                    _enliven(board)
                    rows += _measured(store, board, _reads(board))
                    with _owners() as owners:
                        _give_owners(board, owners)
                        rows += _measured(store, board, {"who, 1,000 local owners": board.who})
                        rows += _measured(store, board, {"view, 1,000 local owners": board.view})
    return f"A dashboard's reads with {asked.ended:,} ended items and {SESSIONS:,} claims (ms)", rows


def _reads(board: Board) -> dict[str, Callable[[], object]]:
    hour = 3_600_000
    now = board.view().at
    return {
        "stats": board.stats,
        "view": board.view,
        "who": board.who,
        "page": board.page,
        "page, words": lambda: board.page(q="item 12", sort="updated"),
        "window, 1 h": lambda: board.window(limit=5000),
        "series, 4 h": board.series,
        "series, 24 h": lambda: board.series(from_=now - 24 * hour, step=600),
        "vitals": board.store.vitals,
    }


@contextlib.contextmanager
def _owners() -> Iterator[list[int]]:
    """Processes that do nothing."""
    pids = []
    for _ in range(SESSIONS):
        pid = os.fork()
        if pid == 0:
            signal.pause()
            os._exit(0)
        pids.append(pid)
    try:
        yield pids
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _give_owners(board: Board, owners: list[int]) -> None:
    """A session without an owner may name one when it is started again."""
    held = [line.claim.session for line in board.who() if line.claim is not None]
    for session, pid in zip(held, owners, strict=True):
        board.end_session(session)
        board.start_session("coder", id=session, owner_pid=pid)
        board.next(session=session, ttl_seconds=7200)


def _measured(store: str, board: Board, reads: dict[str, Callable[[], object]]) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for name, read in reads.items():
        times = []
        for _ in range(ROUNDS):
            start = time.perf_counter()
            read()
            times.append((time.perf_counter() - start) * 1000)
        rows.append(
            {
                **{"store": store, "read": name, "median": statistics.median(times), "worst": max(times)},
                "target": TARGETS.get(name),
            }
        )
    return rows


def _enliven(board: Board) -> None:
    """Sessions with a claim each, and ready items; the figures are up to date, as a server keeps them."""
    for start in range(0, SESSIONS + READY, 1000):
        board.add_many([{"title": f"live item {n}", "id": f"live-{n}"} for n in range(start, start + 1000)])
    for _ in range(SESSIONS):
        board.next(session=board.start_session("coder").id, ttl_seconds=7200)
    while board.store.catch_up(CATCH_UP):
        pass


def _template(board: Board) -> None:
    board.add("an item that has ended", id="template", body="text " * 20)
    me = board.start_session("bench").id
    board.claim("template", session=me)
    board.done("template", session=me)


def _fill_sqlite(path: str, ended: int) -> None:
    cache = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "dibs-bench")
    kept = os.path.join(cache, f"dashboard-{SCHEMA_VERSION}-{ended}.db")
    if not os.path.exists(kept):
        os.makedirs(cache, exist_ok=True)
        with dibs.connect(path) as board:
            _template(board)
        database = apsw.Connection(path)
        database.execute("PRAGMA synchronous = OFF").fetchall()
        series = f"(WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {ended}) SELECT n FROM n)"  # noqa: S608  # our own
        columns = {
            table: [name for _, name, *_ in database.execute(f"PRAGMA table_info({table})")]  # our own
            for table in ("items", "runs", "events")
        }
        for statement in _statements("", columns, series, ended):
            database.execute(statement)
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        database.close()
        shutil.copyfile(path, f"{kept}.partial")
        os.replace(f"{kept}.partial", kept)
    else:
        for suffix in ("-wal", "-shm"):
            if os.path.exists(path + suffix):
                os.unlink(path + suffix)
        shutil.copyfile(kept, path)


def _fill_postgres(url: str, ended: int) -> None:
    with dibs.connect(url) as board:
        _template(board)
    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute(
            "SELECT table_name::text, array_agg(column_name::text ORDER BY ordinal_position)"
            " FROM information_schema.columns WHERE table_schema = 'dibs' GROUP BY 1"
        ).fetchall()
        for statement in _statements("dibs.", dict(found), f"generate_series(1, {ended}) AS n", ended):
            connection.execute(statement.encode())
        connection.execute("ANALYZE")


def _statements(schema: str, columns: dict[str, list[str]], series: str, ended: int) -> list[str]:
    """Copies of the item `template`, with its run and its events, behind the board's back."""
    gap = SPAN_MILLISECONDS // ended
    statements = []
    for table, key in (("items", "id"), ("runs", "item"), ("events", "item")):
        names = [name for name in columns[table] if name != "seq" and not (table == "events" and name == "id")]
        values = []
        for name in names:
            at = f"x.{name} - {SPAN_MILLISECONDS} + n * {gap}"
            later = _TIMES.get(table, {"at": 0}).get(name)
            value = f"x.{name}" if later is None else f"{at} + {later}"
            values.append("'ended-' || n" if name == key else value)
        order = ", x.number" if table == "events" else ""
        statements.append(
            f"INSERT INTO {schema}{table} ({', '.join(names)}) SELECT {', '.join(values)}"  # noqa: S608  # our own
            f" FROM {series} CROSS JOIN {schema}{table} x WHERE x.{key} = 'template' ORDER BY n{order}"
        )
    return statements


FILL = {"SQLite": _fill_sqlite, "PostgreSQL": _fill_postgres}
