"""Pydantic models made from `dibs.model` and from the board's signatures, so that the OpenAPI document follows both.

The models check shapes only. The board checks the values, and its refusals name the field.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, get_type_hints

from pydantic import BaseModel, ConfigDict, FailFast, Field, create_model

from dibs import model
from dibs.board import Board
from dibs.model import EDITABLE, NewItem, dashboard, kinds, webhooks
from dibs.value import Value

NOON = "2026-11-15T12:00:00.000Z"
Instant = Annotated[str, Field(json_schema_extra={"format": "date-time"}, examples=[NOON])]
#: Parameters that no body has: the server fills in the caller's identity, and `wait` is a parameter of the query.
NOT_IN_REQUEST = frozenset({"self", "request_id", "on_wait", "wait_seconds", "key", "owner_pid"})
#: The types of the wire for names in annotations.
NAMES: dict[str, Any] = {
    **{"Any": Any, "Iterable": list, "Mapping": dict, "Page": list, "Callable": Callable},
    **{name: kind for name, kind in vars(kinds).items() if name[0].isupper()},
    "Instant": Instant,
}
STRICT = ConfigDict(extra="forbid", strict=True)


def with_examples(*values: dict[str, Any]) -> ConfigDict:
    return ConfigDict(json_schema_extra={"examples": list(values)})


class RequestBody(BaseModel):
    model_config = STRICT


class Problem(BaseModel):
    """A refusal. `code` is stable; which `facts` there are depends on it, such as the holder or a time to wait."""

    type: str = Field(examples=["urn:dibs:problem:TASK_ALREADY_CLAIMED"])
    title: str
    status: int
    detail: str = Field(examples=["fix-login is already claimed by coder (session coder-1)"])
    code: str = Field(examples=["TASK_ALREADY_CLAIMED"])
    facts: dict[str, Any]


#: The model of each value of `dibs.model`, by its name. A value follows those that it contains.
VALUES: dict[str, Any] = {}


def _resolve(annotation: str) -> Any:
    """The type that an annotation names, with models in place of values. `get_type_hints` needs a class to read."""
    holder = type("Holder", (), {"__annotations__": {"value": annotation}})
    return get_type_hints(holder, globalns=NAMES, localns=VALUES, include_extras=True)["value"]


def _wire_fields(kind: type[Value]) -> dict[str, Any]:
    return {name: (_resolve(hint), ...) for name, hint in kind._hints.items()}


for _name, _kind in (vars(model) | vars(dashboard) | vars(webhooks)).items():
    if isinstance(_kind, type) and issubclass(_kind, Value) and _kind is not Value:
        VALUES[_name] = create_model(_kind.__name__, __config__=STRICT, **_wire_fields(_kind))


def make_model(name: str, example: dict[str, Any], /, **fields: Any) -> type[BaseModel]:
    """The model of an answer that is not a value of `dibs.model`. A field is a type, or a type and a default."""
    typed = {field: hint if isinstance(hint, tuple) else (hint, ...) for field, hint in fields.items()}
    made: type[BaseModel] = create_model(name, __config__={**STRICT, **with_examples(example)}, **typed)  # type: ignore[call-overload]
    return made


def fields_of(name: str, *, without: str) -> dict[str, Any]:
    """The fields of a value's model except one."""
    return {field: (info.annotation, info) for field, info in VALUES[name].model_fields.items() if field != without}


@cache
def answer_of(verb: str) -> Any:
    hint = _resolve(inspect.signature(getattr(Board, verb)).return_annotation)
    return list[hint.__args__[0]] if getattr(hint, "__origin__", None) is tuple else hint  # type: ignore[name-defined]


def parameters_of(verb: str, *, without: frozenset[str]) -> dict[str, tuple[Any, Any]]:
    """The parameters of a verb that a request supplies, with types and defaults (`...`: required)."""
    if verb == "add":
        return {**_new_item_fields(), "actor": (str | None, None)}
    found: dict[str, tuple[Any, Any]] = {}
    for parameter in inspect.signature(getattr(Board, verb)).parameters.values():
        if parameter.name in NOT_IN_REQUEST | without:
            continue
        if parameter.kind is parameter.VAR_KEYWORD:
            fields = {field: (hint, None) for field, (hint, _) in _new_item_fields().items() if field not in found}
            found |= {field: fields[field] for field in fields if verb != "edit" or field in EDITABLE}
            continue
        default = ... if parameter.default is parameter.empty else parameter.default
        found[parameter.name] = (_resolve(parameter.annotation), [] if default == () else default)
    if verb == "add_many":
        item: Any = create_model("NewItem", __base__=RequestBody, **_new_item_fields())  # type: ignore[call-overload]
        # Only the first error is told: describing all would take longer than a body that is valid.
        found["items"] = (Annotated[list[item], FailFast()], ...)
    return found


@cache
def body_of(verb: str, without: frozenset[str]) -> type[BaseModel] | None:
    """The model of a verb's body; None if the verb has no parameters for one."""
    fields = parameters_of(verb, without=without)
    if not fields:
        return None
    title = "".join(word.capitalize() for word in verb.split("_")) + "Request"
    made: type[BaseModel] = create_model(title, __base__=RequestBody, **fields)  # type: ignore[call-overload]
    return made


def _new_item_fields() -> dict[str, tuple[Any, Any]]:
    """The fields of `NewItem` as a request gives them: an id is optional, and a priority may be a word."""
    found: dict[str, tuple[Any, Any]] = {}
    for name, (hint, _) in _wire_fields(NewItem).items():
        default = NewItem.defaults().get(name, ...)
        is_tuple = getattr(hint, "__origin__", None) is tuple
        found[name] = (
            Annotated[list[str], FailFast()] if is_tuple else hint,
            list(default) if isinstance(default, tuple) else default,
        )
    found["id"] = (str | None, None)
    found["priority"] = (int | str, NewItem._defaults["priority"])
    return found
