"""The records of a board, item by item: several results in the order of ids, merged as they are read."""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter

from dibs.store.sql import record_check, rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from dibs.model import Item
    from dibs.store.sql.transaction import Transaction

#: By kind of record, in the order of `OF_ITEM`: the statement, whose first column is the item, and how its rows become
#: values.
KINDS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "item": ("items_with_history", rows.item),
    "dependency": ("dependencies_with_facts", lambda row: [*row, True]),
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
    for invalid in record_check.invalid_others(t):
        yield "invalid", [None, *invalid]
    checks = record_check.RecordCheck()
    groups = {kind: groupby(t.each(statement), key=itemgetter(0)) for kind, (statement, _) in KINDS.items()}
    #: The next item of each kind of record, with its rows.
    heads = {kind: head for kind, group in groups.items() if (head := next(group, None)) is not None}
    while heads:
        first = min([id for id, _ in heads.values()])
        for kind, (id, found) in [*heads.items()]:
            if id != first:
                continue
            make = KINDS[kind][1]
            for row in found:
                value = make(row)
                yield kind, value
                why = None if kind == "dependency" else checks.why_invalid(value)
                if why is not None:
                    yield "invalid", [id, kind, why]
                if kind == "item" and value.depends_on:
                    yield from _unrecorded(t, value)
            head = next(groups[kind], None)
            if head is None:
                del heads[kind]
            else:
                heads[kind] = head


def _unrecorded(t: Transaction, item: Item) -> Iterator[tuple[str, Any]]:
    for needs in item.depends_on:
        for facts in t.all("unrecorded_need", item=item.id, needs=needs):
            yield "dependency", [item.id, needs, *facts, False]
