"""A store's SQL, by name, from the .sql files in its folder.

A statement starts at a line `-- name: NAME`; names are unique over the files. The columns of a row that becomes a value
stand in one place, `COLUMNS`: in the files `@item` is their list and `:@item` the list of their parameters.
"""

from __future__ import annotations

import os

from dibs.model import Activity, Agent, Claim, Event, Item, Key, Run, SoftClaim, Ticket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_OWNER = ("boot_id", "pid_namespace", "pid", "start_time")
SESSION = ("id", "agent", "kind", "host", *_OWNER, "meta", "started_at", "seen_at", "ended_at", "end_reason", "key")
COLUMNS = {
    "item": Item._fields,
    "claim": Claim._fields,
    "run": Run._fields,
    "event": Event._fields,
    "activity": Activity._fields,
    "agent": Agent._fields,
    "session": SESSION,
    "ticket": Ticket._fields,
    "soft": SoftClaim._fields,
    "access": Key._fields,
}
#: In the order in which they are looked through: a claim does not pay for what `stats` needs.
FILES = ("path.sql", "upkeep.sql", "reading.sql", "archive.sql")


def plain(text: str) -> str:
    """The macros written out for a database that takes every column as it is."""
    for name, columns in COLUMNS.items():
        text = text.replace(f":@{name}", ":" + ", :".join(columns)).replace(f"@{name}", ", ".join(columns))
    return text


class Statements:
    """The statements of a store, each file read when the first of its statements is wanted."""

    def __init__(self, folder: str, written_out: Callable[[str], str] = plain) -> None:
        self._folder = folder
        self._written_out = written_out
        self._read: set[str] = set()
        self._known: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        for file_name in FILES:
            if name in self._known:
                break
            if file_name not in self._read:
                # Read by two threads at once it is the same; passed over by one of them, it would be missing.
                self._known |= self.of_file(file_name)
                self._read.add(file_name)
        return self._known[name]

    def of_file(self, file_name: str) -> dict[str, str]:
        with open(os.path.join(self._folder, file_name), encoding="utf-8") as file:
            text = self._written_out(file.read())
        blocks = text.split("-- name: ")[1:]
        return {name: sql.strip() for name, _, sql in (block.partition("\n") for block in blocks)}
