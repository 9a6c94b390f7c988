"""What a claim costs on a grown board: a million ended and a hundred thousand ready items, against a thousand."""

from __future__ import annotations

import os
import statistics
import tempfile
import time

import apsw

import dibs
from dibs.board import Board

CLAIMS = 300
SIZES = {"1,000 ready": (0, 1_000), "100,000 ready, 1,000,000 ended": (1_000_000, 100_000)}


def measure() -> tuple[str, list[dict[str, object]]]:
    with tempfile.TemporaryDirectory() as folder:
        boards = {size: _board(os.path.join(folder, f"{n}.db"), *SIZES[size]) for n, size in enumerate(SIZES)}
        times: dict[str, list[float]] = {size: [] for size in SIZES}
        sessions = {size: board.start_session("bench").id for size, board in boards.items()}
        for _ in range(CLAIMS):
            for size, board in boards.items():
                start = time.perf_counter()
                (grant,) = board.next(session=sessions[size])
                board.done(grant.item.id, session=sessions[size], token=grant.claim.token)
                times[size].append((time.perf_counter() - start) * 1000)
    small = statistics.median(times["1,000 ready"])
    rows: list[dict[str, object]] = [
        {"board": size, "claim + done": statistics.median(took), "ratio": statistics.median(took) / small}
        for size, took in times.items()
    ]
    return "Growth on SQLite (ms, median, interleaved)", rows


def _board(path: str, ended: int, ready: int) -> Board:
    """A board with so many items, the ended ones copied in bulk behind its back."""
    board = dibs.connect(path, create=True)
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
    return board
