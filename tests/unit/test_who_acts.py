"""The order by which a command decides who acts, as a table."""

from __future__ import annotations

from typing import Any

import pytest

from dibs.cli import identity
from dibs.cli.identity import CLIENTS, MARKERS, Caller, identify
from dibs.cli.parser import Args

TERMINAL = "tty-1-00000000"
CLAUDE = {"CLAUDE_CODE_SESSION_ID": "cc-1"}
GEMINI = {"GEMINI_CLI": "1"}
NAMED = {"DIBS_AGENT": "coder"}
START = "start one with: export DIBS_SESSION=$(dibs session start --agent"

#: What is there besides; the session that acts, or else a piece of what is said; whether that is a person.
ORDER: list[tuple[dict[str, Any], dict[str, str], str | None, str, bool]] = [
    # The line, then DIBS_SESSION, whatever else there is.
    ({"session": "s1"}, {"DIBS_SESSION": "s2", **CLAUDE, **NAMED, **GEMINI}, "s1", "", False),
    ({}, {"DIBS_SESSION": "s2", **CLAUDE, **NAMED, **GEMINI}, "s2", "", False),
    ({}, {"DIBS_SESSION": "s2"}, "s2", "", True),
    # A client's own variable, before any look at the terminal.
    ({"agent": "coder"}, {**CLAUDE, **GEMINI}, "cc-1", "", False),
    ({}, {**CLAUDE, **NAMED, **GEMINI}, "cc-1", "", False),
    ({}, {"CODEX_THREAD_ID": "cx-1"}, "cx-1", "", False),
    ({}, {"COPILOT_AGENT_SESSION_ID": "cp-1"}, "cp-1", "", False),
    ({}, {**CLAUDE, "CODEX_THREAD_ID": "cx-1"}, None, "CLAUDE_CODE_SESSION_ID and CODEX_THREAD_ID", False),
    ({}, {"CODEX_THREAD_ID": "no id"}, None, "CODEX_THREAD_ID cannot be used as a session", False),
    # A named agent, then a marker: no session, and the terminal is not theirs.
    ({"agent": "coder"}, GEMINI, None, f"agent coder has no session here; {START} coder)", False),
    ({}, {**NAMED, **GEMINI}, None, f"agent coder has no session here; {START} coder)", False),
    ({}, NAMED, None, f"agent coder has no session here; {START} coder)", False),
    ({}, GEMINI, None, f"{START} gemini); or add to every command: --session ID --agent gemini (if you are", False),
    ({}, {**GEMINI, "AI_AGENT": "g"}, None, "(if you are a person: unset GEMINI_CLI AI_AGENT)", False),
    # A name that is none is not put into a line to type.
    ({"agent": "a; true"}, {}, None, "agent 'a; true' must consist of letters, digits", False),
    # The terminal.
    ({}, {}, TERMINAL, "", True),
    ({"session": None, "agent": None}, dict.fromkeys([*CLIENTS, *MARKERS, "DIBS_AGENT"], ""), TERMINAL, "", True),
]


def args(**given: Any) -> Args:
    made = Args()
    made.__dict__.update(given)
    return made


@pytest.fixture(params=[True, False], ids=["at a terminal", "off it"])
def terminal(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.setattr(identity, "at_terminal", lambda: request.param)
    monkeypatch.setattr(identity, "_terminal_session", lambda: TERMINAL)
    return bool(request.param)


@pytest.mark.parametrize(("line", "environment", "session", "said", "person"), ORDER, ids=str)
def test_the_order(
    line: dict[str, Any], environment: dict[str, str], session: str | None, said: str, person: bool, terminal: bool
) -> None:
    found = identify(args(**line), environment)
    if session == TERMINAL and not terminal:
        session, said = None, f"no session is known here; {START} NAME)"
    assert found.session == session
    assert found.person == (person and terminal)
    assert found.by_terminal == (session == TERMINAL)
    if session is None:
        assert said in found.problem
        assert "\n" not in found.problem


@pytest.mark.parametrize("marker", MARKERS)
def test_every_marker_keeps_an_agent_from_being_the_person(marker: str, terminal: bool) -> None:
    found = identify(args(), {marker: "1"})
    assert (found.session, found.person, found.program) == (None, False, MARKERS[marker])
    assert f"--agent {MARKERS[marker]})" in found.problem


def test_an_agents_own_name_comes_before_one_that_several_share() -> None:
    assert identify(args(), {"AGENT": "goose", "GOOSE_TERMINAL": "1", "AI_AGENT": "x"}).program == "goose"
    assert identify(args(), {"AI_AGENT": "claude-code_2-1-325_harness", "CLAUDECODE": "1"}).program == "claude"


@pytest.mark.parametrize(
    "environment",
    [
        {"CURSOR_TRACE_ID": "1", "TERM_PROGRAM": "vscode"},
        {"CODEX_HOME": "/home/you/.codex", "COPILOT_MODEL": "gpt", "GOOSE_PROVIDER": "openai", "GEMINI_API_KEY": "k"},
        {"REPL_ID": "1", "CI": "true", "SSH_AGENT_PID": "7"},
    ],
    ids=str,
)
def test_settings_of_agents_and_terminals_of_editors_are_a_persons(environment: dict[str, str], terminal: bool) -> None:
    found = identify(args(), environment)
    assert (found.person, found.program) == (terminal, None)


def test_a_terminal_whose_leader_cannot_be_seen_has_no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "at_terminal", lambda: True)
    monkeypatch.setattr("os.getsid", lambda _: 0)
    found: Caller = identify(args(), {})
    assert (found.session, found.person) == (None, True)
    assert "no session is known here" in found.problem
