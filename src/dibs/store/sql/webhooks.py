"""The verbs about webhooks. A row has the webhook as JSON, its secrets, and the lease of the process that delivers."""

from __future__ import annotations

from dibs.errors import Invalid
from dibs.model.webhooks import DeadLetter, Taken, Webhook
from dibs.rules import webhooks as rules
from dibs.store.sql import rows
from dibs.text import json_text, wire
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.model.webhooks import Attempt
    from dibs.store.sql.transaction import Transaction


class Row(Value):
    """A row of the table. Its revision is counted, so that a row that was decided on old values cannot be written."""

    webhook: Webhook
    secrets: tuple[str, ...]
    deliverer: str | None = None
    leased_until: int = 0
    revision: int = 1


def add_webhook(t: Transaction, webhook: Webhook, *, secret: str) -> Webhook:
    t.lock("lock_webhooks")
    known = _find(t, webhook.id)
    if known is not None:
        same = all(getattr(known.webhook, name) == getattr(webhook, name) for name in rules.GIVEN)
        if not same or known.secrets[0] != secret:
            raise Invalid(f"the webhook {webhook.id} exists already", field="id", webhook=webhook.id)
        return known.webhook
    if len(webhooks(t)) >= rules.WEBHOOKS_MAX:
        limit = rules.WEBHOOKS_MAX
        raise Invalid(f"a board has at most {limit} webhooks; remove one first", field="webhook", limit=limit)
    added = webhook.replace(created_at=t.now, cursor=max(webhook.cursor, _event_floor(t)))
    t.run("insert_webhook", _encode(Row(webhook=added, secrets=(secret,))))
    return added


def webhooks(t: Transaction) -> tuple[Webhook, ...]:
    return tuple(_webhook(record) for (record,) in t.all("webhooks"))


def change_webhook(t: Transaction, webhook: str, *, enabled: bool | None = None, secret: str | None = None) -> Webhook:
    row = _require(t, webhook)
    changed, secrets = row.webhook, row.secrets
    if enabled and changed.disabled_at is not None:
        changed = rules.enabled(changed, _event_floor(t))
    if enabled is False and changed.disabled_at is None:
        changed = rules.disabled(t.now, changed, rules.BY_HAND)
    if secret is not None and secret != secrets[0]:
        changed, secrets = changed.replace(rotated_at=t.now), (secret, secrets[0])
    _write(t, row.replace(webhook=changed, secrets=secrets))
    return changed


def remove_webhook(t: Transaction, webhook: str) -> Webhook:
    removed = _require(t, webhook).webhook
    t.run("delete_webhook", {"id": webhook})
    t.run("delete_dead_letters", {"webhook": webhook})
    return removed


def dead_letters(t: Transaction, webhook: str) -> tuple[DeadLetter, ...]:
    if webhook not in {known.id for known in webhooks(t)}:
        raise rules.unknown(webhook)
    found = t.all("dead_letters", webhook=webhook)
    return tuple(wire.decode(DeadLetter, rows.loads(letter)) for (letter,) in found)


def drop_dead_letter(t: Transaction, webhook: str, event: int) -> bool:
    row = _find(t, webhook)
    if row is None or t.one("delete_dead_letter", webhook=webhook, event=event) is None:
        return False
    _write(t, row.replace(webhook=row.webhook.replace(dead=row.webhook.dead - 1)))
    return True


def take_webhook(t: Transaction, webhook: str, *, deliverer: str | None, seconds: float = 0.0) -> Taken | None:
    row = _find(t, webhook)
    if row is None:
        return None
    if deliverer is None:
        return Taken(webhook=row.webhook, secrets=rules.in_force(t.now, row.webhook, row.secrets))
    if row.webhook.disabled_at is not None:
        return None
    taken = rules.take(t.now, row.webhook, row.secrets, row.deliverer, row.leased_until, deliverer)
    if not taken.wait_seconds:
        _write(t, row.replace(deliverer=deliverer, leased_until=t.now + round(seconds * 1000)))
    return taken


def advance_webhook(
    t: Transaction,
    webhook: str,
    *,
    deliverer: str,
    after: int,
    cursor: int | None = None,
    attempt: Attempt | None = None,
    seconds: float = 0.0,
) -> Webhook | None:
    row = _find(t, webhook)
    if row is None or (row.deliverer, row.webhook.cursor) != (deliverer, after):
        return None
    letter, now = None, row.webhook
    if cursor is not None:
        now = rules.passed(now, cursor)
    if attempt is not None:
        now, letter = rules.attempted(t.now, now, attempt)
    if letter is not None:
        encoded = json_text.dumps(wire.encode(letter))
        t.run("put_dead_letter", {"webhook": webhook, "event": letter.event.id, "letter": encoded})
    holder = deliverer if seconds and now.disabled_at is None else None
    until = t.now + round(seconds * 1000)
    _write(t, row.replace(webhook=now, deliverer=holder, leased_until=until))
    return now


def follow_replaced_feed(t: Transaction, given: int) -> None:
    """Move the cursors after all events were replaced; `given` is the highest number that an event had before."""
    row = t.one("last_event")
    assert row is not None
    for webhook in webhooks(t):
        known = _require(t, webhook.id)
        _write(t, known.replace(webhook=rules.replaced(known.webhook, given, row[0]), deliverer=None))


def _event_floor(t: Transaction) -> int:
    return int(dict(t.all("board"))["event_floor"])


def _find(t: Transaction, id: str) -> Row | None:
    found = t.one("webhook_by_id", id=id)
    if found is None:
        return None
    record, secrets, deliverer, leased_until, revision = found
    return Row(
        webhook=_webhook(record),
        secrets=tuple(rows.loads(secrets)),
        deliverer=deliverer,
        leased_until=leased_until,
        revision=revision,
    )


def _require(t: Transaction, id: str) -> Row:
    row = _find(t, id)
    if row is None:
        raise rules.unknown(id)
    return row


def _webhook(record: str) -> Webhook:
    found = wire.decode(Webhook, rows.loads(record))
    return found.replace(kinds=tuple(found.kinds), projects=tuple(found.projects))


def _write(t: Transaction, row: Row) -> None:
    t.run_one("update_webhook", _encode(row.replace(revision=row.revision + 1)))


def _encode(row: Row) -> dict[str, object]:
    webhook = row.webhook
    return {
        "id": webhook.id,
        "created_at": webhook.created_at,
        "cursor": webhook.cursor,
        "active": int(webhook.disabled_at is None),
        "record": json_text.dumps(wire.encode(webhook)),
        "secrets": json_text.dumps(list(row.secrets)),
        "deliverer": row.deliverer,
        "leased_until": row.leased_until,
        "revision": row.revision,
    }
