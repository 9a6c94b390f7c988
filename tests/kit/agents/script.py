"""What the scripted model is to answer: a list of steps inside of the prompt, so that the server keeps no state.

A step is one answer of the model: a text, or calls of tools. The step that follows n answers to the newest prompt with
a script is step n of that script. So resumed sessions, subagents and any number of agents share a server.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Json = dict[str, Any]
Step = str | Json

MARK = "SCRIPT:"


@dataclass(frozen=True)
class Turn:
    """One part of a conversation, as the model is sent it: a text, an answer of its own, or the result of a call."""

    role: Literal["user", "model", "result"]
    text: str = ""


def call(tool: str, arguments: Json | str) -> Step:
    """The model calls a tool; with a text, one that takes free text."""
    return {"calls": [{"tool": tool, "arguments": arguments}]}


def together(*steps: Step) -> Step:
    """The model makes the calls of these steps at once."""
    return {"calls": [one for step in steps if isinstance(step, dict) for one in step["calls"]]}


def after(pause: str, step: Step) -> Step:
    """The model holds this answer back until the test calls `Agent.go_on(pause)`."""
    return {**_as_dict(step), "pause": pause}


def prompt(steps: Sequence[Step]) -> str:
    return f"{MARK} {json.dumps(steps)}"


def next_step(turns: Iterable[Turn]) -> Json:
    script: list[Step] | None = None
    answers = 0
    for turn in turns:
        if turn.role == "model":
            answers += 1
        elif turn.role == "user" and (found := _script(turn.text)) is not None:
            script, answers = found, 0
    if script is None:
        return {"text": "no script"}
    return _as_dict(script[answers]) if answers < len(script) else {"text": "end of the script"}


def _script(text: str) -> list[Step] | None:
    """The first one in the text: the script of a subagent is inside of a call in the script of its parent."""
    _, mark, rest = text.partition(MARK)
    while mark:
        try:
            found, _ = json.JSONDecoder().raw_decode(rest.lstrip())
        except ValueError:
            found = None
        if isinstance(found, list):
            return found
        _, mark, rest = rest.partition(MARK)
    return None


def _as_dict(step: Step) -> Json:
    return {"text": step} if isinstance(step, str) else step
