"""Whatever is wrong with the board, the state or the payload: a hook exits 0 and prints nothing."""

from __future__ import annotations

import json
import resource
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dibs.agents import hook
from dibs.agents.state import Record, State
from dibs.board import Board
from dibs.errors import StoreUnusable
from tests.hooks.agent import HOOK, SESSION, Agent, payload, wait_for

EVENTS: dict[str, dict[str, Any]] = {
    "SessionStart": {"source": "startup"},
    "UserPromptSubmit": {"prompt": "x"},
    "PreToolUse": {"tool_name": "Write", "tool_input": {"file_path": "x", "content": "x"}},
    "Stop": {"stop_hook_active": False},
    "SubagentStart": {},
    "SubagentStop": {},
    "SessionEnd": {"reason": "other"},
}


def all_events(agent: Agent) -> None:
    for event, fields in EVENTS.items():
        subagent = "a67adc3d288542388" if event.startswith("Subagent") else None
        assert agent.hook(event, subagent, **fields) == {}, event
    assert agent.bash("dibs next; x") == {}


def test_without_a_board_nothing_happens(agents: Callable[..., Agent], tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    all_events(agents(at=elsewhere))
    assert not (tmp_path / "state").exists()


def test_a_board_that_is_damaged_is_not_noticed(agent: Agent, board: Board, folder: Path) -> None:
    board.add("A", id="a")
    agent.start()
    board.close()
    for file in (folder / ".dibs").glob("board.db*"):
        file.write_bytes(b"not a database" * 1000)
    (agent.state / "until").unlink()
    agent.bash()
    agent.edit("x")
    assert agent.hook("Stop", stop_hook_active=False) == {}
    assert agent.hook("UserPromptSubmit", prompt="x") == {}
    assert agent.hook("SessionEnd", reason="other") == {}
    all_events(agent)


def test_a_server_that_is_gone_is_not_noticed(agents: Callable[..., Agent]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        agent = agents(DIBS_STORE=f"http://127.0.0.1:{taken.getsockname()[1]}")
        context = agent.hook("SessionStart", source="startup")["additionalContext"]
        assert "dibs next" in context
        for event in ("UserPromptSubmit", "PreToolUse", "Stop"):
            assert agent.hook(event, **EVENTS[event]) == {}
        wait_for(lambda: (agent.state / "until").exists())
        assert agent.bash() == {}


def test_a_state_that_cannot_be_read_allows(agent: Agent) -> None:
    agent.hook("SessionStart", source="startup")
    for what in ("until", "lost-a", "answered", "view.json", "active", "session.json"):
        for damage in (b"\0\xff{", b'{"item": "a"}'):
            (agent.state / what).write_bytes(damage)
            assert agent.bash() == {}
            (agent.state / what).unlink(missing_ok=True)
    (agent.state / "session.json").write_bytes(b"[1]")
    assert agent.edit("x") == {}
    agent.run(f"rm -f {agent.state}/*; rmdir {agent.state}")


def test_without_room_for_the_state_nothing_is_promised(agent: Agent, board: Board) -> None:
    """Nothing would renew the claims, nor end the session."""
    (agent.state / "session.json").mkdir(parents=True)
    assert agent.hook("SessionStart", source="startup") == {}
    assert [path.name for path in agent.state.iterdir()] == ["session.json"]
    (agent.state / "session.json").rmdir()
    # The next prompt makes up for it.
    assert "dibs next" in agent.hook("UserPromptSubmit", prompt="x")["additionalContext"]


def test_a_full_disk_keeps_no_empty_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))  # every write fails, as this process ignores SIGXFSZ
    try:
        with pytest.raises(StoreUnusable):
            State(SESSION).make(Record(session=SESSION, agent="x", client="claude", folder="/"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list((tmp_path / "dibs" / "agents").iterdir()) == []


def test_without_dibs_on_the_path_nothing_happens(agent: Agent) -> None:
    agent.hook("SessionStart", source="startup")
    agent.run("export PATH=/usr/bin:/bin")
    all_events(agent)


HOSTILE = ["../x", "x/../../y", "x" * 5000, "a\nb", "", ".", "-rf", "$(touch /tmp/x)", "é"]


def test_a_hostile_session_id_changes_nothing(agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    before = sorted(tmp_path.rglob("*"))
    for name in HOSTILE:
        for event, fields in EVENTS.items():
            for given in ({"session_id": name}, {"session_id": SESSION, "agent_id": name or "/"}):
                text = json.dumps(json.loads(payload("claude", event, SESSION, agent.folder)) | given | fields)
                assert hook.run(text, event) == ""
        # The shell part takes the ids by itself.
        for given in ({"session_id": name}, {"session_id": SESSION, "agent_id": name}):
            raw = json.loads(payload("claude", "PreToolUse", SESSION, agent.folder)) | given | {"tool_name": "Bash"}
            assert agent.hook_with("PreToolUse", json.dumps(raw)) == {}
    after = sorted(path for path in tmp_path.rglob("*") if not path.name.isdigit())
    assert after == [path for path in before if not path.name.isdigit()]


def test_a_state_folder_that_cannot_be_written_is_not_noticed(agent: Agent) -> None:
    agent.run("export XDG_STATE_HOME=/proc/nowhere")
    assert agent.hook("SessionStart", source="startup") == {}
    assert agent.bash() == {}
    done = agent.run(f"env -i sh {HOOK} PreToolUse </dev/null")
    assert (done.code, done.out) == (0, "")
