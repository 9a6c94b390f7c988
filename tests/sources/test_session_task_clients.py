"""The session-task design's clients: processes that crash, a dashboard that listens, and who reads its table."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from dibs.access import AGENT
from dibs.testing import sqlite
from dibs.testing.http import Host
from tests.server.attacking import Caller
from tests.server.calling import serving as by_a_clock
from tests.server.process import Serving, board_of, serving
from tests.sources.node import Programs
from tests.sources.test_session_task_design import DESIGN

#: A client that registers itself, claims a task, says so, and then waits to be killed.
WORKER = """
import http.client, json, os, sys
host, port, key, session, pid = sys.argv[1:]
connection = http.client.HTTPConnection(host, int(port))
def post(path, body):
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    connection.request("POST", path, json.dumps(body), headers)
    return json.loads(connection.getresponse().read())
registered = post("/api/sessions", {"sessionId": session, "agentType": "cli", "pid": int(pid) or os.getpid()})
claimed = post("/api/tasks/phase4/claim", {"sessionId": session})
print(json.dumps([registered, claimed]), flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(tmp_path_factory.mktemp("session-task"), "--quiet") as found:
        yield found


@pytest.fixture
def caller(server: Serving) -> Caller:
    with board_of(server) as board:
        if not any(item.id == "phase4" for item in board.list()):
            board.add("Phase 4: Delegation Metrics", id="phase4", phase="implementation")
        return Caller(server.url, board.create_key(AGENT)[1])


def started(caller: Caller, session: str, pid: int = 0) -> tuple[subprocess.Popen[str], Any, Any]:
    words = [caller.host, str(caller.port), caller.key or "", session, str(pid)]
    process = subprocess.Popen(
        [sys.executable, "-c", WORKER, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, *json.loads(process.stdout.readline())


@pytest.mark.skipif(sys.platform != "linux", reason="who holds a connection is read in /proc")
def test_a_client_that_crashes_is_found_by_its_pid(server: Serving, caller: Caller) -> None:
    process, registered, claimed = started(caller, "crashing")
    assert (registered["pid"], "pidIgnored" in registered, claimed["success"]) == (process.pid, False, True)
    process.kill()
    process.communicate()
    answer = caller.ok("POST", "/api/tasks/claims/cleanup")
    assert (answer["orphaned"], answer["expired"]) == (["phase4"], [])


@pytest.mark.parametrize("whose", ["another's", "nobody's"])
def test_a_pid_of_another_process_is_ignored_and_the_answer_says_so(
    server: Serving, caller: Caller, whose: str
) -> None:
    pid = os.getpid() if whose == "another's" else 4_194_000
    process, registered, claimed = started(caller, f"lying-{len(whose)}", pid)
    try:
        assert "pid" not in registered
        assert registered["pidIgnored"] == f"process {pid} does not hold this connection, as far as the server can see"
        assert claimed["success"]
        assert caller.ok("POST", "/api/tasks/claims/cleanup")["orphaned"] == []
        released = caller.ok("POST", "/api/tasks/phase4/release", {"sessionId": registered["sessionId"]})
        assert released["success"]
    finally:
        process.kill()
        process.communicate()


@pytest.mark.skipif(sys.platform != "linux", reason="who holds a connection is read in /proc")
def test_event_source_on_message_hears_the_four_events_of_the_design(
    http_host: Host, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    programs = Programs("session_task_claiming", tmp_path_factory.mktemp("node"))
    with sqlite.harness(tmp_path) as harness, by_a_clock(http_host, harness) as server:
        server.board.add("Phase 4: Delegation Metrics", id="phase4")
        key = server.board.create_key(AGENT)[1]
        caller = Caller(server.url, key)
        with programs.running("listener.mjs", server.url, key) as listener:
            assert listener.stdout is not None
            assert listener.stdout.readline() == "listening\n"
            caller.ok("POST", "/api/sessions", {"sessionId": "heard"})
            caller.ok("POST", "/api/tasks/phase4/claim", {"sessionId": "heard"})
            caller.ok("POST", "/api/tasks/phase4/release", {"sessionId": "heard", "reason": "lunch"})
            caller.ok("POST", "/api/tasks/phase4/claim", {"sessionId": "heard"})
            server.clock.advance(1801)
            caller.ok("POST", "/api/tasks/claims/cleanup")
            process, *_ = started(caller, "crashing")
            process.kill()
            process.communicate()
            caller.ok("POST", "/api/tasks/claims/cleanup")
            told = [json.loads(listener.stdout.readline()) for _ in range(6)]
    assert told == [
        {"type": "task:claimed", "data": {"taskId": "phase4", "sessionId": "heard"}},
        {"type": "task:released", "data": {"taskId": "phase4", "reason": "lunch"}},
        {"type": "task:claimed", "data": {"taskId": "phase4", "sessionId": "heard"}},
        {"type": "task:claim-expired", "data": {"taskId": "phase4", "sessionId": "heard"}},
        {"type": "task:claimed", "data": {"taskId": "phase4", "sessionId": "crashing"}},
        {"type": "task:claim-orphaned", "data": {"taskId": "phase4", "reason": "session_dead"}},
    ]
    assert {event["type"]: set(event["data"]) for event in told} == {
        event["type"]: set(event["data"]) for event in DESIGN["events"]
    }


def test_the_table_of_claims_can_be_read_from_the_file(server: Serving, caller: Caller) -> None:
    """With the SQLite of another program, which runs views."""
    caller.ok("POST", "/api/sessions", {"sessionId": "shown", "agentType": "cli", "agent": "coder"})
    caller.ok("POST", "/api/tasks/phase4/claim", {"sessionId": "shown"})
    path = str(server.told["store"]).removeprefix("sqlite:")
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        connection.row_factory = sqlite3.Row
        now = time.time_ns() // 1_000_000
        asked = "SELECT * FROM task_claims WHERE task_id = ? AND expires_at > ?"
        (row,) = connection.execute(asked, ("phase4", now)).fetchall()
    assert (row["task_id"], row["session_id"], row["agent_type"]) == ("phase4", "shown", "cli")
    assert row["expires_at"] - row["claimed_at"] == 1_800_000
    assert row["last_heartbeat"] >= row["claimed_at"]
    assert json.loads(row["metadata"])["agent"] == "coder"
    caller.ok("POST", "/api/tasks/phase4/release", {"sessionId": "shown"})
