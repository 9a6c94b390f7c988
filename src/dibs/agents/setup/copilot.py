"""Copilot CLI: a file of hooks of our own, the MCP server, and a skill. It takes MCP servers from the person's own
settings only."""

from __future__ import annotations

import os

from dibs.agents.setup.edit import Edit
from dibs.agents.setup.events import END_SECONDS, SECONDS, START_SECONDS
from dibs.agents.setup.json_edit import JsonEdit
from dibs.agents.setup.place import Place, Setup
from dibs.agents.setup.whole_file import WholeFile

CLIENT = "copilot"
EVENTS = {
    "sessionStart": START_SECONDS,
    "userPromptSubmitted": SECONDS,
    "preToolUse": SECONDS,
    "postToolUse": SECONDS,
    "agentStop": SECONDS,
    "sessionEnd": END_SECONDS,
}


def setup(place: Place) -> Setup:
    folder = place.folder(".copilot", "COPILOT_HOME", project=".github")
    hooks = {
        event: [{"type": "command", "bash": place.hook(CLIENT, event), "timeoutSec": seconds}]
        for event, seconds in EVENTS.items()
    }
    edits: list[Edit] = [
        JsonEdit(os.path.join(folder, "hooks", "dibs.json"), {"version": 1, "hooks": hooks}),
        WholeFile(os.path.join(folder, "skills", "dibs", "SKILL.md"), place.read("skills", "dibs", "SKILL.md")),
    ]
    if place.project is not None:
        return Setup(edits, notes=["Copilot CLI takes no MCP servers from a project: its agents use the command dibs"])
    server = {"type": "local", **place.server(), "tools": ["*"]}
    return Setup([*edits, JsonEdit(os.path.join(folder, "mcp-config.json"), {"mcpServers": {"dibs": server}})])
