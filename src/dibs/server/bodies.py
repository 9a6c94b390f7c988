"""Bodies of requests: read in the event loop, decoded and validated in the thread that does the verb.

Neither decoder nor validator lets another thread run before it is through, so what a body may cost is bounded before
they see it: its bytes by the guard, the number of its values here.
"""

from __future__ import annotations

from typing import Any, TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError
from pydantic_core import from_json

from dibs.errors import Invalid

Model = TypeVar("Model", bound=BaseModel)

#: Commas and opening brackets outside of strings: about as many as there are values.
VALUES_MAX = 100_000
#: With more mistakes than this, none of them is described: each costs more than the value that it is about.
MISTAKES_MAX = 100
SEPARATORS = (b",", b"[", b"{")
NOT_JSON = "the body is not JSON"
NULL_BYTES_MAX = 100


async def read(request: Request) -> bytearray:
    """All of a body, without the copy that the framework makes of it."""
    found = bytearray()
    async for piece in request.stream():
        found += piece
    return found


def parsed(body: bytearray, model: type[Model]) -> Model:
    """What a body says. It is emptied: the values alone may take several times its size."""
    try:
        data = _decoded(body)
        body.clear()
        return model.model_validate(data)
    except ValidationError as error:
        raise refusal(error) from None


def parsed_if_any(body: bytearray, model: type[Model]) -> Model | None:
    """The same, where no body at all, or null, says nothing."""
    return None if len(body) < NULL_BYTES_MAX and bytes(body).strip() in (b"", b"null") else parsed(body, model)


def refusal(error: ValidationError) -> Invalid:
    """The first thing that is wrong, by the name of its field."""
    if error.error_count() > MISTAKES_MAX:
        return Invalid(f"{error.error_count()} things are wrong with this body", field="body")
    return first_of(error.errors(include_url=False, include_context=False, include_input=False)[0])


def first_of(mistake: Any) -> Invalid:
    place = [str(part) for part in mistake["loc"] if part not in ("body", "query", "path")]
    return Invalid(f"{'.'.join(place) or 'the body'}: {mistake['msg']}", field=place[0] if place else "body")


def _decoded(body: bytearray) -> Any:
    if _separators(body, 0, len(body)) > VALUES_MAX and _values(body) > VALUES_MAX:
        raise Invalid(f"a body holds {VALUES_MAX} values at most; send fewer at a time", field="body")
    try:
        return from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise Invalid(NOT_JSON, field="body") from error


def _separators(text: bytearray, start: int, end: int) -> int:
    return sum(text.count(sign, start, end) for sign in SEPARATORS)


def _values(body: bytearray) -> int:
    """How many values there are, without those that only look so inside of strings; above the limit, just that."""
    text = body.replace(rb"\\", b"").replace(rb"\"", b"")
    values = strings = start = 0
    while start >= 0 and values <= VALUES_MAX:
        quote = text.find(b'"', start)
        values += _separators(text, start, len(text) if quote < 0 else quote)
        # In JSON there is a separator between any two strings, or a colon.
        strings += 1
        values = max(values, strings // 2)
        start = -1 if quote < 0 else text.find(b'"', quote + 1) + 1 or -1
    return values
