"""The wire formats of models: how a request gives the conversation so far, and how an answer is streamed.

Each module has a class for one API, with the same three methods: `turns` of a request's body, the `whole` answer as one
object, and the same as `events` of a stream, each with its name, or none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from tests.kit.agents.script import Json, Turn

Events = list[tuple[str, Json | str]]


class Api(Protocol):
    @staticmethod
    def turns(body: Json) -> Iterator[Turn]: ...

    @staticmethod
    def whole(step: Json, body: Json, number: int) -> Json: ...

    @staticmethod
    def events(step: Json, body: Json, number: int) -> Events: ...


def texts(content: Any) -> Iterator[str]:
    """The texts of a message's content, which is a text or a list of parts, in every API."""
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        yield from (part["text"] for part in content if isinstance(part.get("text"), str))
