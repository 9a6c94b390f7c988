"""Webhooks: where a board sends its events, and how far it has sent them."""

from __future__ import annotations

from dibs.model.records import Event
from dibs.value import Value


class Webhook(Value):
    """A receiver of events. Its secrets are not part of it: they are shown once, to the caller that made them.

    `cursor` is the last event that was delivered, passed over or given up. `attempts` counts the failed attempts to
    deliver the event after it; `retry_at` is when the next one is due. `failing_at` is the first failure since the last
    success, `failure` the latest. `dead` is the number of dead letters.
    """

    id: str
    url: str
    kinds: tuple[str, ...]
    projects: tuple[str, ...] = ()
    format: str = "json"
    allow_private: bool = False
    give_up_seconds: float = 86400.0
    created_by: str = ""
    created_at: int = 0
    cursor: int = 0
    attempts: int = 0
    failing_at: int | None = None
    retry_at: int | None = None
    failure: str | None = None
    delivered_at: int | None = None
    disabled_at: int | None = None
    disabled_reason: str | None = None
    rotated_at: int | None = None
    dead: int = 0


class NewWebhook(Value):
    """A webhook that was added, and the secret that signs its messages. The secret is not shown again."""

    webhook: Webhook
    secret: str


class DeadLetter(Value):
    """An event that a webhook gave up on, after so many `attempts`."""

    webhook: str
    event: Event
    dead_at: int
    attempts: int
    failure: str


class Delivery(Value):
    """One attempt to send a message by hand: a test without an `event`, or a dead letter. `answer` is the status line
    of the receiver, or why there was none."""

    webhook: str
    event: int | None
    delivered: bool
    answer: str


class Attempt(Value):
    """What came of sending an event: None as the `failure` means that the receiver has it. After a failure, the next
    attempt is due in `delay_seconds`. `gone`: the receiver wants no more messages."""

    event: Event
    failure: str | None = None
    delay_seconds: float = 0.0
    gone: bool = False


class Taken(Value):
    """A webhook, for the process that is about to deliver its events. If it has to wait for `wait_seconds`, the webhook
    was not taken. `secrets` are those that sign, the newest first."""

    webhook: Webhook
    secrets: tuple[str, ...]
    wait_seconds: float = 0.0
