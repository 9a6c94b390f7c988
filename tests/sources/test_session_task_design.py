"""The session-task design's requests, sent with node's fetch and with curl at the times that stand in the design: every
answer is the one that stands there."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dibs.model import AGENT
from dibs.text.times import parse_instant
from tests.kit.waiting import PATIENCE_SECONDS
from tests.server.calling import Reused, Served
from tests.server.conftest import reused
from tests.sources.node import Programs

__all__ = ["reused"]

DESIGN = json.loads((Path(__file__).parent / "session_task_claiming" / "design.json").read_text(encoding="utf-8"))
TASK, OTHERS = "hierarchy-phase4-metrics", ("hierarchy-phase3-auto-delegation", "update-docs", "add-validation-tests")
ABC, XYZ = "session-abc-123", "session-xyz-789"
LONG = 7_200_000

Ask = Callable[..., tuple[int, Any]]


@pytest.fixture
def server(reused: Reused) -> Served:
    server = reused.anew()
    server.board.add("Phase 4: Delegation Metrics", id=TASK, phase="implementation", priority="medium")
    for other in OTHERS:
        server.board.add(other, id=other)
    return server


@contextmanager
def fetch(url: str, key: str, folder: Path) -> Iterator[Ask]:
    programs = Programs("session_task_claiming", folder, need_packages=False)
    with programs.running("client.mjs", url, key) as process:
        sent, answers = process.stdin, process.stdout
        assert sent is not None
        assert answers is not None

        def ask(*request: Any) -> tuple[int, Any]:
            sent.write(json.dumps(request) + "\n")
            sent.flush()
            status, answer = json.loads(answers.readline())
            return status, answer

        yield ask


@contextmanager
def curl(url: str, key: str, folder: Path) -> Iterator[Ask]:
    if not shutil.which("curl"):
        pytest.skip("there is no curl on this machine")

    def ask(method: str, path: str, body: Any = None) -> tuple[int, Any]:
        words = ["-sS", "-X", method, "-H", f"Authorization: Bearer {key}", "-w", "\n%{http_code}"]
        if body is not None:
            words += ["-H", "Content-Type: application/json", "-d", json.dumps(body)]
        done = subprocess.run(
            ["curl", *words, f"{url}{path}"], capture_output=True, text=True, check=True, timeout=PATIENCE_SECONDS
        )
        answer, _, status = done.stdout.rpartition("\n")
        return int(status), json.loads(answer)

    yield ask


@pytest.mark.parametrize("client", [fetch, curl])
def test_every_answer_is_the_one_that_stands_in_the_design(server: Served, tmp_path: Path, client: Any) -> None:
    def at(time: str) -> None:
        server.clock.advance((parse_instant(f"2025-12-28T{time}:00Z") - server.clock.now()) / 1000)

    def ok(*request: Any) -> Any:
        status, answer = ask(*request)
        assert status == 200, (request, answer)
        return answer

    def claim(task: str, session: str, **more: Any) -> None:
        ok("POST", f"/api/tasks/{task}/claim", {"sessionId": session, **more})

    def release(task: str, session: str, reason: str) -> None:
        ok("POST", f"/api/tasks/{task}/release", {"sessionId": session, "reason": reason})

    def asked(name: str) -> Any:
        """What the design says: the request is sent, and the status is the one that stands there."""
        status, answer = ask(*DESIGN[name]["request"])
        assert status == DESIGN[name]["status"], answer
        return told(answer)

    with client(server.url, server.board.create_key(AGENT)[1], tmp_path) as ask:
        at("10:00")
        for session in (ABC, XYZ):
            ok("POST", "/api/sessions", {"sessionId": session, "agentType": "autonomous"})
        claim(OTHERS[0], ABC, ttlMs=LONG)
        at("11:45")
        release(OTHERS[0], ABC, "completed")
        claim(OTHERS[1], ABC, ttlMs=LONG)
        claim(OTHERS[2], XYZ, ttlMs=LONG)
        claim(TASK, XYZ)
        at("12:00")
        assert asked("conflict") == DESIGN["conflict"]["answer"]
        release(TASK, XYZ, "lunch")
        assert asked("claim") == DESIGN["claim"]["answer"]
        found, shown = asked("inFlight"), DESIGN["inFlight"]["answer"]
        assert [line for line in found["inFlight"] if line["taskId"] == TASK] == shown["inFlight"]
        assert found["summary"] == shown["summary"]
        at("12:26")
        assert asked("currentTask") == DESIGN["currentTask"]["answer"]
        for _ in range(2):
            asked("heartbeat")
        at("12:30")
        assert asked("heartbeat") == DESIGN["heartbeat"]["answer"]
        assert asked("release") == DESIGN["release"]["answer"]
        sessions = {line["sessionId"]: line for line in told(ok("GET", "/api/sessions/summary"))["sessions"]}
        assert sessions[ABC]["claimHistory"][-1:] == DESIGN["claimHistory"]
        assert sessions[ABC]["currentTaskId"] == OTHERS[1]
        assert ok("POST", "/api/tasks/claims/cleanup")["success"]
        assert ok("GET", "/api/tasks/claims/stats")["stats"]["conflictsAvoided"] == 1


def test_every_error_has_the_code_and_the_status_of_the_design(server: Served, tmp_path: Path) -> None:
    with fetch(server.url, server.board.create_key(AGENT)[1], tmp_path) as ask:

        def refused(task: str, session: str, verb: str = "claim") -> tuple[int, str]:
            status, answer = ask("POST", f"/api/tasks/{task}/{verb}", {"sessionId": session})
            assert answer["success"] is False
            return status, answer["error"]

        for session in (ABC, XYZ):
            ask("POST", "/api/sessions", {"sessionId": session})
        assert refused("no-task", ABC) == (404, "TASK_NOT_FOUND")
        assert refused(TASK, "nobody") == (404, "SESSION_NOT_FOUND")
        assert refused(TASK, ABC, "claim/heartbeat") == (404, "TASK_NOT_CLAIMED")
        ask("POST", f"/api/tasks/{TASK}/claim", {"sessionId": ABC})
        assert refused(TASK, XYZ) == (409, "TASK_ALREADY_CLAIMED")
        assert refused(TASK, XYZ, "release") == (403, "NOT_CLAIM_OWNER")
        server.clock.advance(1801)
        assert refused(TASK, ABC, "claim/heartbeat") == (410, "CLAIM_EXPIRED")
        ask("POST", f"/api/tasks/{TASK}/claim", {"sessionId": XYZ})
        ask("POST", f"/api/tasks/{TASK}/release", {"sessionId": XYZ, "reason": "completed"})
        assert refused(TASK, ABC) == (400, "TASK_NOT_CLAIMABLE")


def told(answer: Any) -> Any:
    """An answer with its instants as the design writes them, in whole seconds."""
    return json.loads(re.sub(r"(T\d\d:\d\d:\d\d)\.000Z", r"\1Z", json.dumps(answer)))
