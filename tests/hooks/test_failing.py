"""A hook that fails for a reason of its own: it denies what the session is known to have lost, and lets all else
run."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

import apsw
import pytest

from dibs.agents import answers
from dibs.agents import payload as payloads
from dibs.agents.hook import ANSWER_SECONDS
from dibs.agents.setup.events import SECONDS
from dibs.agents.state import Loss, State
from dibs.board import Board
from tests.hooks.agent import HOOK, SESSION, Agent, payload

LOSS = Loss(item="a", token=1, how="force_released", by="ann", since=1, resources=("src/a.py",))
#: A `dibs` in which the function of the event does what it should not.
BROKEN = """#!{python}
import sys, time
from dibs.agents import tools
def before(*_):
    {does}
tools.before = before
from dibs.cli.main import run
run()
"""


def unreadable_config(agent: Agent) -> None:
    """More brackets than the parser takes, in 502 bytes."""
    (agent.folder / "dibs.toml").write_text("x=" + "[" * 500)


def large_config(agent: Agent) -> None:
    (agent.folder / "dibs.toml").write_text("[agents.a]\ntypes = [" + '"x",' * 2_000_000 + "]\n")


def board_away(agent: Agent) -> None:
    (agent.folder / ".dibs").rename(agent.folder / "moved")


def exception(agent: Agent) -> None:
    _replace(agent, "raise ZeroDivisionError")


def little_time(agent: Agent) -> None:
    _replace(agent, "time.sleep(600)")


def no_time(agent: Agent) -> None:
    """It hangs before it could notice the time."""
    program = agent.home / "broken"
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o755)


def killed(agent: Agent) -> None:
    _replace(agent, "import os; os.kill(os.getpid(), 9)")


def _replace(agent: Agent, does: str) -> None:
    program = agent.home / "broken"
    program.write_text(BROKEN.format(python=sys.executable, does=does))
    program.chmod(0o755)


@contextmanager
def _made(how: Callable[[Agent], None], agent: Agent) -> Iterator[None]:
    how(agent)
    yield


@contextmanager
def board_locked(agent: Agent) -> Iterator[None]:
    """By a program that shares nothing: neither the lock of dibs nor reading."""
    connection = apsw.Connection(str(agent.folder / ".dibs" / "board.db"))
    connection.set_busy_timeout(30_000)
    connection.execute("PRAGMA locking_mode = EXCLUSIVE").fetchall()
    connection.execute("PRAGMA journal_mode = DELETE").fetchall()
    connection.execute("BEGIN EXCLUSIVE")
    yield
    connection.close()


FAILURES: dict[str, Callable[[Agent], AbstractContextManager[None]]] = {
    how.__name__: partial(_made, how)
    for how in (unreadable_config, large_config, board_away, exception, killed, little_time, no_time)
} | {"board_locked": board_locked}


@pytest.fixture
def lonely(
    agents: Callable[..., Agent], board: Board, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Agent]:
    """An agent in a turn, without a keeper that would note what the board says."""
    board.add("A", id="a", resources=["src/a.py"])
    board.close()
    agent = agents()
    agent.start()
    os.kill(agent.keeper, 9)
    (agent.state / "until").unlink(missing_ok=True)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    yield agent
    # A hook may have started another keeper, which ends with its agent; without one, nobody removes the state.
    agent.kill()
    State(SESSION).remove()


def ask(agent: Agent, tool: str, input: dict[str, str]) -> dict[str, object]:
    """What the script answers, with the program that a test may have put in the place of dibs."""
    given = agent.home / "payload"
    given.write_text(payload("claude", "PreToolUse", SESSION, agent.folder, tool_name=tool, tool_input=input))
    program = agent.home / "broken"
    done = agent.run(f"sh {HOOK} PreToolUse claude {program if program.exists() else ''} <{given}")
    assert (done.code, done.err) == (0, "")
    found: dict[str, object] = json.loads(done.out or "{}").get("hookSpecificOutput", {})
    return found


def edit(agent: Agent, name: str = "src/a.py") -> dict[str, object]:
    return ask(agent, "Write", {"file_path": str(agent.folder / name), "content": "x"})


@pytest.mark.parametrize("failure", FAILURES)
def test_a_hook_that_fails_denies_what_is_known_to_be_lost(lonely: Agent, failure: str) -> None:
    with FAILURES[failure](lonely):
        State(SESSION).lose(LOSS)
        for answer in (edit(lonely), edit(lonely, "elsewhere"), ask(lonely, "Bash", {"command": "make"})):
            assert answer.get("permissionDecision") == "deny", answer
            assert "your claim of a is lost" in str(answer["permissionDecisionReason"])
        # What answers the loss is not denied, and neither is reading.
        assert ask(lonely, "Bash", {"command": "dibs release a"}).get("permissionDecision") != "deny"
        assert ask(lonely, "Read", {"file_path": "x"}) == {}


@pytest.mark.parametrize("failure", FAILURES)
def test_a_hook_that_fails_lets_a_tool_run_if_nothing_is_known_to_be_lost(lonely: Agent, failure: str) -> None:
    with FAILURES[failure](lonely):
        for answer in (edit(lonely), ask(lonely, "Bash", {"command": "make"})):
            assert answer == {}


def test_a_person_switches_the_fence_off_also_for_a_hook_that_fails(lonely: Agent) -> None:
    State(SESSION).lose(LOSS)
    lonely.run("export DIBS_FENCE=off")
    for how in (killed, exception):
        how(lonely)
        assert edit(lonely) == {}


def test_every_client_reads_the_denial_of_the_script_alone(lonely: Agent) -> None:
    """The answers of the script are those of `answers.deny`."""
    import json

    State(SESSION).lose(LOSS)
    killed(lonely)
    given = lonely.home / "payload"
    for client in payloads.CLIENTS:
        event = {"gemini": "BeforeTool", "copilot": "preToolUse", "cursor": "preToolUse"}.get(client, "PreToolUse")
        tool = {"gemini": "write_file", "copilot": "edit"}.get(client, "Write")
        given.write_text(
            json.dumps({"session_id": SESSION, "tool_name": tool, "tool_input": {}}, separators=(",", ":"))
        )
        done = lonely.run(f"sh {HOOK} {event} {client} {lonely.home / 'broken'} <{given}")
        found = json.loads(done.out)
        parsed = payloads.parse(given.read_text(), event, client)
        assert parsed is not None
        wanted = json.loads(answers.deny(parsed, "why"))
        assert _shape(found) == _shape(wanted), client


def _shape(value: object) -> object:
    """The names in an answer, and every value but the reason."""
    if isinstance(value, dict):
        return {name: _shape(one) for name, one in value.items()}
    return "text" if isinstance(value, str) and (value == "why" or value.startswith("dibs: ")) else value


def test_the_script_ends_before_its_client_does() -> None:
    limit = int(HOOK.read_text().partition("in_time='timeout ")[2].partition("'")[0])
    assert ANSWER_SECONDS < limit < SECONDS
