"""Whole boards on SQLite: pruning, export and import, backup and restore.

A token is never given twice, so whatever forgets one raises a floor: a prune to the highest it forgot, a restore by a
million above everything seen, since claims given after the backup are not in it.
"""

from __future__ import annotations

import os

import apsw

from dibs import jsontext, wire
from dibs.errors import Invalid, StoreUnusable
from dibs.model import (
    Activity,
    Agent,
    Claim,
    Event,
    Item,
    Prune,
    Run,
    Session,
    SoftClaim,
    Ticket,
)
from dibs.rules import ending
from dibs.store.sqlite import rows
from dibs.store.sqlite.connection import open_database, sync_directory
from dibs.store.sqlite.lock import FairLock
from dibs.store.sqlite.queries import ARCHIVE, PATH, UPKEEP
from dibs.store.sqlite.transaction import Transaction

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from dibs.config import Settings
    from dibs.value import Value

FORMAT = 1
SQLITE_HEADER = b"SQLite format 3\0"
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
    floors = dict(transaction.all(ARCHIVE["board"]))
    yield "board", {"format": FORMAT, **floors}
    for kind, (name, _, make, _) in KINDS.items():
        for row in transaction.each(ARCHIVE[name]):
            yield kind, wire.encode(make(row))
    for kind, (name, columns, _) in PLAIN.items():
        for row in transaction.each(ARCHIVE[name]):
            yield kind, dict(zip(columns, row, strict=True))


def load(t: Transaction, records: Iterable[tuple[str, dict[str, Any]]]) -> int:
    row = t.one(ARCHIVE["anything"])
    if row is None or row[0]:
        raise Invalid("a board is imported into an empty one; this one has something on it", field="store")
    count = 0
    for kind, data in records:
        count += 1
        try:
            _put(t, kind, data)
        except (apsw.ConstraintError, AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
            raise Invalid(f"record {count} ({kind}) does not fit: {error}", field="record") from error
    t.changed = True
    return count


def backup(source: apsw.Connection, path: str) -> None:
    """Copy the database into a new file that is whole or not there at all."""
    if os.path.exists(path):
        raise Invalid(f"{path} is there already; a backup does not overwrite", field="path")
    half = f"{path}.half"
    try:
        copy = apsw.Connection(half)
        copy_pages(source, copy)
        copy.execute("PRAGMA journal_mode = DELETE").fetchall()
        copy.close()
        _sync_file(half)
        os.rename(half, path)
        sync_directory(os.path.dirname(os.path.abspath(path)))
    except (apsw.Error, OSError) as error:
        raise StoreUnusable(f"the backup {path} cannot be written: {error}", path=path) from error


def copy_pages(source: apsw.Connection, target: apsw.Connection) -> None:
    """All pages in one step, so of one instant; readers do not hold up writers."""
    with target.backup("main", source, "main") as pages:
        pages.step(-1)


def highest(t: Transaction) -> tuple[int, int]:
    """The highest token and event that this board ever gave."""
    row = t.one(ARCHIVE["highest"])
    assert row is not None
    return row[0], row[1]


def prune(t: Transaction, older_than_seconds: float, limit: int) -> Prune:
    before = t.now - round(older_than_seconds * 1000)
    ids = jsontext.dumps([item for (item,) in t.all(UPKEEP["prunable"], before=before, limit=limit)])
    row = t.one(UPKEEP["highest_pruned"], items=ids)
    assert row is not None
    token, event, events = row
    if events:
        t.run(UPKEEP["raise_floor"], {"name": "token_floor", "value": token})
        t.run(UPKEEP["raise_floor"], {"name": "event_floor", "value": event})
        for table in ("items", "events", "runs", "dependencies", "tickets", "soft_claims"):
            t.run(UPKEEP[f"prune_{table}"], {"items": ids})
    t.run(UPKEEP["prune_sessions"], {"before": before, "limit": limit})
    floors = dict(t.all(ARCHIVE["board"]))
    return Prune(
        items=len(jsontext.loads(ids)),
        events=events,
        token_floor=floors["token_floor"],
        event_floor=floors["event_floor"],
    )


def _put(t: Transaction, kind: str, data: dict[str, Any]) -> None:
    if kind == "board":
        if data.get("format") != FORMAT:
            raise Invalid(f"export format {data.get('format')} is not known; {FORMAT} is", field="format")
        for name in ("token_floor", "event_floor", "conflicts"):
            t.run(ARCHIVE["set_meta"], {"name": name, "value": int(data[name])})
        _number_events_past(t, int(data["event_floor"]))
    elif kind in PLAIN:
        _, columns, statement = PLAIN[kind]
        t.run(_statement(statement), {name: data[name] for name in columns})
    elif kind in KINDS:
        _, value_kind, _, statement = KINDS[kind]
        value = wire.decode(value_kind, data)
        parameters = rows.encode_session(value) if isinstance(value, Session) else rows.encode(value)
        t.run(_statement(statement), parameters)
    else:
        raise Invalid(f"{kind!r} is no kind of record", field="record")


def _statement(name: str) -> str:
    for file in (PATH, UPKEEP, ARCHIVE):
        if name in file:
            return file[name]
    raise KeyError(name)


def moved_on(
    path: str, half: str, settings: Settings, actor: str, given: tuple[int, int], now: int
) -> tuple[apsw.Connection, int]:
    """A copy of the backup in which every token anybody could still have is spent; how many items that concerned."""
    with open(path, "rb") as file:
        if file.read(len(SQLITE_HEADER)) != SQLITE_HEADER:
            raise StoreUnusable(f"{path} cannot be restored: it is no backup of a board", path=path)
    source, copy = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY), apsw.Connection(half)
    try:
        copy_pages(source, copy)
    except apsw.Error as error:
        raise StoreUnusable(f"{path} cannot be restored: {error}", path=path) from error
    finally:
        source.close()
        copy.close()
    lock = FairLock(half + "-lock", 1)
    try:
        copy = open_database(half, settings, lock, create=False)
    except StoreUnusable as error:
        reason = error.message.replace(half, path)
        raise StoreUnusable(f"{path} cannot be restored: {reason}", path=path) from error
    copy.execute("BEGIN IMMEDIATE")
    t = Transaction(copy.cursor(), now, settings)
    token, event = (max(there, here) + RESTORE_STRIDE for there, here in zip(highest(t), given, strict=True))
    _number_events_past(t, event)
    t.run(UPKEEP["raise_floor"], {"name": "token_floor", "value": token})
    for statement in ("forget_requests", "forget_soft_claims"):
        t.run(ARCHIVE[statement], {})
    t.run(ARCHIVE["close_all_tickets"], {"now": now})
    concerned = [item for (item,) in t.all(ARCHIVE["claimable_again"])]
    for item in concerned:
        state = t.state(item)
        t.carry_out(state, ending.restored(now, state, actor=actor, token=token))
    copy.execute("COMMIT")
    copy.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    lock.forget()
    return copy, len(concerned)


def _number_events_past(t: Transaction, number: int) -> None:
    """Have the next event numbered above this one: SQLite remembers the highest number there ever was."""
    if number:
        t.run(ARCHIVE["number_events_from"], {"id": number})
        t.run(ARCHIVE["forget_that_event"], {"id": number})


def _sync_file(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
