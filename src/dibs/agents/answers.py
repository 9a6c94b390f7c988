"""The replies of hooks, in the shape that each client reads on the hook's stdout."""

from __future__ import annotations

from dibs.agents.payload import CODEX, COPILOT, CURSOR, GEMINI
from dibs.text import json_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from dibs.agents.payload import Payload

#: The name of an event in the client's own words, where they differ.
GEMINI_EVENTS = {"PreToolUse": "BeforeTool", "PostToolUse": "AfterTool", "UserPromptSubmit": "BeforeAgent"}

#: What clients other than Claude Code, Codex and opencode call a changed input, and context, before a tool runs. What
#: they do not take there has no name.
CHANGES = {
    GEMINI: ("tool_input", ""),
    COPILOT: ("modifiedArgs", "additionalContext"),
    CURSOR: ("", "additional_context"),
}


def deny(payload: Payload, why: str) -> str:
    """The tool does not run, and the model reads why."""
    if payload.client == GEMINI:
        return json_text.line({"decision": "deny", "reason": why})
    if payload.client == CURSOR:
        return json_text.line({"permission": "deny", "agent_message": why, "user_message": why})
    decision = {"permissionDecision": "deny", "permissionDecisionReason": why}
    return json_text.line(decision) if payload.client == COPILOT else _specific(payload, decision)


def pass_on(payload: Payload, *, input: dict[str, Any] | None = None, allow: bool = False, context: str = "") -> str:
    """The tool runs if the client's own permission flow lets it: with another input, or with a line that the model
    reads. Only `allow` skips that flow; Codex calls a hook that answers it a failed one, and asks all the same."""
    input_name, context_name = CHANGES.get(payload.client, ("updatedInput", "additionalContext"))
    fields: dict[str, Any] = {}
    if allow and payload.client not in (CODEX, *CHANGES):
        fields["permissionDecision"] = "allow"
    if input is not None and input_name:
        fields[input_name] = input
    if context and context_name:
        fields[context_name] = context
    if not fields:
        return ""
    return json_text.line(fields) if payload.client in (COPILOT, CURSOR) else _specific(payload, fields)


def tell(payload: Payload, context: str) -> str:
    """Context for the model, without a decision."""
    if not context:
        return ""
    if payload.client == COPILOT:
        return json_text.line({"additionalContext": context})
    if payload.client == CURSOR:
        return json_text.line({"additional_context": context})
    return _specific(payload, {"additionalContext": context})


def replace_output(payload: Payload, output: dict[str, Any]) -> str:
    """The model reads this as the result of the tool that ran."""
    return _specific(payload, {"updatedToolOutput": output})


def go_on(payload: Payload, why: str) -> str:
    """The agent does not stop yet; the task is not completed."""
    if payload.client == GEMINI:
        return json_text.line({"decision": "deny", "reason": why})
    if payload.client == CURSOR:
        return json_text.line({"followup_message": why})
    return json_text.line({"decision": "block", "reason": why})


def _specific(payload: Payload, fields: dict[str, Any]) -> str:
    event = GEMINI_EVENTS.get(payload.event, payload.event) if payload.client == GEMINI else payload.event
    return json_text.line({"hookSpecificOutput": {"hookEventName": event, **fields}})
