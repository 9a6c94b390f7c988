"""The targets for the speed of dibs. Each names the part that measures it (`bench/PART.py`), and the cells of the
part's table: the figure, its limit in the same run, and the ratio if the part has it as a median over its rounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from bench.neighbours import WAYS
from bench.parts import Rows


class Cell(NamedTuple):
    """The column of the row that has these values."""

    column: str
    row: Mapping[str, object] = {}


class Target(NamedTuple):
    """`of_ratio`: the target is about the ratio of figure and limit. `at_least`: more is better."""

    what: str
    part: str
    unit: str
    wanted: float
    at_least: bool
    figure: Cell
    limit_name: str = ""
    limit: Cell | None = None
    of_ratio: bool = False
    ratio: Cell | None = None


class Judged(NamedTuple):
    what: str
    part: str
    unit: str
    wanted: float
    at_least: bool
    of_ratio: bool
    measured: float
    limit_name: str
    limit: float | None
    ratio: float | None
    met: bool

    @property
    def told(self) -> float:
        """What the target is about."""
        return self.ratio if self.of_ratio and self.ratio is not None else self.measured

    def row(self) -> dict[str, object]:
        bound = "at least" if self.at_least else "at most"
        return {
            "what": self.what,
            "target": f"{bound} {shown(self.wanted)} {f'of {self.limit_name}' if self.of_ratio else self.unit}",
            "measured": f"{shown(self.measured)} {self.unit}",
            "limit": "-" if self.limit is None else f"{shown(self.limit)} {self.unit} ({self.limit_name})",
            "ratio": "-" if self.ratio is None else f"{self.ratio:.2f}",
            "met": "yes" if self.met else "NO",
            "part": self.part,
        }


def shown(value: object) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


STORES = ("SQLite", "PostgreSQL")
RAW, MINE = {"who": "bare apsw, 1 process"}, {"who": "dibs, 1 process"}
RAW_8, MINE_8 = {"who": "bare apsw, 8 processes"}, {"who": "dibs, 8 processes"}
PAYLOAD, NO_PAYLOAD = "an item with 100 KB of payload", "an item without a payload"
#: Of pgqueuer and of pgbench, by the batch.
BATCHES = {1: (1.7, 0.85), 10: (1.3, 0.85), 100: (1.2, 0.85)}


def all_targets() -> Iterator[Target]:
    yield from _sqlite()
    yield from _commands()
    yield from _http()
    yield from _neighbours()
    yield from _postgres()
    yield from _large()
    yield from _vault()


def _sqlite() -> Iterator[Target]:
    raw = ("a bare apsw loop", Cell("pairs/s", RAW), True)
    mine, mine_8 = Cell("pairs/s", MINE), Cell("pairs/s", MINE_8)
    yield Target("SQLite, next + done, 1 process", "drain", "pairs/s", 0.75, True, mine, *raw, Cell("of bare", MINE))
    yield Target(
        "SQLite, next + done, 8 processes", "drain", "pairs/s", 0.6, True, mine_8, *raw, Cell("of bare", MINE_8)
    )
    for what, column, unit, wanted, at_least in (
        ("slowest of the fastest", "slowest/fastest", "", 0.85, True),
        ("worst wait", "worst wait", "ms", 100, False),
    ):
        limit = ("8 bare loops", Cell(column, RAW_8))
        yield Target(f"SQLite, 8 processes: {what}", "drain", unit, wanted, at_least, Cell(column, MINE_8), *limit)
    cpu = "CPU of a pair"
    yield Target(f"SQLite, {cpu}", "drain", "us", 250, False, Cell(cpu, MINE), "a bare apsw loop", Cell(cpu, RAW))
    for verb in ("next", "done"):
        with_payload, without = ({"what": f"{verb}, {item}"} for item in (PAYLOAD, NO_PAYLOAD))
        limit = ("one without", Cell("ms", without))
        what = f"SQLite, {verb} of an item with 100 KB"
        yield Target(what, "costs", "ms", 1.2, False, Cell("ms", with_payload), *limit, True)
    first = Cell("ms", {"what": "the first next after 10,000 claims expired at once"})
    usual = Cell("ms", {"what": "next, 10,000 live claims"})
    yield Target("SQLite, first next after 10,000 expiries", "costs", "ms", 20, False, first, "a usual next", usual)


def _commands() -> Iterator[Target]:
    bare, ratio = ("a bare interpreter", Cell("bare python"), True), Cell("median of ratios")
    yield Target("a cold dibs claim", "startup", "ms", 2.2, False, Cell("dibs claim"), *bare, ratio)


def _http() -> Iterator[Target]:
    for store in STORES:
        for column, verb, unit, wanted in (
            ("per second", "heartbeat", "/s", 5000),
            ("per second", "next; done", "/s", 2500),
            ("p99", "heartbeat", "ms", 20),
            ("p99", "next; done", "ms", 20),
        ):
            figure = Cell(column, {"server": store, "request": verb})
            limit = ("FastAPI, a constant", Cell(column, {"server": "FastAPI"}))
            what = f"HTTP on {store}, 32 clients: {verb}{', p99' * (column == 'p99')}"
            yield Target(what, "hot_verbs", unit, wanted, column != "p99", figure, *limit)
    for store in STORES:
        for rate, wanted in ((1.0, 8), (4.0, 10)):
            p99 = Cell("p99", {"store": store, "rate": rate, "board": "new", "stats are read": "no"})
            what = f"HTTP on {store}, 1,000 agents{' at four times the rate' * (rate > 1)}: claim p99"
            yield Target(what, "many_agents", "ms", wanted, False, p99)
        quiet, read = (
            Cell("p99", {"store": store, "board": "1,000,000 ended", "stats are read": one}) for one in ("no", "yes")
        )
        what = f"HTTP on {store}, 1,000 agents, 1M ended, stats each 3 s: claim p99"
        yield Target(what, "many_agents", "ms", 1.2, False, read, "the run without", quiet, True)


def _neighbours() -> Iterator[Target]:
    for way in WAYS.values():
        worst = Cell("of the bound", {"one key": way.what})
        what = f"HTTP, another key while {way.what}"
        yield Target(what, "neighbours", "of 100 ms or 5 x quiet", 1.0, False, worst)
    yield Target(
        "HTTP, another key: requests that failed", "neighbours", "", 0, False, Cell("errors", {"one key": "all"})
    )


def _postgres() -> Iterator[Target]:
    for batch, (of_peer, of_limit) in BATCHES.items():
        at = {"batch": batch, "workers": 8}
        mine = Cell("pairs/s", {**at, "who": "dibs"})
        for other, wanted in (("pgqueuer", of_peer), ("pgbench", of_limit)):
            limit, ratio = Cell("pairs/s", {**at, "who": other}), Cell(f"of {other}", {**at, "who": "dibs"})
            what = f"PostgreSQL, 8 workers, batches of {batch}"
            yield Target(what, "postgres", "pairs/s", wanted, True, mine, other, limit, True, ratio)


def _large() -> Iterator[Target]:
    for store in STORES:
        for read, board, wanted in (
            ("stats", "1,000 ended", 10),
            ("stats", "100,000 ended", 10),
            ("stats", "1,000,000 ended", 10),
            ("who", "10,000 live claims", 50),
        ):
            row: dict[str, object] = {"store": store, "read": read, "board": board}
            limit = ("the rows alone", Cell("rows alone, ms", row))
            yield Target(f"{store}, {read} at {board}", "large", "ms", wanted, False, Cell("ms", row), *limit)
        row = {"store": store, "read": "doctor", "board": "1,000,000 ended"}
        limit = ("the rows alone", Cell("rows alone, ms", row))
        yield Target(f"{store}, doctor at 1,000,000 ended", "large", "ms", 60_000, False, Cell("ms", row), *limit)
        yield Target(f"{store}, doctor at 1,000,000 ended: memory", "large", "MB", 200, False, Cell("MB", row))
    for store in STORES:
        for verb in ("claim + done", "heartbeat", "list"):
            grown, new = ({"store": store, "verb": verb, "board": size} for size in ("grown", "new"))
            a_new_board = ("a new board", Cell("ms", new), True, Cell("ratio", grown))
            yield Target(f"{store}, {verb} at 1M ended", "growth", "ms", 1.2, False, Cell("ms", grown), *a_new_board)


def _vault() -> Iterator[Target]:
    row: dict[str, object] = {"what": "claim + done, 1 process"}
    limit = ("as many syncs alone", Cell("syncs alone, pairs/s", row))
    yield Target("vault, claim + done", "vault", "pairs/s", 350, True, Cell("pairs/s", row), *limit)
    yield Target("vault, syncs of a pair", "vault", "syncs", 4.25, False, Cell("syncs a pair", row))


def judged(found: dict[str, Rows]) -> list[Judged]:
    """Of the targets whose part was run. What a part left out, because the machine lacks something, is not judged."""
    results = []
    for one in all_targets():
        rows = found.get(one.part, [])
        measured = _read(rows, one.figure)
        limit = None if one.limit is None else _read(rows, one.limit)
        ratio = None if one.ratio is None else _read(rows, one.ratio)
        if ratio is None and measured is not None and limit:
            ratio = measured / limit
        told = ratio if one.of_ratio else measured
        if measured is None or told is None:
            continue
        met = told >= one.wanted if one.at_least else told <= one.wanted
        known = (one.what, one.part, one.unit, one.wanted, one.at_least, one.of_ratio)
        results.append(Judged(*known, measured, one.limit_name, limit, ratio, met))
    return results


def _read(rows: Rows, cell: Cell) -> float | None:
    for row in rows:
        if all(row.get(name) == value for name, value in cell.row.items()):
            value = row.get(cell.column)
            return float(value) if isinstance(value, int | float) else None
    return None
