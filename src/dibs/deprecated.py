"""Names that are deprecated: they still work, and their users are told what replaces them.

A renamed command, option, setting or module has a line in one of these tables, and nothing else in the code knows its
old name. A use of an old command, option or setting prints one line on stderr, once in a process; an import of an old
module raises a `DeprecationWarning`. docs/operations/upgrade.md says how long an old name works, and lists all of them.
This module is imported only where a name is unknown, or where a `dibs.toml` is read.
"""

from __future__ import annotations

import sys

from dibs.errors import Invalid
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Renamed(Value):
    """The new name, and the version since which the old one is deprecated."""

    to: str
    since: str


#: By the old command.
COMMANDS: dict[str, Renamed] = {}
#: By the command and its old option.
OPTIONS: dict[tuple[str, str], Renamed] = {}
#: By the table of a `dibs.toml` and its old setting.
SETTINGS: dict[tuple[str, str], Renamed] = {}
#: By the old module.
MODULES = {
    "dibs.asession": Renamed(to="dibs.sdk.async_session", since="0.1.0"),
    "dibs.handle": Renamed(to="dibs.sdk.claim_handle", since="0.1.0"),
    "dibs.session": Renamed(to="dibs.sdk.session", since="0.1.0"),
}
_warned: set[str] = set()


def command(name: str) -> list[str] | None:
    """The words that replace a deprecated command; None if it is no such command."""
    renamed = COMMANDS.get(name)
    if renamed is None:
        return None
    _warn(f"dibs {name}", renamed, f"dibs {renamed.to}")
    return renamed.to.split()


def option(command: str, typed: str) -> str | None:
    """The name that replaces a deprecated option of this command; None if it is no such option."""
    renamed = OPTIONS.get((command, typed))
    if renamed is None:
        return None
    _warn(f"{typed} of dibs {command}", renamed, renamed.to)
    return renamed.to


def settings(table: str, values: dict[str, Any], source: str) -> dict[str, Any]:
    """The values of a table under the names that its settings have now."""
    found = {}
    for name, value in values.items():
        renamed = SETTINGS.get((table, name))
        if renamed is not None:
            if renamed.to in values:
                raise Invalid(f"{source}: {name} is the old name of {renamed.to}; remove it", field=name)
            _warn(f"{name} in [{table}] of {source}", renamed, renamed.to)
        found[name if renamed is None else renamed.to] = value
    return found


def module(name: str) -> None:
    """Called by a module that is only the old name of another one."""
    import warnings

    # The caller of this function is the old module; the frames between it and the import statement are skipped.
    warnings.warn(_text(name, MODULES[name], MODULES[name].to), DeprecationWarning, stacklevel=3)


def _warn(what: str, renamed: Renamed, use: str) -> None:
    if what not in _warned and sys.stderr is not None:
        _warned.add(what)
        sys.stderr.write(f"dibs: {_text(what, renamed, use)}\n")


def _text(what: str, renamed: Renamed, use: str) -> str:
    return f"{what} is deprecated since {renamed.since}; use {use}"
