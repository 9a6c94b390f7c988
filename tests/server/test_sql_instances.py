"""Story 011: an instance that was made in SQL goes on over HTTP with its agent's key, and with no other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from dibs.access import AGENT, VIEWER
from dibs.testing import postgres
from dibs.testing.harness import Harness
from dibs.testing.http import Host
from dibs.testing.postgres_server import PostgresServer
from tests.server.calling import Caller, Served, serving

CLAIM = "SELECT dibs.claim_work_item('x', 'coder', %s)"


@pytest.fixture
def harness(postgres_server: PostgresServer, tmp_path: Path) -> Iterator[Harness]:
    with postgres.harness(postgres_server, tmp_path) as harness:
        yield harness


@pytest.fixture
def database(harness: Harness) -> str:
    url: str = harness.recipe()["kwargs"]["url"]
    return url


@pytest.fixture
def server(http_host: Host, harness: Harness, database: str) -> Iterator[Served]:
    with serving(http_host, harness) as server:
        server.board.add("Fix login", id="x")
        with psycopg.connect(database, autocommit=True) as connection:
            assert connection.execute(CLAIM, ["instance-1"]).fetchone() == (True,)
        yield server


def test_an_instance_made_in_sql_goes_on_with_its_agents_key_and_with_no_other(server: Served) -> None:
    key, secret = server.board.create_key(AGENT, agent="coder")
    mine, second = Caller(server.url, secret), server.caller(AGENT, "coder")
    others = [server.caller(AGENT, "planner"), server.caller(AGENT), server.caller(VIEWER, "coder")]
    held = {"session": "instance-1"}
    for other in others:
        assert other.post("/v1/items/x/release", held).body["code"] == "FORBIDDEN"
        assert other.post("/v1/sessions", {"agent": "coder", "id": "instance-1"}).body["code"] == "FORBIDDEN"
    assert server.board.find_session("instance-1").key is None
    assert mine.post("/v1/items/x/progress", {**held, "note": "over HTTP"}).status == 200
    taken = server.board.find_session("instance-1")
    assert (taken.key, taken.kind, taken.agent) == (key.id, "sql", "coder")
    assert second.post("/v1/items/x/done", held).body["code"] == "FORBIDDEN"
    assert mine.post("/v1/items/x/done", held).body["run"]["outcome"] == "done"


@pytest.mark.parametrize("how", ["revoked", "expired"])
def test_an_instance_whose_key_is_good_no_more_goes_on_with_another_key_of_its_agent(server: Served, how: str) -> None:
    held = {"session": "instance-1"}
    key, secret = server.board.create_key(AGENT, agent="coder", seconds=60 if how == "expired" else None)
    assert Caller(server.url, secret).post("/v1/heartbeat", held).status == 200
    second = server.caller(AGENT, "coder")
    assert second.post("/v1/heartbeat", held).body["code"] == "FORBIDDEN"
    if how == "revoked":
        server.board.revoke_key(key.id)
    else:
        server.clock.advance(61)
    for other in (server.caller(AGENT, "planner"), server.caller(AGENT), server.caller(VIEWER, "coder")):
        assert other.post("/v1/heartbeat", held).body["code"] == "FORBIDDEN"
    assert server.board.find_session("instance-1").key == key.id
    assert second.post("/v1/items/x/done", held).body["run"]["outcome"] == "done"


def test_a_session_is_taken_up_only_by_a_key_of_its_agent_whatever_it_was_when_it_was_asked(server: Served) -> None:
    """It may have ended, and be another agent's, by the time the store is asked."""
    key, _ = server.board.create_key(AGENT, agent="planner")
    assert server.board.store.take_up("instance-1", key=key.id, agent="planner").key is None


def test_an_instance_that_was_taken_up_is_told_so_in_sql(server: Served, database: str) -> None:
    assert server.caller(AGENT, "coder").post("/v1/heartbeat", {"session": "instance-1"}).status == 200
    with psycopg.connect(database, autocommit=True) as connection:
        with pytest.raises(psycopg.errors.InvalidParameterValue, match="instance-1 is another agent's"):
            connection.execute("SELECT dibs.claim_work_item('x', 'planner', 'instance-1')")
        server.board.end_session("instance-1")
        with pytest.raises(psycopg.errors.InvalidParameterValue, match="instance-1 belongs to a key"):
            connection.execute(CLAIM, ["instance-1"])


def test_an_instance_made_in_sql_can_be_started_again_over_http_and_a_local_session_cannot(server: Served) -> None:
    mine = server.caller(AGENT, "coder")
    started = mine.post("/v1/sessions", {"agent": "coder", "id": "instance-1"})
    assert (started.status, started.body["kind"]) == (200, "sql")
    server.board.start_session("coder", id="local-1")
    assert mine.post("/v1/heartbeat", {"session": "local-1"}).body["code"] == "FORBIDDEN"
    server.board.start_session("coder", id="ended-1", kind="sql")
    server.board.end_session("ended-1")
    assert mine.post("/v1/heartbeat", {"session": "ended-1"}).body["code"] == "FORBIDDEN"
    assert server.board.find_session("ended-1").key is None
