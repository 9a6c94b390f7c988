"""Writes `src/api.ts`, the types of the server's answers, from its OpenAPI document: `python -m web.tools.api_types`.

Instants are numbers there: `decode` in `src/state/http.ts` makes milliseconds of them.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parent.parent / "src" / "api.ts"
#: The answers that the dashboard reads; what they consist of follows.
ANSWERS = ("View", "Paged", "Window", "Series", "Bulk", "Detail", "Event", "Reason")
HEAD = "/** Made by `python -m web.tools.api_types` from the server's OpenAPI document. */\n"
PLAIN = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}

Schema = dict[str, Any]


def generated(document: Schema) -> str:
    schemas = document["components"]["schemas"]
    names: list[str] = list(ANSWERS)
    parts = []
    for name in names:
        fields = [f"  {field}: {_type(schema, names)};" for field, schema in schemas[name]["properties"].items()]
        parts.append("\n".join([f"export interface {name} {{", *fields, "}\n"]))
    return "\n".join([HEAD, *parts])


def _type(schema: Schema, names: list[str]) -> str:
    """The type of a schema. A schema that it refers to is added to the names."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        if name not in names:
            names.append(name)
        return str(name)
    if "anyOf" in schema:
        return " | ".join(_type(one, names) for one in schema["anyOf"])
    if schema.get("format") == "date-time":
        return "number"
    if schema.get("type") == "array":
        inner = _type(schema["items"], names)
        return f"({inner})[]" if " " in inner else f"{inner}[]"
    if schema.get("type") == "object":
        values = schema.get("additionalProperties")
        return f"Record<string, {_type(values, names) if isinstance(values, dict) else 'unknown'}>"
    return PLAIN.get(schema.get("type", ""), "unknown")


def document() -> Schema:
    """The OpenAPI document of a server."""
    from dibs.board import connect, make
    from dibs.config import ServerSettings
    from dibs.server import app
    from dibs.server.service import Service

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "board.db")
        make(path, folder=folder)
        board = connect(path)
        made: Any = app.make(Service(board.store, board.settings), ServerSettings(), 0, None)
        described: Schema = made._app.openapi()
        board.close()
    return described


if __name__ == "__main__":
    TARGET.write_text(generated(document()), encoding="utf-8")
