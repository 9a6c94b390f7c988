"""A board behind a server: hooks do not talk to it, the keeper does."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from dibs.board import Board
from tests.hooks.agent import SESSION, Agent, wait_for
from tests.hooks.conftest import BOB
from tests.server.process import Serving

SUBAGENT = "a67adc3d288542388"


def test_over_a_server_the_keeper_starts_renews_fences_and_ends_the_session(
    agents: Callable[..., Agent], board: Board, folder: Path
) -> None:
    for item in "abc":
        board.add(item, id=item, resources=[f"src/{item}"])
    with Serving(folder, "--quiet") as server:
        key = json.loads(Path(server.told["key_file"]).read_text())["key"]
        agent = agents(DIBS_STORE=server.url, DIBS_KEY=key, DIBS_RESERVE_EDITS="on")
        agent.start()
        wait_for(lambda: _knows(board, SESSION))
        owner = board.find_session(SESSION).owner
        assert owner is not None
        assert owner.pid == agent.process.pid
        agent.hook("SubagentStart", SUBAGENT)
        wait_for(lambda: _knows(board, f"{SESSION}-{SUBAGENT}"))
        assert agent.shell("dibs claim a && dibs release a").code == 0
        board.claim("a", session=SESSION, ttl_seconds=9)  # renewed every three seconds
        wait_for(lambda: (claim := board.get("a").claim) is not None and claim.heartbeat_count)
        board.claim("b", session=BOB)
        wait_for(lambda: "src/b" in (agent.state / "view.json").read_text())
        assert "bob (session bob-1) reserves src/b/x for b" in agent.denied(agent.edit("src/b/x"))
        # No hook waits for a server, so nothing is added.
        assert (agent.edit("lib/x"), board.get("a").item.resources) == ({}, ("src/a",))
        assert "you still hold a" in agent.hook("Stop", stop_hook_active=False)["reason"]
        board.force_release("a", reason="needed elsewhere")
        wait_for((agent.state / "lost-a").exists)
        agent.denied(agent.bash("make"))
        assert agent.shell("dibs release a").code == 4
        assert agent.bash("make") == {}
        agent.hook("SubagentStop", SUBAGENT, stop_hook_active=False)
        wait_for(lambda: board.find_session(f"{SESSION}-{SUBAGENT}").ended_at)
        board.claim("c", session=SESSION)
        agent.hook("SessionEnd", reason="other")
        wait_for(lambda: board.get("c").claim is None)
        wait_for(lambda: not agent.state.exists())


def test_over_a_server_on_this_machine_a_killed_agent_has_lost_its_claim(
    agents: Callable[..., Agent], board: Board, folder: Path
) -> None:
    """It is a strike against the item, which may be what kills agents, and no release."""
    board.add("a", id="a")
    with Serving(folder, "--quiet") as server:
        key = json.loads(Path(server.told["key_file"]).read_text())["key"]
        agent = agents(DIBS_STORE=server.url, DIBS_KEY=key)
        agent.start()
        wait_for(lambda: _knows(board, SESSION))
        board.claim("a", session=SESSION)
        agent.kill()
        wait_for(lambda: board.find_session(SESSION).ended_at)
    assert [event.kind for event in board.log("a")] == ["added", "claimable", "claimed", "owner_died", "claimable"]
    assert board.get("a").item.strikes == 1


def _knows(board: Board, session: str) -> bool:
    return session in {view.session.id for view in board.sessions()}
