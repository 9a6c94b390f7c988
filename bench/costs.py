"""What is not to cost more on SQLite: `next` and `done` of an item with a large payload, and `next` after thousands of
claims expired at once."""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time

import apsw

import dibs
from dibs.board import Board

ROUNDS = 5
PAIRS = 40
PAYLOAD = {"log": "one line of a log of a hundred kilobytes\n" * 2500}
EXPIRED = 10_000
#: How many `next` are timed after the first one.
NEXTS = 20


def measure() -> tuple[str, list[dict[str, object]]]:
    rows = [*_payload(), *_expiry()]
    return f"What is not to cost more on SQLite (ms; medians of {ROUNDS} rounds)", rows


def _payload() -> list[dict[str, object]]:
    """Pairs with and without a payload in turn, on one board each."""
    kinds = {"without a payload": {}, "with 100 KB of payload": PAYLOAD}
    times: dict[tuple[str, str], list[float]] = {(verb, kind): [] for kind in kinds for verb in ("next", "done")}
    with tempfile.TemporaryDirectory() as folder:
        boards = {kind: dibs.connect(os.path.join(folder, f"{len(kind)}.db"), create=True) for kind in kinds}
        me = {kind: board.start_session("bench").id for kind, board in boards.items()}
        for kind, payload in kinds.items():
            for _ in range(ROUNDS * PAIRS // 10):
                boards[kind].add_many([{"title": "an item", "payload": payload}] * 10)
        for _ in range(ROUNDS * PAIRS):
            for kind, board in boards.items():
                start = time.perf_counter()
                (grant,) = board.next(session=me[kind])
                claimed = time.perf_counter()
                board.done(grant.item.id, session=me[kind], token=grant.claim.token)
                times["next", kind].append((claimed - start) * 1000)
                times["done", kind].append((time.perf_counter() - claimed) * 1000)
        for board in boards.values():
            board.close()
    return [
        {
            "what": f"{verb}, an item {kind}",
            "ms": statistics.median(took),
            "times": statistics.median(took) / statistics.median(times[verb, "without a payload"]),
        }
        for (verb, kind), took in times.items()
    ]


def _expiry() -> list[dict[str, object]]:
    """`next` after claims expired at once, and after none did, each on copies of one board."""
    first: list[float] = []
    later: list[float] = []
    usual: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        original = os.path.join(folder, "board.db")
        _claimed(original)
        for number in range(ROUNDS):
            for name, took, is_expired in (("usual", usual, False), ("expired", later, True)):
                path = os.path.join(folder, f"{name}{number}.db")
                shutil.copy(original, path)
                if is_expired:
                    _expire(path)
                with dibs.connect(path) as board:
                    found = [_timed_next(board) for _ in range(NEXTS + 1)]
                took += found[1:]
                if is_expired:
                    first.append(found[0])
                os.unlink(path)
    return [
        {"what": what, "ms": statistics.median(took), "times": statistics.median(took) / statistics.median(usual)}
        for what, took in (
            (f"next, {EXPIRED:,} live claims", usual),
            (f"the first next after {EXPIRED:,} claims expired at once", first),
            (f"the {NEXTS} after it", later),
        )
    ]


def _claimed(path: str) -> None:
    with dibs.connect(path, create=True) as board:
        me = board.start_session("holder", id="bench").id
        for _ in range(EXPIRED // 500):
            board.add_many([{"title": "an item"} for _ in range(500)])
            for _ in range(5):
                board.next(session=me, n=100)
        board.add_many([{"title": "an item"} for _ in range(500)])
    _checkpoint(path, "SELECT 1")


def _expire(path: str) -> None:
    _checkpoint(path, "UPDATE claims SET expires_at = claimed_at + 1, deadline_at = claimed_at + 1")


def _checkpoint(path: str, statement: str) -> None:
    """Run a statement behind the board's back, and leave all in one file."""
    database = apsw.Connection(path)
    database.execute(statement).fetchall()
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    database.close()


def _timed_next(board: Board) -> float:
    start = time.perf_counter()
    (grant,) = board.next(session="bench")
    took = (time.perf_counter() - start) * 1000
    assert grant.claim.token >= 1
    return took
