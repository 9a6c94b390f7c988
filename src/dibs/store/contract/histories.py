"""The records of `Store.histories`: how they are sent, and made of an export by a store that has no better way."""

from __future__ import annotations

from dibs.model import Claim, Event, Item, Run, Session, SoftClaim, Ticket
from dibs.text import wire
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

#: The records that are values. All others are plain JSON.
VALUES: dict[str, type[Value]] = {
    "session": Session,
    "item": Item,
    "claim": Claim,
    "soft_claim": SoftClaim,
    "ticket": Ticket,
    "run": Run,
    "event": Event,
}
#: The records of one item, in this order.
OF_ITEM = ("item", "dependency", "claim", "soft_claim", "ticket", "run", "event")


def encode(records: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    for kind, value in records:
        yield kind, wire.encode(value) if kind in VALUES else value


def decode(records: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    for kind, data in records:
        yield kind, wire.decode(VALUES[kind], data) if kind in VALUES else data


def of_export(records: Iterable[tuple[str, dict[str, Any]]]) -> Iterator[tuple[str, Any]]:
    """The same from an export, which is read into memory."""
    found: dict[str, list[Any]] = {kind: [] for kind in ("board", "dependency", *VALUES)}
    for kind, value in decode(records):
        if kind in found:
            found[kind].append(value)
    yield "board", {name: value for name, value in found["board"][0].items() if name != "format"}
    for session in sorted(found["session"], key=lambda session: session.id):
        if session.ended_at is None:
            yield "session", session
    for subject, ids in sorted(_subjects(found["item"]).items()):
        if len(ids) > 1:
            yield "subject", [subject, *ids]
    by_item: dict[str, list[tuple[int, int, str, Any]]] = {}
    for dependency in _dependencies(found["item"], found["dependency"]):
        by_item.setdefault(dependency[0], []).append((OF_ITEM.index("dependency"), 0, "dependency", dependency))
    for rank, kind in enumerate(OF_ITEM):
        for value in found[kind] if kind in VALUES else ():
            if kind == "ticket" and value.closed_at is not None:
                continue
            name = value.id if kind == "item" else value.item
            order = value.number if kind == "event" else value.token if kind == "run" else 0
            by_item.setdefault(name, []).append((rank, order, kind, value))
    for name in sorted(by_item):
        for _, _, kind, value in sorted(by_item[name], key=lambda one: one[:2]):
            yield kind, value


def _dependencies(items: list[Item], recorded: list[dict[str, str]]) -> Iterator[list[Any]]:
    """Those that are listed but not recorded, of items that exist, and then those that are recorded."""
    by_id = {item.id: item for item in items}
    pairs = {(one["item"], one["needs"]) for one in recorded}
    listed = {(item.id, id) for item in items for id in item.depends_on if id in by_id}
    for is_recorded, found in ((False, listed - pairs), (True, pairs)):
        for id, needs in sorted(found):
            need = by_id.get(needs)
            facts = (None, None) if need is None else (need.status, need.created_at)
            yield [id, needs, *facts, is_recorded]


def _subjects(items: list[Item]) -> dict[str, list[str]]:
    """The items of each subject, oldest first."""
    found: dict[str, list[str]] = {}
    for item in sorted(items, key=lambda item: (item.created_at, item.id)):
        if item.subject is not None:
            found.setdefault(item.subject, []).append(item.id)
    return found
