"""What is different in the threads of a server: calls through libpq, with the same answers and errors as those of a
cursor, and notifications that no verb waits for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest

from dibs.board import Board
from dibs.config import DEFAULTS
from dibs.store.postgres import calls
from dibs.store.postgres.connections import connect, is_disconnected
from dibs.store.postgres.direct_calls import call
from dibs.store.postgres.notify import Notifier
from dibs.store.postgres.store import PostgresStore
from dibs.testing.conformance.asking import added
from tests.kit import postgres
from tests.kit.postgres_server import PostgresServer
from tests.kit.waiting import PATIENCE_SECONDS

Connection = psycopg.Connection[tuple[Any, ...]]
SETTINGS = calls.settings_row(DEFAULTS)
#: The number of statements that a connection has prepared for libpq.
OURS = "SELECT count(*) FROM pg_prepared_statements WHERE name LIKE 'dibs%'"


@pytest.fixture
def board(postgres_server: PostgresServer, folder: Path) -> Iterator[Board]:
    with postgres.harness(postgres_server, folder) as harness:
        board = harness.board()
        added(board, "x")
        board.start_session("ann", id="s")
        board.claim("x", session="s")
        yield board


@pytest.fixture
def connection(board: Board) -> Iterator[Connection]:
    assert isinstance(board.store, PostgresStore)
    with connect(board.store.url) as connection:
        yield connection


def heartbeat(session: object = "s") -> list[str | None]:
    return calls.texts((session, None, None, SETTINGS, None, None, None))


def renew(seconds: object = None) -> list[str | None]:
    return calls.texts(("x", "s", None, seconds, SETTINGS, None))


def in_thread(work: Callable[[], Any]) -> Any:
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(work).result()


def both(connection: Connection, function: str, given: list[str | None]) -> list[type[psycopg.Error]]:
    """What a cursor raises, and what libpq does."""
    found = []
    for run in (lambda work: work(), in_thread):
        with pytest.raises(psycopg.Error) as raised:
            run(lambda: call(connection, function, given))
        found.append(raised.type)
    return found


def test_a_thread_calls_what_it_has_prepared(connection: Connection) -> None:
    for _ in range(2):
        assert (
            in_thread(lambda: call(connection, calls.HEARTBEAT, heartbeat())).keys()
            == call(connection, calls.HEARTBEAT, heartbeat()).keys()
        )
        assert connection.execute(OURS).fetchone() == (1,)


def test_what_psycopg_deallocates_is_prepared_again(connection: Connection) -> None:
    """Whatever is called first: what is prepared then keeps its name from the others."""
    *known, new = [f"SELECT pg_catalog.json_build_object({number}, %s::text)" for number in range(4)]

    def call_each(functions: list[str]) -> list[dict[str, Any]]:
        return [in_thread(lambda: call(connection, one, ["x"])) for one in functions]  # noqa: B023 - called in this turn

    assert call_each(known) == [{"0": "x"}, {"1": "x"}, {"2": "x"}]
    connection.execute("DEALLOCATE ALL")
    assert call_each([new, *known, new]) == [{"3": "x"}, {"0": "x"}, {"1": "x"}, {"2": "x"}, {"3": "x"}]


def test_an_error_is_the_same_as_that_of_a_cursor(connection: Connection) -> None:
    assert both(connection, calls.RENEW, renew("no number")) == [psycopg.errors.InvalidTextRepresentation] * 2
    assert both(connection, calls.HEARTBEAT, heartbeat("a\0b")) == [psycopg.DataError] * 2
    assert both(connection, "SELECT dibs.no_such_function(%s)", ["x"]) == [psycopg.errors.UndefinedFunction] * 2
    assert "no" not in in_thread(lambda: call(connection, calls.HEARTBEAT, heartbeat())), "the connection is in order"


def test_a_lost_connection_is_known_as_one(postgres_server: PostgresServer, connection: Connection) -> None:
    in_thread(lambda: call(connection, calls.HEARTBEAT, heartbeat()))
    with postgres_server.connect() as admin:
        admin.execute("SELECT pg_terminate_backend(%s, 5000)", [connection.info.backend_pid])
    with pytest.raises(psycopg.Error) as raised:
        in_thread(lambda: call(connection, calls.HEARTBEAT, heartbeat()))
    assert is_disconnected(raised.value)
    assert connection.info.transaction_status == psycopg.pq.TransactionStatus.UNKNOWN


def test_a_connection_of_another_encoding_is_left_to_a_cursor(board: Board) -> None:
    assert isinstance(board.store, PostgresStore)
    with connect(psycopg.conninfo.make_conninfo(board.store.url, client_encoding="latin1")) as connection:
        assert "no" not in in_thread(lambda: call(connection, calls.HEARTBEAT, heartbeat()))
        assert connection.execute(OURS).fetchone() == (0,)


def test_a_read_leaves_what_is_prepared(board: Board) -> None:
    assert isinstance(board.store, PostgresStore)
    in_thread(lambda: board.heartbeat(session="s"))
    board.get("x")
    with board.store._pool.connection() as connection:
        before = connection.execute(OURS).fetchone()
    assert before == (1,)


def test_no_verb_of_a_server_waits_until_others_are_notified(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    may_send, has_sent = threading.Event(), threading.Event()

    def send(notifier: Notifier, connection: Connection) -> None:
        may_send.wait(PATIENCE_SECONDS)
        has_sent.set()

    monkeypatch.setattr(Notifier, "_send", send)
    board.store.separate_readers()
    board.release("x", session="s")
    assert not has_sent.is_set()
    may_send.set()
    board.close()
    assert has_sent.is_set(), "the end of the server waits for it"
