"""Claims while somebody holds a snapshot open, so that no dead row can be cleaned away.

Eight connections make 800 claims a second between them, each ended at once, for a minute. What is told is the time of a
claim and the blocks that a claim + end reads, in the first and in the last ten seconds: dibs as it is shipped, and for
contrast the usual claim, which scans the head of a table with the same rows and keeps no history.

Claims have their times, whatever became of the earlier ones: `late` is how long after its time a claim was there.

    python -m bench horizon --seconds 12
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import IO, Any

import psycopg

import dibs
from bench import servers
from bench.contest import rows

WORKERS = 8
CLAIMS_PER_SECOND = 800
WINDOW_SECONDS = 10.0
#: Before anything counts, for connections and plans.
WARM_UP_CLAIMS = 30

HEAD_SCAN = (
    "UPDATE head_scan SET status = 'in_progress' WHERE id = (SELECT id FROM head_scan WHERE status = 'ready'"
    " AND lane = %s ORDER BY seq LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id"
)
HEAD_SCAN_END = "UPDATE head_scan SET status = 'done' WHERE id = %s"

#: When a claim was made, how long it took, how late it was there: seconds since the start, and ms.
Sample = tuple[float, float, float]
Blocks = list[tuple[float, int]]


def measure(arguments: Sequence[str] = ()) -> tuple[str, list[dict[str, object]]]:
    parser = argparse.ArgumentParser(prog="python -m bench horizon")
    parser.add_argument("--seconds", type=float, default=60.0)
    seconds: float = parser.parse_args(arguments).seconds
    title = f"{CLAIMS_PER_SECOND} claims/s under a pinned horizon for {seconds:g} s (ms; blocks per claim + end)"
    if not servers.is_there():
        return title, [{"left out": servers.MISSING}]
    with servers.durable_server() as server:
        server.create_database("board")
        url = server.url("board")
        rows.make_board(url)
        rows.refill(url, int(CLAIMS_PER_SECOND * seconds * 1.2) + WORKERS * WARM_UP_CLAIMS)
        _copy_for_head_scan(url)
        return title, [_row(who, *_run(who, url, seconds), seconds) for who in WAYS]


def _copy_for_head_scan(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE head_scan AS SELECT * FROM dibs.items")
        connection.execute("ALTER TABLE head_scan ADD PRIMARY KEY (id)")
        connection.execute("CREATE INDEX head_scan_ready ON head_scan (lane, seq) WHERE status = 'ready'")
        connection.execute("VACUUM ANALYZE head_scan")
        connection.execute("CHECKPOINT")


def _run(who: str, url: str, seconds: float) -> tuple[list[Sample], Blocks]:
    command = [sys.executable, "-m", "bench.horizon", who, url, str(seconds)]
    workers = [
        subprocess.Popen([*command, str(number)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for number in range(WORKERS)
    ]
    for worker in workers:
        assert _out(worker).readline() == "ready\n"
    with psycopg.connect(url) as pin:
        pin.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        pin.execute("SELECT 1 FROM dibs.items LIMIT 1")
        for worker in workers:
            assert worker.stdin is not None
            worker.stdin.write("go\n")
            worker.stdin.flush()
        blocks = _watch_blocks(url, seconds)
        samples = [tuple(sample) for worker in workers for sample in json.loads(_out(worker).readline())]
    for worker in workers:
        worker.communicate()
    return samples, blocks


def _watch_blocks(url: str, seconds: float) -> Blocks:
    """How many blocks of this database have been asked for, second by second."""
    found: Blocks = []
    start = time.monotonic()
    with psycopg.connect(url, autocommit=True) as connection:
        while (now := time.monotonic() - start) <= seconds:
            ((blocks,),) = connection.execute(
                "SELECT blks_hit + blks_read FROM pg_stat_database WHERE datname = current_database()"
            ).fetchall()
            found.append((now, int(blocks)))
            time.sleep(min(1.0, max(0.01, seconds - now)))
    return found


def _row(who: str, samples: list[Sample], blocks: Blocks, seconds: float) -> dict[str, object]:
    window = min(WINDOW_SECONDS, seconds / 3)
    first, last = (0.0, window), (seconds - window, seconds)
    spans = {"first": first, "last": last}
    row: dict[str, object] = {"who": who, "claims/s": len(samples) / seconds}
    for name, (place, share) in {"p50": (1, 0.5), "p99": (1, 0.99), "late p99": (2, 0.99)}.items():
        for word, span in spans.items():
            row[f"{name} {word}"] = _share([sample[place] for sample in samples if _within(sample[0], span)], share)
    for word, span in spans.items():
        row[f"blocks {word}"] = _blocks_per_claim(samples, blocks, span)
    p99 = row["p99 first"], row["p99 last"]
    row["p99 ratio"] = p99[1] / p99[0] if isinstance(p99[0], float) and isinstance(p99[1], float) else None
    return row


def _share(values: list[float], share: float) -> float | None:
    return sorted(values)[int(len(values) * share)] if values else None


def _blocks_per_claim(samples: list[Sample], blocks: Blocks, span: tuple[float, float]) -> float | None:
    read = [count for at, count in blocks if _within(at, span)]
    times = [at for at, _ in blocks if _within(at, span)]
    claims = sum(1 for sample in samples if _within(sample[0], (times[0], times[-1])))
    return (read[-1] - read[0]) / claims if claims else None


def _within(at: float, span: tuple[float, float]) -> bool:
    return span[0] <= at <= span[1]


def _out(worker: subprocess.Popen[str]) -> IO[str]:
    assert worker.stdout is not None
    return worker.stdout


# A worker's side

Claim = Callable[[], str]


def dibs_way(url: str) -> tuple[Claim, Callable[[str], object]]:
    board = dibs.connect(url)
    me = board.start_session(rows.AGENT).id
    tokens: dict[str, int] = {}

    def claim() -> str:
        (grant,) = board.next(session=me)
        tokens[grant.item.id] = grant.claim.token
        return grant.item.id

    return claim, lambda item: board.done(item, session=me, token=tokens.pop(item))


def head_scan_way(url: str) -> tuple[Claim, Callable[[str], object]]:
    connection: psycopg.Connection[Any] = psycopg.connect(url, autocommit=True)
    lane = rows.only_lane(url)

    def claim() -> str:
        ((item,),) = connection.execute(HEAD_SCAN, [lane]).fetchall()
        return str(item)

    return claim, lambda item: connection.execute(HEAD_SCAN_END, [item])


WAYS = {"dibs": dibs_way, "head scan": head_scan_way}


def work(who: str, url: str, seconds: float, number: int) -> None:
    claim, end = WAYS[who](url)
    for _ in range(WARM_UP_CLAIMS):
        end(claim())
    print("ready", flush=True)
    sys.stdin.readline()
    start, every, samples = time.monotonic(), WORKERS / CLAIMS_PER_SECOND, []
    due = every * number / WORKERS
    # Whoever cannot keep up ends in time all the same.
    while due < seconds and time.monotonic() - start < seconds:
        time.sleep(max(0.0, start + due - time.monotonic()))
        began = time.monotonic()
        item = claim()
        there = time.monotonic()
        end(item)
        samples.append((began - start, (there - began) * 1000, (there - start - due) * 1000))
        due += every
    print(json.dumps(samples), flush=True)


if __name__ == "__main__":
    work(sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4]))
