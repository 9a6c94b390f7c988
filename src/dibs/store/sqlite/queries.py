"""The store's SQL, by name, from the .sql files beside this module.

A statement starts at a line `-- name: NAME`. The columns of a row that becomes a value stand in one place,
`COLUMNS`: in the files `@item` is their list and `:@item` the list of their parameters.
"""

from __future__ import annotations

import os

from dibs.model import Activity, Agent, Claim, Event, Item, Run, SoftClaim, Ticket

_OWNER = ("boot_id", "pid_namespace", "pid", "start_time")
SESSION = ("id", "agent", "kind", "host", *_OWNER, "meta", "started_at", "seen_at", "ended_at", "end_reason")
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
}


def load(file_name: str) -> dict[str, str]:
    """The statements of one file."""
    with open(os.path.join(os.path.dirname(__file__), file_name), encoding="utf-8") as file:
        text = file.read()
    for name, columns in COLUMNS.items():
        text = text.replace(f":@{name}", ":" + ", :".join(columns)).replace(f"@{name}", ", ".join(columns))
    blocks = text.split("-- name: ")[1:]
    return {name: sql.strip() for name, _, sql in (block.partition("\n") for block in blocks)}


class Lazy:
    """A file's statements, read when the first of them is wanted: a claim does not pay for what `stats` needs."""

    def __init__(self, file_name: str) -> None:
        self._file_name = file_name
        self._statements: dict[str, str] | None = None

    def __getitem__(self, name: str) -> str:
        if self._statements is None:
            self._statements = load(self._file_name)
        return self._statements[name]

    def __contains__(self, name: str) -> bool:
        return name in (self._statements or load(self._file_name))


PATH = Lazy("path.sql")
UPKEEP = Lazy("upkeep.sql")
READING = Lazy("reading.sql")
ARCHIVE = Lazy("archive.sql")
