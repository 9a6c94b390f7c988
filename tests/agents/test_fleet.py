"""Real agents on one board, connected by `dibs setup`: one of them has an item, and nobody works on what is lost."""

from __future__ import annotations

import os
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

from dibs.board import Board
from tests.agents.fleet import BOB, SHORT_CLAIMS, Connected, asleep, connect, holder, state
from tests.kit.agents.claude import Claude, ClaudeAgent
from tests.kit.agents.codex import Codex, CodexAgent
from tests.kit.agents.model import Model
from tests.kit.agents.script import Step, after
from tests.kit.soak import in_a_soak
from tests.kit.waiting import until

ROUNDS = 20 if os.environ.get("DIBS_SOAK") else 1
COMMIT = ("-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "--allow-empty", "--message", "x")


def test_of_four_agents_that_race_for_an_item_one_has_it_and_the_others_read_who(
    model: Model, project: Path, board: Board
) -> None:
    claude, codex = connect(Claude, model, project), connect(Codex, model, project)
    escapes = len(model.escapes)
    with ExitStack() as stack:
        agents: list[ClaudeAgent | CodexAgent] = []
        for _ in range(3):
            agents.append(stack.enter_context(claude.start(project, _race(claude))))
        agents.append(stack.enter_context(codex.start(project, _race(codex))))
        refusals = {}
        for number in range(ROUNDS):
            board.add("Fix", id=f"fix-{number}")
            for agent in agents:
                agent.await_pause(f"claim {number}")
            for agent in agents:
                agent.go_on(f"claim {number}")
            for agent in agents:
                agent.await_pause(f"claimed {number}")
            (winner,) = [agent for agent in agents if agent.session_id == holder(board, f"fix-{number}")]
            (run,) = board.runs(item=f"fix-{number}")
            refusals[number] = (winner, f"already claimed by {run.agent} (session {winner.session_id})")
            for agent in agents:
                agent.go_on(f"claimed {number}")
        for agent in agents:
            assert agent.finish() == 0, agent.complaints
            for number, (winner, refusal) in refusals.items():
                result = agent.results[2 * number]
                assert f"claimed fix-{number}" in result if agent is winner else refusal in result
                assert ("code 4" in result.lower()) is (agent is not winner)
                assert (f"fix-{number} is {refusal}" in str(agent.transcript)) is (agent is not winner)
    assert [holder(board, f"fix-{number}") for number in refusals] == [None] * ROUNDS
    assert model.escapes[escapes:] == []


def _race(client: Connected) -> list[Step]:
    steps: list[Step] = []
    for number in range(ROUNDS):
        steps.append(after(f"claim {number}", client.shell(f"dibs claim fix-{number}")))
        steps.append(after(f"claimed {number}", client.shell("true")))
    return [*steps, "done"]


@pytest.mark.parametrize("killed", [Claude, *in_a_soak(Codex)])
def test_what_a_killed_agent_held_is_taken_over_at_once(
    killed: type[Connected], model: Model, project: Path, board: Board
) -> None:
    board.add("Fix", id="fix")
    first, second = connect(killed, model, project), connect(Codex if killed is Claude else Claude, model, project)
    with (
        first.start(project, [first.shell("dibs claim fix"), after("killed", "never said")]) as dead,
        second.start(project, [after("now", second.shell("dibs claim fix")), after("claimed", "done")]) as heir,
    ):
        dead.await_pause("killed")
        heir.await_pause("now")
        assert holder(board, "fix") == dead.session_id
        dead.kill()
        heir.go_on("now")
        heir.await_pause("claimed")
        assert "claimed fix" in heir.results[0]
        assert holder(board, "fix") == heir.session_id
        assert [(run.session, run.outcome) for run in board.runs(item="fix")] == [
            (heir.session_id, None),
            (dead.session_id, "owner_died"),
        ]
        heir.go_on("claimed")
        assert heir.finish() == 0
        assert "claimed fix" in str(heir.transcript)
        # The keeper of the killed agent ends its session, removes its state, and ends.
        until(lambda: not state(dead, dead.session_id).exists())
        assert board.find_session(dead.session_id).ended_at is not None


@pytest.mark.parametrize("kind", [Claude, *in_a_soak(Codex)])
def test_a_zombie_is_stopped_at_its_next_tool_call_and_freed_by_its_answer(
    kind: type[Connected], model: Model, project: Path, board: Board
) -> None:
    (project / "dibs.toml").write_text(SHORT_CLAIMS)
    board.add("Fix", id="fix")
    client = connect(kind, model, project)
    steps = [
        client.shell("dibs claim fix"),
        after("stopped", client.shell("touch denied")),
        client.write(project / "denied", "x"),
        client.shell("dibs release fix"),
        client.shell("touch ran"),
        client.write(project / "written", "x"),
        "done",
    ]
    with client.start(project, steps) as agent:
        agent.await_pause("stopped")
        until(lambda: (claim := board.get("fix").claim) is not None and claim.heartbeat_count)
        with asleep(agent, agent.session_id) as wake:
            assert board.claim("fix", session=BOB, ttl_seconds=600, wait_seconds=30).claim.session == BOB
            agent.go_on("stopped")
            wake()
            assert agent.finish() == 0, agent.complaints
    loss = "dibs: your claim of fix is lost: it was taken over by bob (session bob-1)"
    for denied in agent.results[1:3]:
        assert loss in denied
        assert "Run: dibs release fix; then: dibs next" in denied
    assert "bob (session bob-1) took it over" in agent.results[3]
    assert not any("lost" in result for result in agent.results[4:])
    assert loss in str(agent.transcript)
    assert {each.name for each in project.iterdir()} == {".git", "dibs.toml", "ran", "written"}
    assert holder(board, "fix") == BOB


@pytest.mark.parametrize("kind", [Claude, Codex])
def test_an_edit_of_a_reserved_file_is_denied_in_every_worktree(
    kind: type[Connected], model: Model, project: Path, board: Board
) -> None:
    subprocess.run(["git", "-C", str(project), *COMMIT], check=True)
    tree = project.parent / "tree"
    subprocess.run(["git", "-C", str(project), "worktree", "add", "--quiet", str(tree)], check=True)
    board.add("Login", id="login", resources=["src/auth"])
    board.add("Logout", id="logout")
    board.claim("login", session=BOB)
    client = connect(kind, model, project)
    steps = [
        client.write(tree / "src" / "auth" / "told.py", "x"),
        client.shell("dibs claim logout"),
        client.write(tree / "src" / "auth" / "denied.py", "x"),
        client.write(project / "src" / "auth" / "denied.py", "x"),
        client.write(tree / "src" / "free.py", "x"),
        "done",
        "done",
    ]
    with client.start(tree, steps) as agent:
        assert agent.finish() == 0, agent.complaints
    for denied in agent.results[2:4]:
        assert "dibs: bob (session bob-1) reserves src/auth/denied.py for login. Do not edit it" in denied
    # Before its first claim the agent takes no part in the work of the project, and is only told.
    told = "dibs: bob (session bob-1) reserves src/auth/told.py for login. Two agents may edit one file"
    assert told in str(agent.requests[1].turns)
    assert all(text in str(agent.transcript) for text in ("src/auth/told.py for login", "src/auth/denied.py for login"))
    written = {str(path.relative_to(project.parent)) for top in (project, tree) for path in top.rglob("*.py")}
    assert written == {"tree/src/auth/told.py", "tree/src/free.py"}
    assert [run.session for run in board.runs(item="logout")] == [agent.session_id]
