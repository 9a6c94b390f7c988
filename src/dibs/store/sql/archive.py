"""Whole boards as records: export and import, and pruning.

Keys are not among them: they belong to the place where a board is served, and what was revoked there stays revoked.
A token is never given twice, so whatever forgets one raises a floor: a prune to the highest it forgot, a restore by a
million above everything seen, since claims given after the backup are not in it.
"""

from __future__ import annotations

from dibs import check
from dibs.errors import Invalid
from dibs.model import Activity, Agent, Claim, Event, Item, Prune, Run, Session, SoftClaim, Ticket
from dibs.rules import ending
from dibs.store.sql import records, rows
from dibs.text import json_text, wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from dibs.store.sql.transaction import Transaction
    from dibs.value import Value

FORMAT = 1
#: What a record ends in that no board could have written, beside what its database says.
MISFITS = (Invalid, AttributeError, KeyError, OverflowError, TypeError, ValueError)
#: Further than any board gets between a backup and its restore.
RESTORE_STRIDE = 1_000_000

#: What a board is made of, in the order in which it can be put together again.
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
#: Rows that are no values of the model: kept so that nothing is lost, of no use to anyone else.
PLAIN = {
    "dependency": ("dependencies", ("item", "needs"), "put_dependency"),
    "bucket": ("buckets", ("name", "bucket", "bucket_at"), "set_bucket"),
    "request": ("requests", ("actor", "id", "fingerprint", "answer", "at"), "keep_request"),
}


def export(transaction: Transaction) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every row there is, as a record."""
    floors = dict(transaction.all("board"))
    yield "board", {"format": FORMAT, **floors}
    for kind, (name, _, make, _) in KINDS.items():
        for row in transaction.each(name):
            yield kind, wire.encode(make(row))
    for kind, (name, columns, _) in PLAIN.items():
        for row in transaction.each(name):
            yield kind, dict(zip(columns, row, strict=True))


def load(t: Transaction, given: Iterable[tuple[str, dict[str, Any]]]) -> int:
    row = t.one("anything")
    if row is None or row[0]:
        # Also when all of it was pruned since: the floors that are left must not be lowered.
        raise Invalid("a board is imported into an empty one; this one has, or had, something on it", field="store")
    count = 0
    wrong: tuple[type[Exception], ...] = (*t.misfits, *MISFITS)
    for kind, data in given:
        count += 1
        try:
            _put(t, kind, data)
        except wrong as error:
            raise _misfit(count, kind, error) from error
    refuse_dangling(t)
    t.changed = True
    return count


def highest(t: Transaction) -> tuple[int, int]:
    """The highest token and event that this board ever gave."""
    row = t.one("highest")
    assert row is not None
    return row[0], row[1]


def move_on(t: Transaction, given: tuple[int, int], actor: str) -> int:
    """Spend every token that anybody could still have of a board that came back from a backup.

    `given` are the highest token and event of the board it replaces: claims given after the backup are not in it. The
    answer is how many items that concerned.
    """
    found = highest(t)
    if max(found) > check.COUNT_MAX:
        raise Invalid(f"the backup counts up to {max(found)}; at most {check.COUNT_MAX} is right", field="path")
    token, event = (max(there, here) + RESTORE_STRIDE for there, here in zip(found, given, strict=True))
    t.number_events_past(event)
    t.run("raise_floor", {"name": "token_floor", "value": token})
    for statement in ("forget_requests", "forget_soft_claims"):
        t.run(statement, {})
    t.run("close_all_tickets", {"now": t.now})
    concerned = [item for (item,) in t.all("claimable_again")]
    for item in concerned:
        state = t.state(item)
        t.carry_out(state, ending.restored(t.now, state, actor=actor, token=token))
    return len(concerned)


def prune(t: Transaction, older_than_seconds: float, limit: int) -> Prune:
    before = t.now - round(older_than_seconds * 1000)
    locked = {item for (item,) in t.all("prunable", before=before, limit=limit)}
    # Asked again now that they are locked: something that waits for one of them may have been added just before.
    still = t.all("prunable", before=before, limit=limit)
    ids = json_text.dumps([item for (item,) in still if item in locked])
    row = t.one("highest_pruned", items=ids)
    assert row is not None
    token, event, events = row
    if events:
        t.run("raise_floor", {"name": "token_floor", "value": token})
        t.run("raise_floor", {"name": "event_floor", "value": event})
        for table in ("items", "events", "runs", "dependencies", "tickets", "soft_claims"):
            t.run(f"prune_{table}", {"items": ids})
    t.run("prune_sessions", {"before": before, "limit": limit})
    floors = dict(t.all("board"))
    return Prune(
        items=len(json_text.loads(ids)),
        events=events,
        token_floor=floors["token_floor"],
        event_floor=floors["event_floor"],
    )


def check_records(given: Iterable[tuple[str, dict[str, Any]]]) -> None:
    """That every record is one that a board could have written; a refusal says which is not."""
    for number, (kind, data) in enumerate(given, start=1):
        try:
            _checked(kind, data)
        except MISFITS as error:
            raise _misfit(number, kind, error) from error


def refuse_dangling(t: Transaction) -> None:
    """That what records name is there, too: a verb relies on it."""
    row = t.one("dangling")
    if row is not None:
        raise Invalid(f"the records do not fit together: {row[0]}", field="record")


def _misfit(number: int, kind: object, error: Exception) -> Invalid:
    field = "format" if isinstance(error, Invalid) and error.facts.get("field") == "format" else "record"
    known = f" ({kind})" if isinstance(kind, str) and (kind in KINDS or kind in records.PLAIN) else ""
    return Invalid(f"record {number}{known} does not fit: {error}", field=field, record=number)


def _checked(kind: str, data: dict[str, Any]) -> Value | dict[str, Any]:
    if not isinstance(kind, str) or (kind not in KINDS and kind not in records.PLAIN):
        raise Invalid(f"{kind!r:.60} is no kind of record", field="record")
    if not isinstance(data, dict):
        raise Invalid(f"a record is a JSON object, not {data!r:.60}", field="record")
    if kind in KINDS:
        return records.value_of(KINDS[kind][1], data)
    if kind == "board" and data.get("format") != FORMAT:
        raise Invalid(f"export format {data.get('format')!r:.60} is not known; {FORMAT} is", field="format")
    return records.plain(kind, data)


def _put(t: Transaction, kind: str, data: dict[str, Any]) -> None:
    found = _checked(kind, data)
    if isinstance(found, dict) and kind == "board":
        for name, value in found.items():
            t.run("set_meta", {"name": name, "value": value})
        t.number_events_past(found["event_floor"])
    elif isinstance(found, dict):
        t.run(PLAIN[kind][2], found)
    else:
        t.run(KINDS[kind][3], rows.encode_session(found) if isinstance(found, Session) else rows.encode(found))
