"""Claim + done through the server, against the same clients on the store itself; and what sharing a commit is worth.

Thirty-two clients in eight processes, each with a session of its own, finish what they have and take the next in one
step. Rounds take turns, and what is told is the median of each. `commits` is how many durable commits there were for
each claim with its end: one by one it is one, together it is a part of one.

    python -m bench serving --rounds 1 --seconds 2
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence

from bench import servers
from dibs.board import Board, connect
from dibs.store.sqlite.store import SqliteStore
from tests.kit.http import Host, open_board

PROCESSES, THREADS = 8, 4
ITEMS = 12_000
BATCH = 1000


def measure(arguments: Sequence[str] = ()) -> tuple[str, list[dict[str, object]]]:
    parser = argparse.ArgumentParser(prog="python -m bench serving")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0)
    asked = parser.parse_args(arguments)
    found: dict[tuple[str, str], list[float]] = {}
    for _ in range(asked.rounds):
        for kind in ("SQLite", "PostgreSQL") if servers.is_there() else ("SQLite",):
            with _place(kind) as url:
                found.setdefault((kind, "itself"), []).append(_fleet({"url": url}, asked.seconds))
            with _place(kind) as url, served(url) as server:
                found.setdefault((kind, "over HTTP"), []).append(_fleet({"server": server}, asked.seconds))
    rows = [_row(found, kind, way) for kind, way in found]
    return f"Claim + done by {PROCESSES * THREADS} clients (pairs/s)", [*rows, *_together(asked.seconds)]


def _row(found: dict[tuple[str, str], list[float]], kind: str, way: str) -> dict[str, object]:
    ratios = [mine / its for mine, its in zip(found[kind, way], found[kind, "itself"], strict=True)]
    return _line(kind, way, statistics.median(found[kind, way]), statistics.median(ratios), None)


def _line(kind: str, way: str, pairs: float, ratio: float | None, commits: float | None) -> dict[str, object]:
    return {"store": kind, "way": way, "pairs/s": pairs, "of the store": ratio, "commits a pair": commits}


@contextlib.contextmanager
def _place(kind: str) -> Iterator[str]:
    """A board with enough to do, durable."""
    with contextlib.ExitStack() as stack:
        if kind == "SQLite":
            url = os.path.join(stack.enter_context(tempfile.TemporaryDirectory()), "board.db")
        else:
            server = stack.enter_context(servers.durable_server())
            server.create_database("board")
            url = server.url("board")
        with connect(url, create=True, seeded=False) as board:
            _fill(board)
        yield url


def _fill(board: Board) -> None:
    for start in range(0, ITEMS, BATCH):
        board.add_many({"id": f"item-{start + n}", "title": "x"} for n in range(BATCH))


@contextlib.contextmanager
def served(url: str) -> Iterator[tuple[str, str]]:
    host = Host()
    try:
        yield host.serve({"call": "bench.serving:opened", "kwargs": {"url": url}})
    finally:
        host.close()


def opened(*, url: str) -> Board:
    return connect(url, seeded=False)


def _fleet(where: dict[str, object], seconds: float) -> float:
    """How many pairs a second all clients together did."""
    order = json.dumps({**where, "seconds": seconds})
    clients = [
        subprocess.Popen([sys.executable, "-m", "bench.serving", order], stdout=subprocess.PIPE, stdin=subprocess.PIPE)
        for _ in range(PROCESSES)
    ]
    for client in clients:
        assert client.stdout is not None
        assert client.stdout.readline() == b"ready\n"
    for client in clients:
        assert client.stdin is not None
        client.stdin.write(b"go\n")
        client.stdin.flush()
    return sum(int(client.communicate()[0]) for client in clients) / seconds


def _together(seconds: float) -> list[dict[str, object]]:
    """Threads of one process on one SQLite board: what a server's requests do."""
    rows: list[dict[str, object]] = []
    for threads in (1, 64):
        with _place("SQLite") as url, connect(url, seeded=False) as board:
            assert isinstance(board.store, SqliteStore)
            pairs, commits = _work(board, threads, seconds), board.store.engine.commits
        rows.append(_line("SQLite", f"{threads} threads", pairs / seconds, None, commits / pairs))
    return rows


def _work(board: Board, threads: int, seconds: float) -> int:
    counts = [0] * threads
    sessions = [board.start_session("bench").id for _ in range(threads)]
    end = time.monotonic() + seconds

    def work(number: int) -> None:
        done: dict[str, int] = {}
        while time.monotonic() < end:
            (grant,) = board.next(session=sessions[number], done=done)
            done = {grant.item.id: grant.claim.token}
            counts[number] += 1

    running = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return sum(counts)


def main(order: str) -> None:
    asked = json.loads(order)
    server = asked.get("server")
    with open_board(servers=[server]) if server else connect(asked["url"], seeded=False) as board:
        print("ready", flush=True)
        sys.stdin.readline()
        print(_work(board, THREADS, asked["seconds"]))


if __name__ == "__main__":
    main(sys.argv[1])
