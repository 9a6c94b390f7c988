"""The SQL statements of a store, by name, from .sql files.

A statement starts at a line `-- name: NAME`; names are unique in a database. The files beside this module have the
statements of both databases, in PostgreSQL's SQL; the files of the same names in `store/sqlite/` and `store/postgres/`
have those that differ. SQLite gets a shared statement after the replacements in `SQLITE_REPLACEMENTS`. Macros:

    @item             the columns of an item as they are read; likewise for each kind in `COLUMNS`
    claims.@claim     the same, qualified with the table of that kind
    @columns_of_item  the plain columns, for an INSERT
    :@item            their parameters
    @in(:ids)         SQLite: IN (SELECT value FROM json_each(:ids))
                      PostgreSQL: = ANY (ARRAY(SELECT json_array_elements_text(:ids::json)))
    (@@NAME)          the text of the statement NAME
"""

from __future__ import annotations

import os

from dibs.model import Activity, Agent, Claim, Event, Item, Key, Owner, Run, Session, SoftClaim, Ticket

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
#: The columns of an item on SQLite that may be in the table `long_texts` instead.
LONG_TEXTS = {
    "body": "iif(items.payload = '', (SELECT body FROM long_texts WHERE item = items.id), items.body)",
    "payload": "iif(items.payload = '', (SELECT payload FROM long_texts WHERE item = items.id), items.payload)",
}
COLUMNS = {name: tuple(columns) for name, columns in KINDS.items()} | {
    #: What an edit or a decision about an item may change. The rest is of its runs, or was decided when it was added.
    "rewritten": tuple(
        name
        for name in Item._fields
        if name not in ("id", "created_by", "created_at", "attempts", "strikes", "failures", "token")
    ),
    #: Neither long content nor what only the detail of an item shows, which has a default.
    "brief": tuple(
        name
        for name, kind in Item._kinds.items()
        if kind not in ("Text", "Json", "Resources") and name not in Item._defaults
    ),
}
#: The folder of the statements of both databases.
SHARED = os.path.dirname(__file__)
#: Searched in this order, so that a claim reads only the first file.
FILES = ("path.sql", "upkeep.sql", "reading.sql", "archive.sql", "figures.sql", "webhooks.sql")
#: What SQLite gets in place of PostgreSQL's SQL.
SQLITE_REPLACEMENTS = (
    ("dibs.", ""),  # no schemas
    *(("::text", ""), ("::json", ""), ("::bigint", "")),  # a parameter has the type of its value
    *((" FOR UPDATE SKIP LOCKED", ""), (" FOR UPDATE", ""), (" FOR SHARE", "")),  # a writer has the lock of the board
    *(("greatest(", "max("), ("least(", "min(")),
    ("json_array_elements_text(", "json_each("),  # the column is called `value` in both
)


def expand(text: str, in_list: str, read: Callable[[str, str], str], parameter: Callable[[str, str], str]) -> str:
    """Expand the macros. `read` has the expression that reads a column of a kind of row, `in_list` that of `@in`."""
    for kind, columns in COLUMNS.items():
        if f"@{kind}" in text:
            text = text.replace(f":@{kind}", ", ".join([parameter(kind, column) for column in columns]))
            text = text.replace(f"{kind}s.@{kind}", ", ".join([f"{kind}s.{column}" for column in columns]))
            text = text.replace(f"@{kind}", ", ".join([read(kind, column) for column in columns]))
        text = text.replace(f"@columns_of_{kind}", ", ".join(columns))
    text, *rest = text.split("@in(")
    for part in rest:
        name, _, after = part.partition(")")
        text += in_list.format(name) + after
    return text


def expand_for_sqlite(text: str) -> str:
    for postgres, sqlite in SQLITE_REPLACEMENTS:
        text = text.replace(postgres, sqlite)
    return expand(text, "IN (SELECT value FROM json_each({}))", _read_on_sqlite, lambda _, column: f":{column}")


def _read_on_sqlite(kind: str, column: str) -> str:
    return LONG_TEXTS.get(column, f"items.{column}") if kind == "item" else column


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
    """Each file is read, in all folders, when the first of its statements is used; a statement is expanded when it is
    used itself."""

    def __init__(self, expand: Callable[[str], str], *folders: str) -> None:
        self._expand = expand
        self._folders = folders
        self._blocks: dict[str, str] = {}
        self._read: set[str] = set()

    def __missing__(self, name: str) -> str:
        sql = self[name] = self._expand(self._text(name))
        return sql

    def of_file(self, file_name: str) -> dict[str, str]:
        """The statements of a file as they stand there, each with its comments and those of the next one."""
        found: dict[str, str] = {}
        for folder in self._folders:
            with open(os.path.join(folder, file_name), encoding="utf-8") as file:
                for block in file.read().split("-- name: ")[1:]:
                    name, _, sql = block.partition("\n")
                    found[name] = sql
        return found

    def _text(self, name: str) -> str:
        sql = self._block(name)
        if "--" in sql:
            sql = _without_comments(sql)
        # Short, because a prepared statement is looked up by its text, each time that it is executed.
        sql = " ".join(sql.split())
        while "@@" in sql:
            before, _, after = sql.partition("@@")
            used, _, after = after.partition(")")
            sql = f"{before}{self._text(used)}){after}"
        return sql

    def _block(self, name: str) -> str:
        for file_name in FILES:
            if name not in self._blocks and file_name not in self._read:
                # Marked as read only afterwards: another thread that skipped it would miss the statement.
                self._blocks.update(self.of_file(file_name))
                self._read.add(file_name)
        return self._blocks[name]
