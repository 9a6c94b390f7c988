"""Two versions of dibs at once, as while a fleet is upgraded: processes of this one beside those of a next one, on the
same board, each as the client of a server of either."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from threading import Thread
from typing import Any

import apsw
import pytest

from dibs.board import connect, make
from dibs.maintenance.doctor import examine
from dibs.testing.invariants import IN_TESTS
from tests.kit import next_version
from tests.kit.postgres_server import PostgresServer
from tests.kit.soak import nightly
from tests.kit.waiting import PATIENCE_SECONDS

#: What doctor says of the column that the next version added.
ITS_COLUMN = "the schema is not the one that dibs creates: it has the table 'items'"
THIS = next_version.SOURCES.parent
#: Calls verbs of a board, one in each line, and says what they answer.
DRIVER = """
import json, sys
import dibs
from dibs.board import connect
from dibs.errors import DibsError
from dibs.text import wire
board = connect(sys.argv[1], actor="tester")
print(dibs.__file__, flush=True)
for line in sys.stdin:
    verb, args, kwargs = json.loads(line)
    try:
        answer = getattr(board, verb)(*args, **kwargs)
        told = {"answer": wire.encode(list(answer) if verb == "export" else answer)}
    except DibsError as refusal:
        told = wire.error(refusal)
    print(json.dumps(told), flush=True)
"""


class Version:
    """Processes of one version: a driver of a board, or a server of it."""

    def __init__(self, sources: Path, folder: Path, stack: ExitStack) -> None:
        self._sources, self._folder, self._stack = sources, folder, stack
        self.environment = {
            **{"PATH": os.environ["PATH"], "HOME": str(folder), "LOGNAME": "alice"},
            "PYTHONPATH": str(sources),
        }

    def start(self, *words: str) -> subprocess.Popen[str]:
        log = open(self._folder / "log", "a", encoding="utf-8")  # noqa: SIM115 - open for as long as the process
        self._stack.callback(log.close)
        process = subprocess.Popen(
            [sys.executable, *words],
            cwd=self._folder,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        self._stack.callback(_end, process)
        return process

    def driver(self, store: str) -> Driver:
        driver = Driver(self.start("-c", DRIVER, store), self._folder / "log")
        assert Path(driver.line().strip()).parent.parent == self._sources
        return driver

    def server(self, store: str) -> str:
        """The URL of a new server of the board."""
        self.environment["DIBS_STORE"] = store
        process = self.start("-m", "dibs.cli.main", "serve", "--port", "0", "--json", "--quiet")
        del self.environment["DIBS_STORE"]
        assert process.stdout is not None
        url: str = json.loads(process.stdout.readline())["serving"]["url"]
        return url


class Driver:
    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self._process, self._log = process, log

    def line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, self._log.read_text(encoding="utf-8")
        return line

    def __call__(self, verb: str, *args: Any, **kwargs: Any) -> Any:
        """What the verb answers, as JSON; what it is refused with, as `{"error": ...}`."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([verb, args, kwargs]) + "\n")
        self._process.stdin.flush()
        told = json.loads(self.line())
        return told.get("answer", told)


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait(PATIENCE_SECONDS)
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


@pytest.fixture(scope="module")
def next_sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return next_version.made(tmp_path_factory.mktemp("sources"), "postgres")


@pytest.fixture
def versions(next_sources: Path, tmp_path: Path) -> Iterator[tuple[Version, Version]]:
    with ExitStack() as stack:
        yield Version(THIS, tmp_path, stack), Version(next_sources, tmp_path, stack)


@pytest.fixture(params=["sqlite direct", "postgres servers", *nightly("postgres direct", "sqlite servers")])
def way(request: pytest.FixtureRequest) -> str:
    """Which kind of board it is, and how it is reached."""
    way: str = request.param
    return way


@pytest.fixture
def store(request: pytest.FixtureRequest, way: str, next_sources: Path, tmp_path: Path) -> Iterator[str]:
    """A board with the column of the next version; on PostgreSQL, as the next version migrated it."""
    if way.startswith("sqlite"):
        path = str(tmp_path / "board.db")
        make(path, folder=str(tmp_path))
        connection = apsw.Connection(path)
        connection.execute(next_version.COLUMN.format("items"))
        connection.close()
        yield path
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    name = f"{server.prefix}versions_{os.urandom(6).hex()}"
    server.create_database(name)
    url = server.url(name)
    make(url, folder=str(tmp_path))
    words = [sys.executable, "-m", "dibs.cli.main", "migrate", "--store", url]
    subprocess.run(words, env={"PATH": os.environ["PATH"], "PYTHONPATH": str(next_sources)}, check=True, cwd=tmp_path)
    yield url
    server.drop_database(name)


@pytest.fixture
def drivers(way: str, versions: tuple[Version, Version], store: str) -> tuple[Driver, Driver, Driver, Driver]:
    """A handle of this version and one of the next; then the same again. By way of servers, each version talks to that
    of the other, and then to its own."""
    this, later = versions
    if way.endswith("direct"):
        return (this.driver(store), later.driver(store), this.driver(store), later.driver(store))
    with connect(store) as board:
        _, key = board.create_key("admin")
    for version in versions:
        version.environment["DIBS_KEY"] = key
    by_this, by_later = this.server(store), later.server(store)
    return this.driver(by_later), later.driver(by_this), this.driver(by_this), later.driver(by_later)


def calls(session: str, of: str) -> list[tuple[str, tuple[Any, ...], dict[str, Any]]]:
    """Verbs whose answers are kept, in an order in which each takes effect; `of` tells these items from others'."""
    a, b, c, new = (f"{name}-{of}" for name in ("a", "b", "c", "new"))
    return [
        ("add", ("new",), {"id": new, "labels": ["x"], "retries": 1}),
        ("edit", (new,), {"title": "other", "add_labels": ["y"]}),
        ("park", (new,), {"reason": "later"}),
        ("claim", (a,), {"session": session}),
        ("progress", (a, "half"), {"session": session, "meta": {"at": 50}}),
        ("progress", (a, "nearly"), {"session": session}),
        ("release", (a,), {"session": session, "token": 1, "reason": "lunch"}),
        ("claim", (a,), {"session": session, "ttl_seconds": 600}),
        ("done", (a,), {"session": session, "token": 2, "links": {"pr": 1}}),
        ("annotate", (a,), {"checks": {"tests": "passed"}, "actor": "tester"}),
        ("claim", (b,), {"session": session}),
        ("fail", (b,), {"session": session, "token": 1, "reason": "no"}),
        ("next", (), {"session": session, "n": 1, "labels": [of]}),
        ("done_many", ({c: 1},), {"session": session}),
        ("end_session", (session,), {"reason": "over"}),
    ]


def test_each_gets_the_answer_that_the_other_was_given(drivers: tuple[Driver, ...], store: str) -> None:
    names = count()
    pairs = [(drivers[0], drivers[1]), (drivers[1], drivers[0]), (drivers[2], drivers[3]), (drivers[3], drivers[2])]
    for first, second in pairs:
        of = f"n{next(names)}"
        session = first("start_session", "ann")["id"]
        for id in "abc":
            second("add", id, id=f"{id}-{of}", labels=[of] if id == "c" else [], actor="tester")
        for number, (verb, args, kwargs) in enumerate(calls(session, of)):
            asked = {"request_id": f"r-{of}-{number}", **kwargs}
            told = first(verb, *args, **asked)
            assert "error" not in told, (verb, told)
            again = second(verb, *args, **asked)
            assert next_version.without_news(again) == next_version.without_news(told), verb
        check_reads(first, second, of)
    with connect(store) as board:
        wrong = [finding.what for finding in examine(board) if not finding.late]
    assert [what for what in wrong if not what.startswith((IN_TESTS, ITS_COLUMN))] == []


def check_reads(one: Driver, other: Driver, of: str) -> None:
    """Both read the same, of items, events and answers that either wrote."""
    reads: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
        *((verb, (f"a-{of}",), {}) for verb in ("get", "log", "why")),
        *((verb, (), {}) for verb in ("list", "events", "runs", "who", "sessions", "page", "activity", "check")),
    ]
    for verb, args, kwargs in reads:
        told = one(verb, *args, **kwargs)
        assert "error" not in told, (verb, told)
        assert next_version.without_news(told) == next_version.without_news(other(verb, *args, **kwargs)), verb
    for verb in ("view", "stats", "export"):
        assert "error" not in one(verb)
        assert "error" not in other(verb)


def test_both_drain_one_board(drivers: tuple[Driver, ...]) -> None:
    """Each item is done once, whoever of both takes it."""
    items = 40
    drivers[0]("add_many", [{"title": "t", "id": f"i-{number}"} for number in range(items)])
    took: list[list[str]] = [[] for _ in drivers]

    def take(driver: Driver, session: str, mine: list[str], done: dict[str, int]) -> dict[str, int]:
        grants = driver("next", session=session, done=done, request_id=f"{session}-{len(mine)}")
        found = {one["item"]["id"]: one["claim"]["token"] for one in grants}
        mine += found
        return found

    def drain(driver: Driver, session: str, mine: list[str], done: dict[str, int]) -> None:
        while done := take(driver, session, mine, done):
            assert len(mine) <= items

    sessions = [driver("start_session", "ann")["id"] for driver in drivers]
    firsts = [take(*one, {}) for one in zip(drivers, sessions, took, strict=True)]
    threads = [Thread(target=drain, args=one) for one in zip(drivers, sessions, took, firsts, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    assert sorted(one for mine in took for one in mine) == sorted(f"i-{number}" for number in range(items))
    assert {item["status"] for item in drivers[0]("list")} == {"done"}


def test_an_export_of_the_next_version_is_imported(versions: tuple[Version, Version], tmp_path: Path) -> None:
    """The way back that the page about upgrades names."""
    _, later = versions
    store = str(tmp_path / "next.db")
    make(store, folder=str(tmp_path))
    connection = apsw.Connection(store)
    connection.execute(next_version.COLUMN.format("items"))
    connection.close()
    driver = later.driver(store)
    driver("add", "t", id="x", payload={"a": 1})
    records = driver("export")
    assert any("flavour" in data for _, data in records)
    back = str(tmp_path / "back.db")
    make(back, folder=str(tmp_path))
    with connect(back, folder=str(tmp_path)) as board:
        assert board.load((kind, data) for kind, data in records) == len(records)
        assert board.get("x").item.payload == {"a": 1}
