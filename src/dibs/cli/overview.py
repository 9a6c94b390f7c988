"""What `dibs` says when no command was chosen: help, the version, or which command was probably meant."""

from __future__ import annotations

import sys

from dibs import __version__
from dibs.cli.commands import COMMANDS, FAMILIES, GROUPS
from dibs.cli.parser import UsageError

ABOUT = """\
dibs: fleets of agents share one list of work, and no two of them do the same item.

usage: dibs COMMAND [options]
"""
AFTER = """
Every command takes --store URL, --json and --no-color, before or after its name.
A command's own options and an example: dibs COMMAND --help
"""


def without_command(name: str | None, rest: list[str]) -> int:
    """Help or the version if that was asked for; else a refusal that names the nearest command."""
    if name in (None, "help") and ("--version" in rest or "-V" in rest):
        sys.stdout.write(f"dibs {__version__}\n")
        return 0
    if name == "help" and rest:
        from dibs.cli.main import main

        return main([*rest, "--help"])
    if name == "help" or "--help" in rest or "-h" in rest:
        sys.stdout.write(overview(name if name in FAMILIES else None))
        return 0
    if name is None and not [word for word in rest if not word.startswith("-")]:
        sys.stderr.write(overview())
        return UsageError.exit_code
    raise UsageError(_what_was_meant(name or rest[0]), field="command")


def overview(family: str | None = None) -> str:
    """Every command with its line, by group; of a family like `session`, only its own."""
    lines = [ABOUT]
    for group, title in GROUPS.items():
        names = [name for name in COMMANDS if COMMANDS[name].group == group]
        if family:
            names = [name for name in names if name.split()[0] == family]
        if names:
            lines.append(f"\n{title}:\n")
            lines += [f"  {name:<15}{COMMANDS[name].summary}\n" for name in names]
    return "".join([*lines, AFTER])


def _what_was_meant(typed: str) -> str:
    import difflib

    if typed in FAMILIES:
        return f"dibs {typed} needs one more word: " + " or ".join(n for n in COMMANDS if n.split()[0] == typed)
    near = difflib.get_close_matches(typed, COMMANDS, n=1)
    return f"there is no command {typed!r}; " + (f"did you mean: dibs {near[0]}" if near else "see: dibs --help")
