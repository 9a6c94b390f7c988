"""The session-task design's clients: fetch and EventSource as the document has them, and processes that crash."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from dibs.model import AGENT
from tests.server.attacking import Caller
from tests.server.process import Serving, board_of, serving

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
#: The document's client: EventSource.onmessage over fetch, since node 20 has no EventSource of its own.
LISTENER = """
const [url, key] = process.argv.slice(2);
class EventSource {
  constructor(url) { this.listen(url); }
  async listen(url) {
    const response = await fetch(url, { headers: { Authorization: `Bearer ${key}` } });
    const decoder = new TextDecoder();
    let text = '';
    console.log('listening');
    for await (const chunk of response.body) {
      text += decoder.decode(chunk, { stream: true });
      let end;
      while ((end = text.indexOf('\\n\\n')) >= 0) {
        const lines = text.slice(0, end).split('\\n');
        text = text.slice(end + 2);
        const data = lines.filter((line) => line.startsWith('data: ')).map((line) => line.slice(6)).join('\\n');
        const named = lines.some((line) => line.startsWith('event: '));
        if (data && !named && this.onmessage) this.onmessage({ data });
      }
    }
  }
}
const events = new EventSource(`${url}/api/events?messages=true`);
events.onmessage = (message) => {
  const { type, data } = JSON.parse(message.data);
  console.log(JSON.stringify([type, data]));
};
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


def test_event_source_on_message_hears_type_and_data(server: Serving, caller: Caller, tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no node on this machine")
    (tmp_path / "client.js").write_text(LISTENER)
    words = [node, str(tmp_path / "client.js"), server.url, caller.key or ""]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as listener:
        try:
            assert listener.stdout is not None
            assert listener.stdout.readline() == "listening\n"
            caller.ok("POST", "/api/sessions", {"sessionId": "heard"})
            caller.ok("POST", "/api/tasks/phase4/claim", {"sessionId": "heard"})
            caller.ok("POST", "/api/tasks/phase4/release", {"sessionId": "heard", "reason": "lunch"})
            assert [json.loads(listener.stdout.readline()) for _ in range(2)] == [
                ["task:claimed", {"taskId": "phase4", "sessionId": "heard"}],
                ["task:released", {"taskId": "phase4", "reason": "lunch"}],
            ]
        finally:
            listener.kill()


def test_the_table_of_claims_can_be_read_from_the_file(server: Serving, caller: Caller) -> None:
    """With the SQLite of another program, which runs views."""
    caller.ok("POST", "/api/sessions", {"sessionId": "shown", "agentType": "cli", "agent": "coder"})
    caller.ok("POST", "/api/tasks/phase4/claim", {"sessionId": "shown"})
    path = str(server.told["store"]).removeprefix("sqlite:")
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        connection.row_factory = sqlite3.Row
        (row,) = connection.execute("SELECT * FROM task_claims WHERE expires_at > 0").fetchall()
    assert (row["task_id"], row["session_id"], row["agent_type"]) == ("phase4", "shown", "cli")
    assert row["expires_at"] - row["claimed_at"] == 1_800_000
    assert row["last_heartbeat"] >= row["claimed_at"]
    assert json.loads(row["metadata"])["agent"] == "coder"
    caller.ok("POST", "/api/tasks/phase4/release", {"sessionId": "shown"})
