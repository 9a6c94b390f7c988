"""Claude Code: the plugin, run in place from the package's folder, by two entries of its settings.

Of a project's settings, those in `settings.local.json` are the person's own; Claude Code reads marketplaces there once
the person has trusted the folder.
"""

from __future__ import annotations

import os

from dibs.agents.setup import jsonc
from dibs.agents.setup.edit import Insertion
from dibs.agents.setup.json_edit import JsonEdit
from dibs.agents.setup.place import Place, Setup

MARKETPLACE, PLUGIN = "dibs", "dibs@dibs"


def setup(place: Place) -> Setup:
    folder = place.folder(".claude", "CLAUDE_CONFIG_DIR")
    source = {"source": {"source": "directory", "path": place.tree}}
    entries = {"extraKnownMarketplaces": {MARKETPLACE: source}, "enabledPlugins": {PLUGIN: True}}
    if place.project is not None:
        note = "Claude Code reads this once you have trusted the folder: it asks when you start it there"
        return Setup([JsonEdit(os.path.join(folder, "settings.local.json"), entries)], notes=[note])
    plugins = os.path.join(folder, "plugins")
    return Setup(
        [JsonEdit(os.path.join(folder, "settings.json"), entries)],
        leftovers=[
            Leftover(os.path.join(plugins, "installed_plugins.json"), ("plugins", PLUGIN)),
            Leftover(os.path.join(plugins, "known_marketplaces.json"), (MARKETPLACE,)),
        ],
    )


class Leftover:
    """What Claude Code notes about a plugin when it first runs it, and does not delete with the settings."""

    def __init__(self, path: str, keys: tuple[str, ...]) -> None:
        self.path = path
        self.keys = keys

    def is_complete(self, text: str) -> bool:
        return True

    def insertions(self, text: str | None) -> list[Insertion]:
        return []

    def stripped(self, text: str) -> str:
        node = jsonc.parse(text, self.path)
        for key in self.keys[:-1]:
            node = node.get(key) or node
        last = self.keys[-1]
        return jsonc.without_member(text, node, node.keys.index(last)) if last in node.keys else text

    def is_empty(self, text: str) -> bool:
        return False

    def theirs(self, text: str) -> object:
        return None
