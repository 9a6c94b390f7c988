"""Request bodies. A small body is parsed at once; a larger one in a thread, in turn with the long verbs of its key.

Parser and validator hold the GIL until they finish, so the cost of a body is bounded before it reaches them: the guard
limits its bytes, this module the number of its values.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError
from pydantic_core import from_json
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from dibs.errors import Invalid
from dibs.server.shares import KEY, FairThreads

T = TypeVar("T")
Model = TypeVar("Model", bound=BaseModel)

#: Any body of this size parses within a few milliseconds.
SMALL_BYTES_MAX = 16_384
#: Commas and opening brackets outside of strings approximate the number of values.
VALUES_MAX = 100_000
#: More than any verb has.
FIELDS_MAX = 100
#: Describing an error costs more than the value it is about; beyond this many errors, only their number is reported.
ERRORS_MAX = 100
SEPARATORS = (b",", b"[", b"{")


async def read(threads: FairThreads, request: Request, model: type[Model]) -> Model:
    return await _parsed(threads, request, lambda body: _needed(_validate(body, model)))


async def read_arguments(
    threads: FairThreads, request: Request, model: type[BaseModel], *, is_required: bool
) -> dict[str, Any]:
    """The arguments of a verb; none for an empty body and for null, unless a body is required."""
    return await _parsed(threads, request, lambda body: _arguments(body, model, is_required=is_required))


def is_small(request: Request) -> bool:
    """Whether the body says that it is small. What is checked while others wait for a shared commit has to be."""
    headers = request.headers
    return "transfer-encoding" not in headers and int(headers.get("content-length", 0)) <= SMALL_BYTES_MAX


def small_arguments(body: bytes, model: type[BaseModel] | None) -> dict[str, Any]:
    """Those in a whole body of at most `SMALL_BYTES_MAX` bytes; none if the verb has no parameters for one."""
    return {} if model is None else _arguments(bytearray(body), model, is_required=True)


async def read_data(threads: FairThreads, request: Request) -> Any:
    """The data of a body that is no call of a verb."""
    return await _parsed(threads, request, _decode)


async def read_signed(
    threads: FairThreads, request: Request, bytes_max: int, require_signature: Callable[[bytearray], None]
) -> Any:
    """The data of a body whose signature is checked over its bytes, before any of it is parsed."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > bytes_max:
            raise HTTPException(413, f"a webhook has at most {bytes_max} bytes; webhook_bytes_max allows more")
    require_signature(body)
    return await asyncio.wrap_future(threads.submit(KEY.get(), lambda: _decode(body)))


async def _parsed(threads: FairThreads, request: Request, parse: Callable[[bytearray], T]) -> T:
    body = bytearray()
    more = True
    # `Request.stream` is an asynchronous generator, which costs more than parsing a small body.
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        body += message.get("body", b"")
        more = message.get("more_body", False)
    if len(body) <= SMALL_BYTES_MAX:
        return parse(body)
    return await asyncio.wrap_future(threads.submit(KEY.get(), lambda: parse(body)))


def _arguments(body: bytearray, model: type[BaseModel], *, is_required: bool) -> dict[str, Any]:
    found = _validate(body, model)
    if is_required:
        found = _needed(found)
    return {} if found is None else found.model_dump(exclude_unset=True)


def _needed(found: Model | None) -> Model:
    if found is None:
        raise Invalid("this request needs a JSON body", field="body")
    return found


def _validate(body: bytearray, model: type[Model]) -> Model | None:
    data = _decode(body) if body else None
    # The decoded values may take several times the size of the body.
    body.clear()
    if isinstance(data, dict):
        _require_few_fields(data)
    try:
        return None if data is None else model.model_validate(data)
    except ValidationError as error:
        if error.error_count() > ERRORS_MAX:
            raise Invalid(f"this body has {error.error_count()} errors", field="body") from None
        raise invalid(error.errors(include_url=False, include_context=False, include_input=False)[0]) from None


def _require_few_fields(data: dict[str, Any]) -> None:
    """Of the body and of each item in it: every field that a verb does not have is an error of its own."""
    items = data.get("items")
    for what, fields in (("a body", data), *(("an item", one) for one in (items if isinstance(items, list) else ()))):
        if isinstance(fields, dict) and len(fields) > FIELDS_MAX:
            raise Invalid(f"{what} has at most {FIELDS_MAX} fields; this one has {len(fields)}", field="body")


def invalid(error: Any) -> Invalid:
    """A refusal for one of Pydantic's errors, with the name of its field."""
    path = [str(part) for part in error["loc"] if part not in ("body", "query", "path")]
    return Invalid(f"{'.'.join(path) or 'the body'}: {error['msg']}", field=path[0] if path else "body")


def _decode(body: bytearray) -> Any:
    if _separators(body, 0, len(body)) > VALUES_MAX and _count_values(body) > VALUES_MAX:
        raise Invalid(f"a body has at most {VALUES_MAX} values; send fewer at a time", field="body")
    try:
        return from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise Invalid("the body is not JSON", field="body") from error


def _separators(text: bytearray, start: int, end: int) -> int:
    return sum(text.count(separator, start, end) for separator in SEPARATORS)


def _count_values(body: bytearray) -> int:
    """The number of values, ignoring separators inside of strings; counting ends above the limit."""
    text = body.replace(rb"\\", b"").replace(rb"\"", b"")
    values = strings = start = 0
    while start >= 0 and values <= VALUES_MAX:
        quote = text.find(b'"', start)
        values += _separators(text, start, len(text) if quote < 0 else quote)
        # In JSON a separator or a colon stands between any two strings.
        strings += 1
        values = max(values, strings // 2)
        start = -1 if quote < 0 else text.find(b'"', quote + 1) + 1 or -1
    return values
