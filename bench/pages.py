"""The tables in pages of the documents, written again from the last run and, for comparison, the one before.

    python -m bench && python -m bench --write docs/operations/performance.md
    python -m bench fleet && python -m bench --write docs/operations/scaling.md

Everything between a line `<!-- name -->` and the line `<!-- end -->` after it is replaced.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from bench.many_agents import BEAT_SECONDS, PAIR_SECONDS
from bench.parts import Rows
from bench.targets import Judged, shown

FLEETS = (10_000, 100_000, 1_000_000)
#: How much of a core is planned for: the rest is for the bursts of a random load.
USED_SHARE = 0.7
REQUESTS = 1 / BEAT_SECONDS + 2 / PAIR_SECONDS
DAY = 86_400


def filled(text: str, tables: Mapping[str, str]) -> str:
    for name, content in tables.items():
        text = re.sub(rf"(<!-- {name} -->\n).*?(<!-- end -->)", lambda m: f"{m[1]}{content}\n{m[2]}", text, flags=re.S)  # noqa: B023  # called in this turn of the loop
    return text


def tables(
    machine: Mapping[str, str], judged: Iterable[Judged], before: Iterable[Judged], fleet: Mapping[str, Any] | None
) -> dict[str, str]:
    """By name, the tables that the last run has figures for."""
    found = {}
    known = {one.what + one.limit_name: one for one in before}
    if rows := [{**one.row(), "run before": _again(known.get(one.what + one.limit_name))} for one in judged]:
        facts = "\n".join(f"- {name}: {fact}" for name, fact in machine.items())
        cells = [[*rows[0]], *([str(cell) for cell in row.values()] for row in rows)]
        found["targets"] = f"{facts}\n\n{_table(cells)}"
    if fleet is not None:
        found |= _of_fleet(machine, fleet["title"], fleet["rows"])
    return found


def _again(one: Judged | None) -> str:
    if one is None:
        return "-"
    told = f"{one.told:.2f}" if one.of_ratio else f"{shown(one.measured)} {one.unit}".strip()
    return f"{told}, {'yes' if one.met else 'NO'}"


def _of_fleet(machine: Mapping[str, str], title: str, rows: Rows) -> dict[str, str]:
    figures = {str(row["what"]): float(str(row["value"])) for row in rows}
    about = f"`python -m bench fleet`: {title}. {machine['machine']}; {machine['load before the run']} before the run."
    measured = [["what", "measured"], *([str(row["what"]), _with_unit(row)] for row in rows)]
    return {"measured": f"{about}\n\n{_table(measured)}", "steps": _table(_steps(figures))}


def _with_unit(row: dict[str, object]) -> str:
    return f"{shown(row['value'])} {row['unit']}".strip()


def _steps(figures: dict[str, float]) -> list[list[str]]:
    found = [["fleet", "processes of the server", "cores of the database", "WAL", "growth a day"]]
    for agents in FLEETS:
        requests, pairs = agents * REQUESTS, agents / PAIR_SECONDS
        wal = figures["database: WAL"] / figures["all requests"] * requests
        grown = figures["database: growth of a pair"] * pairs * DAY / 1e6
        found.append(
            [
                f"{agents:,} agents, {requests:,.0f} requests/s",
                str(_cores(requests, figures["server: CPU of a request"])),
                str(_cores(requests, figures["database: CPU of a request"])),
                f"{wal:,.1f} MB/s",
                f"{grown:,.0f} GB",
            ]
        )
    return found


def _cores(requests: float, microseconds: float) -> int:
    return math.ceil(requests * microseconds / 1e6 / USED_SHARE)


def _table(rows: list[list[str]]) -> str:
    head, *rest = rows
    lines = [head, ["---"] * len(head), *rest]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
