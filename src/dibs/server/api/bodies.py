"""Bodies of requests. A small one is decoded and validated at once; a larger one in a thread of its own, one at a time.

Neither decoder nor validator lets another thread run before it is through, so what a body may cost is bounded before
they see it: its bytes by the guard, the number of its values here. Since one thread does it all, the memory that one
large body took is there for the next.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError
from pydantic_core import from_json

from dibs.errors import Invalid

Model = TypeVar("Model", bound=BaseModel)

#: Understood within a few milliseconds, whatever it says.
SMALL_BYTES_MAX = 16_384
#: Commas and opening brackets outside of strings: about as many as there are values.
VALUES_MAX = 100_000
#: No verb has so many.
FIELDS_MAX = 100
#: With more mistakes than this, none of them is described: each costs more than the value that it is about.
MISTAKES_MAX = 100
SEPARATORS = (b",", b"[", b"{")
_thread = ThreadPoolExecutor(1, "body")


async def said(request: Request, model: type[Model]) -> Model:
    """What the body of a request says."""
    found = await said_if_any(request, model)
    if found is None:
        raise Invalid("this needs a body", field="body")
    return found


async def said_if_any(request: Request, model: type[Model]) -> Model | None:
    """The same, where no body at all, or null, says nothing."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
    if len(body) <= SMALL_BYTES_MAX:
        return _understood(body, model)
    return await asyncio.get_running_loop().run_in_executor(_thread, _understood, body, model)


def _understood(body: bytearray, model: type[Model]) -> Model | None:
    data = _decoded(body) if body else None
    # The values alone may take several times its size.
    body.clear()
    if isinstance(data, dict) and len(data) > FIELDS_MAX:
        raise Invalid(f"a body has {FIELDS_MAX} fields at most; this one has {len(data)}", field="body")
    try:
        return None if data is None else model.model_validate(data)
    except ValidationError as error:
        raise refusal(error) from None


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
        raise Invalid("the body is not JSON", field="body") from error


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
