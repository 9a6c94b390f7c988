"""Export, import, restore and pruning of a whole board, as records.

Keys and webhooks are not exported: they belong to this board, and a revoked key stays revoked. A token is never given
twice. So a prune raises the floor of tokens to the highest that it removes, and a restore raises it to a million above
all known tokens, because the backup lacks the claims that were given after it.
"""

from __future__ import annotations

from dibs import check
from dibs.errors import Invalid, StoreUnusable
from dibs.model import Activity, Agent, Claim, Event, Item, Prune, Run, Session, SoftClaim, Ticket
from dibs.rules import ending
from dibs.store.sql import figures, records, rows, webhooks
from dibs.store.sql.dispatch import EVERY_EVENT
from dibs.text import json_text, wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    from dibs.store.sql.transaction import Transaction
    from dibs.value import Value

FORMAT = 1
#: What an invalid record raises, besides the errors of the database.
RECORD_ERRORS = (Invalid, AttributeError, KeyError, OverflowError, TypeError, ValueError)
#: The kind of record of which a restore leaves the invalid ones out.
LEFT_OUT = "activity"
#: More tokens or events than any board gives between a backup and its restore.
RESTORE_STRIDE = 1_000_000
#: Where the board keeps the time of its last backup.
LAST_BACKUP_AT = "last_backup_at"

#: By kind of record, in the order of import: the statement that exports, the value, how a row becomes the value, and
#: the statement that imports.
KINDS: dict[str, tuple[str, type[Value], Callable[[Any], Value], str]] = {
    "agent": ("agents", Agent, rows.agent, "replace_agent"),
    "session": ("sessions", Session, rows.session, "put_session"),
    "item": ("items", Item, rows.item, "insert_item"),
    "claim": ("claims", Claim, rows.claim, "insert_claim"),
    "soft_claim": ("soft_claims", SoftClaim, rows.soft_claim, "put_soft_claim"),
    "ticket": ("tickets", Ticket, rows.ticket, "put_ticket"),
    "run": ("runs", Run, rows.run, "insert_run"),
    "event": ("events", Event, rows.event, "put_event"),
    "activity": ("activity", Activity, rows.activity, "put_activity"),
}
#: Rows that are not values of the model, exported so that an import is complete.
PLAIN = {
    "dependency": ("dependencies", ("item", "needs"), "put_dependency"),
    "bucket": ("buckets", ("name", "bucket", "bucket_at"), "set_bucket"),
    "request": ("requests", ("actor", "id", "fingerprint", "answer", "at"), "keep_request"),
}


def export_for_backup(transaction: Transaction) -> Iterator[tuple[str, dict[str, Any]]]:
    """`export`, which refuses records that a restore would refuse because of what they refer to."""
    yield from export(transaction)
    refuse_dangling(transaction)


def export(
    transaction: Transaction, kinds: Sequence[str] = ("board", *KINDS, *PLAIN)
) -> Iterator[tuple[str, dict[str, Any]]]:
    for kind in kinds:
        if kind == "board":
            yield kind, {"format": FORMAT, **dict(transaction.all("board"))}
        elif kind in KINDS:
            name, _, make, _ = KINDS[kind]
            for row in transaction.each(name):
                yield kind, wire.encode(make(row))
        else:
            name, columns, _ = PLAIN[kind]
            for row in transaction.each(name):
                yield kind, dict(zip(columns, row, strict=True))


def load(t: Transaction, given: Iterable[tuple[str, dict[str, Any]]]) -> int:
    """Import the records into an empty board. Its webhooks begin after them."""
    count = load_records(t, given)
    webhooks.follow_replaced_feed(t, 0)
    return count


def load_records(t: Transaction, given: Iterable[tuple[str, dict[str, Any]]]) -> int:
    row = t.one("has_content")
    if row is None or row[0]:
        # A board whose items were all pruned is not empty either: its floors must not be lowered.
        raise Invalid("an import needs an empty board; this one has items, or had some", field="store")
    count = 0
    wrong: tuple[type[Exception], ...] = (*t.row_errors, *RECORD_ERRORS)
    for kind, data in given:
        count += 1
        try:
            _put(t, kind, data)
        except wrong as error:
            raise _invalid(count, kind, error) from error
    refuse_dangling(t)
    figures.reset(t)
    t.changed = True
    return count


def note_backup(t: Transaction) -> None:
    t.run("raise_floor", {"name": LAST_BACKUP_AT, "value": t.now})


def try_write(t: Transaction) -> None:
    t.run("raise_floor", {"name": "write_tried_at", "value": t.now})


def highest(t: Transaction) -> tuple[int, int]:
    """The highest token and event that this board ever gave out."""
    row = t.one("highest")
    assert row is not None
    return row[0], row[1]


def retire_tokens(t: Transaction, given: tuple[int, int], actor: str) -> int:
    """Retire every token of a restored board that a worker could still have; return how many items got a new token.

    `given` are the highest token and event of the board that the backup replaces.
    """
    found = highest(t)
    if max(found) > check.COUNT_MAX:
        raise Invalid(f"the backup counts up to {max(found)}; the limit is {check.COUNT_MAX}", field="path")
    webhooks.follow_replaced_feed(t, given[1])
    token, event = (max(there, here) + RESTORE_STRIDE for there, here in zip(found, given, strict=True))
    t.number_events_past(event)
    figures.reset(t)
    t.run("raise_floor", {"name": "token_floor", "value": token})
    for statement in ("forget_requests", "forget_soft_claims"):
        t.run(statement, {})
    t.run("close_all_tickets", {"now": t.now})
    items = [item for (item,) in t.all("items_to_restore")]
    for item in items:
        state = t.state(item)
        t.apply_with_effects(state, ending.restored(t.now, state, actor=actor, token=token))
    return len(items)


def prune(t: Transaction, older_than_seconds: float, limit: int) -> Prune:
    which = {**_prunable(t, older_than_seconds), "limit": limit}
    locked = {item for (item,) in t.all("prunable", **which)}
    # Repeated now that the items are locked: a dependent may have been added before the lock.
    still = t.all("prunable", **which)
    ids = json_text.dumps([item for (item,) in still if item in locked])
    row = t.one("highest_pruned", items=ids)
    assert row is not None
    token, event, events = row
    if events:
        t.run("raise_floor", {"name": "token_floor", "value": token})
        t.run("raise_floor", {"name": "event_floor", "value": event})
        figures.take_out(t, json_text.loads(ids))
        for table in ("items", "events", "runs", "dependencies", "tickets", "soft_claims"):
            t.run(f"prune_{table}", {"items": ids})
    t.run("prune_sessions", {"before": which["before"], "limit": limit})
    return _pruned(t, len(json_text.loads(ids)), events)


def count_prunable(t: Transaction, older_than_seconds: float) -> Prune:
    """What repeated calls of `prune` would delete now."""
    which = _prunable(t, older_than_seconds)
    needed: dict[str, set[str | None]] = {}
    for item, dependent in t.all("prunable_dependents", **which):
        needed.setdefault(item, set()).add(dependent)
    # An item that is not done stays as long as one that depends on it; None is a dependent that is not prunable itself.
    kept: set[str | None] = {None}
    while more := {item for item, dependents in needed.items() if item not in kept and kept & dependents}:
        kept |= more
    items, events = t.one("count_prunable", **which, kept=json_text.dumps(sorted(filter(None, kept)))) or (0, 0)
    return _pruned(t, items, events)


def _prunable(t: Transaction, older_than_seconds: float) -> dict[str, int]:
    """Which items can be pruned. Webhooks read the feed, so events that one of them has not passed stay."""
    row = t.one("lowest_cursor")
    delivered = EVERY_EVENT if row is None or row[0] is None else row[0]
    return {"before": t.now - round(older_than_seconds * 1000), "delivered": delivered}


def _pruned(t: Transaction, items: int, events: int) -> Prune:
    floors = dict(t.all("board"))
    return Prune(items=items, events=events, token_floor=floors["token_floor"], event_floor=floors["event_floor"])


def check_records(given: Iterable[tuple[str, dict[str, Any]]]) -> None:
    """Refuse the first invalid record, by its number."""
    for number, (kind, data) in enumerate(given, start=1):
        try:
            check_record(kind, data)
        except RECORD_ERRORS as error:
            raise _invalid(number, kind, error) from error


def restorable(
    given: Iterable[tuple[str, dict[str, Any]]], on_left_out: Callable[[dict[str, Any]], object] | None = None
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The records that a restore takes from a backup: no invalid line of the log of refused calls. Nothing depends on
    that log, so a line of it is no reason to lose a board."""
    for kind, data in given:
        if kind == LEFT_OUT and not _is_valid(kind, data):
            if on_left_out is not None:
                on_left_out(data)
            continue
        yield kind, data


def _is_valid(kind: str, data: dict[str, Any]) -> bool:
    try:
        check_record(kind, data)
    except RECORD_ERRORS:
        return False
    return True


def refuse_dangling(t: Transaction) -> None:
    """Refuse records that refer to rows which do not exist."""
    what = dangling(t)
    if what is not None:
        raise Invalid(f"the records are inconsistent: {what}", field="record")


def dangling(t: Transaction) -> str | None:
    """One reference to a row that does not exist, in words."""
    row = t.one("dangling")
    return None if row is None else row[0]


def not_backed_up(path: str, reason: object) -> StoreUnusable:
    """The refusal of a backup that a restore would refuse."""
    return StoreUnusable(
        f"there is no backup, because it could not be restored: {reason}; dibs doctor lists what is wrong with the"
        " board",
        path=path,
    )


def _invalid(number: int, kind: object, error: Exception) -> Invalid:
    field = "format" if isinstance(error, Invalid) and error.facts.get("field") == "format" else "record"
    known = f" ({kind})" if isinstance(kind, str) and (kind in KINDS or kind in records.PLAIN) else ""
    return Invalid(f"record {number}{known} is invalid: {error}", field=field, record=number)


def check_record(kind: str, data: dict[str, Any]) -> Value | dict[str, Any]:
    if not isinstance(kind, str) or (kind not in KINDS and kind not in records.PLAIN):
        raise Invalid(f"unknown kind of record {kind!r:.60}", field="record")
    if not isinstance(data, dict):
        raise Invalid(f"a record is a JSON object, not {data!r:.60}", field="record")
    if kind in KINDS:
        return records.value_of(KINDS[kind][1], data)
    if kind == "board" and data.get("format") != FORMAT:
        raise Invalid(f"unknown export format {data.get('format')!r:.60}; this version reads {FORMAT}", field="format")
    return records.plain(kind, data)


def _put(t: Transaction, kind: str, data: dict[str, Any]) -> None:
    found = check_record(kind, data)
    if isinstance(found, dict) and kind == "board":
        for name, value in found.items():
            t.run("set_meta", {"name": name, "value": value})
        t.number_events_past(found["event_floor"])
    elif isinstance(found, dict):
        t.run(PLAIN[kind][2], found)
    elif isinstance(found, Item):
        t.put_item(KINDS[kind][3], found)
    else:
        t.run(KINDS[kind][3], rows.encode_session(found) if isinstance(found, Session) else rows.encode(found))
