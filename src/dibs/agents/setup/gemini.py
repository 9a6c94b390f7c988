"""Gemini CLI: hooks and the MCP server in its settings, and a skill. It counts timeouts in milliseconds."""

from __future__ import annotations

import os

from dibs.agents.setup.events import END_SECONDS, SECONDS, START_SECONDS
from dibs.agents.setup.json_edit import JsonEdit
from dibs.agents.setup.place import Place, Setup
from dibs.agents.setup.whole_file import WholeFile

CLIENT = "gemini"
EVENTS = {
    "SessionStart": START_SECONDS,
    "BeforeAgent": SECONDS,
    "BeforeTool": SECONDS,
    "AfterTool": SECONDS,
    "AfterAgent": SECONDS,
    "SessionEnd": END_SECONDS,
}


def setup(place: Place) -> Setup:
    folder = place.folder(".gemini")
    hooks = {
        event: [{"hooks": [{"type": "command", "command": place.hook(CLIENT, event), "timeout": seconds * 1000}]}]
        for event, seconds in EVENTS.items()
    }
    return Setup(
        [
            JsonEdit(os.path.join(folder, "settings.json"), {"hooks": hooks, "mcpServers": {"dibs": place.server()}}),
            WholeFile(os.path.join(folder, "skills", "dibs", "SKILL.md"), place.read("skills", "dibs", "SKILL.md")),
        ]
    )
