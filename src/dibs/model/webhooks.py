"""Webhooks: where a board sends its events, and how far it has sent them."""

from __future__ import annotations

from dibs.model.records import Event
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.model.kinds import *


class Webhook(Value):
    """A receiver of events. Its secrets are not part of it: they are shown once, to the caller that made them.

    `cursor` is the last event that was delivered, passed over or given up. `attempts` counts the failed attempts to
    deliver the event after it; `retry_at` is when the next one is due. `failing_at` is the first failure since the last
    success, `failure` the latest. `dead` is the number of dead letters.
    """

    id: Name
    url: Text
    kinds: Names
    projects: Names = ()
    format: Name = "json"
    allow_private: Flag = False
    give_up_seconds: Seconds = 86400.0
    created_by: Actor = ""
    created_at: Instant = 0
    cursor: Count = 0
    attempts: Count = 0
    failing_at: Instant | None = None
    retry_at: Instant | None = None
    failure: Text | None = None
    delivered_at: Instant | None = None
    disabled_at: Instant | None = None
    disabled_reason: Text | None = None
    rotated_at: Instant | None = None
    dead: Count = 0


class NewWebhook(Value):
    """A webhook that was added, and the secret that signs its messages. The secret is not shown again."""

    webhook: Webhook
    secret: Text


class DeadLetter(Value):
    """An event that a webhook gave up on, after so many `attempts`."""

    webhook: Name
    event: Event
    dead_at: Instant
    attempts: Count
    failure: Text


class Delivery(Value):
    """One attempt to send a message by hand: a test without an `event`, or a dead letter. `answer` is the status line
    of the receiver, or why there was none."""

    webhook: Name
    event: Count | None
    delivered: Flag
    answer: Text


class Attempt(Value):
    """What came of sending an event: None as the `failure` means that the receiver has it. After a failure, the next
    attempt is due in `delay_seconds`. `gone`: the receiver wants no more messages."""

    event: Event
    failure: Text | None = None
    delay_seconds: Seconds = 0.0
    gone: Flag = False


class Taken(Value):
    """A webhook, for the process that is about to deliver its events. If it has to wait for `wait_seconds`, the webhook
    was not taken. `secrets` are those that sign, the newest first."""

    webhook: Webhook
    secrets: Texts
    wait_seconds: Seconds = 0.0
