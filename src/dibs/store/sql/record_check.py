"""The checks of a restore, for a board in use: `dibs doctor` names what no backup could bring back.

The checks are those of `records`. A board has millions of records whose names, statuses and content repeat, so what was
checked before is not checked again.
"""

from __future__ import annotations

from operator import itemgetter

from dibs import check
from dibs.model import Claim, Event, Item, NewItem, Run, SoftClaim, Ticket
from dibs.store.sql import archive, records
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from dibs.store.sql.transaction import Transaction

#: So many combinations of texts, and so many contents of items, are known as checked.
KNOWN_MAX = 16
#: An object that is shown with so many characters may be known as small.
SMALL_MAX = 4000
#: The kinds of record that belong to no item or may be over. The histories of items have the others.
OTHER = ("board", "agent", "session", "ticket", "activity", "dependency", "bucket", "request")
#: The kinds of text that repeat from record to record.
REPEATED = ("Name", "AgentName", "Status", "Actor")
_OBJECTS = (check.json_object, records.check_data)
#: The content of an item but for what is its own.
_shared = itemgetter(*(name for name in NewItem._fields if name not in ("id", "title", "body", "payload")))


class Fields:
    """The fields of a kind of value, by how they are checked the fastest. None of these ways passes what a rule would
    refuse."""

    def __init__(self, kind: type[Value]) -> None:
        rules = records.checks_of(kind)
        texts = [name for name in rules if kind._kinds[name] in REPEATED]
        wholes = [name for name in rules if kind._hints[name] in records.WHOLE]
        #: Each twice, so that there is a tuple of fewer than two as well.
        self.texts, self.wholes = itemgetter(*texts, *texts[:2]), itemgetter(*wholes, *wholes[:2])
        self.rules = [(name, rule) for name, rule in rules.items() if name not in texts and name not in wholes]
        self.all = rules.items()
        #: The repeated texts of values that were checked.
        self.known: set[tuple[Any, ...]] = set()


class RecordCheck:
    def __init__(self) -> None:
        self._fields: dict[type[Value], Fields] = {
            kind: Fields(kind) for kind in (Item, Claim, SoftClaim, Ticket, Run, Event)
        }
        self._contents: set[tuple[Any, ...]] = set()

    def why_invalid(self, value: Value) -> str | None:
        try:
            self._check(value)
        except archive.RECORD_ERRORS as error:
            return str(error)
        return None

    def _check(self, value: Value) -> None:
        held, fields = value.__dict__, self._fields[type(value)]
        texts, wholes = fields.texts(held), fields.wholes(held)
        if texts in fields.known and min(wholes) >= 0 and max(wholes) <= records.INSTANT_MAX:
            for name, rule in fields.rules:
                given = held[name]
                if type(given) is dict and (not given or (rule in _OBJECTS and _is_small(given))):
                    continue
                rule(given, name)
        else:
            for name, rule in fields.all:
                rule(held[name], name)
            _remember(fields.known, texts)
        if isinstance(value, Item):
            self._check_content(value)

    def _check_content(self, item: Item) -> None:
        held = item.__dict__
        shared = _shared(held)
        if held["payload"] == {} and shared in self._contents:
            check.item_id(item.id)
            check.title(item.title)
            check.text(item.body, "body")
        else:
            records.check_content(item)
            if held["payload"] == {}:
                _remember(self._contents, shared)


def invalid_others(t: Transaction) -> Iterator[tuple[str, str]]:
    """The kind of each invalid record that no item has, and what is wrong with it; then a reference to no row."""
    for kind, data in archive.export(t, OTHER):
        try:
            archive.check_record(kind, data)
        except archive.RECORD_ERRORS as error:
            yield kind, str(error)
    what = archive.dangling(t)
    if what is not None:
        yield "reference", what


def _remember(known: set[Any], value: Any) -> None:
    if len(known) >= KNOWN_MAX:
        known.clear()
    known.add(value)


def _is_small(given: dict[str, Any]) -> bool:
    """Whether a parsed JSON object is certainly within all limits. Most are, and to show one costs a fifth of a check:
    it has no escaped character, no number that is none, and not enough brackets to be deep."""
    shown = repr(given)
    return (
        len(shown) <= SMALL_MAX
        and "\\" not in shown
        and "nan" not in shown
        and "inf" not in shown
        and shown.count("{") + shown.count("[") <= check.JSON_DEPTH_MAX
    )
