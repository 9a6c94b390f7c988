"""Next and done, durably, by 1 and by 8 processes, beside a bare loop of apsw that writes the same rows, and beside job
queues on SQLite; and the CPU time of a pair where the disk takes none."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import apsw

import dibs
from bench import sqlite_peers
from bench.raw_sqlite import RawBoard
from dibs.model import Grant

ROUNDS = 5
SECONDS = 1.5
ITEMS = 20_000
RAW = "bare apsw, 1 process"
PEERS = sqlite_peers.installed()
#: By name, the worker program and the number of processes. Eight bare loops show how fair the lock itself is.
FLEETS = {
    RAW: ("raw", 1),
    "dibs, 1 process": ("dibs", 1),
    "bare apsw, 8 processes": ("raw", 8),
    "dibs, 8 processes": ("dibs", 8),
    **{f"{peer}, {count} process{'es' * (count > 1)}": (peer, count) for peer in PEERS for count in (1, 8)},
}
#: How many pairs of each kind are timed in turn for their CPU time, and how often.
CPU_PAIRS, CPU_TURNS = 100, 20
#: A filesystem in memory.
MEMORY = "/dev/shm"  # a folder of its own is made in it


def measure() -> tuple[str, list[dict[str, object]]]:
    with tempfile.TemporaryDirectory() as folder:
        boards = {"raw": _filled(os.path.join(folder, "board.db"), ITEMS)}
        boards["dibs"] = boards["raw"]
        for peer in PEERS:
            boards[peer] = os.path.join(folder, f"{peer}.db")
            sqlite_peers.fill(peer, boards[peer], ITEMS)
        rounds = [
            {who: _fleet(boards[program], program, processes) for who, (program, processes) in FLEETS.items()}
            for _ in range(ROUNDS)
        ]
    cpu = _cpu_microseconds()
    rows: list[dict[str, object]] = []
    for who, (program, processes) in FLEETS.items():
        found = {key: statistics.median(one[who][key] for one in rounds) for key in rounds[0][who]}
        ratio = statistics.median(one[who]["pairs/s"] / one[RAW]["pairs/s"] for one in rounds)
        rows.append(
            {"who": who, **found, "of bare": ratio, "CPU of a pair": cpu.get(program) if processes == 1 else None}
        )
    sqlite = f"SQLite {apsw.sqlite_lib_version()}, apsw {apsw.apsw_version()}, WAL, synchronous FULL"
    return f"Next + done on {sqlite} (waits in ms; CPU in us, without the disk; medians of {ROUNDS} rounds)", rows


def _filled(path: str, items: int) -> str:
    with dibs.connect(path, create=True) as board:
        for start in range(0, items, 1000):
            board.add_many([{"title": "an item", "id": f"item-{n}"} for n in range(start, min(start + 1000, items))])
    return path


def _fleet(filled: str, program: str, processes: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        path = shutil.copy(filled, folder)
        command = [sys.executable, "-m", "bench.drain", path, str(SECONDS), program]
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


def work(path: str, seconds: float, program: str = "dibs") -> None:
    take, end = _verbs(program, path)
    print("ready", flush=True)
    sys.stdin.readline()
    pairs, worst, until = 0, 0.0, time.perf_counter() + seconds
    while (start := time.perf_counter()) < until:
        taken = take()
        claimed = time.perf_counter()
        end(taken)
        worst = max(worst, (claimed - start) * 1000, (time.perf_counter() - claimed) * 1000)
        pairs += 1
    print(json.dumps({"pairs": pairs, "worst": worst}))


def _verbs(program: str, path: str) -> sqlite_peers.Verbs:
    if program in PEERS:
        return sqlite_peers.verbs(program, path)
    return _raw_verbs(path) if program == "raw" else _board_verbs(path)


def _raw_verbs(path: str, *, durable: bool = True) -> sqlite_peers.Verbs:
    raw = RawBoard(path)
    if not durable:
        raw.connection.execute("PRAGMA synchronous = OFF").fetchall()
    return raw.next, lambda taken: raw.done(*taken)


def _board_verbs(path: str, *, durable: bool = True) -> sqlite_peers.Verbs:
    board = dibs.connect(path)
    if not durable:
        board.store.engine.connection().execute("PRAGMA synchronous = OFF").fetchall()  # type: ignore[attr-defined]
    me = board.start_session("bench").id

    def take() -> Grant:
        (grant,) = board.next(session=me)
        return grant

    return take, lambda grant: board.done(grant.item.id, session=me, token=grant.claim.token)


def _cpu_microseconds() -> dict[str, float]:
    """The median CPU time of a pair, of the bare loop and of dibs in turn, on boards in memory and without syncs."""
    with tempfile.TemporaryDirectory(dir=MEMORY if os.path.isdir(MEMORY) else None) as folder:
        verbs = {}
        for program, make in (("raw", _raw_verbs), ("dibs", _board_verbs)):
            path = _filled(os.path.join(folder, f"{program}.db"), (CPU_TURNS + 1) * CPU_PAIRS)
            verbs[program] = make(path, durable=False)
        took: dict[str, list[float]] = {program: [] for program in verbs}
        for turn in range(CPU_TURNS + 1):
            for program, (take, end) in verbs.items():
                start = time.process_time()
                for _ in range(CPU_PAIRS):
                    end(take())
                if turn:  # the first one loads modules and prepares statements
                    took[program].append((time.process_time() - start) * 1e6 / CPU_PAIRS)
        return {program: statistics.median(times) for program, times in took.items()}


if __name__ == "__main__":
    work(sys.argv[1], float(sys.argv[2]), *sys.argv[3:])
