"""The OpenAPI document, with the models of bodies, and whose examples say null where an answer does.

FastAPI leaves out of its document whatever is null, also of an example, which then lacks what its schema requires. So
examples go in with a mark in its place.
"""

from __future__ import annotations

import json
import threading
from typing import Any

from fastapi import FastAPI, Request, Response
from pydantic.json_schema import models_json_schema

from dibs.server.auth.auth_route import BODIES, SCHEMAS

#: What no answer ever says.
MARK = "\0null"


class Documented(FastAPI):
    def setup(self) -> None:
        """The document is put into bytes once, when it is first asked for, and not by the event loop: that takes half a
        second."""
        lock = threading.Lock()
        made: list[bytes] = []

        def document(request: Request) -> Response:
            with lock:
                if not made:
                    made.append(json.dumps(self.openapi(), ensure_ascii=False, separators=(",", ":")).encode())
            return Response(made[0], media_type="application/json")

        self.add_route("/openapi.json", document, include_in_schema=False)

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            document = replaced(super().openapi(), MARK, None)
            document["components"]["schemas"] = {**_bodies(), **document["components"]["schemas"]}
            self.openapi_schema = document
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


def _bodies() -> dict[str, Any]:
    """FastAPI does not know of bodies that routes read themselves."""
    _, found = models_json_schema(
        [(model, "validation") for model in BODIES.values()], ref_template=SCHEMAS + "{model}"
    )
    models: dict[str, Any] = found["$defs"]
    return models
