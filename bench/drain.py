"""Claim and finish, durably, by 1 and by 8 processes, against one process that writes rows through bare SQLite."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import apsw

import dibs

ROUNDS = 3
SECONDS = 4.0
ITEMS = 40_000


def measure() -> tuple[str, list[dict[str, object]]]:
    found: dict[str, list[dict[str, float]]] = {
        "raw apsw, 1 process": [],
        "dibs, 1 process": [],
        "dibs, 8 processes": [],
    }
    for _ in range(ROUNDS):
        found["raw apsw, 1 process"].append(_raw())
        found["dibs, 1 process"].append(_fleet(1))
        found["dibs, 8 processes"].append(_fleet(8))
    rows: list[dict[str, object]] = []
    for who, rounds in found.items():
        middle = {key: statistics.median(one[key] for one in rounds) for key in rounds[0]}
        rows.append({"who": who, **middle})
    return "Claim + done on SQLite, WAL, synchronous FULL (pairs/s; waits in ms)", rows


def _raw() -> dict[str, float]:
    """The same number of durable transactions and about the same rows, with nothing decided."""
    with tempfile.TemporaryDirectory() as folder:
        database = apsw.Connection(os.path.join(folder, "raw.db"))
        database.execute("PRAGMA journal_mode = WAL").fetchall()
        database.execute("PRAGMA synchronous = FULL").fetchall()
        database.execute(
            "CREATE TABLE items (seq INTEGER PRIMARY KEY, id TEXT UNIQUE, title TEXT, status TEXT, token INTEGER);"
            "CREATE INDEX ready ON items (status, seq);"
            "CREATE TABLE claims (item TEXT PRIMARY KEY, token INTEGER, session TEXT, expires_at INTEGER);"
            "CREATE TABLE runs (item TEXT, token INTEGER, session TEXT, outcome TEXT, PRIMARY KEY (item, token));"
            "CREATE TABLE events (id INTEGER PRIMARY KEY, item TEXT, number INTEGER, kind TEXT, data TEXT,"
            " UNIQUE (item, number));"
        )
        database.execute("BEGIN")
        for n in range(ITEMS):
            database.execute("INSERT INTO items (id, title, status, token) VALUES (?, 'x', 'ready', 0)", (f"item-{n}",))
        database.execute("COMMIT")
        pairs, worst, end = 0, 0.0, time.perf_counter() + SECONDS
        while (start := time.perf_counter()) < end:
            database.execute("BEGIN IMMEDIATE")
            ((item,),) = database.execute("SELECT id FROM items WHERE status = 'ready' ORDER BY seq LIMIT 1").fetchall()
            database.execute("UPDATE items SET status = 'in_progress', token = 1 WHERE id = ?", (item,))
            database.execute("INSERT INTO claims VALUES (?, 1, 'me', 0)", (item,))
            database.execute("INSERT INTO runs VALUES (?, 1, 'me', NULL)", (item,))
            database.execute("INSERT INTO events (item, number, kind, data) VALUES (?, 2, 'claimed', '{}')", (item,))
            database.execute("COMMIT")
            database.execute("BEGIN IMMEDIATE")
            database.execute("UPDATE items SET status = 'done' WHERE id = ? AND token = 1", (item,))
            database.execute("DELETE FROM claims WHERE item = ? AND token = 1", (item,))
            database.execute("UPDATE runs SET outcome = 'done' WHERE item = ? AND token = 1", (item,))
            database.execute("INSERT INTO events (item, number, kind, data) VALUES (?, 3, 'done', '{}')", (item,))
            database.execute("COMMIT")
            worst = max(worst, (time.perf_counter() - start) * 1000 / 2)
            pairs += 1
        return {"pairs/s": pairs / SECONDS, "slowest/fastest": 1.0, "worst wait": worst}


def _fleet(processes: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "board.db")
        board = dibs.connect(path, create=True)
        for start in range(0, ITEMS, 1000):
            board.add_many([{"title": "an item", "id": f"item-{n}"} for n in range(start, start + 1000)])
        command = [sys.executable, "-m", "bench.drain", path, str(SECONDS)]
        workers = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(processes)]
        for worker in workers:
            assert worker.stdout is not None
            worker.stdout.readline()
        for worker in workers:
            assert worker.stdin is not None
            worker.stdin.write(b"go\n")
            worker.stdin.flush()
        results = [json.loads(worker.communicate()[0]) for worker in workers]
    pairs = [result["pairs"] for result in results]
    return {
        "pairs/s": sum(pairs) / SECONDS,
        "slowest/fastest": min(pairs) / max(pairs),
        "worst wait": max(result["worst"] for result in results),
    }


def work(path: str, seconds: float) -> None:
    board = dibs.connect(path)
    me = board.start_session("bench").id
    print("ready", flush=True)
    sys.stdin.readline()
    pairs, worst, end = 0, 0.0, time.perf_counter() + seconds
    while (start := time.perf_counter()) < end:
        (grant,) = board.next(session=me)
        claimed = time.perf_counter()
        board.done(grant.item.id, session=me, token=grant.claim.token)
        worst = max(worst, (claimed - start) * 1000, (time.perf_counter() - claimed) * 1000)
        pairs += 1
    print(json.dumps({"pairs": pairs, "worst": worst}))


if __name__ == "__main__":
    work(sys.argv[1], float(sys.argv[2]))
