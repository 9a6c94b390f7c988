"""How long from a release to the next waiter holding the item, and from an add to a waiting `next`."""

from __future__ import annotations

import random
import statistics
import subprocess
import sys
import time

import dibs
from bench import boards

ROUNDS = 200
PAUSE_SECONDS = (0.02, 0.2)


def measure() -> tuple[str, list[dict[str, object]]]:
    rows: list[dict[str, object]] = []
    with boards.stores() as stores:
        for store, make in stores.items():
            for what in ("release to claim --wait", "add to next --wait"):
                times = sorted(_times(what, make()))
                middle, late = statistics.median(times), times[int(len(times) * 0.99)]
                rows.append(
                    {"store": store, "what": what, "rounds": ROUNDS, "p50": middle, "p99": late, "worst": times[-1]}
                )
    return "Wake-ups between processes, durable (ms)", rows


def _times(what: str, url: str) -> list[float]:
    with dibs.connect(url) as board:
        me = board.start_session("releaser").id
        board.add("an item", id="x")
        command = [sys.executable, "-m", "bench.wakeup", url, what]
        times = []
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as waiter:
            assert waiter.stdin is not None
            assert waiter.stdout is not None
            for n in range(ROUNDS):
                if n == 0 or what.startswith("release"):
                    board.claim("x", session=me)
                waiter.stdin.write("wait\n")
                waiter.stdin.flush()
                assert waiter.stdout.readline() == "waiting\n"
                # Until it really waits; and at no fixed time after the last change, which may be told together with it.
                time.sleep(random.uniform(*PAUSE_SECONDS))
                start = time.monotonic_ns()
                if what.startswith("release"):
                    board.release("x", session=me)
                else:
                    board.add("another", id=f"item-{n}")
                times.append((int(waiter.stdout.readline()) - start) / 1e6)
                assert waiter.stdout.readline() == "let go\n"
            waiter.stdin.close()
        return times


def wait(url: str, what: str) -> None:
    """Wait for the item, tell when it was had, let go of it; as often as the line says."""
    board = dibs.connect(url)
    me = board.start_session("waiter").id
    told = False

    def tell(_: object = None) -> None:
        nonlocal told
        if not told:
            print("waiting", flush=True)
        told = True

    for _ in sys.stdin:
        told = False
        if what.startswith("release"):
            board.claim("x", session=me, wait_seconds=60, on_wait=tell)
            print(time.monotonic_ns(), flush=True)
            board.release("x", session=me)
        else:
            tell()
            (grant,) = board.next(session=me, wait_seconds=60)
            print(time.monotonic_ns(), flush=True)
            board.done(grant.item.id, session=me, token=grant.claim.token)
        print("let go", flush=True)


if __name__ == "__main__":
    wait(sys.argv[1], sys.argv[2])
