"""The statements of the PostgreSQL store, with the types of its columns.

JSON and lists are read and written as JSON text, so that rows are the same as SQLite's. `@columns_of_item` stands for
the plain list of columns, for an INSERT, and `@live_items` for the items that have not ended.
"""

from __future__ import annotations

import os
import re

from dibs.store.sql.queries import COLUMNS, KINDS, Statements

#: The kinds that are columns of type json, and those of type text[].
JSON = frozenset({"Json", "Meta", "Checks", "Facts"})
LISTS = frozenset({"Names", "ItemIds", "Resources", "Texts"})
#: The items that have not ended, in parts of which each has an index; items in progress are found through their claims.
LIVE_ITEMS = """(
    SELECT * FROM dibs.items WHERE status IN ('pending_approval', 'blocked', 'parked')
    UNION ALL SELECT * FROM dibs.items WHERE status = 'scheduled'
    UNION ALL SELECT * FROM dibs.items WHERE status = 'ready' AND offered_to IS NULL
    UNION ALL SELECT * FROM dibs.items
              WHERE status = 'ready' AND offered_to IS NOT NULL AND offer_expires_at IS NOT NULL
    UNION ALL SELECT i.* FROM dibs.claims c JOIN dibs.items i ON i.id = c.item WHERE i.status = 'in_progress'
) AS live_items"""


def _read(row: str, column: str) -> str:
    kind = KINDS[row].get(column)
    if kind in JSON:
        return f"{column}::text"
    return f"to_json({column})::text" if kind in LISTS else column


def _parameter(row: str, column: str) -> str:
    kind = KINDS[row].get(column)
    if kind in JSON:
        return f":{column}::json"
    return f"ARRAY(SELECT json_array_elements_text(:{column}::json))" if kind in LISTS else f":{column}"


def expand(text: str) -> str:
    """Expand the macros, and turn parameters into psycopg's."""
    text = text.replace("@live_items", LIVE_ITEMS)
    for name, columns in COLUMNS.items():
        row = name if name in KINDS else "item"
        text = text.replace(f"@columns_of_{name}", ", ".join(columns))
        text = text.replace(f":@{name}", ", ".join([_parameter(row, column) for column in columns]))
        text = text.replace(f"@{name}", ", ".join([_read(row, column) for column in columns]))
    return re.sub(r"(?<![:\w]):([a-z_]+)", r"%(\1)s", text.replace("%", "%%"))


STATEMENTS = Statements(os.path.dirname(__file__), expand)
