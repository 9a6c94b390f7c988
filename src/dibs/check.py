"""Validation of input, once, above every store. An invalid parameter is refused with the name of its field.

These checks do not read the board: the store decides whether an id exists and whether a token is current.
"""

from __future__ import annotations

from _collections_abc import Iterable, Mapping  # `os` has imported it; `collections` costs a millisecond

from dibs.errors import Invalid
from dibs.model import EDITABLE, STATUSES, NewItem, Owner
from dibs.rules.resources import normalize
from dibs.text import json_text, priorities, times

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    T = TypeVar("T")

ID_LENGTH_MAX = NAME_LENGTH_MAX = 128
TITLE_LENGTH_MAX = SUBJECT_LENGTH_MAX = 500
TEXT_BYTES_MAX = JSON_BYTES_MAX = 1_000_000
NOTE_BYTES_MAX = 64_000
JSON_DEPTH_MAX = 100
#: The `meta` of a session; a list may show a thousand sessions.
META_BYTES_MAX = 16_000
#: The most entries of a list that an item or an agent has: labels, types, dependencies, resources.
ENTRIES_MAX = 64
RESOURCE_BYTES_MAX = 1000
RETRIES_MAX = 1000
TIMEOUT_SECONDS_MAX = 365 * 86400.0
TOKEN_MAX = 2**53
#: In milliseconds: the year 5138.
INSTANT_MAX = 10**14
#: The highest counter that is accepted from a file of unknown origin, which leaves room to count on.
COUNT_MAX = TOKEN_MAX // 16
BATCH_MAX = 1000
#: More claims than any session holds, and few enough that other callers do not wait long.
HOLDING_MAX = 10_000
PID_MAX = 2**31 - 1
LIST_MAX = 100_000
#: The largest page of an answer that can be asked for.
ANSWER_BYTES_MAX = 10**9

_LETTERS_AND_DIGITS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789")
#: An id is also a file name in a vault and a word in a shell.
_ID = _LETTERS_AND_DIGITS | frozenset("._-")
_NAME = _ID | frozenset(":/@#+")


def item_id(given: object, field: str = "id") -> str:
    return _word(given, field, _ID, ID_LENGTH_MAX, "letters, digits, '.', '_' and '-'")


def item(given: object) -> str:
    return item_id(given, "item")


def agent_name(given: object, field: str = "agent") -> str:
    """As strict as an id, because it names a folder in a vault."""
    return _word(given, field, _ID, NAME_LENGTH_MAX, "letters, digits, '.', '_' and '-'")


def name(given: object, field: str) -> str:
    return _word(given, field, _NAME, NAME_LENGTH_MAX, "letters, digits and '. _ - : / @ # +'")


def names(given: object, field: str) -> tuple[str, ...]:
    """Names without repetition, in the order given."""
    return () if given == () else _unique(given, field, "a list of names", lambda one: name(one, field))


def text(given: object, field: str, bytes_max: int = TEXT_BYTES_MAX) -> str:
    """Text that every store can keep: no NUL, no lone surrogate, within a size."""
    if not isinstance(given, str):
        raise Invalid(f"{field} must be text", field=field)
    if "\0" in given:
        raise Invalid(f"{field} contains a NUL character", field=field)
    try:
        size = len(given.encode())
    except UnicodeEncodeError as error:
        raise Invalid(f"{field} contains a lone surrogate, which is not a character", field=field) from error
    if size > bytes_max:
        raise Invalid(f"{field} has {size} bytes; {bytes_max} is the most", field=field, bytes_max=bytes_max)
    return given


def optional_text(given: object, field: str, bytes_max: int = NOTE_BYTES_MAX) -> str | None:
    return None if given is None else text(given, field, bytes_max)


def reason(given: object, field: str = "reason") -> str:
    """A reason that must be given, because the history shows it."""
    found = text(given, field, NOTE_BYTES_MAX).strip()
    if not found:
        raise Invalid(f"a {field} is needed", field=field)
    return found


def title(given: object, field: str = "title") -> str:
    found = text(given, field).strip()
    if not found:
        raise Invalid("a title is needed", field=field)
    if "\n" in found or "\r" in found:
        raise Invalid("a title is one line; put the rest into the body", field="title")
    if len(found) > TITLE_LENGTH_MAX:
        raise Invalid(f"the title has {len(found)} characters; {TITLE_LENGTH_MAX} is the most", field="title")
    return found


def subject(given: object, field: str = "subject") -> str | None:
    """The key of what an item is about; an empty one is none."""
    from dibs.text import subject_key

    found = "" if given is None else subject_key.canonical(text(given, field).strip())
    if not found.isprintable() or len(found) > SUBJECT_LENGTH_MAX:
        raise Invalid(f"a subject is one line of up to {SUBJECT_LENGTH_MAX} characters, as a URL", field=field)
    return found or None


def json_object(
    given: object, field: str, bytes_max: int = JSON_BYTES_MAX, depth_max: int = JSON_DEPTH_MAX
) -> dict[str, Any]:
    """A JSON object that every store returns unchanged: no NaN, no NUL, text keys, within a size. It has its text, so
    that no store encodes it while others wait."""
    if not isinstance(given, Mapping):
        raise Invalid(f"{field} must be a JSON object", field=field)
    if not given:
        return {}
    given = given if isinstance(given, dict) else dict(given)
    depth, size_min, has_text_keys = json_text.measure(given, depth_max)
    if depth > depth_max:
        raise Invalid(f"{field} is nested more than {depth_max} deep", field=field)
    if size_min > bytes_max:
        # Refused before it is encoded: encoding long numbers takes seconds, and holds the GIL.
        raise Invalid(f"{field} has over {size_min} bytes; {bytes_max} is the most", field=field, bytes_max=bytes_max)
    if not has_text_keys:
        raise Invalid(f"{field} has a key that is not text, as every key of a JSON object must be", field=field)
    try:
        found = json_text.encoded(given)
        size = len(found.text.encode())
    except (TypeError, ValueError, RecursionError) as error:
        raise Invalid(f"{field} is not plain JSON: {error}", field=field) from error
    if "\\u0000" in found.text and "\0" in json_text.all_text(given):
        raise Invalid(f"{field} contains a NUL character", field=field)
    if size > bytes_max:
        raise Invalid(f"{field} has {size} bytes; {bytes_max} is the most", field=field, bytes_max=bytes_max)
    return found


def optional_object(given: object, field: str, bytes_max: int = JSON_BYTES_MAX) -> dict[str, Any]:
    """A JSON object, empty if the caller gave none."""
    return {} if given is None else json_object(given, field, bytes_max)


def number(given: object, field: str, *, low: float, high: float) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float) or not low <= given <= high:
        shown = times.span if field.endswith("_seconds") else "{:.15g}".format
        raise Invalid(f"{field} must be a number between {shown(low)} and {shown(high)}", field=field)
    return given


def whole(given: object, field: str, *, low: int, high: int) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or not low <= given <= high:
        raise Invalid(f"{field} must be a whole number between {low} and {high}", field=field)
    return given


def optional_whole(given: object, field: str, *, low: int, high: int) -> int | None:
    return None if given is None else whole(given, field, low=low, high=high)


def instant(given: object, field: str) -> int | None:
    """Milliseconds since the epoch, or an ISO 8601 time with its offset."""
    return optional_whole(
        times.parse_exact_instant(given, field) if isinstance(given, str) else given, field, low=0, high=INSTANT_MAX
    )


def dependencies(given: object, field: str = "depends_on") -> tuple[str, ...]:
    return tuple(item_id(one, field) for one in names(given, field))


def resources(given: object, field: str = "resources") -> tuple[str, ...]:
    """Normalised resources, without repetition."""
    return _unique(given, field, "a list", lambda one: _resource(one, field))


def flag(given: object, field: str) -> bool:
    if not isinstance(given, bool):
        raise Invalid(f"{field} must be true or false", field=field)
    return given


def token(given: object, field: str = "token") -> int | None:
    return optional_whole(given, field, low=1, high=TOKEN_MAX)


def finished(given: object) -> dict[str, int]:
    """Items to be ended as done, each with its token, without which a repeated call could end another claim."""
    found = _tokens(given, "done", BATCH_MAX)
    return {item: whole(held, "done", low=1, high=TOKEN_MAX) for item, held in found.items()}


def batch(given: Iterable[T]) -> list[T]:
    """The items of one transaction, for which all other writers wait."""
    if isinstance(given, str | bytes | bytearray | Mapping) or not isinstance(given, Iterable):
        raise Invalid("items must be a list of items", field="items")
    found = list(given)
    if len(found) > BATCH_MAX:
        raise Invalid(f"{len(found)} items at once; {BATCH_MAX} is the most: add them in batches", field="items")
    return found


def holding(given: object, field: str = "holding") -> dict[str, int | None]:
    """The items that a session holds, each with its token, or None if it does not know the token."""
    return {item: token(held, field) for item, held in _tokens(given, field, HOLDING_MAX).items()}


def owner(given: object) -> Owner:
    """An owner process that the caller looked up. The bounds matter, because the numbers go to the kernel later."""
    if not isinstance(given, Owner):
        raise Invalid("owner must be a process with boot_id, pid_namespace, pid and start_time", field="owner")
    text(given.boot_id, "owner", NAME_LENGTH_MAX)
    whole(given.pid_namespace, "owner", low=0, high=TOKEN_MAX)
    whole(given.pid, "owner", low=1, high=PID_MAX)
    whole(given.start_time, "owner", low=0, high=TOKEN_MAX)
    return given


def seconds(given: object, field: str) -> float:
    """A number above zero; the rules check the bounds of a TTL for the kind of the session."""
    return number(given, field, low=0.001, high=1e9)


def ttl_seconds(given: object) -> float | None:
    return None if given is None else seconds(given, "ttl_seconds")


def session_id(given: object) -> str:
    return name(given, "session")


def statuses(given: Iterable[object], field: str = "statuses") -> tuple[str, ...]:
    found = names(given, field)
    for status in found:
        if status not in STATUSES:
            raise Invalid(f"unknown status {status!r}; choose one of {', '.join(STATUSES)}", field=field)
    return found


def limit(given: object) -> int:
    return whole(given, "limit", low=1, high=LIST_MAX)


def bytes_max(given: object) -> int | None:
    return optional_whole(given, "bytes_max", low=1, high=ANSWER_BYTES_MAX)


def run(given: object, field: str) -> tuple[str, int]:
    """A run by its item and token, as `item:token`."""
    item, _, number = text(given, field).rpartition(":")
    if not (number.isascii() and number.isdigit() and len(number) <= len(str(TOKEN_MAX))):
        raise Invalid(f"{field} must be a run, such as fix-login:3", field=field)
    return item_id(item, field), whole(int(number), field, low=1, high=TOKEN_MAX)


def new_item(given: Mapping[str, object]) -> NewItem:
    """A new item from the given fields; without an id, its id is empty, and the store chooses one."""
    if not isinstance(given, Mapping):
        raise Invalid("an item must be an object with a title", field="items")
    for field in given:
        if not isinstance(field, str):
            raise Invalid(f"an item has no field {field!r:.60}", field="items")
        if field not in NewItem._names:
            raise Invalid(f"an item has no field {field!r}", field=field)
    found: dict[str, Any] = {"title": "", **given}
    found_id = item_id(found["id"]) if found.get("id") is not None else ""
    found |= {field: content(value, field) for field, value in found.items() if field != "id"}
    return NewItem(**{**found, "id": found_id})


def edits(given: Mapping[str, object]) -> dict[str, Any]:
    """The changes of an edit, with each field checked."""
    if not given:
        raise Invalid("nothing to change; give at least one field", field="changes")
    for field in given:
        if field not in EDITABLE:
            raise Invalid(f"{field!r} cannot be edited; {', '.join(EDITABLE)} can", field=field)
    return {field: content(value, field) for field, value in given.items()}


def content(given: object, field: str) -> Any:
    """A field of an item as a caller gives it."""
    return _checked(given, field, NewItem._hints[field])


def parameter(given: object, field: str) -> Any:
    """A parameter of a verb; one without a kind is left to the verb."""
    return _checked(given, field, _PARAMETERS[field]) if field in _PARAMETERS else given


def _checked(given: object, field: str, hint: str) -> Any:
    kind = hint.removesuffix(" | None")
    if given is None and kind != hint:
        return None
    if field in _BOUNDS:
        low, high = _BOUNDS[field]
        return (number if kind == "Seconds" else whole)(given, field, low=low, high=high)
    return KINDS[kind](given, field)


def _unique(given: object, field: str, wanted: str, checked: Callable[[object], str]) -> tuple[str, ...]:
    if isinstance(given, str | bytes | bytearray | Mapping) or not isinstance(given, Iterable):
        raise Invalid(f"{field} must be {wanted}", field=field)
    found = tuple(dict.fromkeys(checked(one) for one in given))
    if len(found) > ENTRIES_MAX:
        raise Invalid(f"{field} has {len(found)} entries; {ENTRIES_MAX} is the most", field=field)
    return found


def _tokens(given: object, field: str, items_max: int) -> dict[str, object]:
    if not isinstance(given, Mapping):
        raise Invalid(f"{field} must map items to their tokens", field=field)
    if len(given) > items_max:
        raise Invalid(f"{field} has {len(given)} items; {items_max} is the most", field=field)
    return {item_id(item, field): held for item, held in given.items()}


def _resource(given: object, field: str) -> str:
    one = text(given, field, RESOURCE_BYTES_MAX).strip()
    if not one or not one.isprintable():
        raise Invalid("a resource is a path or a key such as port:8080, on one line", field=field)
    return normalize(one)


def _word(given: object, field: str, allowed: frozenset[str], length_max: int, alphabet: str) -> str:
    if given is None or given == "":
        raise Invalid(f"{field} is needed", field=field)
    if not isinstance(given, str):
        raise Invalid(f"{field} must be text, not {given!r:.60}", field=field)
    if len(given) > length_max:
        raise Invalid(f"{field} has {len(given)} characters; {length_max} is the most", field=field)
    if not allowed.issuperset(given) or given[0] not in _LETTERS_AND_DIGITS:
        raise Invalid(
            f"{field} {given[:60]!r} must consist of {alphabet}, and start with a letter or digit", field=field
        )
    return given


#: The most items that one `next` gives.
NEXT_MAX = 1000
#: How a field or a parameter is checked, by its kind. The last four are kinds of parameters only.
KINDS: dict[str, Callable[[Any, str], Any]] = {
    "ItemId": item_id,
    "AgentName": agent_name,
    "Name": name,
    "NameOrEmpty": lambda given, field: "" if given == "" else name(given, field),
    "Title": title,
    "Subject": subject,
    "NoteText": lambda given, field: text(given, field, NOTE_BYTES_MAX),
    "Text": text,
    "Flag": flag,
    "Instant": instant,
    "Token": token,
    "Count": lambda given, field: whole(given, field, low=0, high=COUNT_MAX),
    "Priority": lambda given, _: priorities.parse(given),
    "Seconds": seconds,
    "Names": names,
    "ItemIds": dependencies,
    "Resources": resources,
    "Json": json_object,
    "Holding": holding,
    "Object": optional_object,
    "Prefix": lambda given, field: given if given == "" else item_id(given, field),
    "Statuses": statuses,
}
#: The bounds of numbers that have others than their kind.
_BOUNDS: dict[str, tuple[Any, Any]] = {
    "retries": (0, RETRIES_MAX),
    "timeout_seconds": (1, TIMEOUT_SECONDS_MAX),
    "n": (1, NEXT_MAX),
    "limit": (1, LIST_MAX),
    "bytes_max": (1, ANSWER_BYTES_MAX),
    "known_event": (0, TOKEN_MAX),
}
#: The kinds of the parameters of verbs. For one with `| None`, None means that the caller gave none.
_PARAMETERS = {
    **{"item": "ItemId | None", "session": "Name | None", "agent": "AgentName | None"},
    **dict.fromkeys(("token", "revision"), "Token | None"),
    **dict.fromkeys(("ttl_seconds", "at_most_every_seconds"), "Seconds | None"),
    **dict.fromkeys(("reason", "comment", "note"), "NoteText | None"),
    **dict.fromkeys(("projects", "types", "labels"), "Names"),
    **dict.fromkeys(("ended", "newest", "park", "relabel"), "Flag"),
    **{"n": "Count", "limit": "Count", "bytes_max": "Count | None", "known_event": "Count | None"},
    **dict.fromkeys(("links", "cost", "meta"), "Object"),
    **{"subject": "Subject | None", "statuses": "Statuses", "prefix": "Prefix", "holding": "Holding | None"},
}
