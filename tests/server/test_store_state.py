"""A server whose store is gone, hangs, or is full: it says so at once, in the store's words, in its log, its metrics
and to its clients, and goes on by itself once the store is back."""

from __future__ import annotations

import http.client
import json
import logging
import os
import re
import signal
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from dibs.board import connect, make
from dibs.config import DEFAULTS
from dibs.errors import StoreUnavailable
from dibs.maintenance import doctor
from dibs.server.ops import store_state
from dibs.server.ops.store_state import StoreState
from dibs.store.contract import FULL
from dibs.store.sqlite.store import SqliteStore
from dibs.system import free_space
from tests.kit.postgres_server import LocalServer
from tests.kit.processes import children
from tests.kit.waiting import PATIENCE_SECONDS, until
from tests.server.process import Serving, serving

#: Half of the time after which the store itself, or a scrape of Prometheus, gives up.
ANSWER_SECONDS = 5.0


@pytest.fixture
def database() -> Iterator[LocalServer]:
    with LocalServer() as server:
        server.create_database("board")
        yield server


def ask(server: Serving, path: str, method: str = "GET") -> tuple[int, str]:
    key = json.loads(Path(server.told["key_file"]).read_text())["key"]
    host, _, port = server.url.rpartition("/")[2].rpartition(":")
    with closing(http.client.HTTPConnection(host, int(port), timeout=ANSWER_SECONDS)) as connection:
        connection.request(method, path, headers={"Authorization": f"Bearer {key}"})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def figure(server: Serving, name: str) -> float | None:
    status, text = ask(server, "/metrics")
    assert status == 200, text
    found = re.search(rf"^{name} (\S+)$", text, re.MULTILINE)
    return None if found is None else float(found[1])


def states(server: Serving) -> list[tuple[str, str]]:
    """The changes of the store that the log tells, and nothing beside them but requests."""
    lines = [json.loads(line) for line in server.log().splitlines()]
    told = [line for line in lines if "level" in line]
    assert all("store" in line for line in told), told
    return [(line["store"], line["message"]) for line in told]


def test_a_database_that_is_gone_is_told_in_its_words(database: LocalServer, tmp_path: Path) -> None:
    make(database.url("board"))
    with serving(tmp_path, "--log-json", store=database.url("board")) as server:
        assert (figure(server, "dibs_store_up"), figure(server, "dibs_store_writable")) == (1, 1)
        database.stop("immediate")
        until(lambda: ask(server, "/readyz")[0] == 503, "the server is not ready")
        until(lambda: bool(states(server)), "the log says so")
        assert "the database is unreachable" in ask(server, "/readyz")[1]
        assert figure(server, "dibs_store_up") == 0
        assert figure(server, "dibs_ready_items") is None
        assert ask(server, "/livez")[0] == 200
        told = server.dibs("list")
        assert (told.returncode, "the database is unreachable" in told.stderr) == (75, True), told.stderr
        assert "timed out" not in told.stderr
        database.start()
        until(lambda: ask(server, "/readyz")[0] == 200, "the server is ready again")
        assert server.dibs("add", "An item").returncode == 0
        assert figure(server, "dibs_store_up") == 1
        (gone, reason), (back, again) = states(server)
        assert (gone, back) == ("gone", "answers")
        assert "the database is unreachable" in reason
        assert "answers again" in again


def only_reads(database: LocalServer, *, only_reads: bool) -> None:
    """Open connections get to know it as well."""
    with database.connect() as connection:
        connection.execute("SET default_transaction_read_only = off")
        connection.execute(f"ALTER SYSTEM SET default_transaction_read_only = {only_reads}".encode())
        connection.execute("SELECT pg_reload_conf()")


def test_a_database_that_is_read_only_is_told_in_one_line(database: LocalServer, tmp_path: Path) -> None:
    make(database.url("board"))
    with serving(tmp_path, "--log-json", "--quiet", store=database.url("board")) as server:
        assert figure(server, "dibs_store_writable") == 1
        only_reads(database, only_reads=True)
        until(lambda: ask(server, "/readyz")[0] == 503, "the server is not ready")
        assert "the database accepts no writes" in ask(server, "/readyz")[1]
        assert (figure(server, "dibs_store_up"), figure(server, "dibs_store_writable")) == (1, 0)
        assert server.dibs("list").returncode == 0, "reads are answered"
        refused = server.dibs("add", "An item")
        assert (refused.returncode, "read-only" in refused.stderr) == (75, True), refused.stderr
        assert "unreachable" not in refused.stderr
        only_reads(database, only_reads=False)
        until(lambda: ask(server, "/readyz")[0] == 200, "the server is ready again")
        assert server.dibs("add", "An item").returncode == 0
        (read_only, reason), (back, again) = states(server)
        assert (read_only, back) == ("read-only", "answers")
        assert "the database accepts no writes" in reason
        assert "accepts writes" in again


@contextmanager
def stopped(database: LocalServer) -> Iterator[None]:
    """All processes of the database stand still."""
    pids = [database.pid, *children(database.pid)]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def test_a_database_that_hangs_holds_up_neither_metrics_nor_readiness(database: LocalServer, tmp_path: Path) -> None:
    make(database.url("board"))
    with serving(tmp_path, "--log-json", "--quiet", store=database.url("board")) as server:
        assert figure(server, "dibs_store_up") == 1
        with stopped(database):
            until(lambda: ask(server, "/readyz")[0] == 503, "the server is not ready")
            until(lambda: figure(server, "dibs_store_up") == 0, "the store is told to be down")
            until(lambda: [state for state, _ in states(server)] == ["gone"], "the log says so")
            status, text = ask(server, "/v1/stats")
            assert (status, "has not answered" in text) == (503, True), text
        until(lambda: ask(server, "/readyz")[0] == 200, "the server is ready again")
        until(lambda: [state for state, _ in states(server)][-1] == "answers", "the log says so")


def test_a_board_whose_file_is_gone_is_told(tmp_path: Path) -> None:
    with serving(tmp_path, "--log-json", "--quiet") as server:
        path = tmp_path / ".dibs" / "board.db"
        path.rename(tmp_path / "elsewhere.db")
        until(lambda: ask(server, "/readyz")[0] == 503, "the server is not ready")
        assert "there is no board at" in ask(server, "/readyz")[1]
        (tmp_path / "elsewhere.db").rename(path)
        until(lambda: ask(server, "/readyz")[0] == 200, "the server is ready again")
        assert [state for state, _ in states(server)] == ["gone", "answers"]


class Lines(logging.Handler):
    """The changes of the store that are logged."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.came = threading.Condition()

    def emit(self, record: logging.LogRecord) -> None:
        facts: dict[str, Any] = getattr(record, "facts", {})
        with self.came:
            self.found.append(facts.get("store", record.getMessage()))
            self.came.notify_all()

    def until(self, *states: str) -> None:
        with self.came:
            assert self.came.wait_for(lambda: len(self.found) >= len(states), PATIENCE_SECONDS), self.found
            assert self.found == list(states)


@pytest.fixture
def lines() -> Iterator[Lines]:
    handler = Lines()
    logging.getLogger().addHandler(handler)
    yield handler
    logging.getLogger().removeHandler(handler)


@contextmanager
def watched(path: Path) -> Iterator[tuple[SqliteStore, StoreState]]:
    with closing(SqliteStore(str(path), DEFAULTS, create=True)) as store:
        store.separate_readers()
        state = StoreState(store)
        state.start()
        yield store, state
        state.stop()


def test_a_full_disk_is_told_before_a_write_is_refused(
    tmp_path: Path, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_state, "PROBE_SECONDS", 0.01)
    with watched(tmp_path / "board.db") as (store, state):
        state.require_ready()
        assert store.remarks() == ()
        with monkeypatch.context() as patched:
            patched.setattr(free_space, "FREE_BYTES_MIN", 1 << 62)
            lines.until(FULL)
            assert (state.answers, state.accepts_writes) == (True, False)
            with pytest.raises(StoreUnavailable, match="MB left"):
                state.require_ready()
            state.require_there()  # reads are answered
            make(str(tmp_path / "other.db"))
            board = connect(str(tmp_path / "other.db"))
            assert [finding.what for finding in doctor.examine(board) if "MB left" in finding.what]
            board.close()
        lines.until(FULL, "answers")
        assert state.accepts_writes


def test_a_refused_write_is_told_once_until_a_write_is_accepted(
    tmp_path: Path, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    with watched(tmp_path / "board.db") as (_, state):
        refusal = StoreUnavailable("the disk of board.db is full; nothing was changed", problem=FULL)
        for _ in range(100):
            state.note(refusal)
        assert lines.found == [FULL]
        assert not state.accepts_writes
        state.note(StoreUnavailable("the board is busy"))
        monkeypatch.setattr(store_state, "TRY_WRITE_SECONDS", 0)
        lines.until(FULL, "answers")
        assert state.accepts_writes


def test_a_full_sqlite_says_that_it_is_full(tmp_path: Path) -> None:
    make(str(tmp_path / "board.db"))
    with closing(connect(str(tmp_path / "board.db"))) as board:
        store: Any = board.store
        store.engine.connection().execute("PRAGMA max_page_count = 1").fetchall()
        with pytest.raises(StoreUnavailable) as refused:
            board.add("Large", payload={"text": "x" * 100_000})
        assert refused.value.facts["problem"] == FULL
