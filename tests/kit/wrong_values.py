"""Values of wrong types for every parameter of every verb, and a sound call of each verb to put them into.

The verbs are those of the table, their parameters those of the board's signatures; an annotation decides which values
are wrong.
"""

from __future__ import annotations

import inspect
from types import MappingProxyType
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from dibs.board import Board
from dibs.model import EDITABLE, NewItem
from dibs.testing import sizes
from dibs.verbs import VERBS
from tests.kit.values import KINDS

DEEPER_THAN_ALLOWED = 150


class Foreign:
    """An object of a caller, of no type that a verb takes."""

    def __repr__(self) -> str:
        return "Foreign()"


def nested(depth: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for _ in range(depth):
        found = {"inner": found}
    return found


NONE = st.none()
FLAGS = st.booleans()
WHOLE = st.integers(-5, 5) | st.sampled_from([2**63, -(2**70), 10**400])
BROKEN = st.sampled_from([float("nan"), float("inf"), float("-inf")])
FRACTIONS = BROKEN | st.floats(0.5, 9.5)
BYTES = st.sampled_from([b"", b"x", bytearray(b"x")])
OBJECTS = st.builds(Foreign) | st.sampled_from([Foreign, range(2), Ellipsis])
#: Text that no store keeps, and that is no word of any vocabulary.
NO_TEXT = st.sampled_from(["\ud800", "a\0b", "\udfff x"])
LISTS = st.sampled_from([[], ["x"], ["pr", "ci"], [5], [None], [["a", 1]], (), ("pr",)])
SETS = st.sampled_from([set(), {"x"}, frozenset({"ab", "cd"})])
MAPPINGS = st.sampled_from([{}, {"a": 1}, {"x": None}, MappingProxyType({"a": 1})])
NO_JSON = st.sampled_from(
    [
        {1: 2},
        {None: 1},
        {("a",): 1},
        {"a": float("nan")},
        {"a": {"b": [float("inf")]}},
        {"a": Foreign()},
        {"a": b"x"},
        {"a": {1}},
        {"a": {2: 3}},
        {"a": "\ud800"},
        {"a\0": 1},
        {1: "\0"},
        nested(DEEPER_THAN_ALLOWED),
    ]
)
NO_WORDS = st.sampled_from([[5], [None], [["a"]], [b"x"], [Foreign()], ["\ud800"], ["a\0"], [True], [{}], [1.5]])
NO_ITEMS = st.sampled_from([[5], [None], ["x"], [["title", "x"]], [b"x"], [Foreign()], [{1: 2}]])
NO_TOKENS = st.sampled_from(
    [{1: 1}, {None: 1}, {"held": "1"}, {"held": True}, {"held": 1.0}, {"held": [1]}, {"held": 2**70}, {"\ud800": 1}]
)
ALWAYS_WRONG = BYTES | OBJECTS

#: The values that are wrong for an annotation; those of `... | None` are the same without None.
WRONG: dict[str, st.SearchStrategy[Any]] = {
    "str": NONE | FLAGS | WHOLE | FRACTIONS | LISTS | SETS | MAPPINGS | NO_TEXT | ALWAYS_WRONG,
    "int": NONE | FLAGS | FRACTIONS | LISTS | SETS | MAPPINGS | NO_TEXT | ALWAYS_WRONG | st.just("5") | st.just(2**70),
    "float": NONE | FLAGS | BROKEN | LISTS | SETS | MAPPINGS | NO_TEXT | ALWAYS_WRONG | st.just("5") | st.just(10**400),
    "bool": NONE | WHOLE | FRACTIONS | LISTS | SETS | MAPPINGS | NO_TEXT | ALWAYS_WRONG | st.just("true"),
    "Iterable[str]": NONE | FLAGS | WHOLE | FRACTIONS | MAPPINGS | NO_TEXT | ALWAYS_WRONG | NO_WORDS | st.just("word"),
    "Iterable[Mapping[str, Any]]": (
        NONE | FLAGS | WHOLE | FRACTIONS | MAPPINGS | NO_TEXT | ALWAYS_WRONG | NO_ITEMS | st.just("word")
    ),
    "Mapping[str, Any]": NONE | FLAGS | WHOLE | FRACTIONS | LISTS | SETS | NO_TEXT | ALWAYS_WRONG | NO_JSON,
    "Mapping[str, int]": NONE | FLAGS | WHOLE | FRACTIONS | LISTS | SETS | NO_TEXT | ALWAYS_WRONG | NO_TOKENS,
    "Owner": NONE | FLAGS | WHOLE | FRACTIONS | LISTS | SETS | MAPPINGS | NO_TEXT | ALWAYS_WRONG,
    "Callable[[Waiting], None]": NONE | FLAGS | WHOLE | FRACTIONS | LISTS | SETS | MAPPINGS | NO_TEXT | BYTES,
    # A priority has names too, an instant may be ISO 8601, and so may both ends of a stretch.
    "int | str": NONE | FLAGS | FRACTIONS | LISTS | SETS | MAPPINGS | NO_TEXT | ALWAYS_WRONG | st.just("soon"),
}
WRONG["Mapping[str, int | None]"] = WRONG["Mapping[str, int]"]
WRONG["tuple[str, ...]"] = WRONG["Sequence[str]"] = WRONG["Iterable[str]"]
WRONG["dict[str, Any]"] = WRONG["Mapping[str, Any]"]
_TYPES: dict[Any, str] = {
    **{str: "str", int: "int", float: "float", bool: "bool"},
    **{tuple[str, ...]: "tuple[str, ...]", dict[str, Any]: "dict[str, Any]"},
}
WRONG |= {kind: WRONG[_TYPES[found]] for kind, found in KINDS.items() if found in _TYPES}
WRONG["Priority"] = WRONG["Instant"] = WRONG["int | str"]


def wrong_for(annotation: str) -> st.SearchStrategy[Any]:
    if annotation.endswith(" | None"):
        return WRONG[annotation.removesuffix(" | None")].filter(lambda value: value is not None)
    return WRONG[annotation]


#: A sound call of each verb that has parameters, on the board that `prepared` makes.
CALLS: dict[str, dict[str, Any]] = {
    "add": {"title": "new"},
    "bulk": {"verb": "park", "items": [{"id": "ready"}]},
    "add_many": {"items": [{"title": "new"}]},
    "list": {},
    "page": {},
    "ids": {"prefix": "he"},
    "get": {"item": "held"},
    "edit": {"item": "held", "session": "me", "token": 1, "title": "other"},
    "park": {"item": "ready"},
    "unpark": {"item": "parked"},
    "reopen": {"item": "ended"},
    "cancel": {"item": "ready"},
    "retry": {"item": "failed"},
    "approve": {"item": "drafted"},
    "send_back": {"item": "drafted", "comment": "shorter"},
    "reject": {"item": "held", "session": "me", "token": 1, "reason": "no"},
    "annotate": {"item": "ended", "links": {"pr": 1}},
    "force_release": {"item": "held", "reason": "stuck"},
    "set_agent": {"name": "ann"},
    "start_session": {"agent": "ann"},
    "sessions": {},
    "end_session": {"session": "me"},
    "find_session": {"session": "me"},
    "add_webhook": {"url": "https://example.org/hook", "kinds": ["done"]},
    "change_webhook": {"webhook": "hook", "enabled": False},
    "remove_webhook": {"webhook": "hook"},
    "send_webhook": {"webhook": "hook"},
    "dead_letters": {"webhook": "hook"},
    "claim": {"item": "ready", "session": "me"},
    "claim_subject": {"subject": "https://example.org/1", "session": "me"},
    "hand": {"item": "held", "to": "other", "session": "me"},
    "recover": {"item": "held", "session": "me", "token": 1},
    "next": {"session": "me"},
    "preview": {},
    "heartbeat": {"session": "me", "holding": {"held": 1}},
    "renew": {"item": "held", "session": "me"},
    "progress": {"item": "held", "note": "half", "session": "me"},
    "release": {"item": "held", "session": "me"},
    "done": {"item": "held", "session": "me"},
    "done_many": {"holding": {"held": 1}, "session": "me"},
    "fail": {"item": "held", "session": "me"},
    "submit": {"item": "held", "session": "me", "draft": "Dear customer"},
    "sweep": {},
    "wait": {"item": "held", "session": "other"},
    "leave": {"item": "queued", "session": "other"},
    "ticket": {"item": "queued", "session": "other"},
    "soft_claim": {"item": "ready", "session": "me"},
    "soft_release": {"item": "soft", "session": "me"},
    "why": {"item": "held"},
    "events": {},
    "log": {"item": "held"},
    "runs": {},
    "window": {},
    "series": {},
    "activity": {},
    "stats": {},
}


def prepared(board: Board) -> None:
    for id in ("held", "queued", "ready", "parked", "ended", "failed", "soft"):
        board.add(id, id=id)
    board.add("drafted", id="drafted", needs_approval=True)
    for session in ("me", "other"):
        board.start_session("ann", id=session)
    for id in ("held", "queued", "ended", "failed"):
        board.claim(id, session="me")
    board.park("parked")
    board.done("ended", session="me")
    board.fail("failed", session="me")
    board.wait("queued", session="other")
    board.soft_claim("soft", session="me")
    board.add_webhook("http://127.0.0.1:9/", kinds=["done"], id="hook", allow_private=True)


def parameters_of(verb: str, kind: type = Board) -> dict[str, str]:
    """The annotation of each parameter of a verb, with those of `**fields` and `**changes`."""
    found: dict[str, str] = {}
    for parameter in list(inspect.signature(getattr(kind, verb)).parameters.values())[1:]:
        if parameter.kind is not parameter.VAR_KEYWORD:
            found[parameter.name] = str(parameter.annotation)
            continue
        names = EDITABLE if verb == "edit" else NewItem._fields
        hints = NewItem._hints | {"id": "ItemId | None"}  # a board makes one
        found |= {name: hints[name] for name in names if name not in found}
    return found


#: Parameters that exclude one of the sound call.
INSTEAD: dict[tuple[str, str], dict[str, Any]] = {
    ("bulk", "filter"): {"verb": "park"},
    ("bulk", "expect"): {"verb": "park", "filter": {"type": ["task"]}},
}
PARAMETERS = [(verb.name, name, hint) for verb in VERBS for name, hint in parameters_of(verb.name).items()]


def everything(board: Board) -> dict[str, Any]:
    """What a verb could have changed."""
    return {"records": list(board.export()), "webhooks": board.webhooks(), "activity": board.activity()}


#: The same examples each time, as many as a commit can afford; in a soak others, and more.
EXAMPLES = settings(
    max_examples=sizes.times(12),
    phases=[Phase.generate],
    derandomize=sizes.FACTOR == 1,
    suppress_health_check=list(HealthCheck),
    database=None,
)
