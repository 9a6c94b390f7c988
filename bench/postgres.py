"""Claim + done on PostgreSQL: dibs, the database's own limit for the same rows, and two job queues, in one run.

All of them work on one durable server, one after the other in every round, each on a fresh set of things to do. A ratio
is that of two neighbours in one round, and what is told is the median of the rounds, so that a disk which is fast in
one minute and slow in the next does not decide.

dibs ends a batch with the `next` that asks for another (`done=...`): one round trip, one transaction, one commit for a
claim and an end. What pgbench runs (`dibs functions` too) are two statements or more, each with a commit of its own:
the claim, then the end. The job queues do what their own workers do.

    python -m bench postgres --rounds 1 --seconds 1 --workers 1,8 --batches 1,10
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import statistics
from collections.abc import Sequence

from bench import servers
from bench.contest import pgbench, rows
from bench.contest.contestant import Contestant
from bench.contest.on_dibs import OnDibs
from bench.contest.result import Result
from bench.contest.window import WARM_UP_SECONDS
from tests.kit.postgres_server import LocalServer

#: By name: the module, and the class in it. They are imported only if they are installed.
PEERS = {"pgqueuer": "OnPgqueuer", "procrastinate": "OnProcrastinate"}
#: Everybody is compared with the limit, and with the faster peer.
COMPARED = ("pgbench", "pgqueuer")
#: So many pairs a second are expected of whoever has not run yet.
GUESS = 2_000
TRIES_MAX = 6

Cell = tuple[int, int]


def measure(arguments: Sequence[str] = ()) -> tuple[str, list[dict[str, object]]]:
    asked = _options(arguments)
    if not servers.is_there():
        return "Claim + done on PostgreSQL", [{"left out": servers.MISSING}]
    cells = [(workers, batch) for batch in asked.batches for workers in asked.workers]
    found: dict[tuple[str, Cell], list[Result]] = {}
    # Every set of things to do is new and analysed; a vacuum in the middle would hit one contestant and not the next.
    with servers.durable_server(autovacuum="off") as server, contextlib.ExitStack() as closing:
        contestants, missing = _contestants(server, closing)
        contestants = [one for one in contestants if not asked.only or one.name in asked.only.split(",")]
        for turn in range(asked.rounds):
            for cell in cells:
                # Nobody is always the one who runs after the same neighbour.
                for one in [*contestants[turn:], *contestants[:turn]]:
                    earlier = found.setdefault((one.name, cell), [])
                    earlier.append(_run(one, cell, asked.seconds, _expected(found, one.name, cell)))
    names = [one.name for one in contestants]
    title = f"Claim + done on PostgreSQL {server.version // 10_000}, durable (pairs/s; waits in ms)"
    return "; ".join([title, *missing]), [_row(found, name, cell) for cell in cells for name in names]


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench postgres")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.5, help="how long each of them works in each round")
    parser.add_argument("--workers", type=_numbers, default=[1, 8, 32], help="such as 1,8,32")
    parser.add_argument("--batches", type=_numbers, default=[1, 10, 100], help="such as 1,10,100")
    parser.add_argument("--only", default="", help="measure only these, such as dibs,pgbench,pgqueuer")
    return parser.parse_args(arguments)


def _numbers(text: str) -> list[int]:
    return [int(word) for word in text.split(",")]


def _contestants(server: LocalServer, closing: contextlib.ExitStack) -> tuple[list[Contestant], list[str]]:
    """Whoever can take part; of the others, why not."""
    missing = []
    server.create_database("board")
    url = server.url("board")
    rows.make_board(url)
    found: list[Contestant] = [OnDibs(url)]
    program = pgbench.find(server)
    if program is None:
        missing.append("pgbench is left out: it is neither beside the server's programs nor on the PATH")
    else:
        found += [pgbench.OnPgbench(program, url, name) for name in pgbench.SCRIPTS]
    for name, kind in PEERS.items():
        try:
            module = importlib.import_module(f"bench.contest.on_{name}")
        except ImportError as error:
            missing.append(f"{name} is left out: {error} (`make bench` installs it)")
            continue
        server.create_database(name)
        found.append(getattr(module, kind)(server.url(name)))
    for one in found:
        closing.callback(one.close)
    return found, missing


def _expected(found: dict[tuple[str, Cell], list[Result]], name: str, cell: Cell) -> float:
    """How fast it may be: as in earlier rounds, or as it was at its best with fewer workers or smaller batches."""
    here = [result.pairs_per_second for result in found[name, cell]]
    elsewhere = [one.pairs_per_second for (who, _), results in found.items() if who == name for one in results]
    return max(here or elsewhere, default=GUESS)


def _run(one: Contestant, cell: Cell, seconds: float, expected: float) -> Result:
    """Once, on a set of things to do that it does not come to the end of."""
    workers, batch = cell
    supply = int(expected * (WARM_UP_SECONDS + seconds) * 2) + workers * batch * 3
    for _ in range(TRIES_MAX):
        one.supply(supply)
        result = one.run(workers, batch, seconds)
        if one.left():
            return result
        supply *= 3
    raise AssertionError(f"{one.name} did {supply} pairs in {seconds} s, again and again")


def _row(found: dict[tuple[str, Cell], list[Result]], name: str, cell: Cell) -> dict[str, object]:
    mine = found[name, cell]
    workers, batch = cell
    return {
        "batch": batch,
        "workers": workers,
        "who": name,
        "pairs/s": round(statistics.median(one.pairs_per_second for one in mine)),
        **{f"of {other}": _ratio(mine, found.get((other, cell), [])) for other in COMPARED},
        "worst wait": statistics.median(one.worst_ms for one in mine),
        "slowest/fastest": statistics.median(one.slowest_of_fastest for one in mine),
    }


def _ratio(mine: list[Result], others: list[Result]) -> float | None:
    """The median of the ratios of all rounds."""
    ratios = [one.pairs_per_second / other.pairs_per_second for one, other in zip(mine, others, strict=False)]
    return statistics.median(ratios) if ratios else None
