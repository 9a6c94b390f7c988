"""Input, checked once, above every store: what comes out of here is valid, and what cannot be is refused by field.

Nothing here knows a board: whether an id exists or a token is live is the store's to say.
"""

from __future__ import annotations

import os
from _collections_abc import Iterable, Mapping  # what `os` has imported already; `collections` takes a millisecond

from dibs import priority, when
from dibs.errors import Invalid
from dibs.model import DEFAULT_TYPE, EDITABLE, STATUSES, NewItem, Owner
from dibs.rules.resources import normal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    T = TypeVar("T")

ID_LENGTH_MAX = 128
NAME_LENGTH_MAX = 128
TITLE_LENGTH_MAX = 500
TEXT_BYTES_MAX = 1_000_000
NOTE_BYTES_MAX = 64_000
JSON_BYTES_MAX = 1_000_000
JSON_DEPTH_MAX = 100
#: Of a session: a list shows it of a thousand of them at once.
META_BYTES_MAX = 16_000
LABELS_MAX = 64
RESOURCE_BYTES_MAX = 1000
RETRIES_MAX = 1000
TIMEOUT_SECONDS_MAX = 365 * 86400.0
TOKEN_MAX = 2**53
#: The highest count that is believed of a file somebody else may have written: there is room to count on from it.
COUNT_MAX = TOKEN_MAX // 16
BATCH_MAX = 1000
#: Beyond what any session holds, and answered before anybody else has waited long.
HOLDING_MAX = 10_000
#: The kernel's own: a larger one is no pid that it could be asked about.
PID_MAX = 2**31 - 1
LIST_MAX = 100_000
#: How much a page of an answer can be asked to hold.
ANSWER_BYTES_MAX = 10**9

#: An id is also a file name in a vault and a word in a shell.
_LETTERS_AND_DIGITS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789")
#: 32 characters of ids, without those that are mistaken for one another.
_TAIL = "abcdefghjkmnpqrstuvwxyz023456789"
_ID = _LETTERS_AND_DIGITS | frozenset("._-")
_NAME = _ID | frozenset(":/@#+")


def item_id(given: object, field: str = "id") -> str:
    return _word(given, field, _ID, ID_LENGTH_MAX, "letters, digits, '.', '_' and '-'")


def agent_name(given: object) -> str:
    """An agent's name follows the rule of ids: it names a folder in a vault."""
    return _word(given, "agent", _ID, NAME_LENGTH_MAX, "letters, digits, '.', '_' and '-'")


def name(given: object, field: str) -> str:
    return _word(given, field, _NAME, NAME_LENGTH_MAX, "letters, digits and '. _ - : / @ # +'")


def names(given: object, field: str) -> tuple[str, ...]:
    """Names without repetition, in the order given."""
    if isinstance(given, str | dict) or not isinstance(given, Iterable):
        raise Invalid(f"{field} must be a list of names", field=field)
    found = tuple(dict.fromkeys(name(one, field) for one in given))
    if len(found) > LABELS_MAX:
        raise Invalid(f"{field} has {len(found)} entries; {LABELS_MAX} is the most", field=field)
    return found


def text(given: object, field: str, bytes_max: int = TEXT_BYTES_MAX) -> str:
    """Any text that every store can keep: no NUL, no lone surrogates, within a size."""
    if not isinstance(given, str):
        raise Invalid(f"{field} must be text", field=field)
    if "\0" in given:
        raise Invalid(f"{field} contains a NUL character", field=field)
    try:
        size = len(given.encode())
    except UnicodeEncodeError as error:
        raise Invalid(f"{field} contains a lone surrogate, which is no character", field=field) from error
    if size > bytes_max:
        raise Invalid(f"{field} has {size} bytes; {bytes_max} is the most", field=field, bytes_max=bytes_max)
    return given


def optional_text(given: object, field: str, bytes_max: int = NOTE_BYTES_MAX) -> str | None:
    return None if given is None else text(given, field, bytes_max)


def reason(given: object, field: str = "reason") -> str:
    """A reason that has to be given: whoever reads the history wants to know."""
    found = text(given, field, NOTE_BYTES_MAX).strip()
    if not found:
        raise Invalid(f"a {field} is needed", field=field)
    return found


def title(given: object) -> str:
    found = text(given, "title").strip()
    if not found:
        raise Invalid("a title is needed", field="title")
    if "\n" in found or "\r" in found:
        raise Invalid("a title is one line; the rest belongs into the body", field="title")
    if len(found) > TITLE_LENGTH_MAX:
        raise Invalid(f"the title has {len(found)} characters; {TITLE_LENGTH_MAX} is the most", field="title")
    return found


def json_object(
    given: object, field: str, bytes_max: int = JSON_BYTES_MAX, depth_max: int = JSON_DEPTH_MAX
) -> dict[str, Any]:
    """A JSON object that comes back as it went in: no NaN, no NUL, text keys, within a size."""
    if not isinstance(given, dict):
        raise Invalid(f"{field} must be a JSON object", field=field)
    if not given:
        return {}
    depth, least = _measured(given, depth_max)
    if depth > depth_max:
        raise Invalid(f"{field} is nested more than {depth_max} deep", field=field)
    if least > bytes_max:
        # Told before it is put into text: for long numbers that takes seconds, in which no other thread runs.
        raise Invalid(f"{field} has over {least} bytes; {bytes_max} is the most", field=field, bytes_max=bytes_max)
    import json

    try:
        encoded = json.dumps(given, ensure_ascii=False, allow_nan=False)
        size = len(encoded.encode())
    except (TypeError, ValueError, RecursionError) as error:
        raise Invalid(f"{field} is not plain JSON: {error}", field=field) from error
    if "\\u0000" in encoded and "\0" in _all_text(given):
        raise Invalid(f"{field} contains a NUL character", field=field)
    if size > bytes_max:
        raise Invalid(f"{field} has {size} bytes; {bytes_max} is the most", field=field, bytes_max=bytes_max)
    found = json.loads(encoded)
    assert isinstance(found, dict)
    return found


def checks(given: object, bytes_max: int = NOTE_BYTES_MAX) -> dict[str, Any]:
    """Checks by their names, each with its `state` and, if there is one, its `url`; a state alone will do."""
    found = json_object(given, "checks", bytes_max)
    return {_line(one, NAME_LENGTH_MAX): _check(one, value) for one, value in found.items()}


def _check(check: str, given: object) -> dict[str, str]:
    told = {"state": given} if isinstance(given, str) else given
    if not isinstance(told, dict) or not {"state"} <= told.keys() <= {"state", "url"}:
        raise Invalid(f"the check {check[:60]!r} is a state, or has a state and perhaps a url", field="checks")
    return {name: _line(value, TITLE_LENGTH_MAX if name == "url" else NAME_LENGTH_MAX) for name, value in told.items()}


def _line(given: object, length_max: int) -> str:
    if not isinstance(given, str) or not given or not given.isprintable() or len(given) > length_max:
        raise Invalid(
            f"names, states and addresses of checks are one line each, of 1 to {length_max} characters", field="checks"
        )
    return given


def number(given: object, field: str, *, low: float, high: float) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float) or not low <= given <= high:
        raise Invalid(f"{field} must be a number between {low:g} and {high:g}", field=field)
    return given


def whole(given: object, field: str, *, low: int, high: int) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or not low <= given <= high:
        raise Invalid(f"{field} must be a whole number between {low} and {high}", field=field)
    return given


def optional_whole(given: object, field: str, *, low: int, high: int) -> int | None:
    return None if given is None else whole(given, field, low=low, high=high)


def instant(given: object, field: str) -> int | None:
    """Milliseconds since the epoch, or an ISO 8601 time."""
    return optional_whole(
        when.parse_instant(given, field) if isinstance(given, str) else given, field, low=0, high=10**14
    )


def dependencies(given: object) -> tuple[str, ...]:
    return tuple(item_id(one, "depends_on") for one in names(given, "depends_on"))


def resources(given: object) -> tuple[str, ...]:
    """Resources in their one spelling, each once."""
    if isinstance(given, str | dict) or not isinstance(given, Iterable):
        raise Invalid("resources must be a list", field="resources")
    found = tuple(dict.fromkeys(_resource(one) for one in given))
    if len(found) > LABELS_MAX:
        raise Invalid(f"resources has {len(found)} entries; {LABELS_MAX} is the most", field="resources")
    return found


def flag(given: object, field: str) -> bool:
    if not isinstance(given, bool):
        raise Invalid(f"{field} must be true or false", field=field)
    return given


def token(given: object) -> int | None:
    return None if given is None else whole(given, "token", low=1, high=TOKEN_MAX)


def revision(given: object) -> int | None:
    return None if given is None else whole(given, "revision", low=1, high=TOKEN_MAX)


def finished(given: object) -> dict[str, int]:
    """Items to be ended as done, each with its token: what is not named by it could be ended twice."""
    if not isinstance(given, Mapping):
        raise Invalid("done must map items to their tokens", field="done")
    if len(given) > BATCH_MAX:
        raise Invalid(f"done has {len(given)} items; {BATCH_MAX} is the most", field="done")
    return {item_id(item, "done"): whole(held, "token", low=1, high=TOKEN_MAX) for item, held in given.items()}


def batch(given: Iterable[T]) -> list[T]:
    """What is added in one step, for which everybody else has to wait."""
    found = list(given)
    if len(found) > BATCH_MAX:
        raise Invalid(f"{len(found)} items at once; {BATCH_MAX} is the most: add them in batches", field="items")
    return found


def holding(given: object) -> dict[str, int | None]:
    """Items that a session says it holds, each with its token, if it knows that."""
    if not isinstance(given, Mapping):
        raise Invalid("holding must map items to their tokens", field="holding")
    if len(given) > HOLDING_MAX:
        raise Invalid(f"holding has {len(given)} items; {HOLDING_MAX} is the most", field="holding")
    return {item_id(item, "holding"): token(held) for item, held in given.items()}


def owner(given: object) -> Owner:
    """A process that somebody else looked up. Whoever judges it later asks the kernel about these numbers."""
    if not isinstance(given, Owner):
        raise Invalid("owner is a process, with its boot_id, pid_namespace, pid and start_time", field="owner")
    text(given.boot_id, "owner", NAME_LENGTH_MAX)
    whole(given.pid_namespace, "owner", low=0, high=TOKEN_MAX)
    whole(given.pid, "owner", low=1, high=PID_MAX)
    whole(given.start_time, "owner", low=0, high=TOKEN_MAX)
    return given


def ttl_seconds(given: object) -> float | None:
    """A number above zero; the bounds that hold for the session's kind are the rules' to check."""
    return None if given is None else number(given, "ttl_seconds", low=0.001, high=1e9)


def interval_seconds(given: object) -> float | None:
    return None if given is None else number(given, "at_most_every_seconds", low=0.001, high=1e9)


def session_id(given: object) -> str:
    return name(given, "session")


def statuses(given: Iterable[object]) -> tuple[str, ...]:
    found = names(given, "statuses")
    for status in found:
        if status not in STATUSES:
            raise Invalid(f"{status!r} is no status; {', '.join(STATUSES)} are", field="statuses")
    return found


def limit(given: object) -> int:
    return whole(given, "limit", low=1, high=LIST_MAX)


def bytes_max(given: object) -> int | None:
    return optional_whole(given, "bytes_max", low=1, high=ANSWER_BYTES_MAX)


def run(given: object, field: str) -> tuple[str, int]:
    """A run by its item and token, as `item:token`."""
    item, _, number = text(given, field).rpartition(":")
    if not (number.isascii() and number.isdigit() and len(number) <= len(str(TOKEN_MAX))):
        raise Invalid(f"{field} is a run, as in fix-login:3", field=field)
    return item_id(item, field), whole(int(number), field, low=1, high=TOKEN_MAX)


def new_item(given: Mapping[str, object], tail: str | None = None) -> NewItem:
    """An item to be added, from the fields a caller gave; without an id it gets one made from its title."""
    unknown = set(given) - set(NewItem._fields)
    if unknown:
        raise Invalid(f"an item has no field {sorted(unknown)[0]!r}", field=sorted(unknown)[0])
    found_title = title(given.get("title", ""))
    found_type = name(given.get("type", DEFAULT_TYPE), "type")
    found_id = given.get("id")
    content: dict[str, Any] = {field: _CONTENT[field](value) for field, value in given.items() if field in _CONTENT}
    found_id = made_id(found_title, tail) if found_id is None else item_id(found_id)
    return NewItem(**{**content, "id": found_id, "title": found_title, "type": found_type})


def edits(given: Mapping[str, object]) -> dict[str, Any]:
    """Changes to an item, each field valid by itself."""
    if not given:
        raise Invalid("there is nothing to change; name at least one field", field="changes")
    for field in given:
        if field not in EDITABLE:
            raise Invalid(f"{field!r} cannot be edited; {', '.join(EDITABLE)} can", field=field)
    return {field: _CONTENT[field](value) for field, value in given.items()}


def made_id(from_title: str, tail: str | None = None) -> str:
    """A readable id that nobody else will have: the title's words and a tail, of 40 random bits if none is given. With
    24 bits, one in fifteen boards with 1,500 items of one title had an id twice, and an item equal to the first one
    under an id that exists is not added."""
    lower = "".join(char if char in _LETTERS_AND_DIGITS else " " for char in from_title.lower())
    words = "-".join(lower.split())[:40].rstrip("-")
    return f"{words or 'item'}-{tail or ''.join(_TAIL[byte % 32] for byte in os.urandom(8))}"


def _measured(value: object, depth_max: int) -> tuple[int, int]:
    """How deep the data are nested, counted no further than matters, and how long their texts and whole numbers are at
    least."""
    level, depth, least = [value], 0, 0
    while level and depth <= depth_max:
        for one in level:
            if isinstance(one, str):
                least += len(one)
            elif isinstance(one, int):
                least += one.bit_length() * 3 // 10
        level = [
            inner
            for outer in level
            for inner in (
                outer.values() if isinstance(outer, dict) else outer if isinstance(outer, list | tuple) else ()
            )
        ]
        depth += 1
    return depth, least


def _all_text(value: object) -> str:
    if isinstance(value, dict):
        return "".join(key + _all_text(inner) for key, inner in value.items())
    if isinstance(value, list | tuple):
        return "".join(map(_all_text, value))
    return value if isinstance(value, str) else ""


def _resource(given: object) -> str:
    one = text(given, "resources", RESOURCE_BYTES_MAX).strip()
    if not one or not one.isprintable():
        raise Invalid("a resource is a path or a key such as port:8080, on one line", field="resources")
    return normal(one)


def _word(given: object, field: str, signs: frozenset[str], length_max: int, alphabet: str) -> str:
    if given is None or given == "":
        raise Invalid(f"{field} is needed", field=field)
    if not isinstance(given, str):
        raise Invalid(f"{field} must be text, not {given!r:.60}", field=field)
    if len(given) > length_max:
        raise Invalid(f"{field} has {len(given)} characters; {length_max} is the most", field=field)
    if not signs.issuperset(given) or given[0] not in _LETTERS_AND_DIGITS:
        raise Invalid(f"{field} {given[:60]!r} may hold {alphabet}, and starts with a letter or digit", field=field)
    return given


_CONTENT: dict[str, Callable[[Any], Any]] = {
    "title": title,
    "body": lambda given: text(given, "body"),
    "payload": lambda given: json_object(given, "payload"),
    "labels": lambda given: names(given, "labels"),
    "priority": priority.parse,
    "phase": lambda given: None if given is None else name(given, "phase"),
    "project": lambda given: name(given, "project"),
    "type": lambda given: name(given, "type"),
    "action": lambda given: name(given, "action") if given else "",
    "depends_on": dependencies,
    "resources": resources,
    "not_before": lambda given: instant(given, "not_before"),
    "retries": lambda given: whole(given, "retries", low=0, high=RETRIES_MAX),
    "needs_approval": lambda given: flag(given, "needs_approval"),
    "timeout_seconds": lambda given: number(given, "timeout_seconds", low=1, high=TIMEOUT_SECONDS_MAX),
}
