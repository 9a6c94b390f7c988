"""The contracts of others on a PostgreSQL board with two server processes: what they tell comes from its functions."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dibs.text import times
from tests.kit import postgres
from tests.kit.http import Host
from tests.kit.postgres_server import PostgresServer
from tests.server.calling import Reply, Served, serving

CLAIMERS = 10
MINUTE = 60


@pytest.fixture
def servers(
    http_host: Host, second_http_host: Host, postgres_server: PostgresServer, tmp_path: Path
) -> Iterator[tuple[Served, Served]]:
    with (
        postgres.harness(postgres_server, tmp_path) as harness,
        serving(http_host, harness) as first,
        serving(second_http_host, harness) as second,
    ):
        yield first, second


def test_ten_sessions_claim_one_task_by_two_servers_and_one_has_it(servers: tuple[Served, Served]) -> None:
    first, second = servers
    first.board.add("Fix login", id="task")
    sessions = [f"session-{number}" for number in range(CLAIMERS)]
    for session in sessions:
        assert first.admin.post("/api/sessions", {"sessionId": session, "agent": "coder"}).status == 200

    def claim(number: int) -> Reply:
        caller = servers[number % 2].admin
        return caller.post("/api/tasks/task/claim", {"sessionId": sessions[number], "ttlMs": 60000})

    with ThreadPoolExecutor(CLAIMERS) as pool:
        replies = list(pool.map(claim, range(CLAIMERS)))
    assert sorted(reply.status for reply in replies) == [200] + [409] * (CLAIMERS - 1)
    (won,) = [reply.body["claim"] for reply in replies if reply.status == 200]
    lost = {"sessionId": won["sessionId"], "claimedAt": times.iso(first.clock.now()), "remainingMs": 60000}
    assert [reply.body["claim"] for reply in replies if reply.status == 409] == [lost] * (CLAIMERS - 1)
    assert second.admin.get("/health?agent=coder").body["coordination"] == {
        "agent_name": "coder",
        "active_claims": 1,
        "total_claims": 1,
        "claim_conflicts_avoided": CLAIMERS - 1,
        "claim_success_rate": 1 / CLAIMERS,
    }
    first.clock.advance(MINUTE)
    (expired,) = second.admin.get("/api/tasks/in-flight?includeExpired=1").body["inFlight"]
    assert (expired["claim"]["sessionId"], expired["claim"]["healthStatus"]) == (won["sessionId"], "expired")
    late = {"sessionId": won["sessionId"], "reason": "completed"}
    assert second.admin.post("/api/tasks/task/release", late).body["error"] == "CLAIM_EXPIRED"


def test_an_instance_is_the_same_to_both_servers(servers: tuple[Served, Served]) -> None:
    first, second = servers
    for id in ("a", "b"):
        first.board.add("Fix login", id=id)
    asked = {"agentType": "coder", "agentInstanceId": "coder-instance-1"}
    for server, id in ((first, "a"), (second, "b"), (first, "b")):
        reply = server.admin.post("/functions/v1/agent-claim", {"workItemId": id, **asked})
        assert reply.body == {"success": True, "claimed": True}
    other = {**asked, "agentInstanceId": "coder-instance-2", "workItemId": "a"}
    assert second.admin.post("/functions/v1/agent-claim", other).body == {"success": True, "claimed": False}
