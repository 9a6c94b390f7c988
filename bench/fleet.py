"""A fleet of 10,000 simulated sessions behind one `dibs serve`: rates, waits, and what server and database spend.

    python -m bench fleet --agents 10000 --seconds 60 --rate 1

Each session holds an item. It sends a heartbeat a minute, and every 30 seconds it ends its item and claims the next:
two requests. `--rate` multiplies both. Requests come at random instants and count from when they were due. Each session
has a connection of its own while it is in use; the server closes it after 5 idle seconds.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import resource
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import psycopg

from bench import servers
from bench.contest import rows
from bench.hot_verbs import claim_of
from bench.http_load import HEAD_END, Due, Outcome, Served, cpu_seconds, open_loop, request, served
from bench.many_agents import BEAT_SECONDS, PAIR_SECONDS
from tests.kit.postgres_server import LocalServer

#: How many requests are under way at a time while the fleet comes up.
STARTERS = 32
#: A run ends after this many times its seconds; requests that were not sent by then are reported.
PATIENCE = 1.5
#: Between an item's end and the claim of the next.
THINK_SECONDS = 0.1
SHARES = {"p50": 0.5, "p99": 0.99, "worst": 1.0}
SEED = 23


def measure(arguments: Sequence[str] = ()) -> tuple[str, list[dict[str, object]]]:
    parser = argparse.ArgumentParser(prog="python -m bench fleet")
    parser.add_argument("--agents", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rate", type=float, default=1.0)
    parser.add_argument("--workers", default="1", help="processes of the server")
    asked = parser.parse_args(arguments)
    title = f"{asked.agents:,} sessions at {asked.rate:g} times the real rate for {asked.seconds:g} s"
    if not servers.is_there():
        return title, [{"left out": servers.MISSING}]
    _allow_files()
    pairs = int(asked.agents * (2 + asked.rate * asked.seconds / PAIR_SECONDS * 1.2))
    with servers.durable_server() as database:
        database.create_database("board")
        url = database.url("board")
        rows.make_board(url)
        rows.refill(url, pairs)
        with served(url, "--quiet", "--workers", asked.workers) as server:
            fleet = _come_up(server, asked.agents)
            schedule = _schedule(server, fleet, asked.rate, asked.seconds)
            with database.connect("board") as connection:
                watch = Watch(server, database, connection)
                outcomes = open_loop(
                    server.url,
                    schedule,
                    own_connections=True,
                    each_second=watch.count_files,
                    until=asked.seconds * PATIENCE,
                )
                found = _rows(outcomes, watch, len(schedule))
    return f"{title}; PostgreSQL, durable; processes of the server: {asked.workers}", found


def _allow_files() -> None:
    """Each session is a connection of this process, too."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class Member(NamedTuple):
    """A session, and the item and token that it holds at first."""

    session: str
    item: str
    token: int


def _come_up(server: Served, agents: int) -> list[Member]:
    """Every session is started, and claims an item; so many at a time."""
    fleet: list[Member] = []
    numbers = iter(range(agents))

    def start() -> Due | None:
        number = next(numbers, None)
        data = request(server, "/v1/sessions", {"agent": "coder"})
        return None if number is None else Due(0.0, number, "start", data, started)

    def started(answer: bytes) -> Due:
        session = str(json.loads(answer.partition(HEAD_END)[2])["id"])

        def claimed(answer: bytes) -> Due | None:
            fleet.append(Member(session, *claim_of(answer)))
            return start()

        return Due(0.0, len(fleet), "next", request(server, "/v1/next", {"session": session}), claimed)

    open_loop(server.url, [due for due in (start() for _ in range(STARTERS)) if due is not None])
    return fleet


def _schedule(server: Served, fleet: list[Member], rate: float, seconds: float) -> list[Due]:
    """Everybody has a pace of its own: a random instant to begin at, and a fixed time from one to the next."""
    chance = random.Random(SEED)
    found = []
    for number, member in enumerate(fleet):
        at = chance.uniform(0, BEAT_SECONDS / rate)
        beat = request(server, "/v1/heartbeat", {"session": member.session})
        while at < seconds:
            found.append(Due(at, number, "heartbeat", beat))
            at += BEAT_SECONDS / rate
        at = chance.uniform(0, PAIR_SECONDS / rate)
        if at < seconds:
            found.append(_end(server, number, member, at, PAIR_SECONDS / rate, seconds))
    return found


def _end(server: Served, number: int, member: Member, at: float, every: float, until: float) -> Due:
    """The end of what is held; then the claim of another item; then the end of that."""

    def ended(_: bytes) -> Due:
        return Due(
            at + THINK_SECONDS, number, "next", request(server, "/v1/next", {"session": member.session}), claimed
        )

    def claimed(answer: bytes) -> Due | None:
        following = Member(member.session, *claim_of(answer))
        return _end(server, number, following, at + every, every, until) if at + every < until else None

    body = {"session": member.session, "token": member.token}
    return Due(at, number, "done", request(server, f"/v1/items/{member.item}/done", body), ended)


class Watch:
    """What server and database spend: computing time, memory, open files, what is written."""

    def __init__(self, server: Served, database: LocalServer, connection: psycopg.Connection[Any]) -> None:
        self._server, self._database, self._connection = server, database, connection
        self._began = time.perf_counter()
        self._start = self._spent()
        self.files = 0

    def count_files(self) -> None:
        """The most that one process of the server had open."""
        self.files = max(self.files, *(_open_files(pid) for pid in _family(self._server.pid)))

    def memory(self) -> dict[str, float]:
        found = {"server": self._server.pid, "database": self._database.pid}
        return {who: sum(map(_megabytes, _family(pid))) for who, pid in found.items()}

    def connections(self) -> int:
        """Those of others than this one."""
        ((count,),) = self._connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        ).fetchall()
        return int(count)

    def spent(self) -> dict[str, float]:
        """For each second since the start."""
        seconds = time.perf_counter() - self._began
        return {name: (value - self._start[name]) / seconds for name, value in self._spent().items()}

    def _spent(self) -> dict[str, float]:
        ((wal, commits, size),) = self._connection.execute(
            "SELECT pg_current_wal_lsn() - '0/0', xact_commit, pg_database_size(current_database())"
            " FROM pg_stat_database WHERE datname = current_database()"
        ).fetchall()
        return {
            "server CPU": sum(map(cpu_seconds, _family(self._server.pid))),
            "database CPU": sum(map(cpu_seconds, _family(self._database.pid))),
            "load CPU": time.process_time(),
            "WAL": float(wal),
            "commits": float(commits),
            "disk": float(size),
        }


def _family(pid: int) -> list[int]:
    """A process and those below it."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [pid, *(below for child in file.read().split() for below in _family(int(child)))]
    return []


def _megabytes(pid: int) -> float:
    """Its share of the memory, in which what several processes use is divided between them."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
        return sum(int(line.split()[1]) for line in file if line.startswith("Pss:")) / 1024
    return 0.0


def _open_files(pid: int) -> int:
    with contextlib.suppress(OSError):
        return len(os.listdir(f"/proc/{pid}/fd"))
    return 0


def _rows(outcomes: dict[str, Outcome], watch: Watch, left: int) -> list[dict[str, object]]:
    spent, memory = watch.spent(), watch.memory()
    requests = sum(outcome.per_second for outcome in outcomes.values())
    pairs = outcomes["done"].per_second
    found: list[tuple[str, float, str]] = []
    for name, outcome in outcomes.items():
        found += [(f"{name}: rate", outcome.per_second, "/s"), (f"{name}: refused", outcome.refused, "")]
        found += [(f"{name}: {word}", outcome.share(share), "ms") for word, share in SHARES.items()]
    found += [
        ("all requests", requests, "/s"),
        ("requests that the run had no time for", left, ""),
        ("server: CPU", 100 * spent["server CPU"], "% of a core"),
        ("server: CPU of a request", 1e6 * spent["server CPU"] / requests, "us"),
        ("server: memory", memory["server"], "MB"),
        ("server: open files", watch.files, ""),
        ("database: CPU", 100 * spent["database CPU"], "% of a core"),
        ("database: CPU of a request", 1e6 * spent["database CPU"] / requests, "us"),
        ("database: memory", memory["database"], "MB"),
        ("database: connections", watch.connections(), ""),
        ("database: commits", spent["commits"], "/s"),
        ("database: WAL", spent["WAL"] / 1e6, "MB/s"),
        ("database: growth of a pair", spent["disk"] / pairs / 1000, "kB"),
        ("load generator: CPU", 100 * spent["load CPU"], "% of a core"),
    ]
    return [{"what": what, "value": value, "unit": unit} for what, value, unit in found]
