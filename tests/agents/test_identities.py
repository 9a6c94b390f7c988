"""Who a real agent is on the board: when its identity stays, when it changes, and how long it keeps its claims."""

from __future__ import annotations

from pathlib import Path

import pytest

from dibs.board import Board
from tests.agents.fleet import Connected, agent_name, connect, holder, state
from tests.kit.agents import claude as claude_steps
from tests.kit.agents import codex as codex_steps
from tests.kit.agents.claude import Claude
from tests.kit.agents.codex import Codex
from tests.kit.agents.model import Model
from tests.kit.agents.script import after, together
from tests.kit.soak import in_a_soak
from tests.kit.waiting import until


def test_claude_keeps_its_claims_by_compact_and_begins_anew_by_clear(model: Model, project: Path, board: Board) -> None:
    for item in ("one", "two"):
        board.add(item, id=item)
    claude = connect(Claude, model, project)
    with claude.start(project, [claude.shell("dibs claim one"), "I stop", "I stop"]) as agent:
        agent.await_turn(1)
        first = agent.session_id
        asked = ["dibs: you still hold one" in str(request.texts) for request in agent.requests]
        assert asked == [False, False, True], "asked once before it stops"
        agent.prompt("/compact")
        agent.await_turn(2)
        agent.prompt([claude.shell("dibs progress one half"), "I stop", "I stop"])
        agent.await_turn(3)
        assert (agent.session_id, holder(board, "one")) == (first, first)
        assert f"You are session {first}, agent {first[:8]}. You hold one." in str(agent.texts)
        agent.prompt("/clear")
        agent.await_turn(4)
        assert (holder(board, "one"), board.find_session(first).end_reason) == (None, "claude: clear")
        agent.prompt([claude.shell("dibs claim two; echo I am $DIBS_SESSION"), "I stop", "I stop"])
        agent.await_turn(5)
        second = agent.session_id
        assert (second != first, holder(board, "two")) == (True, second)
        assert f"I am {second}" in agent.results[-1]
        assert f"You are session {second}, agent {second[:8]}. 2 items are ready." in str(agent.transcript)
        assert agent.finish() == 0
    assert (holder(board, "two"), board.find_session(second).end_reason) == (None, "claude: other")
    assert not list(state(agent, second).parent.iterdir())


@pytest.mark.parametrize("kind", [Codex, *in_a_soak(Claude)])
def test_a_resumed_agent_is_the_same_with_its_claim_and_a_fork_is_another_one(
    kind: type[Connected], model: Model, project: Path, board: Board
) -> None:
    """The first process is killed: one that ends by itself gives its claims back."""
    board.add("Fix", id="fix")
    client = connect(kind, model, project)
    with client.start(project, [client.shell("dibs claim fix"), after("killed", "never said")]) as first:
        first.await_pause("killed")
        session = first.session_id
        first.kill()
        until(lambda: not state(first, session).exists())
        assert holder(board, "fix") is None
    steps = [after("forked", client.shell("dibs progress fix half")), "I stop", "I stop"]
    with client.start(project, steps, resume=session) as resumed:
        resumed.await_pause("forked")
        assert (resumed.session_id, holder(board, "fix")) == (session, session)
        assert f"You are session {session}, agent {agent_name(kind, session)}. You hold fix." in str(resumed.texts)
        with client.start(project, [client.shell("dibs claim fix"), "done"], resume=session, fork=True) as forked:
            assert forked.finish() == 0
        other = forked.session_id
        assert other != session
        assert f"You are session {other}, agent {agent_name(kind, other)}. No item is ready." in str(forked.texts)
        assert f"fix is already claimed by {agent_name(kind, session)} (session {session})" in forked.results[-1]
        assert f"already claimed by {agent_name(kind, session)}" in str(forked.transcript)
        resumed.go_on("forked")
        assert resumed.finish() == 0
    assert [(event.session, event.kind) for event in board.events(item="fix") if event.kind == "progress"] == [
        (session, "progress")
    ]
    assert (holder(board, "fix"), board.find_session(session).ended_at is not None) == (None, True)


@pytest.mark.parametrize("kind", [Claude, *in_a_soak(Codex)])
def test_two_subagents_exclude_each_other_and_give_back_what_they_hold(
    kind: type[Connected], model: Model, project: Path, board: Board
) -> None:
    board.add("Fix", id="fix")
    client = connect(kind, model, project)
    work = [[after(f"claim {n}", client.shell("dibs claim fix")), after(f"claimed {n}", "done")] for n in "12"]
    spawn = (
        [together(*map(claude_steps.subagent, work))]
        if kind is Claude
        else [step for steps in work for step in codex_steps.subagent(steps)]
    )
    with client.start(project, [*spawn, after("joined", client.shell("dibs claim fix")), "I stop", "I stop"]) as agent:
        for pause in ("claim", "claimed"):
            for n in "12":
                agent.await_pause(f"{pause} {n}")
            if pause == "claimed":
                children = [view.session for view in board.sessions() if view.session.parent == agent.session_id]
                assert (len(children), {child.agent for child in children}) == (2, {agent_name(kind, agent.session_id)})
                winner = holder(board, "fix")
                assert winner in {child.id for child in children}
            for n in "12":
                agent.go_on(f"{pause} {n}")
        agent.await_pause("joined")
        until(lambda: all(board.find_session(child.id).ended_at for child in children))
        assert holder(board, "fix") is None
        agent.go_on("joined")
        assert agent.finish() == 0, agent.complaints
    name = agent_name(kind, agent.session_id)
    results = [request.results[-1] for request in agent.requests if len(request.results) == 1]
    assert sum(f"already claimed by {name} (session {winner})" in one for one in results) == 1, results
    assert [run.session for run in board.runs(item="fix")] == [agent.session_id, winner]
    assert "claimed fix" in str(agent.transcript)
