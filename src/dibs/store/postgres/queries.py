"""The statements of the PostgreSQL store, with the types of its columns.

JSON and lists are read and written as JSON text, so that rows are the same as SQLite's.
"""

from __future__ import annotations

import os
import re

from dibs.store.sql.queries import SHARED, Statements, expand

JSON = frozenset({"payload", "links", "cost", "checks", "data", "meta", "details"})
LISTS = frozenset({"labels", "depends_on", "resources", "types", "allowed_actions", "sensitive_actions"})


def _read(_kind: str, column: str) -> str:
    if column in JSON:
        return f"{column}::text"
    return f"to_json({column})::text" if column in LISTS else column


def _parameter(column: str) -> str:
    if column in JSON:
        return f":{column}::json"
    return f"ARRAY(SELECT json_array_elements_text(:{column}::json))" if column in LISTS else f":{column}"


def expand_for_postgres(text: str) -> str:
    """Expand the macros, and turn parameters into psycopg's."""
    text = expand(text, "= ANY (ARRAY(SELECT json_array_elements_text({}::json)))", _read, _parameter)
    return re.sub(r"(?<![:\w]):([a-z_]+)", r"%(\1)s", text.replace("%", "%%"))


STATEMENTS = Statements(expand_for_postgres, os.path.dirname(__file__), SHARED)
