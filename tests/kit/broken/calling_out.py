"""Stores that are wrong about webhooks."""

from __future__ import annotations

from dibs.model.webhooks import Delivery, Webhook
from tests.kit.broken.mistake import Mistake, asks, before, caught, caught_by

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


@caught_by("webhooks")
class KnowsAWebhookByItsIdAlone(Mistake):
    def add_webhook(self, webhook: Webhook, *, secret: str) -> Webhook:
        known = [one for one in self.inner.webhooks() if one.id == webhook.id]
        return known[0] if known else self.inner.add_webhook(webhook, secret=secret)


@caught_by("webhooks", "test_a_message_is_sent_by_hand_and_its_failure_is_told")
class BelievesThatAMessageArrived(Mistake):
    def send_webhook(self, webhook: str, *, event: int | None = None) -> Delivery:
        return Delivery(webhook=webhook, event=event, delivered=True, answer="200 OK")


@caught_by("webhooks")
class TellsTheSecretOfAWebhook(Mistake):
    def webhooks(self) -> tuple[Webhook, ...]:
        taken = [self.inner.take_webhook(one.id, deliverer=None) for one in self.inner.webhooks()]
        return tuple(one.webhook.replace(created_by=one.secrets[0]) for one in taken if one is not None)


@caught_by("webhooks")
class SkipsNothingThatWasPruned(Mistake):
    """Enables a webhook whose cursor the feed no longer knows."""

    def change_webhook(self, webhook: str, **asked: Any) -> Webhook:
        before = next((one for one in self.inner.webhooks() if one.id == webhook and asked.get("enabled")), None)
        changed = self.inner.change_webhook(webhook, **asked)
        return changed if before is None else changed.replace(cursor=before.cursor)


@caught_by("webhooks")
class SendsTheHistoryOfABackup(Mistake):
    """Leaves the cursors of webhooks where they are, whatever becomes of the feed."""

    def restore(self, path: str, *, actor: str) -> int:
        before = {hook.id: hook.cursor for hook in self.inner.webhooks()}
        restored = self.inner.restore(path, actor=actor)
        for id, cursor in before.items():
            self.raw("UPDATE webhooks SET record = json_set(record, '$.cursor', :at) WHERE id = :id", at=cursor, id=id)
        return restored


caught(
    "webhooks",
    prunes_what_a_webhook_has_not_passed=before("prune", "UPDATE webhooks SET active = 0"),
    begins_a_webhook_at_the_beginning=asks("add_webhook", webhook=lambda webhook: webhook.replace(cursor=0)),
    gives_the_lease_of_a_webhook_to_two=before("take_webhook", "UPDATE webhooks SET deliverer = NULL"),
    lets_a_late_deliverer_move_the_cursor=before("advance_webhook", "UPDATE webhooks SET deliverer = :deliverer"),
)
