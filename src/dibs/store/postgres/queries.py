"""The statements of the PostgreSQL store, with the types of its columns.

JSON and lists are read and written as JSON text, so that rows are the same as SQLite's.
"""

from __future__ import annotations

import os
import re

from dibs.store.sql.queries import KINDS, SHARED, Statements, expand

#: The kinds that are columns of type json, and those of type text[].
JSON = frozenset({"Json", "Meta", "Checks", "Facts"})
LISTS = frozenset({"Names", "ItemIds", "Resources", "Texts"})


def _read(row: str, column: str) -> str:
    kind = _kind(row, column)
    if kind in JSON:
        return f"{column}::text"
    return f"to_json({column})::text" if kind in LISTS else column


def _parameter(row: str, column: str) -> str:
    kind = _kind(row, column)
    if kind in JSON:
        return f":{column}::json"
    return f"ARRAY(SELECT json_array_elements_text(:{column}::json))" if kind in LISTS else f":{column}"


def _kind(row: str, column: str) -> str:
    """`row` is a kind of row, or names some columns of an item."""
    return KINDS.get(row, KINDS["item"])[column]


def expand_for_postgres(text: str) -> str:
    """Expand the macros, and turn parameters into psycopg's."""
    text = expand(text, "= ANY (ARRAY(SELECT json_array_elements_text({}::json)))", _read, _parameter)
    return re.sub(r"(?<![:\w]):([a-z_]+)", r"%(\1)s", text.replace("%", "%%"))


STATEMENTS = Statements(expand_for_postgres, os.path.dirname(__file__), SHARED)
