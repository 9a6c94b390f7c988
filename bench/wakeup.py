"""How long from a release to the next one holding the item, and from an add, between programs that hold sessions.

python -m bench wakeup --rounds 50
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

import dibs
from bench import boards
from bench.serving import served
from dibs.board import Board
from dibs.sdk.claim_handle import ClaimHandle
from dibs.sdk.session import LiveSession
from tests.kit.http import open_board

ROUNDS = 200
PAUSE_SECONDS = (0.02, 0.2)
WAIT_SECONDS = 60.0
#: Who waits for what.
WAYS = ("release to claim", "release to next", "add to next")

#: A URL, or a server with its key.
Where = str | tuple[str, str]


def measure(arguments: Sequence[str] = ()) -> tuple[str, list[dict[str, object]]]:
    parser = argparse.ArgumentParser(prog="python -m bench wakeup")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    rounds = parser.parse_args(arguments).rounds
    rows: list[dict[str, object]] = []
    with boards.stores() as stores:
        for store, make in stores.items():
            for way in WAYS:
                rows.append(_row(store, way, _times(make(), way, rounds)))
            for way in WAYS:
                with served(make()) as server:
                    rows.append(_row(f"HTTP on {store}", way, _times(server, way, rounds)))
    return "Wake-ups between processes, durable (ms)", rows


def _row(store: str, way: str, times: list[float]) -> dict[str, object]:
    times = sorted(times)
    middle, late = statistics.median(times), times[int(len(times) * 0.99)]
    return {"store": store, "what": way, "rounds": len(times), "p50": middle, "p99": late, "worst": times[-1]}


def _opened(where: Where) -> Board:
    return dibs.connect(where) if isinstance(where, str) else open_board(servers=[where])


def _times(where: Where, way: str, rounds: int) -> list[float]:
    command = [sys.executable, "-m", "bench.wakeup", json.dumps(where), way]
    times = []
    with _opened(where) as board, board.session("releaser") as me:
        board.add("an item", id="x")
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as waiter:
            assert waiter.stdin is not None
            assert waiter.stdout is not None
            held = me.claim("x")
            for number in range(rounds):
                waiter.stdin.write("wait\n")
                waiter.stdin.flush()
                assert waiter.stdout.readline() == "waiting\n"
                # Until it really waits; and at no fixed time after the last change, which may be told together with it.
                time.sleep(random.uniform(*PAUSE_SECONDS))
                start = time.monotonic_ns()
                if way.startswith("release"):
                    held.release()
                else:
                    board.add("another", id=f"item-{number}")
                times.append((int(waiter.stdout.readline()) - start) / 1e6)
                assert waiter.stdout.readline() == "let go\n"
                if way.startswith("release"):
                    held = me.claim("x")
            waiter.stdin.close()
    return times


def wait(where: Where, way: str) -> None:
    """Wait for the item, tell when it was had, let go of it; as often as the line says."""
    with _opened(where) as board, board.session("waiter") as me:
        for _ in sys.stdin:
            claim = _waited_for(me, way)
            print(time.monotonic_ns(), flush=True)
            if way.startswith("release"):
                claim.release()
            else:
                claim.done()
            print("let go", flush=True)


def _waited_for(me: LiveSession, way: str) -> ClaimHandle:
    tell = _once(lambda: print("waiting", flush=True))
    if way.endswith("claim"):
        return me.claim("x", wait_seconds=WAIT_SECONDS, on_wait=lambda _: tell())
    tell()
    claim = me.next(wait_seconds=WAIT_SECONDS)
    assert claim is not None
    return claim


def _once(does: Callable[[], None]) -> Callable[[], None]:
    done: list[bool] = []

    def maybe() -> None:
        if not done:
            done.append(True)
            does()

    return maybe


if __name__ == "__main__":
    place = json.loads(sys.argv[1])
    wait(place if isinstance(place, str) else tuple(place), sys.argv[2])
