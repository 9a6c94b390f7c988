"""A vault: claims and ends by 1 and by 8 processes, what a cold `dibs next` takes where there are 10,000 files, and
claims in a clone whose hub has to accept each push."""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

import dibs
from dibs.store.vault.git import hub

SECONDS = 4.0
ROUNDS = 21
#: So many files for a fleet, which are enough for the fastest; and so many for one who comes alone.
ITEMS, ITEMS_MAX = 2_000, 10_000
#: How many pushes are timed, by how many claims are in each.
PUSHES = {1: 20, 10: 10, 100: 5}

#: In a process of its own, so many pairs.
COUNTED_PAIRS = 400
PAIRS = """
import dibs
board = dibs.connect({url!r})
for _ in range({pairs}):
    (grant,) = board.next(session="bench")
    board.done(grant.item.id, session="bench", token=grant.claim.token)
board.close()
"""


def measure(arguments: Sequence[str] = ()) -> tuple[str, list[dict[str, object]]]:
    parser = argparse.ArgumentParser(prog="python -m bench vault")
    parser.add_argument("--only", choices=["fleets"], help="leave cold commands and git out")
    asked = parser.parse_args(arguments)
    rows = [_claims(processes) for processes in (1, 8)]
    if asked.only is None:
        rows += [row for items in (100, ITEMS_MAX) for row in _cold(items)]
        rows += [_pushed(batch, pushes) for batch, pushes in PUSHES.items()]
    return (
        "A vault: markdown files, each claim on the disk (ms: the longest wait; of cold commands, the median)",
        rows,
    )


def _row(what: str, **figures: float | None) -> dict[str, object]:
    columns = ("pairs/s", "ms", "ms of CPU", "syncs a pair", "syncs alone, pairs/s")
    return {"what": what, **dict.fromkeys(columns), **figures}


def _claims(processes: int) -> dict[str, object]:
    pairs, worst = _fleet(processes)
    what = f"claim + done, {processes} process{'es' * (processes > 1)}"
    if processes > 1:
        return _row(what, **{"pairs/s": pairs, "ms": worst})
    syncs = _syncs_of_a_pair()
    alone = None if syncs is None else _syncs_per_second() / syncs
    return _row(what, **{"pairs/s": pairs, "ms": worst, "syncs a pair": syncs, "syncs alone, pairs/s": alone})


def _syncs_of_a_pair() -> float | None:
    """As strace counts them, with the few of the start among them. None where there is no strace."""
    if shutil.which("strace") is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        url, counts = _vault(folder, COUNTED_PAIRS), os.path.join(folder, "counts")
        program = PAIRS.format(url=url, pairs=COUNTED_PAIRS)
        command = ["strace", "-f", "-o", counts, "-e", "trace=fsync,fdatasync", sys.executable, "-c", program]
        subprocess.run(command, check=True)
        with open(counts, encoding="utf-8") as file:
            calls = re.findall(r"\bf(?:data)?sync\(", file.read())
    return len(calls) / COUNTED_PAIRS


def _syncs_per_second() -> float:
    """Of a small file on the disk that vaults are on here, each after a write."""
    with tempfile.NamedTemporaryFile() as file:
        count, end = 0, time.perf_counter() + 1.0
        while time.perf_counter() < end:
            file.write(b"a line of a note\n")
            file.flush()
            os.fsync(file.fileno())
            count += 1
    return count


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
        _row(
            f"cold dibs next, {items} files",
            ms=statistics.median(wall for wall, _ in taken),
            **{"ms of CPU": statistics.median(cpu for _, cpu in taken)},
        )
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
    return _row(f"claims a second over git, {batch} a push", **{"pairs/s": rate, "ms": max(waits) * 1000})


def _timed(command: list[str], place: dict[str, str]) -> tuple[float, float]:
    """How long it took, and how much of that it computed."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, env=place, stdout=subprocess.DEVNULL, check=True)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall * 1000, cpu * 1000
