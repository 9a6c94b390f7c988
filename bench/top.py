"""What `dibs top` costs while nothing happens on the board: processor time, at two sizes, locally and over HTTP.

    python -m bench top --seconds 60

Sessions hold items, so that the time left of each claim is drawn every second. Only Linux tells the processor time.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import dibs
from bench.serving import served
from dibs import config
from tests.e2e.terminal import Terminal

ITEMS, HELD = 500, 10
SIZES = ((80, 24), (200, 50))
LIMIT_PERCENT = 2.0
#: What is done once: imports, the first view, the first drawing.
SETTLE_SECONDS = 5.0


def measure(arguments: Sequence[str] = ()) -> tuple[str, list[dict[str, object]]]:
    parser = argparse.ArgumentParser(prog="bench top")
    parser.add_argument("--seconds", type=float, default=60.0)
    seconds = parser.parse_args(arguments).seconds
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "board.db")
        _fill(file)
        rows += _rows("a file", folder, {config.ENV_STORE: file}, seconds)
        with served(file) as (url, key):
            rows += _rows("a server", folder, {config.ENV_STORE: url, config.ENV_KEY: key}, seconds)
    return f"`dibs top` on a quiet board: {ITEMS} items, {HELD} of them held", rows


def _fill(file: str) -> None:
    with dibs.connect(file, create=True) as board:
        board.add_many([{"title": "an item", "id": f"item-{number}"} for number in range(ITEMS)])
        for number in range(HELD):
            session = board.start_session("coder", id=f"s-{number}", owner_pid=os.getpid())
            board.claim(f"item-{number}", session=session.id, ttl_seconds=3600)


def _rows(board: str, folder: str, place: dict[str, str], seconds: float) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    for columns, lines in SIZES:
        percent = _percent(Path(folder), place, columns, lines, seconds)
        limit = {"at most": LIMIT_PERCENT, "held": "yes" if percent <= LIMIT_PERCENT else "NO"}
        found.append({"board": board, "size": f"{columns}x{lines}", "% of a core": percent, **limit})
    return found


def _percent(folder: Path, place: dict[str, str], columns: int, lines: int, seconds: float) -> float:
    script = shlex.quote(os.path.join(os.path.dirname(sys.executable), "dibs"))
    environment = {**os.environ, **place, "TERM": "xterm-256color"}
    with Terminal(f"exec {script} top", folder, environment, columns=columns, lines=lines) as terminal:
        terminal.read_until("live")
        terminal.read_for(SETTLE_SECONDS)
        before, start = _cpu_seconds(terminal.process.pid), time.monotonic()
        terminal.read_for(seconds)
        used, passed = _cpu_seconds(terminal.process.pid) - before, time.monotonic() - start
        terminal.type("q")
        terminal.read_to_end()
    return 100 * used / passed


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
