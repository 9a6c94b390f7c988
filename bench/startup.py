"""How long a cold `dibs claim` takes, against an interpreter that does nothing."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time

import dibs

ROUNDS = 41


def measure() -> tuple[str, list[dict[str, object]]]:
    with tempfile.TemporaryDirectory() as folder:
        board = dibs.connect(os.path.join(folder, "board.db"), create=True)
        board.start_session("coder", id="bench")
        for n in range(ROUNDS):
            board.add("an item", id=f"item-{n}")
        board.close()
        script = os.path.join(os.path.dirname(sys.executable), "dibs")
        place = {**os.environ, "DIBS_STORE": os.path.join(folder, "board.db"), "DIBS_SESSION": "bench"}
        bare, claim, ratios = [], [], []
        for n in range(ROUNDS):
            bare.append(_timed([sys.executable, "-c", "pass"], place))
            claim.append(_timed([script, "claim", f"item-{n}", "--json"], place))
            ratios.append(claim[-1] / bare[-1])
    return "A cold `dibs claim --json` on SQLite (ms, median of interleaved runs)", [
        {
            "bare python": statistics.median(bare),
            "dibs claim": statistics.median(claim),
            "median of ratios": statistics.median(ratios),
        }
    ]


def _timed(command: list[str], place: dict[str, str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, env=place, stdout=subprocess.DEVNULL, check=True)
    return (time.perf_counter() - start) * 1000
