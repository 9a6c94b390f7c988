"""How long a claim takes over HTTP while a thousand agents work: a heartbeat a minute and a pair each 30 seconds.

    python -m bench many_agents --seconds 30 --rates 1,4

Requests come at random instants, whether or not earlier ones were answered, and count from when they were due; so a
server that stands still for a moment shows. `rate` is a multiple of the normal one. On a board with a million ended
items (`--ended`), somebody reads `/v1/stats` every 3 seconds in one of two runs. Milliseconds.
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Callable, Iterator, Sequence

from bench import boards
from bench.hot_verbs import BATCH, claim_of, start_sessions
from bench.http_load import Due, Outcome, Served, get, open_loop, request, served
from dibs.board import connect

AGENTS = 1_000
BEAT_SECONDS, PAIR_SECONDS, STATS_SECONDS = 60.0, 30.0, 3.0
#: From a claim to its end.
WORK_SECONDS = 1.0
WARM_UP_SECONDS = 2.0
SEED = 23


def measure(arguments: Sequence[str] = ()) -> tuple[str, list[dict[str, object]]]:
    parser = argparse.ArgumentParser(prog="python -m bench many_agents")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--rates", default="1,4")
    parser.add_argument("--stores", default="SQLite,PostgreSQL")
    parser.add_argument("--ended", type=int, default=1_000_000, help="0 leaves the boards with ended items out")
    asked = parser.parse_args(arguments)
    rates = [float(rate) for rate in asked.rates.split(",")]
    rows: list[dict[str, object]] = []
    for store in asked.stores.split(","):
        if store not in boards.NAMES:
            continue
        with boards.stores() as stores:
            url = stores[store]()
            rows += [_measured(store, url, "new", rate, False, asked.seconds) for rate in rates]
        if asked.ended:
            url, name = boards.with_ended(store, asked.ended), f"{asked.ended:,} ended"
            rows += [_measured(store, url, name, rates[0], reads, asked.seconds) for reads in (False, True)]
    return f"A claim over HTTP among {AGENTS:,} agents (ms)", rows


def _measured(store: str, url: str, board: str, rate: float, reads: bool, seconds: float) -> dict[str, object]:
    with connect(url, seeded=False) as opened:
        # Twice as many as are claimed.
        for _ in range(math.ceil(2 * AGENTS * rate * (WARM_UP_SECONDS + seconds) / PAIR_SECONDS / BATCH)):
            opened.add_many([{"title": "x"}] * BATCH)
    with served(url) as server:
        return _row(store, board, rate, reads, run(server, rate, seconds, reads_stats=reads))


def _row(store: str, board: str, rate: float, reads: bool, outcomes: dict[str, Outcome]) -> dict[str, object]:
    assert not any(outcome.refused for outcome in outcomes.values()), f"{store}: requests were refused"
    claims = outcomes["next"]
    return {
        "store": store,
        "board": board,
        "rate": rate,
        "stats are read": "yes" if reads else "no",
        "requests/s": sum(outcome.per_second for outcome in outcomes.values()),
        "p50": claims.share(0.5),
        "p99": claims.share(0.99),
        "worst": claims.share(1.0),
        "heartbeat p99": outcomes["heartbeat"].share(0.99),
    }


def run(server: Served, rate: float, seconds: float, *, reads_stats: bool) -> dict[str, Outcome]:
    sessions = start_sessions(server, AGENTS)
    open_loop(server.url, _schedule(server, sessions, rate, WARM_UP_SECONDS, reads_stats))
    return open_loop(server.url, _schedule(server, sessions, rate, seconds, reads_stats))


def _schedule(server: Served, sessions: list[str], rate: float, seconds: float, reads_stats: bool) -> list[Due]:
    chance = random.Random(SEED)
    found: list[Due] = []

    def add(name: str, every: float, make: Callable[[float, str], Due]) -> None:
        for at in _instants(chance, len(sessions) * rate / every, seconds):
            found.append(make(at, chance.choice(sessions)))

    add("heartbeat", BEAT_SECONDS, lambda at, session: _heartbeat(server, at, session))
    add("next", PAIR_SECONDS, lambda at, session: _pair(server, at, session))
    if reads_stats:
        steps = range(int(seconds / STATS_SECONDS))
        found += [Due(step * STATS_SECONDS, step, "stats", get(server, "/v1/stats")) for step in steps]
    return found


def _instants(chance: random.Random, per_second: float, seconds: float) -> Iterator[float]:
    at = chance.expovariate(per_second)
    while at < seconds:
        yield at
        at += chance.expovariate(per_second)


def _heartbeat(server: Served, at: float, session: str) -> Due:
    return Due(at, id(session), "heartbeat", request(server, "/v1/heartbeat", {"session": session}))


def _pair(server: Served, at: float, session: str) -> Due:
    def end(answer: bytes) -> Due:
        item, token = claim_of(answer)
        data = request(server, f"/v1/items/{item}/done", {"session": session, "token": token})
        return Due(at + WORK_SECONDS, id(session), "done", data)

    return Due(at, id(session), "next", request(server, "/v1/next", {"session": session}), end)
