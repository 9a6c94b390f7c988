"""Man pages, from the same tables as the help and the reference: `python -m manual.man FOLDER` writes them.

`dibs(1)` has every command, the environment and the exit codes; `dibs.toml(5)` has the settings. The text is roff, in
the macros of man(7).
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from dibs import __version__
from dibs.cli.commands import COMMANDS, EXAMPLES, GROUPS
from dibs.cli.parser import Parser
from manual import reference
from manual.tables import rows

SETTINGS, ENVIRONMENT = "docs/reference/settings.md", "docs/reference/environment.md"
EXIT_CODES, SERVER = "docs/reference/exit-codes.md", "docs/operations/server.md"
ABOUT = (
    "dibs lets fleets of coding agents share one list of work. No two of them do the same item, the item of a crashed"
    " agent comes back by itself, and a late agent can do no harm. A board is a SQLite file, a PostgreSQL database, a"
    " folder of markdown files, or a server."
)
FILES = (
    (".git/dibs/board.db", "the board of a git repository, for all of its worktrees"),
    (".dibs/board.db", "the board of any other folder"),
    ("dibs.toml", "settings of the folder in which it is and of those below; see dibs.toml(5)"),
    ("~/.local/state/dibs", "state of sessions, keys of servers; XDG_STATE_HOME moves it"),
    ("~/.config/dibs/trusted", "trusted paths; XDG_CONFIG_HOME moves it"),
)


def pages() -> dict[str, str]:
    """The text of each page, by the path under `share/man`."""
    return {"man1/dibs.1": _dibs(), "man1/calldibs.1": ".so man1/dibs.1\n", "man5/dibs.toml.5": _toml()}


def _dibs() -> str:
    lines = _head("DIBS", 1, "dibs \\- a work board for fleets of coding agents")
    lines += [".SH SYNOPSIS", ".B dibs", "[\\fICOMMAND\\fR] [\\fIoptions\\fR]", ".SH DESCRIPTION", roff(ABOUT)]
    lines += [".P", roff("Without a command, dibs prints what you hold, what needs you, and what is next.")]
    lines += [".SH OPTIONS", roff("Every command has these options."), *_options(reference.common_options())]
    built = reference.parsers()
    for group, title in GROUPS.items():
        lines.append(f".SH {title.upper()}")
        for name, command in COMMANDS.items():
            if command.group == group:
                lines += _command(built[name])
    lines += [".SH ENVIRONMENT", *_cells(ENVIRONMENT, "variable"), ".SH FILES", *_options(list(FILES))]
    lines += [".SH EXIT STATUS", *_cells(EXIT_CODES, "code")]
    return "\n".join([*lines, ".SH SEE ALSO", ".BR dibs.toml (5),", ".BR git (1)", ""])


def _toml() -> str:
    lines = _head("DIBS.TOML", 5, "dibs.toml \\- settings of dibs")
    lines += [".SH DESCRIPTION", roff("dibs looks for dibs.toml in the working folder and above it. None is needed.")]
    for title, document, header in (("[board]", SETTINGS, "setting"), ("[server]", SERVER, "`[server]`")):
        lines.append(f".SH {title}")
        found = rows(document, header, "default")
        lines += _list([(f"{plain(name)} = {plain(value) or '...'}", cell(about)) for name, value, about in found])
    lines += [".SH [agents.NAME]", roff("An agent that the board does not know yet; see dibs agent set in dibs(1).")]
    return "\n".join([*lines, ".SH SEE ALSO", ".BR dibs (1)", ""])


def _head(name: str, section: int, line: str) -> list[str]:
    return [f'.TH {name} {section} "" "dibs {__version__}"', ".SH NAME", line]


def _command(parser: Parser) -> list[str]:
    summary = parser.command.summary
    lines = [f".SS {roff(parser.usage().removeprefix('usage: '))}", roff(summary[0].upper() + summary[1:] + ".")]
    lines += _options(reference.own_options(parser))
    for example in EXAMPLES[parser.name]:
        lines += [".P", ".EX", roff(example), ".EE"]
    return lines


def _list(entries: list[tuple[str, str]]) -> list[str]:
    """Names with what they mean, which is roff already."""
    return [line for name, about in entries for line in (".TP", f".B {roff(name)}", about)]


def _options(options: list[tuple[str, str]]) -> list[str]:
    return _list([(name, roff(about)) for name, about in options])


def _cells(document: str, header: str) -> list[str]:
    return _list([(plain(name), cell(about)) for name, about in rows(document, header, "meaning")])


def plain(text: str) -> str:
    """A cell of a table without the marks of markdown."""
    return _unlinked(text).replace("`", "")


def cell(text: str) -> str:
    """A cell of a table as roff, with code in bold: there, a word such as `who` is a command."""
    parts = _unlinked(text).split("`")
    return "".join(f"\\fB{roff(part)}\\fR" if index % 2 else roff(part) for index, part in enumerate(parts))


def _unlinked(text: str) -> str:
    return re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", text).replace("\\|", "|")


def roff(text: str) -> str:
    """Text in which nothing is a request or an escape of roff."""
    text = (
        text.replace("\\", "\\e").replace("-", "\\-").replace("~", "\\(ti").replace("^", "\\(ha").replace("`", "\\(ga")
    )
    return f"\\&{text}" if text.startswith((".", "'")) else text


def write(folder: Path) -> list[Path]:
    written = []
    for name, text in pages().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        written.append(path)
    return written


if __name__ == "__main__":
    for path in write(Path(sys.argv[1])):
        print(path)
