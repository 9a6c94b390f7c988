"""Help about the commands as a whole: the overview, and what to say without a command."""

from __future__ import annotations

import sys

from dibs import __version__
from dibs.cli.commands import COMMANDS, FAMILIES, GROUPS
from dibs.cli.parser import UsageError

ABOUT = """\
dibs: a work board for fleets of agents; no two of them work on the same item.

usage: dibs COMMAND [options]; without a command: what you hold and what is next
"""
AFTER = """
Every command accepts --store URL, --json, --brief and --no-color, before or
after its name. For the options of a command, and examples: dibs COMMAND --help

A round of work: dibs next; dibs progress ITEM "..."; dibs done ITEM. A claim
is lost after 30m without progress or dibs heartbeat; dibs work renews it itself

Commands that claim act as a session: --session ID, else DIBS_SESSION, else that
of the coding agent or the terminal that runs them. Without any state in the
environment: dibs next --session ID --agent NAME, and the same with every command

ITEM is an id, or its beginning. Other tools' words are understood, too: ls,
ready, mine, blocked, search, take, new, close, update, comment, history, ...

Exit codes: 0 done, 1 error, 2 usage or no session, 3 nothing to claim,
4 taken or lost, 5 not found, 6 not allowed, 75 try again later
"""


def without_command(name: str | None, rest: list[str]) -> int:
    """Print the help or the version that was asked for; otherwise refuse, and say what to type."""
    if name in (None, "help") and ("--version" in rest or "-V" in rest):
        sys.stdout.write(f"dibs {__version__}\n")
        return 0
    if name == "help" and rest:
        from dibs.cli.main import main

        return main([*rest, "--help"])
    if name == "help" or (name in (None, *FAMILIES) and ("--help" in rest or "-h" in rest)):
        sys.stdout.write(overview(name if name in FAMILIES else None))
        return 0
    if name is None and not [word for word in rest if not word.startswith("-")]:
        return refuse_without_command()
    from dibs.cli import words

    raise UsageError(words.hint(name or rest[0], rest), field="command")


def refuse_without_command() -> int:
    sys.stderr.write(overview())
    return UsageError.exit_code


def overview(family: str | None = None) -> str:
    """Every command with its summary, by group; or only the commands of a family like `session`."""
    lines = [ABOUT]
    for group, title in GROUPS.items():
        names = [name for name in COMMANDS if COMMANDS[name].group == group]
        if family:
            names = [name for name in names if name.split()[0] == family]
        if names:
            lines.append(f"\n{title}:\n")
            lines += [f"  {name:<15}{COMMANDS[name].summary}\n" for name in names]
    return "".join([*lines, AFTER])
