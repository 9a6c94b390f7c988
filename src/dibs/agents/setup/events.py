"""The events that hooks are set up for, and how long a client waits for each: far longer than a hook takes, but short
enough that a hanging disk is no hanging agent."""

from __future__ import annotations

START_SECONDS, SECONDS, END_SECONDS = 10, 5, 3

#: In the words of Claude Code and Codex. The plugin's `hooks.json` has these and the events of Claude's own tasks.
EVENTS = {
    "SessionStart": START_SECONDS,
    "UserPromptSubmit": SECONDS,
    "PreToolUse": SECONDS,
    "PostToolUse": SECONDS,
    "PostToolUseFailure": SECONDS,
    "SubagentStart": SECONDS,
    "SubagentStop": SECONDS,
    "Stop": SECONDS,
    "SessionEnd": END_SECONDS,
}
TASK_EVENTS = {"TaskCreated": SECONDS, "TaskCompleted": SECONDS, "TeammateIdle": SECONDS}
