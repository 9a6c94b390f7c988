"""The SQL statements of a store, by name, from the .sql files in its folder.

A statement starts at a line `-- name: NAME`; names are unique across the files. `@item` stands for the columns of an
item, `items.@item` for the same columns of that table, and `:@item` for their parameters; `COLUMNS` has the columns of
each kind of row. `@@NAME` stands for the statement of that name, which comes before in the same file.
"""

from __future__ import annotations

import os

from dibs.model import EDITABLE, Activity, Agent, Claim, Event, Item, Key, Owner, Run, Session, SoftClaim, Ticket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.value import Value

#: The records that are rows.
ROWS: dict[str, type[Value]] = {
    **{"item": Item, "claim": Claim, "run": Run, "event": Event, "activity": Activity, "agent": Agent},
    **{"session": Session, "ticket": Ticket, "soft_claim": SoftClaim, "key": Key},
}
#: For each, its columns and their kinds. The owner of a session is in columns of its own.
KINDS = {
    name: {
        column: word
        for field, kind in record._kinds.items()
        for column, word in (Owner._kinds.items() if kind == "Owner" else ((field, kind),))
    }
    for name, record in ROWS.items()
}
#: The columns of an item on SQLite that may be in a table of their own: see migration 11.
LONG_TEXTS = {
    "body": "iif(items.payload = '', (SELECT body FROM long_texts WHERE item = items.id), items.body)",
    "payload": "iif(items.payload = '', (SELECT payload FROM long_texts WHERE item = items.id), items.payload)",
}
COLUMNS = {name: tuple(columns) for name, columns in KINDS.items()} | {
    "whole_item": tuple(LONG_TEXTS.get(name, f"items.{name}") for name in Item._fields),
    #: The columns of an item that an edit or a decision about it changes.
    "rewritten": (
        *(*EDITABLE, "needs_approval", "approved", "status", "offered_to", "offer_expires_at"),
        *("updated_at", "revision"),
    ),
    #: Neither long content nor what only the detail of an item shows, which has a default.
    "brief": tuple(
        name
        for name, kind in Item._kinds.items()
        if kind not in ("Text", "Json", "Resources") and name not in Item._defaults
    ),
}
#: Searched in this order, so that a claim reads only the first file.
FILES = ("path.sql", "upkeep.sql", "reading.sql", "archive.sql", "figures.sql", "webhooks.sql")


def expand_macros(text: str) -> str:
    """Expand the macros for a database that needs no casts."""
    done, *rest = text.split("@")
    for part in rest:
        name = part[: next((n for n, char in enumerate(part) if not (char.isalnum() or char == "_")), len(part))]
        columns = COLUMNS.get(name)
        if columns is None or done.endswith("@"):  # a part of `@@NAME`
            done += "@" + part
            continue
        table = done.rsplit(maxsplit=1)[-1] if done.endswith(".") else ""
        before = ":" if done.endswith(":") else table
        done += f", {before}".join(columns) + part.removeprefix(name)
    return done


def _without_comments(sql: str) -> str:
    if "'" not in sql:
        return "\n".join(line.partition("--")[0] for line in sql.splitlines())
    found, rest = "", sql
    while "--" in rest:
        before, _, after = rest.partition("--")
        found += before
        is_in_literal = found.count("'") % 2
        found, rest = (found + "--", after) if is_in_literal else (found, "\n" + after.partition("\n")[2])
    return found + rest


class Statements(dict[str, str]):
    """Each file is read when the first of its statements is used."""

    def __init__(self, folder: str, expand: Callable[[str], str] = expand_macros) -> None:
        self._folder = folder
        self._expand = expand
        self._read: set[str] = set()

    def __missing__(self, name: str) -> str:
        for file_name in FILES:
            if file_name not in self._read:
                # Marked as read only afterwards: another thread that skipped it would miss the statement.
                self.update(self.of_file(file_name))
                self._read.add(file_name)
            if dict.__contains__(self, name):
                return self[name]
        raise KeyError(name)

    def of_file(self, file_name: str) -> dict[str, str]:
        with open(os.path.join(self._folder, file_name), encoding="utf-8") as file:
            text = self._expand(file.read())
        found: dict[str, str] = {}
        for block in text.split("-- name: ")[1:]:
            name, _, sql = block.partition("\n")
            if "--" in sql:
                sql = _without_comments(sql)
            # Short, because a prepared statement is looked up by its text, each time that it is executed.
            sql = " ".join(sql.split())
            while "@@" in sql:
                before, _, after = sql.partition("@@")
                used = next(used for used in found if after.startswith(f"{used})"))
                sql = before + found[used] + after.removeprefix(used)
            found[name] = sql
        return found
