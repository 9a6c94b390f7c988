"""What hooks leave to the person and to the agent: permissions, and the end of a turn. And how seldom they renew."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dibs.board import Board
from tests.agents.conftest import client
from tests.agents.fleet import Connected, connect, holder, state
from tests.kit.agents.claude import ASK, Claude
from tests.kit.agents.codex import Codex
from tests.kit.agents.model import Model
from tests.kit.agents.script import after, together
from tests.kit.aging import age_claims
from tests.kit.soak import in_a_soak
from tests.kit.waiting import until

HOOKS = Path(__file__).parent.parent.parent / "plugins" / "dibs" / "hooks"
CALLS_AT_ONCE = 50


def test_claude_asks_the_person_what_it_asked_before_setup_except_for_a_simple_call_of_dibs(
    model: Model, project: Path, board: Board, tmp_path: Path
) -> None:
    commands = ["touch file", "dibs claim fix", "dibs progress fix half; touch file", "dibs add More", "echo plain"]
    board.add("Fix", id="fix")
    asked = []
    for connects in (False, True):
        claude = connect(Claude, model, project) if connects else client(Claude, model, tmp_path)
        steps = [*map(claude.shell, commands), "I stop", "I stop"]
        with claude.start(project, steps, permissions=ASK) as agent:
            expected = 3 if connects else 4
            for number in range(expected):
                agent.await_question(number + 1, allow=True)
            agent.await_turn()
            asked.append([question["input"]["command"] for question in agent.questions])
            assert holder(board, "fix") == agent.session_id
            assert agent.finish() == 0
    assert asked[0] == commands[:4]
    assert asked[1] == [command for command in commands[:4] if command != "dibs claim fix"]


@pytest.mark.parametrize("kind", [Codex, *in_a_soak(Claude)])
def test_stop_asks_once_and_the_end_of_the_session_releases(
    kind: type[Connected], model: Model, project: Path, board: Board
) -> None:
    board.add("Fix", id="fix")
    client = connect(kind, model, project)
    with client.start(project, [client.shell("dibs claim fix"), "I stop", "I stop indeed", "asked twice"]) as agent:
        assert agent.finish() == 0, agent.complaints
    question = "dibs: you still hold fix. Finish it with `dibs done ITEM`"
    assert [request.step for request in agent.requests[1:]] == [{"text": "I stop"}, {"text": "I stop indeed"}]
    assert [question in str(request.turns) for request in agent.requests] == [False, False, True]
    assert question in str(agent.transcript)
    session = board.find_session(agent.session_id)
    assert (holder(board, "fix"), session.end_reason) == (None, f"{client.kind}: other")
    assert [run.outcome for run in board.runs(item="fix")] == ["released"]
    assert not state(agent, session.id).exists()


def test_fifty_tool_calls_at_once_send_one_heartbeat(model: Model, project: Path, board: Board) -> None:
    board.add("Fix", id="fix")
    claude = connect(Claude, model, project)
    os.mkfifo(project / "gate")
    many = together(*[claude.shell("cat gate")] * CALLS_AT_ONCE)
    at_once = {"CLAUDE_CODE_MAX_TOOL_USE_CONCURRENCY": str(CALLS_AT_ONCE)}
    with claude.start(
        project, [claude.shell("dibs claim fix"), after("due", many), "I stop", "I stop"], environment=at_once
    ) as agent:
        agent.await_pause("due")
        age_claims(project / ".git" / "dibs" / "board.db", 120_000)
        agent.go_on("due")
        until(lambda: len(agent.running("cat", "gate")) == CALLS_AT_ONCE)
        (project / "gate").write_text("")
        agent.await_turn()
        claim = board.get("fix").claim
        assert agent.finish() == 0
    assert len(agent.results) == 1 + CALLS_AT_ONCE
    assert claim is not None
    minutes = (claim.renewed_at - claim.claimed_at) // 60_000
    assert 1 <= claim.heartbeat_count <= 1 + minutes


@pytest.mark.soak
def test_an_idle_claude_is_woken_for_a_lost_claim_if_a_person_wants_that(
    model: Model, project: Path, board: Board
) -> None:
    board.add("Fix", id="fix")
    claude = connect(Claude, model, project)
    steps = [claude.shell("dibs claim fix"), "I rest", "I go on resting", "I look for other work"]
    with claude.start(project, steps, environment={"DIBS_WAKE": "on"}) as agent:
        agent.await_turn(1)
        until(lambda: not (state(agent, agent.session_id) / "active").exists())
        board.force_release("fix", reason="needed elsewhere")
        assert agent.await_turn(2)["result"] == "I look for other work"
        assert "your claim of fix is lost" in agent.texts[-1]
