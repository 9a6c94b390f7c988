"""The statements of the PostgreSQL store, with its types.

Values of the model are one row each, as everywhere; JSON and lists cross the border as JSON text, so that the rows
are the same as SQLite's. `@columns_of_item` is the plain list of columns, for an INSERT.
"""

from __future__ import annotations

import os
import re

from dibs.store.tables.queries import COLUMNS, Statements

JSON = frozenset({"payload", "links", "cost", "checks", "data", "meta", "details"})
LISTS = frozenset({"labels", "depends_on", "resources", "types", "allowed_actions", "sensitive_actions"})


def _read(column: str) -> str:
    if column in JSON:
        return f"{column}::text"
    return f"to_json({column})::text" if column in LISTS else column


def _written(column: str) -> str:
    if column in JSON:
        return f":{column}::json"
    return f"ARRAY(SELECT json_array_elements_text(:{column}::json))" if column in LISTS else f":{column}"


def written_out(text: str) -> str:
    """The macros and parameters as psycopg takes them."""
    for name, columns in COLUMNS.items():
        text = text.replace(f"@columns_of_{name}", ", ".join(columns))
        text = text.replace(f":@{name}", ", ".join(map(_written, columns)))
        text = text.replace(f"@{name}", ", ".join(map(_read, columns)))
    return re.sub(r"(?<![:\w]):([a-z_]+)", r"%(\1)s", text.replace("%", "%%"))


STATEMENTS = Statements(os.path.dirname(__file__), written_out)
