"""What the scripted model is to answer: a list of steps inside of the prompt, so that the server keeps no state.

A step is one answer of the model: a text, or calls of tools. The step that follows n answers to the newest prompt with
a script is step n of that script. So resumed sessions, subagents and any number of agents share a server.
"""

from __future__ import annotations

import json
import re
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


def filled(step: Step, **patterns: str) -> Step:
    """The model takes these words of its answer from results: what the group of the pattern matches in the newest
    result that has it. They are filled in one after the other, so that one may contain the next."""
    return {**_as_dict(step), "fill": patterns}


def prompt(steps: Sequence[Step]) -> str:
    return f"{MARK} {json.dumps(steps)}"


def next_step(turns: Iterable[Turn]) -> Json:
    script: list[Step] | None = None
    answers = 0
    results: list[str] = []
    for turn in turns:
        if turn.role == "model":
            answers += 1
        elif turn.role == "result":
            results.append(turn.text)
        elif turn.role == "user" and (found := _script(turn.text)) is not None:
            script, answers, results = found, 0, []
    if script is None:
        return {"text": "no script"}
    if answers >= len(script):
        return {"text": "end of the script"}
    step = _as_dict(script[answers])
    for word, pattern in step.pop("fill", {}).items():
        step = _replaced(step, word, _newest(pattern, results))
    return step


def _newest(pattern: str, results: list[str]) -> str:
    matches = (re.search(pattern, result) for result in reversed(results))
    return next((match.group(1) for match in matches if match), f"NOTHING MATCHES {pattern}")


def _replaced(value: Any, word: str, text: str) -> Any:
    if isinstance(value, dict):
        return {name: _replaced(inner, word, text) for name, inner in value.items()}
    if isinstance(value, list):
        return [_replaced(inner, word, text) for inner in value]
    return value.replace(word, text) if isinstance(value, str) else value


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
    return {"text": step} if isinstance(step, str) else dict(step)
