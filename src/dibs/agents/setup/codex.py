"""Codex: hooks, the MCP server and a skill in its folder, and the folders that its sandbox lets commands write.

A writable root that does not exist can break every command in the sandbox, so setup makes them.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace

from dibs.agents.setup import toml_edit
from dibs.agents.setup.edit import Edit
from dibs.agents.setup.events import EVENTS
from dibs.agents.setup.json_edit import JsonEdit
from dibs.agents.setup.place import Place, Setup
from dibs.agents.setup.plan import BYTES_MAX
from dibs.agents.setup.toml_edit import TomlEdit
from dibs.agents.setup.whole_file import WholeFile
from dibs.system import bounded_read

CLIENT = "codex"
#: Codex gives a server nothing else of its environment but what every program needs.
VARIABLES = ("DIBS_STORE", "DIBS_KEY", "DIBS_AGENT", "XDG_STATE_HOME")
TRUST = (
    "Codex runs no hook that you have not trusted: review them with /hooks in Codex, or start it in automation with "
    "--dangerously-bypass-hook-trust"
)

LOGIN = (
    "Codex runs commands in a login shell, which may forget a virtual environment: bash -lc 'command -v dibs' has to "
    "print a path"
)


def setup(place: Place) -> Setup:
    folder = place.folder(".codex", "CODEX_HOME")
    hooks = {
        event: [{"hooks": [{"type": "command", "command": place.hook(CLIENT, event), "timeout": seconds}]}]
        for event, seconds in EVENTS.items()
    }
    answers = os.path.join(place.state, "answers")
    roots = [answers] if place.board_folder is None else [place.board_folder, answers]
    notes = [TRUST, LOGIN] if sys.prefix != sys.base_prefix else [TRUST]
    if place.board_folder is None:
        notes.append("run this in each repository with a board: the sandbox of Codex keeps .git read-only")
    config = os.path.join(folder, "config.toml")
    of_user = os.path.join(replace(place, project=None).folder(".codex", "CODEX_HOME"), "config.toml")
    if _has_plugin(config) or _has_plugin(of_user):
        edits: list[Edit] = [TomlEdit(config, roots, None)]
    else:
        edits = [
            TomlEdit(config, roots, {**place.server(), "env_vars": list(VARIABLES)}),
            JsonEdit(os.path.join(folder, "hooks.json"), {"hooks": hooks}),
            WholeFile(os.path.join(folder, "skills", "dibs", "SKILL.md"), place.read("skills", "dibs", "SKILL.md")),
        ]
    return Setup(edits, folders=roots, roots=roots, notes=notes)


def _has_plugin(config: str) -> bool:
    """Whether the person has installed the plugin in Codex: its hooks would run twice."""
    try:
        text = bounded_read.read(config, BYTES_MAX).decode()
        return bool(toml_edit.parse(text)["plugins"]["dibs@dibs"]["enabled"])
    except (OSError, ValueError, KeyError, TypeError):
        return False
