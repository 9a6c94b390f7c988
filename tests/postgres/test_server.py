"""The servers that tests run on: they crash, come back and hand over as real ones do, and leave nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest

from tests.kit import pgbouncer as bouncing
from tests.kit.database_clock import DatabaseClock, install
from tests.kit.postgres_server import LocalServer, PostgresServer, url_of_all
from tests.kit.processes import alive, children
from tests.kit.waiting import until


@pytest.fixture(scope="module")
def durable() -> Iterator[LocalServer]:
    with LocalServer(durable=True) as server:
        server.create_database("board")
        with server.connect("board") as connection:
            connection.execute("CREATE TABLE said (word text)")
        yield server


def say(url: str, word: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("INSERT INTO said VALUES (%s)", [word])


def said(url: str) -> set[str]:
    with psycopg.connect(url) as connection:
        return {word for (word,) in connection.execute("SELECT word FROM said")}


def test_all_processes_of_a_run_have_the_same_server(postgres_server: PostgresServer) -> None:
    assert postgres_server.version >= 130_000
    with postgres_server.connect() as connection:
        assert connection.execute("SELECT inet_server_addr()::text").fetchone() == ("127.0.0.1/32",)


def test_a_database_is_copied_from_a_template_that_is_made_once(postgres_server: PostgresServer) -> None:
    made: list[str] = []

    def make(url: str) -> None:
        made.append(url)
        with psycopg.connect(url) as connection:
            connection.execute("CREATE TABLE said (word text)")
            connection.execute("INSERT INTO said VALUES ('hello')")

    for asker in (postgres_server, PostgresServer(postgres_server.url(), postgres_server.prefix)):
        template = asker.template("of_this_test", make)
    assert len(made) == 1
    copy = f"{postgres_server.prefix}copy"
    postgres_server.create_database(copy, template)
    with psycopg.connect(postgres_server.url(copy)) as connection:
        assert connection.execute("SELECT word FROM said").fetchall() == [("hello",)]
        postgres_server.drop_database(copy)
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")


def test_what_was_committed_survives_the_kill_of_the_postmaster(durable: LocalServer) -> None:
    url = durable.url("board")
    with closing(psycopg.connect(url)) as open_one:
        open_one.execute("INSERT INTO said VALUES ('not committed')")
        say(url, "before the kill")
        backends = children(durable.pid)
        assert len(backends) > 1
        durable.kill_postmaster()
        assert not durable.running
        assert not alive(backends)
        durable.start()
    found = said(url)
    assert "before the kill" in found
    assert "not committed" not in found


def test_it_recovers_when_a_backend_is_killed_or_when_it_is_stopped_at_once(durable: LocalServer) -> None:
    url = durable.url("board")
    say(url, "before a backend")
    with closing(psycopg.connect(url)) as cut_off:
        cut_off.execute("SELECT 1")
        durable.kill_backend("board")
        with pytest.raises(psycopg.OperationalError):
            cut_off.execute("SELECT 1")
    durable.await_ready()
    say(url, "before the stop")
    durable.restart("immediate")
    assert {"before a backend", "before the stop"} <= said(url)


def test_a_standby_has_what_was_committed_and_takes_over(durable: LocalServer) -> None:
    if not os.path.exists(durable.programs.path("pg_basebackup")):
        pytest.skip("there is no pg_basebackup beside these programs")
    standby = durable.standby()
    url = url_of_all("board", durable, standby)
    say(url, "to both")
    durable.kill_postmaster()
    standby.promote()
    assert "to both" in said(url)
    say(url, "to the other")
    assert "to the other" in said(standby.url("board"))


def test_through_pgbouncer_a_transaction_is_all_that_a_client_has_to_itself(pgbouncer: PostgresServer) -> None:
    with pgbouncer.connect() as one, pgbouncer.connect() as other:
        pids = {connection.execute("SELECT pg_backend_pid()").fetchone() for connection in (one, other)}
    assert len(pids) == 1


def test_the_clock_of_several_databases_is_one(postgres_server: PostgresServer) -> None:
    names = [f"{postgres_server.prefix}clock_{number}" for number in range(2)]
    for name in names:
        postgres_server.create_database(name)
        with postgres_server.connect(name) as connection:
            connection.execute("CREATE SCHEMA dibs")
        install(postgres_server.url(name))
    first, second = (DatabaseClock(postgres_server.url(name)) for name in names)
    first.set_also(postgres_server.url(names[1]))
    assert abs(first.now() - time.time() * 1000) < 5_000
    first.freeze()
    at = first.now()
    first.advance(60)
    assert (first.now(), second.now()) == (at + 60_000, at + 60_000)
    first.advance(-0.001)
    first.run()
    assert 59_999 <= second.now() - at < 70_000
    for clock, url in ((first, 0), (first, 1), (second, 1)):
        clock.leave(postgres_server.url(names[url]))


def test_a_server_does_not_outlive_a_killed_owner() -> None:
    script = (
        "import sys, time; from tests.kit.postgres_server import LocalServer; server = LocalServer();"
        "server.create(); print(server.pid, server.place.folder, flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        pid, folder = owner.stdout.readline().split()
        owner.send_signal(signal.SIGKILL)
    until(lambda: not os.path.exists(folder), f"{folder} is gone")
    assert not alive([int(pid)])


def test_the_machine_says_whether_it_has_pgbouncer() -> None:
    assert bouncing.available() == any(os.path.exists(place) for place in bouncing.PLACES)
