"""Where setup works: whose home, which project, and the programs that hooks call."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import dibs
from dibs import location
from dibs.agents.setup.edit import Edit
from dibs.errors import Invalid

MARKETPLACE = os.path.join(".claude-plugin", "marketplace.json")
PLUGIN = os.path.join("plugins", "dibs")


@dataclass(frozen=True)
class Place:
    home: str
    #: The project, if only its sessions are to be connected.
    project: str | None
    #: The folder of the board in the git directory of this repository, if this is one.
    board_folder: str | None
    #: The folder with the marketplace file and the plugin.
    tree: str
    #: The command `dibs`.
    dibs: str
    environment: Mapping[str, str]

    @classmethod
    def here(cls, folder: str, environment: Mapping[str, str], *, project: bool) -> Place:
        home = environment.get("HOME") or os.path.expanduser("~")
        worktree = location.worktree(folder)
        return cls(
            home=os.path.abspath(home),
            project=(worktree[0] if worktree else os.path.abspath(folder)) if project else None,
            board_folder=os.path.join(worktree[1], "dibs") if worktree else None,
            tree=_tree(),
            dibs=_command(environment),
            environment=environment,
        )

    @property
    def state(self) -> str:
        base = self.environment.get("XDG_STATE_HOME", "")
        return os.path.join(base if os.path.isabs(base) else os.path.join(self.home, ".local", "state"), "dibs")

    def folder(self, name: str, variable: str = "", *, project: str | None = None) -> str:
        """The client's folder of settings: in the project, or as its variable says, or in the home."""
        if self.project is not None:
            return os.path.join(self.project, project or name)
        return self.environment.get(variable) or os.path.join(self.home, name)

    def hook(self, client: str, event: str) -> str:
        """The command of a hook. All paths are absolute: a client may have another PATH and another folder."""
        script = os.path.join(self.tree, PLUGIN, "hooks", "dibs-hook.sh")
        return shlex.join(["sh", script, event, client, self.dibs])

    def server(self) -> dict[str, Any]:
        """How a client starts the MCP server."""
        return {"command": self.dibs, "args": ["mcp"]}

    def read(self, *path: str) -> str:
        """A file of the plugin."""
        with open(os.path.join(self.tree, PLUGIN, *path), encoding="utf-8") as file:
            return file.read()


@dataclass
class Setup:
    """What a client needs: edits of files, folders that have to be there, and what a person has to know."""

    edits: list[Edit]
    folders: list[str] = field(default_factory=list)
    #: Folders that a sandbox has to let commands write.
    roots: list[str] = field(default_factory=list)
    #: What the client itself notes about the plugin, which removal takes back.
    leftovers: list[Edit] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def _tree() -> str:
    """The plugin's files: in the package, or in the checkout that the package is imported from."""
    package = os.path.dirname(os.path.abspath(dibs.__file__))
    for tree in (os.path.join(package, "plugin"), os.path.dirname(os.path.dirname(package))):
        if os.path.isfile(os.path.join(tree, MARKETPLACE)) and os.path.isdir(os.path.join(tree, PLUGIN)):
            return tree
    raise Invalid(f"{package} has no plugin; install it again: pip install --force-reinstall calldibs", field="plugin")


def _command(environment: Mapping[str, str]) -> str:
    """The `dibs` of this interpreter, else that of the PATH."""
    folders = [os.path.dirname(sys.executable), *environment.get("PATH", os.defpath).split(os.pathsep)]
    for folder in folders:
        path = os.path.join(folder, "dibs")
        if os.path.isabs(path) and os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    raise Invalid("there is no command dibs for hooks to call; install it: pip install calldibs", field="dibs")
