"""opencode: a plugin in JavaScript that calls the hooks' script, the MCP server in its settings, and a skill."""

from __future__ import annotations

import json
import os

from dibs.agents.setup import plan
from dibs.agents.setup.json_edit import JsonEdit
from dibs.agents.setup.place import PLUGIN, Place, Setup
from dibs.agents.setup.whole_file import WholeFile

#: opencode writes this into settings without it.
SCHEMA = "https://opencode.ai/config.json"


def setup(place: Place) -> Setup:
    base = place.environment.get("XDG_CONFIG_HOME") or os.path.join(place.home, ".config")
    folder = os.path.join(base, "opencode") if place.project is None else os.path.join(place.project, ".opencode")
    script = os.path.join(place.tree, PLUGIN, "hooks", "dibs-hook.sh")
    plugin = place.read("opencode", "dibs.js")
    for name, value in (("SCRIPT", script), ("DIBS", place.dibs)):
        plugin = plugin.replace(f'const {name} = ""', f"const {name} = {json.dumps(value)}")
    return Setup(
        [
            WholeFile(os.path.join(folder, "plugin", "dibs.js"), plugin),
            _server(place, folder),
            WholeFile(os.path.join(folder, "skill", "dibs", "SKILL.md"), place.read("skills", "dibs", "SKILL.md")),
        ]
    )


def _server(place: Place, folder: str) -> JsonEdit:
    name = "opencode.jsonc" if os.path.exists(os.path.join(folder, "opencode.jsonc")) else "opencode.json"
    path = os.path.join(folder, name)
    command = {"type": "local", "command": [place.dibs, "mcp"], "enabled": True}
    text = plan.read(path) or ""
    schema = {} if "$schema" in text and SCHEMA not in text else {"$schema": SCHEMA}
    return JsonEdit(path, {**schema, "mcp": {"dibs": command}})
