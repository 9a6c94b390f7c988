"""Payloads of six clients, in the shapes that were recorded, and the answers in theirs."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from dibs.agents import answers, files, shell
from dibs.agents.payload import Payload, parse
from dibs.rules.resources import covering

ID = "98305b16-ae82-4065-ad75-023da56d76be"
CLAUDE = {"session_id": ID, "transcript_path": "/h/.claude/projects/p/x.jsonl", "cwd": "/w", "prompt_id": "p"}
CODEX = {"session_id": ID, "turn_id": "t", "transcript_path": "/h/.codex/sessions/rollout-1.jsonl", "cwd": "/w"}
GEMINI = {"session_id": ID, "transcript_path": "/h/x", "cwd": "/w", "timestamp": "2026-11-16T03:05:52.909Z"}
COPILOT = {"sessionId": ID, "timestamp": 1794798486239, "cwd": "/w"}
CURSOR = {"conversation_id": ID, "generation_id": "g", "workspace_roots": ["/w"], "cwd": "/w"}


def parsed(raw: dict[str, Any], event: str = "") -> Payload:
    found = parse(json.dumps(raw), event)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("raw", "event", "expected"),
    [
        (CLAUDE | {"hook_event_name": "PreToolUse", "tool_name": "Bash"}, "", ("claude", "PreToolUse", "Bash")),
        (CODEX | {"hook_event_name": "PreToolUse", "tool_name": "x"}, "", ("codex", "PreToolUse", "x")),
        (GEMINI | {"hook_event_name": "BeforeTool", "tool_name": "replace"}, "", ("gemini", "PreToolUse", "replace")),
        (GEMINI | {"hook_event_name": "AfterAgent"}, "", ("gemini", "Stop", "")),
        (COPILOT | {"toolName": "bash", "toolArgs": {}}, "preToolUse", ("copilot", "PreToolUse", "bash")),
        (COPILOT | {"stopReason": "end_turn"}, "agentStop", ("copilot", "Stop", "")),
        (COPILOT | {"prompt": "x"}, "userPromptSubmitted", ("copilot", "UserPromptSubmit", "")),
        (CURSOR | {"hook_event_name": "beforeSubmitPrompt"}, "", ("cursor", "UserPromptSubmit", "")),
    ],
)
def test_every_client_is_understood(raw: dict[str, Any], event: str, expected: tuple[str, ...]) -> None:
    found = parsed(raw, event)
    assert (found.client, found.event, found.tool) == expected
    assert (found.session, found.cwd) == (ID, "/w")


@pytest.mark.parametrize("text", ["", "[]", "{}", "nul", "[" * 100_000, '{"session_id": 1}', '{"session_id": "../x"}'])
def test_what_is_no_payload_is_none(text: str) -> None:
    assert parse(text) is None


def test_each_client_is_denied_in_its_own_words() -> None:
    said = {
        "claude": parsed(CLAUDE, "PreToolUse"),
        "codex": parsed(CODEX, "PreToolUse"),
        "gemini": parsed(GEMINI, "BeforeTool"),
        "copilot": parsed(COPILOT, "preToolUse"),
        "cursor": parsed(CURSOR, "preToolUse"),
    }
    denials = {client: json.loads(answers.deny(one, "why")) for client, one in said.items()}
    specific = {"permissionDecision": "deny", "permissionDecisionReason": "why"}
    assert denials["claude"] == denials["codex"] == {"hookSpecificOutput": {"hookEventName": "PreToolUse"} | specific}
    assert denials["gemini"] == {"decision": "deny", "reason": "why"}
    assert denials["copilot"] == specific
    assert denials["cursor"]["permission"] == "deny"
    for one in said.values():
        assert "allow" not in answers.pass_on(one, input={"command": "x"}, context="y")
    allowing = {client for client, one in said.items() if answers.pass_on(one, allow=True)}
    assert allowing == {"claude"}, "the others take no such answer"
    told = {client: answers.pass_on(one, context="why") for client, one in said.items()}
    assert ["why" in told[client] for client in said] == [True, True, False, True, True], "Gemini CLI takes none"


@pytest.mark.parametrize(
    ("fields", "paths"),
    [
        ({"tool_name": "Edit", "tool_input": {"file_path": "/w/src/../a.py"}}, ["/w/a.py"]),
        ({"tool_name": "NotebookEdit", "tool_input": {"notebook_path": "n.ipynb"}}, ["/w/n.ipynb"]),
        (
            {
                "tool_name": "apply_patch",
                "tool_input": {
                    "command": "*** Begin Patch\n*** Add File: a b.txt\n+*** Add File: no\n*** Delete File: ../d\n"
                    "*** Update File: /x/e\n*** Move to: f\n*** End Patch\n"
                },
            },
            ["/w/a b.txt", "/d", "/x/e", "/w/f"],
        ),
        ({"tool_name": "apply_patch", "tool_input": {"path": ".", "input": "  *** Update File: a\n"}}, ["/w", "/w/a"]),
        ({"tool_name": "Write", "tool_input": {"target_file": "a"}}, ["/w/a"]),
        ({"tool_name": "edit", "toolArgs": '{"path": "a"}'}, ["/w/a"]),
    ],
)
def test_the_files_that_a_tool_writes_are_found(fields: dict[str, Any], paths: list[str]) -> None:
    assert [os.path.normpath(path) for path in files.written(parsed(CLAUDE | fields))] == paths


def test_a_path_is_covered_by_itself_and_by_folders_above_it() -> None:
    assert covering("src/api/login.py", ["src/apis", "src/api"]) == "src/api"
    assert covering("pages/[id].tsx", ["pages/other.tsx"]) is None
    assert covering("src", ["src/api"]) is None
    assert covering("x", ["."]) == "."


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("dibs next", ["dibs", "next"]),
        (" dibs  progress a 'x; $y' ", ["dibs", "progress", "a", "x; $y"]),
        ('dibs done a --note "it\'s done"', ["dibs", "done", "a", "--note", "it's done"]),
        ("/opt/x/bin/dibs who", ["/opt/x/bin/dibs", "who"]),
        *((command, None) for command in ('dibs show "$x"', "dibs next\nrm x", "dibs next #x", "dibs 'next", "ls", "")),
        *((f"dibs next {sign} x", None) for sign in (";", "&", "|", ">", "<", "$(", "`", "\\", "*", "~", "{", "!")),
    ],
)
def test_a_simple_call_is_told_from_everything_else(command: str, words: list[str] | None) -> None:
    assert shell.simple_call(command) == words


def test_only_commands_that_cannot_do_harm_need_no_approval() -> None:
    for command in ("dibs claim a", "dibs next --json", "dibs done a --note 'x y'"):
        assert shell.is_harmless(shell.simple_call(command) or [])
    for command in ("dibs", "./dibs next", "dibs init", "dibs backup x", "dibs next --store=x", "dibs --json next"):
        assert not shell.is_harmless(shell.simple_call(command) or [""])
    assert shell.runs_others(["dibs", "exec", "a", "--", "rm"])


@pytest.mark.parametrize(
    ("command", "is_list"),
    [
        *(
            (command, True)
            for command in ("dibs next", "dibs release a; dibs next", "cd /w && dibs who 2>&1\ndibs next")
        ),
        *((command, False) for command in ("cd /w", "dibs next; make", "dibs next & dibs who", "dibs who | cat", "")),
        *(
            (command, False)
            for command in ("dibs next > x", "dibs next; dibs exec a -- x", "dibs who; $(x)", "x=1 dibs")
        ),
    ],
)
def test_a_list_of_calls_runs_nothing_else(command: str, is_list: bool) -> None:
    assert shell.is_list_of_calls(command) is is_list
