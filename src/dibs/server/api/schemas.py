"""How verbs and values are described to programs: models made from `dibs.model` and from the board's own signatures.

Nothing is said twice: a field that is added to a value or a verb is in the OpenAPI document by itself. What a field may
hold is decided by the board, which refuses with the field's name; here is only its shape.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model

from dibs import model
from dibs.board import Board
from dibs.model import EDITABLE, NewItem
from dibs.text import wire
from dibs.value import Value

NOON = "2026-11-15T12:00:00.000Z"
Instant = Annotated[str, Field(json_schema_extra={"format": "date-time"}, examples=[NOON])]
#: The caller's identity and the waiting client's hook are not for a body to say; how long to wait is said once, in the
#: query.
NOT_ASKED = frozenset({"self", "request_id", "on_wait", "wait_seconds", "key", "owner_pid"})
NAMES: dict[str, Any] = {
    "Any": Any,
    "Iterable": list,
    "Mapping": dict,
    "Page": list,
    "Callable": Callable,
}


class Shape(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


#: Every value of the model, by its name, in the order in which they are made of each other.
ANSWERS: dict[str, Any] = {}


def _resolved(annotation: str) -> Any:
    """The type that an annotation names, values being their models: read by the standard library, from a class with
    only that."""
    holder = type("Holder", (), {"__annotations__": {"value": annotation}})
    return get_type_hints(holder, globalns=NAMES, localns=ANSWERS)["value"]


def _fields_of(kind: type[Value]) -> dict[str, Any]:
    """Each field of a value as the wire has it."""
    found: dict[str, Any] = {}
    for name, written in kind._hints.items():
        hint = _resolved(written)
        if wire.is_instant(name):
            hint = Instant | None if type(None) in getattr(hint, "__args__", ()) else Instant
        found[name] = (hint, ...)
    return found


def _answer(kind: type[Value]) -> type[BaseModel]:
    return create_model(kind.__name__, __config__=ConfigDict(extra="forbid", strict=True), **_fields_of(kind))


for _name, _kind in vars(model).items():
    if isinstance(_kind, type) and issubclass(_kind, Value) and _kind is not Value:
        ANSWERS[_name] = _answer(_kind)


def small(name: str, example: dict[str, Any], **fields: Any) -> type[BaseModel]:
    """The model of an answer that is no value of the board, with its example; a field is a type, or that and a
    default."""
    config = ConfigDict(extra="forbid", strict=True, json_schema_extra={"examples": [example]})
    made = {field: hint if isinstance(hint, tuple) else (hint, ...) for field, hint in fields.items()}
    found: type[BaseModel] = create_model(name, __config__=config, **made)  # type: ignore[call-overload]
    return found


def fields_of(name: str, *, without: str) -> dict[str, Any]:
    """The fields of a value's model but one."""
    return {field: (info.annotation, info) for field, info in ANSWERS[name].model_fields.items() if field != without}


class Problem(BaseModel):
    """Why not. `code` is stable; `facts` depend on it: who holds an item, how long to wait."""

    type: str = Field(examples=["urn:dibs:problem:TASK_ALREADY_CLAIMED"])
    title: str
    status: int
    detail: str = Field(examples=["fix-login is already claimed by coder (session coder-1)"])
    code: str = Field(examples=["TASK_ALREADY_CLAIMED"])
    facts: dict[str, Any]


@cache
def answer_of(name: str) -> Any:
    """What a verb of the board gives."""
    returned = inspect.signature(getattr(Board, name)).return_annotation
    hint = _resolved(returned)
    return list[hint.__args__[0]] if getattr(hint, "__origin__", None) is tuple else hint  # type: ignore[name-defined]


def asked_of(name: str, *, without: frozenset[str]) -> dict[str, tuple[Any, Any]]:
    """The parameters of a verb that a request gives, with their types and defaults (`...`: needed)."""
    if name == "add":
        return {**_content_of_new_item(), "actor": (str | None, None)}
    found: dict[str, tuple[Any, Any]] = {}
    for parameter in inspect.signature(getattr(Board, name)).parameters.values():
        if parameter.name in NOT_ASKED | without:
            continue
        if parameter.kind is parameter.VAR_KEYWORD:
            found |= {field: (hint, None) for field, (hint, _) in _content_of_new_item().items() if field in EDITABLE}
            continue
        hint = _resolved(parameter.annotation)
        default = ... if parameter.default is parameter.empty else parameter.default
        found[parameter.name] = (hint, [] if default == () else default)
    if name == "add_many":
        one: Any = create_model("NewItem", __base__=Shape, **_content_of_new_item())  # type: ignore[call-overload]
        found["items"] = (list[one], ...)
    return found


@cache
def body_of(name: str, without: frozenset[str]) -> type[BaseModel] | None:
    """A model of a verb's body; None if there is nothing to say."""
    fields = asked_of(name, without=without)
    if not fields:
        return None
    title = "".join(word.capitalize() for word in name.split("_")) + "Request"
    made: type[BaseModel] = create_model(title, __base__=Shape, **fields)  # type: ignore[call-overload]
    return made


def _content_of_new_item() -> dict[str, tuple[Any, Any]]:
    """The fields of a new item as a caller may give them: an id is made if none is given, a priority may be a word."""
    found: dict[str, tuple[Any, Any]] = {}
    for name, (hint, _) in _fields_of(NewItem).items():
        if getattr(hint, "__origin__", None) is tuple:
            hint = list[str]
        found[name] = (hint, NewItem._defaults.get(name, ...))
    found["id"] = (str | None, None)
    found["priority"] = (int | str, NewItem._defaults["priority"])
    return {
        name: (hint, list(default) if isinstance(default, tuple) else default)
        for name, (hint, default) in found.items()
    }
