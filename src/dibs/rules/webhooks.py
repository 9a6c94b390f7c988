"""Webhooks: which events they are about, who may deliver, and what follows from an attempt.

The feed is the outbox. A webhook has a cursor in it, and its events are delivered one after the other: while one is
retried, the cursor stands still, so the events of an item arrive in order. An event that its receiver has refused for
`give_up_seconds` becomes a dead letter, and the cursor moves on.
"""

from __future__ import annotations

from dibs.errors import Invalid
from dibs.model import PENDING_APPROVAL
from dibs.model.webhooks import DeadLetter, Taken
from dibs.rules import event_kinds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.model import Event
    from dibs.model.webhooks import Attempt, Webhook

#: What a webhook can be about: a kind of event, or `pending_approval`, every event that lets an item wait for approval.
KINDS = (*event_kinds.BY_NAME, PENDING_APPROVAL)
FORMATS = ("json", "slack")
#: What the caller that adds a webhook decides.
GIVEN = ("id", "url", "kinds", "projects", "format", "allow_private", "give_up_seconds")
WEBHOOKS_MAX = 50
#: A webhook with this many dead letters is disabled: to drop one would lose an event.
DEAD_MAX = 1000
#: How long the previous secret signs, too, after a rotation.
OLD_SECRET_SECONDS = 24 * 3600
GONE = "the receiver answered 410 Gone"
BY_HAND = "paused by hand"


def kind_of(webhook: Webhook, event: Event) -> str | None:
    """Which of its kinds makes the webhook send this event; None: it does not."""
    if event.kind in webhook.kinds:
        return event.kind
    return PENDING_APPROVAL if PENDING_APPROVAL in webhook.kinds and _starts_to_wait(event) else None


def _starts_to_wait(event: Event) -> bool:
    kind = event_kinds.BY_NAME.get(event.kind)
    # An item that keeps its status waited for approval before.
    if event.status != PENDING_APPROVAL or (kind is not None and not kind.after):
        return False
    return event.kind != "edited" or bool(event.data.get("needs_approval"))


def take(
    now: int, webhook: Webhook, secrets: tuple[str, ...], holder: str | None, leased_until: int, deliverer: str
) -> Taken:
    """Whether `deliverer` may deliver now: no other process does, and no retry is ahead."""
    held_until = leased_until if holder not in (None, deliverer) else 0
    wait = max(0, max(held_until, webhook.retry_at or 0) - now)
    return Taken(webhook=webhook, secrets=in_force(now, webhook, secrets), wait_seconds=wait / 1000)


def in_force(now: int, webhook: Webhook, secrets: tuple[str, ...]) -> tuple[str, ...]:
    """The secrets that sign: the newest, and for a day after a rotation the one before."""
    rotated = webhook.rotated_at
    return secrets if rotated is not None and now < rotated + OLD_SECRET_SECONDS * 1000 else secrets[:1]


def passed(webhook: Webhook, cursor: int) -> Webhook:
    """The webhook after events that it is not about."""
    return webhook.replace(cursor=max(cursor, webhook.cursor))


def attempted(now: int, webhook: Webhook, attempt: Attempt) -> tuple[Webhook, DeadLetter | None]:
    """The webhook after an attempt, and the dead letter if it gave the event up."""
    event, failure = attempt.event, attempt.failure
    if failure is None:
        delivered = webhook.replace(cursor=event.id, delivered_at=now)
        return delivered.replace(attempts=0, failing_at=None, retry_at=None, failure=None), None
    tries, failing_at = webhook.attempts + 1, webhook.failing_at or now
    failed = webhook.replace(
        attempts=tries, failing_at=failing_at, retry_at=now + round(attempt.delay_seconds * 1000), failure=failure
    )
    if attempt.gone:
        return disabled(now, failed, GONE), None
    # Counted from the event, too: after a long outage, young events still have their time.
    if now - max(failing_at, event.at) < webhook.give_up_seconds * 1000:
        return failed, None
    if webhook.dead >= DEAD_MAX:
        return disabled(now, failed, f"it has {DEAD_MAX} dead letters"), None
    letter = DeadLetter(webhook=webhook.id, event=event, dead_at=now, attempts=tries, failure=failure)
    # The next event is tried at once: the receiver may refuse only this one.
    return failed.replace(cursor=event.id, attempts=0, retry_at=None, dead=webhook.dead + 1), letter


def given_up(webhook: Webhook) -> bool:
    """Whether deliveries failed until the webhook was disabled."""
    return webhook.disabled_at is not None and webhook.disabled_reason != BY_HAND


def disabled(now: int, webhook: Webhook, reason: str) -> Webhook:
    return webhook.replace(disabled_at=now, disabled_reason=reason, retry_at=None)


def enabled(webhook: Webhook, event_floor: int) -> Webhook:
    """The webhook, enabled. A disabled webhook keeps no event from being pruned: those up to the floor are skipped."""
    fresh = webhook.replace(disabled_at=None, disabled_reason=None, attempts=0, failing_at=None, retry_at=None)
    return fresh.replace(cursor=max(webhook.cursor, event_floor))


def replaced(webhook: Webhook, given: int, last: int) -> Webhook:
    """The webhook after all events of the board were replaced by those of a backup, or of another board.

    `given` is the highest number that the board gave an event before, `last` that of the last event that it has now. An
    earlier state of this board has nothing beyond `given`: what the webhook had not passed is still ahead of it.
    Otherwise they are events of another history, and none of them is sent.
    """
    return webhook.replace(cursor=last if last > given else min(webhook.cursor, last))


def unknown(webhook: str) -> Invalid:
    return Invalid(f"there is no webhook {webhook}; dibs webhook list shows all", field="webhook", webhook=webhook)


def unknown_kind(kind: str) -> Invalid:
    known = ", ".join(sorted(KINDS))
    return Invalid(f"unknown kind {kind!r:.60}; choose from {known}", field="kinds", kinds=sorted(KINDS))
