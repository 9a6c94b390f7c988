"""Real Claude Code at its own task list, with the board behind it: one owner for each task, and none after a loss."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from dibs.board import Board, connect
from dibs.testing import sizes
from tests.hooks.agent import HOOK, wait_for
from tests.kit.agents import script
from tests.kit.agents.claude import TASKS, TEAMS, Claude, shell, teammate
from tests.kit.agents.codex import Codex
from tests.kit.agents.script import Json, Step

CLIENTS = 4
ROUNDS = 6 if sizes.FACTOR == 1 else 20
EVENTS = ("SessionStart", "SubagentStop", "PreToolUse", "PostToolUse", "TaskCreated", "TaskCompleted", "TeammateIdle")
DIBS = Path(sys.executable).with_name("dibs")


@pytest.fixture
def board(project: Path) -> Iterator[Board]:
    subprocess.run([DIBS, "init"], cwd=project, check=True, capture_output=True)
    with connect(folder=str(project)) as board:
        yield board


@pytest.fixture
def hooked(claude: Claude) -> Claude:
    claude.use_hooks(hooks())
    return claude


def hooks() -> Json:
    command = {"type": "command", "timeout": 30}
    return {event: [{"hooks": [{**command, "command": f"sh {HOOK} {event}"}]}] for event in EVENTS}


def update(id: int, **fields: str) -> Step:
    return script.call("TaskUpdate", {"taskId": str(id), **fields})


def read_task(claude: Claude, id: int) -> dict[str, Any]:
    file = claude.home / ".claude" / "tasks" / TASKS["CLAUDE_CODE_TASK_LIST_ID"] / f"{id}.json"
    found = json.loads(file.read_text())
    assert isinstance(found, dict)
    return found


@pytest.mark.nightly
def test_of_four_clients_at_one_list_one_owns_each_task(hooked: Claude, project: Path, board: Board) -> None:
    for number in range(1, ROUNDS + 1):
        board.add(f"Task {number}", id=f"item-{number}")
    link = [str(DIBS), "tasks", "link", TASKS["CLAUDE_CODE_TASK_LIST_ID"]]
    environment = {**os.environ, "CLAUDE_CONFIG_DIR": str(hooked.home / ".claude")}
    subprocess.run(link, cwd=project, env=environment, check=True, capture_output=True)

    def steps(client: int) -> list[Step]:
        take = [
            script.after(f"round {number}", update(number, owner=f"client-{client}", status="in_progress"))
            for number in range(1, ROUNDS + 1)
        ]
        return [*take, script.after(f"round {ROUNDS + 1}", "done")]

    with ExitStack() as stack:
        agents = [
            stack.enter_context(hooked.start(project, steps(client), environment=TASKS)) for client in range(CLIENTS)
        ]
        for number in range(1, ROUNDS + 1):
            for agent in agents:
                agent.await_pause(f"round {number}")
            for agent in agents:
                agent.go_on(f"round {number}")
            for agent in agents:
                agent.await_pause(f"round {number + 1}")
            owners = [client for client in range(CLIENTS) if agents[client].results[-1].startswith("Updated task")]
            assert len(owners) == 1, [agent.results[-1] for agent in agents]
            claim = board.get(f"item-{number}").claim
            assert claim is not None
            assert claim.session == agents[owners[0]].session_id
            assert read_task(hooked, number)["owner"] == f"client-{owners[0]}"
            refused = [agent.results[-1] for agent in agents if agent is not agents[owners[0]]]
            assert all(f"already claimed by {claim.agent} (session {claim.session})" in one for one in refused)
        for agent in agents:
            agent.go_on(f"round {ROUNDS + 1}")
            assert agent.finish() == 0


def test_a_force_released_holder_completes_no_task(hooked: Claude, project: Path, board: Board) -> None:
    new = script.call("TaskCreate", {"subject": "Fix login", "description": "no cookie", "activeForm": ""})
    listed = script.call("TaskList", {})
    finish = script.after("released", update(1, status="completed"))
    steps = [new, update(1, status="in_progress"), finish, listed, "done"]
    with hooked.start(project, steps, environment=TASKS) as agent:
        agent.await_pause("released")
        (item,) = board.list()
        assert (item.title, item.body, item.status) == ("Fix login", "no cookie", "in_progress")
        board.force_release(item.id, reason="needed elsewhere")
        agent.go_on("released")
        assert agent.finish() == 0
        refused, shown = agent.results[2:]
    assert "Task #1 stays open" in refused
    assert "force_released" in refused
    assert shown == "#1 [pending] Fix login"
    task = read_task(hooked, 1)
    assert (task["status"], task["metadata"]) == ("in_progress", {"dibs": item.id})
    assert board.get(item.id).item.status == "ready"


@pytest.mark.soak
def test_an_idle_teammate_is_offered_an_item_and_takes_it(hooked: Claude, project: Path, board: Board) -> None:
    board.add("Fix login", id="fix-login")
    work = [shell("dibs claim fix-login"), shell("dibs done fix-login"), "idle again"]
    mate = teammate("worker", ["I am idle", *work])
    with hooked.start_terminal(project, [mate, "I lead"], environment=TEAMS) as agent:
        wait_for(lambda: board.get("fix-login").item.status == "done")
        assert any("dibs claim fix-login" in text for request in agent.requests for text in request.texts)
    (run,) = board.runs(item="fix-login")
    assert "-aworker-" in run.session


@pytest.mark.soak
def test_a_goal_of_codex_claims_its_item(codex: Codex, project: Path, board: Board) -> None:
    for item in "ab":
        board.add(item, id=item)
    board.start_session("bob", id="bob-1")
    board.claim("b", session="bob-1")
    codex.use_hooks(hooks())
    goals = [script.call("create_goal", {"objective": objective}) for objective in ("b", "a: mend it")]
    with codex.start(project, [*goals, script.after("asked", "done")]) as agent:
        agent.await_pause("asked")
        claim = board.get("a").claim
        assert claim is not None
        assert claim.session == agent.session_id
        assert "bob (session bob-1)" in agent.results[0]
        agent.go_on("asked")
        assert agent.wait() == 0
