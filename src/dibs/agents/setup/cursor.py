"""Cursor: hooks, the MCP server and a skill in its folder."""

from __future__ import annotations

import os

from dibs.agents.setup.events import END_SECONDS, SECONDS, START_SECONDS
from dibs.agents.setup.json_edit import JsonEdit
from dibs.agents.setup.place import Place, Setup
from dibs.agents.setup.whole_file import WholeFile

CLIENT = "cursor"
EVENTS = {
    "sessionStart": START_SECONDS,
    "beforeSubmitPrompt": SECONDS,
    "preToolUse": SECONDS,
    "postToolUse": SECONDS,
    "postToolUseFailure": SECONDS,
    "subagentStart": SECONDS,
    "subagentStop": SECONDS,
    "stop": SECONDS,
    "sessionEnd": END_SECONDS,
}


def setup(place: Place) -> Setup:
    folder = place.folder(".cursor")
    hooks = {event: [{"command": place.hook(CLIENT, event), "timeout": time}] for event, time in EVENTS.items()}
    return Setup(
        [
            JsonEdit(os.path.join(folder, "hooks.json"), {"version": 1, "hooks": hooks}),
            JsonEdit(os.path.join(folder, "mcp.json"), {"mcpServers": {"dibs": place.server()}}),
            WholeFile(os.path.join(folder, "skills", "dibs", "SKILL.md"), place.read("skills", "dibs", "SKILL.md")),
        ]
    )
