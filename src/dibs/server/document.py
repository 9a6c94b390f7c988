"""The OpenAPI document, whose examples say null where an answer does.

FastAPI leaves out of its document whatever is null, also of an example, which then lacks what its schema requires. So
examples go in with a mark in its place.
"""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

#: What no answer ever says.
MARK = "\0null"


class Documented(FastAPI):
    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            self.openapi_schema = replaced(super().openapi(), MARK, None)
        return self.openapi_schema


def marked(example: Any) -> Any:
    """An example as it is given to FastAPI."""
    return replaced(example, None, MARK)


def replaced(data: Any, old: str | None, new: str | None) -> Any:
    if isinstance(data, dict):
        return {name: replaced(value, old, new) for name, value in data.items()}
    if isinstance(data, list):
        return [replaced(value, old, new) for value in data]
    return new if data == old else data
