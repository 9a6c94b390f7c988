"""Stores that reopen items wrongly."""

from __future__ import annotations

from dibs.errors import ItemNotClaimable
from tests.kit.broken.mistake import Mistake, after, before, caught, caught_by

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from dibs.model import Item


@caught_by("reopening", "test_what_is_done_cancelled_or_rejected_is_reopened_under_a_higher_token")
class BeginsItsTokensAgain(Mistake):
    def reopen(self, item: str, **asked: Any) -> Item:
        self.raw("UPDATE items SET token = 0 WHERE id = :item", item=item)
        self.raw("DELETE FROM runs WHERE item = :item", item=item)
        return self.inner.reopen(item, **asked)


@caught_by("reopening", "test_it_is_refused_while_a_dependent_is_held_or_has_ended")
class ReopensUnderAHolder(Mistake):
    def reopen(self, item: str, **asked: Any) -> Item:
        try:
            return self.inner.reopen(item, **asked)
        except ItemNotClaimable as refusal:
            if "dependent" not in refusal.facts:
                raise
            self.raw("DELETE FROM dependencies WHERE needs = :item", item=item)
            return self.inner.reopen(item, **asked)


@caught_by("reopening", "test_an_approval_is_for_the_work_that_ended")
class KeepsTheApproval(Mistake):
    def reopen(self, item: str, **asked: Any) -> Item:
        was = self.inner.get(item).item
        after = self.inner.reopen(item, **asked)
        if was.approved and after.status == "pending_approval":
            return self.inner.approve(item, actor="nobody")
        return after


@caught_by("restoring", "test_an_export_is_restored_as_a_backup_is")
class KnowsItsOwnFormatOnly(Mistake):
    """Restores what it wrote itself, and has every other file converted by nobody."""

    backup_format = None


caught(
    "reopening",
    "test_what_is_done_cancelled_or_rejected_is_reopened_under_a_higher_token",
    forgets_the_runs=before("reopen", "DELETE FROM runs WHERE item = :item"),
)
caught(
    "reopening",
    "test_dependents_that_nobody_holds_wait_again",
    leaves_dependents_ready=before("reopen", "DELETE FROM dependencies WHERE needs = :item"),
)
caught(
    "reopening",
    "test_figures_know_of_it",
    counts_it_as_done=after("reopen", "UPDATE figures SET count = count + 1 WHERE kind = 'ended' AND name = 'done'"),
)
caught(
    "restoring",
    "test_an_export_is_restored_as_a_backup_is",
    # Takes an export for a backup of a board that gave no token since.
    restores_tokens_as_they_were=after("restore", "UPDATE items SET token = 1"),
)
