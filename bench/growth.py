"""What the verbs of a fleet cost on a grown board: a million ended and a hundred thousand ready items, against a
thousand ready ones."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import apsw

import dibs
from bench import boards
from bench.contest import rows as postgres_rows
from dibs.board import Board

TURNS = 300
#: Ended and ready items.
SIZES = {"new": (0, 1_000), "grown": (1_000_000, 100_000)}
VERBS = ("claim + done", "heartbeat", "list")


def measure() -> tuple[str, list[dict[str, object]]]:
    rows: list[dict[str, object]] = []
    with boards.stores() as stores:
        for store, make in stores.items():
            times = _times({size: _grown(FILL[store], make(), *SIZES[size]) for size in SIZES})
            for verb in VERBS:
                small = statistics.median(times[verb, "new"])
                for size in SIZES:
                    middle = statistics.median(times[verb, size])
                    rows.append({"store": store, "verb": verb, "board": size, "ms": middle, "ratio": middle / small})
    sizes = "; ".join(f"{name}: {ready:,} ready, {ended:,} ended" for name, (ended, ready) in SIZES.items())
    return f"Growth ({sizes}; ms, median, interleaved)", rows


def _times(grown: dict[str, Board]) -> dict[tuple[str, str], list[float]]:
    times: dict[tuple[str, str], list[float]] = {(verb, size): [] for verb in VERBS for size in grown}
    sessions = {size: board.start_session("bench").id for size, board in grown.items()}
    for _ in range(TURNS):
        for size, board in grown.items():
            start = time.perf_counter()
            (grant,) = board.next(session=sessions[size])
            claimed = time.perf_counter()
            board.heartbeat(session=sessions[size])
            beaten = time.perf_counter()
            board.done(grant.item.id, session=sessions[size], token=grant.claim.token)
            ended = time.perf_counter()
            board.list(statuses=["ready"], limit=50)
            times["claim + done", size].append((claimed - start + ended - beaten) * 1000)
            times["heartbeat", size].append((beaten - claimed) * 1000)
            times["list", size].append((time.perf_counter() - ended) * 1000)
    for board in grown.values():
        board.close()
    return times


def _grown(fill: Callable[[str, int, int], None], url: str, ended: int, ready: int) -> Board:
    fill(url, ended, ready)
    return dibs.connect(url)


def _fill_sqlite(path: str, ended: int, ready: int) -> None:
    """The ended ones copied in bulk behind the board's back."""
    with dibs.connect(path) as board:
        for start in range(0, ready, 1000):
            board.add_many([{"title": "an item", "id": f"ready-{n}"} for n in range(start, start + 1000)])
    if ended:
        database = apsw.Connection(path)
        columns = [name for _, name, *_ in database.execute("PRAGMA table_info(items)") if name not in ("seq", "id")]
        values = ", ".join("'done'" if name == "status" else name for name in columns)
        database.execute(
            f"WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {ended})"  # noqa: S608  # our own
            f" INSERT INTO items (id, {', '.join(columns)}) SELECT 'ended-' || n, {values} FROM n, items"
            " WHERE items.id = 'ready-0'"
        )
        database.close()


def _fill_postgres(url: str, ended: int, ready: int) -> None:
    postgres_rows.refill(url, ready, ended)


FILL = {"SQLite": _fill_sqlite, "PostgreSQL": _fill_postgres}
