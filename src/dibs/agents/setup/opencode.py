"""opencode: a plugin in JavaScript that calls the hooks' script, and a skill."""

from __future__ import annotations

import json
import os

from dibs.agents.setup.place import PLUGIN, Place, Setup
from dibs.agents.setup.whole_file import WholeFile


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
            WholeFile(os.path.join(folder, "skill", "dibs", "SKILL.md"), place.read("skills", "dibs", "SKILL.md")),
        ]
    )
