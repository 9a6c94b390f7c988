"""The records of a board, item by item: several results in the order of ids, merged as they are read."""

from __future__ import annotations

from heapq import merge
from itertools import groupby
from operator import itemgetter

from dibs.store.contract.histories import OF_ITEM
from dibs.store.sql import rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from dibs.store.sql.transaction import Transaction
    from dibs.value import Value

#: By kind of record: the statement, and how its rows become values.
KINDS: dict[str, tuple[str, Callable[[Any], Value]]] = {
    "item": ("items_with_history", rows.item),
    "claim": ("claims", rows.claim),
    "soft_claim": ("soft_claims", rows.soft_claim),
    "ticket": ("open_tickets_by_item", rows.ticket),
    "run": ("runs_by_item", rows.run),
    "event": ("events_by_item", rows.event),
}


def histories(t: Transaction) -> Iterator[tuple[str, Any]]:
    yield "board", dict(t.all("board"))
    for row in t.each("live_sessions"):
        yield "session", rows.session(row)
    for subject, found in groupby(t.each("repeated_subjects"), key=itemgetter(0)):
        yield "subject", [subject, *(row[1] for row in found)]
    streams: list[Iterator[tuple[str, int, Any]]] = [_dependencies(t), *(_records(t, kind) for kind in KINDS)]
    # Each stream has a rank of its own, so that two records differ before their values are compared.
    for _, rank, value in merge(*streams):
        kind = OF_ITEM[rank]
        yield kind, value
        if kind == "item":
            for needs in value.depends_on:
                for facts in t.all("unrecorded_need", item=value.id, needs=needs):
                    yield "dependency", [value.id, needs, *facts, False]


def _records(t: Transaction, kind: str) -> Iterator[tuple[str, int, Any]]:
    statement, make = KINDS[kind]
    rank, name = OF_ITEM.index(kind), "id" if kind == "item" else "item"
    for row in t.each(statement):
        value = make(row)
        yield getattr(value, name), rank, value


def _dependencies(t: Transaction) -> Iterator[tuple[str, int, Any]]:
    rank = OF_ITEM.index("dependency")
    for row in t.each("dependencies_with_facts"):
        yield row[0], rank, [*row, True]
