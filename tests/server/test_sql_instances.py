"""Story 011: an instance that was made in SQL goes on over HTTP with its agent's key, and with no other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from dibs.access import AGENT, VIEWER
from dibs.testing import postgres
from dibs.testing.http import Host
from dibs.testing.postgres_server import PostgresServer
from tests.server.calling import Caller, Served, serving

CLAIM = "SELECT dibs.claim_work_item('x', 'coder', %s)"


@pytest.fixture
def server(http_host: Host, postgres_server: PostgresServer, tmp_path: Path) -> Iterator[Served]:
    with postgres.harness(postgres_server, tmp_path) as harness, serving(http_host, harness) as server:
        server.board.add("Fix login", id="x")
        with psycopg.connect(harness.recipe()["kwargs"]["url"], autocommit=True) as connection:
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
