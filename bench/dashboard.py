"""What a dashboard reads, against its budget: a board of 5,000 items, and one with a million ended items.

    python -m bench dashboard --stores SQLite

The first board has 200 claims, the other 1,000. Times are medians in milliseconds. The ended items of a SQLite board
are made once, into a cache outside of the checkout, and copied.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import os
import random
import shutil
import signal
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

import apsw
import psycopg

import dibs
from bench import boards
from bench.http_load import Served, served
from dibs.board import Board
from dibs.store.sqlite.database import SCHEMA_VERSION

ROUNDS = 15
#: The ended items span a week.
SPAN_MILLISECONDS = 7 * 86_400_000
CATCH_UP = 100_000
#: The budget has no limit of its own for pages, windows and series: they have that of a view.
VIEW_MILLISECONDS = 150
LIMITS = {"GET /v1/view, kB gz": 120, "stats": 10, "who": 50, "who, its owners here": 50}
WORDS = (
    *("login", "fails", "orders", "schema", "webhooks", "search", "keys", "refund", "currency", "library", "checkout"),
    *("index", "customers", "invoices", "migrate", "document", "rotate", "upgrade", "translate", "flaky", "slow"),
)

#: When an item is added, claimed (its third event) and done (its fourth).
_TIMES = {
    "items": {"created_at": "0", "updated_at": "400"},
    "runs": {"started_at": "200", "ended_at": "400"},
    "events": {"at": "CASE WHEN x.number > 2 THEN 200 * (x.number - 2) ELSE 0 END"},
}


class Size(NamedTuple):
    ended: int
    ready: int
    claims: int

    def __str__(self) -> str:
        return f"{sum(self):,} items" if self.ended < self.ready else f"{self.ended:,} ended"


SMALL, LARGE = Size(1_000, 3_800, 200), Size(1_000_000, 2_000, 1_000)

Figures = dict[str, float]


def measure(arguments: Sequence[str] = ()) -> tuple[str, list[dict[str, object]]]:
    parser = argparse.ArgumentParser(prog="bench dashboard")
    parser.add_argument("--ended", type=int, default=LARGE.ended)
    parser.add_argument("--stores", default="SQLite,PostgreSQL")
    asked = parser.parse_args(arguments)
    sizes = (SMALL, LARGE._replace(ended=asked.ended))
    rows: list[dict[str, object]] = []
    with boards.stores() as stores:
        for store in asked.stores.split(","):
            if store in stores:
                urls = {size: made(store, stores[store](), size) for size in sizes}
                rows += table(store, {str(size): measured(url) for size, url in urls.items()})
    return "What a dashboard reads, with its limits (ms)", rows


def table(store: str, found: dict[str, Figures]) -> list[dict[str, object]]:
    return [
        {
            **{"store": store, "read": name, "at most": LIMITS.get(name, VIEW_MILLISECONDS)},
            **{size: figures[name] for size, figures in found.items()},
        }
        for name in next(iter(found.values()))
    ]


def made(store: str, url: str, size: Size) -> str:
    """Fill an empty board. Its figures are up to date, as a server keeps them."""
    FILL[store](url, size.ended)
    words = random.Random(1)
    with dibs.connect(url) as board:
        for start in range(0, size.claims + size.ready, 1000):
            numbers = range(start, min(start + 1000, size.claims + size.ready))
            board.add_many([{"title": " ".join(words.sample(WORDS, 5)), "id": f"live-{n}"} for n in numbers])
        for _ in range(size.claims):
            board.next(session=board.start_session("coder").id, ttl_seconds=7200)
        while board.store.catch_up(CATCH_UP):
            pass
    return url


def measured(url: str) -> Figures:
    figures: Figures = {}
    with served(url) as server:
        figures["GET /v1/view, kB gz"] = len(_fetch(server)) / 1000
        figures["GET /v1/view"] = _median(lambda: _fetch(server))
    with dibs.connect(url) as board:
        figures |= {name: _median(read) for name, read in _reads(board).items()}
        with _given_owners(board):
            figures["who, its owners here"] = _median(board.who)
            figures["view, its owners here"] = _median(board.view)
    return figures


def _reads(board: Board) -> dict[str, Callable[[], object]]:
    day = 86_400_000
    now = board.view().at
    return {
        "view": board.view,
        "stats": board.stats,
        "who": board.who,
        "page": board.page,
        "page, filtered": lambda: board.page(status=["ready"], q="webhooks", sort="updated"),
        "window, 1 h": lambda: board.window(limit=5000),
        "series, 4 h": board.series,
        "series, 24 h": lambda: board.series(from_=now - day, step=600),
        "vitals": board.store.vitals,
    }


def _fetch(server: Served) -> bytes:
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc)
    with contextlib.closing(connection):
        headers = {"Accept-Encoding": "gzip", "Authorization": f"Bearer {server.key}"}
        connection.request("GET", "/v1/view", headers=headers)
        answer = connection.getresponse()
        content = answer.read()
        assert (answer.status, answer.getheader("Content-Encoding")) == (200, "gzip"), content
        return content


def _median(read: Callable[[], object]) -> float:
    times = []
    read()
    for _ in range(ROUNDS):
        start = time.perf_counter()
        read()
        times.append((time.perf_counter() - start) * 1000)
    return statistics.median(times)


@contextlib.contextmanager
def _given_owners(board: Board) -> Iterator[None]:
    """The sessions with claims are owned by processes of this machine, which do nothing. A session without an owner may
    name one when it is started again."""
    held = [line.claim.session for line in board.who() if line.claim is not None]
    with _processes(len(held)) as owners:
        for session, pid in zip(held, owners, strict=True):
            board.end_session(session)
            board.start_session("coder", id=session, owner_pid=pid)
            board.next(session=session, ttl_seconds=7200)
        yield


@contextlib.contextmanager
def _processes(count: int) -> Iterator[list[int]]:
    pids = []
    for _ in range(count):
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


def _template(board: Board) -> None:
    board.add("an item that has ended", id="template", body="text " * 20)
    me = board.start_session("bench").id
    board.claim("template", session=me)
    board.done("template", session=me, cost={"usd": 1.25, "input_tokens": 12_000})


def _fill_sqlite(path: str, ended: int) -> None:
    cache = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "dibs-bench")
    kept = os.path.join(cache, f"ended-{SCHEMA_VERSION}-{ended}.db")
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
            later = _TIMES[table].get(name)
            value = f"x.{name}" if later is None else f"{at} + {later}"
            values.append("'ended-' || n" if name == key else value)
        order = ", x.number" if table == "events" else ""
        statements.append(
            f"INSERT INTO {schema}{table} ({', '.join(names)}) SELECT {', '.join(values)}"  # noqa: S608  # our own
            f" FROM {series} CROSS JOIN {schema}{table} x WHERE x.{key} = 'template' ORDER BY n{order}"
        )
    return statements


FILL = {"SQLite": _fill_sqlite, "PostgreSQL": _fill_postgres}
