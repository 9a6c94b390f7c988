"""Messages that a person sends: a test of a webhook, and dead letters again."""

from __future__ import annotations

import os
import time

from dibs.errors import Invalid
from dibs.model.webhooks import Delivery
from dibs.rules import webhooks as rules
from dibs.webhooks import messages, sending, signing
from dibs.webhooks.deliverer import find_item

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.board.manage import ManageVerbs
    from dibs.model import Event


def send(board: ManageVerbs, webhook: str, event: int | None) -> Delivery:
    """Send a test, or the dead letter of this event, which is deleted once the receiver has accepted it."""
    taken = board.store.take_webhook(webhook, deliverer=None)
    if taken is None:
        raise rules.unknown(webhook)
    to = taken.webhook
    if event is None:
        id, body = f"msg_{to.id}_test_{os.urandom(6).hex()}", messages.test_body(to, round(time.time() * 1000))
    else:
        letter = _letter(board, webhook, event)
        kind, item = rules.kind_of(to, letter) or letter.kind, find_item(board, letter)
        id, body = messages.id_of(to, letter), messages.body(to, kind, letter, item)
    headers = signing.headers(taken.secrets, id, round(time.time()), body)
    outcome = sending.post(to.url, body, headers, allow_private=to.allow_private)
    if event is not None and outcome.failure is None:
        board.store.drop_dead_letter(webhook, event)
    return Delivery(webhook=webhook, event=event, delivered=outcome.failure is None, answer=outcome.answer)


def _letter(board: ManageVerbs, webhook: str, event: int) -> Event:
    for letter in board.store.dead_letters(webhook):
        if letter.event.id == event:
            return letter.event
    problem = f"event {event} is no dead letter of {webhook}; dibs webhook dead {webhook} lists them"
    raise Invalid(problem, field="event", webhook=webhook)
