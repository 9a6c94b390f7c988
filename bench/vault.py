"""A vault: claims and ends by 1 and by 8 processes, what a cold `dibs next` takes where there are 10,000 files, and
claims in a clone whose hub has to accept each push."""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import dibs
from dibs.store.vault.git import hub

SECONDS = 4.0
ROUNDS = 21
#: So many files for a fleet, which are enough for the fastest; and so many for one who comes alone.
ITEMS, ITEMS_MAX = 2_000, 10_000
#: How many pushes are timed, by how many claims are in each.
PUSHES = {1: 20, 10: 10, 100: 5}


def measure() -> tuple[str, list[dict[str, object]]]:
    rows: list[dict[str, object]] = []
    for processes in (1, 8):
        pairs, worst = _fleet(processes)
        rows.append(
            {
                "what": f"claim + done, {processes} process{'es' * (processes > 1)}",
                "pairs/s": pairs,
                "ms": worst,
                "ms of CPU": None,
            }
        )
    for items in (100, ITEMS_MAX):
        rows += _cold(items)
    for batch, pushes in PUSHES.items():
        rows.append(_pushed(batch, pushes))
    return (
        "A vault: markdown files, each claim on the disk (ms: the longest wait; of cold commands, the median)",
        rows,
    )


def _vault(folder: str, items: int) -> str:
    """Files as people write them, and an index that has seen them."""
    os.mkdir(os.path.join(folder, "Needs_Action"))
    for number in range(items):
        with open(os.path.join(folder, "Needs_Action", f"task-{number:05}.md"), "w", encoding="utf-8") as file:
            file.write(f"# Task {number}\n\nWhat there is to do about {number}.\n")
    board = dibs.connect(f"vault:{folder}")
    board.start_session("bench", id="bench")
    board.list(limit=1)
    board.close()
    return f"vault:{folder}"


def _fleet(processes: int) -> tuple[float, float]:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "bench.drain", _vault(folder, ITEMS), str(SECONDS)]
        workers = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(processes)]
        for worker in workers:
            assert worker.stdout is not None
            worker.stdout.readline()
        for worker in workers:
            assert worker.stdin is not None
            worker.stdin.write(b"go\n")
            worker.stdin.flush()
        results = [json.loads(worker.communicate()[0]) for worker in workers]
    return sum(one["pairs"] for one in results) / SECONDS, max(one["worst"] for one in results)


def _cold(items: int) -> list[dict[str, object]]:
    with tempfile.TemporaryDirectory() as folder:
        place = {**os.environ, "DIBS_STORE": _vault(folder, items), "DIBS_SESSION": "bench"}
        script = os.path.join(os.path.dirname(sys.executable), "dibs")
        taken = [_timed([script, "next", "--json"], place) for _ in range(ROUNDS)]
    return [
        {
            "what": f"cold dibs next, {items} files",
            "pairs/s": None,
            "ms": statistics.median(wall for wall, _ in taken),
            "ms of CPU": statistics.median(cpu for _, cpu in taken),
        }
    ]


def _pushed(batch: int, pushes: int) -> dict[str, object]:
    """Claims of one clone and a hub on the same disk."""
    with tempfile.TemporaryDirectory() as folder:
        bare, clone = os.path.join(folder, "hub.git"), os.path.join(folder, "clone")
        hub.make(bare)
        subprocess.run(["git", "clone", "--quiet", bare, clone], check=True, stderr=subprocess.DEVNULL)
        board = dibs.connect(_vault(clone, batch * pushes))
        board.store.sync()
        waits = []
        for _ in range(pushes):
            start = time.perf_counter()
            assert len(board.next(session="bench", n=batch)) == batch
            waits.append(time.perf_counter() - start)
        board.close()
    rate = batch / statistics.median(waits)
    return {
        "what": f"claims a second over git, {batch} a push",
        "pairs/s": rate,
        "ms": max(waits) * 1000,
        "ms of CPU": None,
    }


def _timed(command: list[str], place: dict[str, str]) -> tuple[float, float]:
    """How long it took, and how much of that it computed."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, env=place, stdout=subprocess.DEVNULL, check=True)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall * 1000, cpu * 1000
