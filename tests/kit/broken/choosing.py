"""Stores that choose or find wrongly: ids, labels, parts of lists, and what is only to be looked at."""

from __future__ import annotations

from dibs.randomness import words_of_title
from tests.kit.broken.mistake import Mistake, asks, before, caught, caught_by

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from dibs.model import Added, Edited, Item, NewItem, Stats


@caught_by("changed_lists", "test_labels_are_added_and_removed")
class ReplacesLabels(Mistake):
    def edit(self, item: str, changes: Mapping[str, Any], *, add_labels: Sequence[str] = (), **asked: Any) -> Edited:
        more = {"labels": tuple(add_labels)} if add_labels else {}
        return self.inner.edit(item, {**changes, **more}, **asked)


@caught_by("finding", "test_ids_are_found_by_their_beginning")
class FindsIdsInTheMiddle(Mistake):
    def ids(self, prefix: str, *, limit: int) -> tuple[str, ...]:
        found = sorted(item.id for item in self.inner.list(limit=1000) if prefix in item.id)
        return tuple(found[:limit])


@caught_by("finding", "test_a_preview_is_what_next_would_give_and_changes_nothing")
class PreviewIgnoresResources(Mistake):
    def preview(self, *, session: str | None = None, **asked: Any) -> tuple[Item, ...]:
        return self.inner.list(statuses=["ready"], limit=asked["n"])


@caught_by("finding", "test_a_preview_is_what_next_would_give_and_changes_nothing")
class PreviewClaims(Mistake):
    def preview(self, *, session: str | None = None, agent: str | None = None, **asked: Any) -> tuple[Item, ...]:
        if session is None:
            return self.inner.preview(agent=agent, **asked)
        grants = self.inner.next(session=session, agent=agent, **asked)
        for grant in grants:
            self.inner.release(grant.item.id, session=session)
        return tuple(grant.item for grant in grants)


@caught_by("generated_ids", "test_those_who_add_one_title_at_once_get_different_ids")
class CountsBeforeItsTransaction(Mistake):
    def add(self, items: Sequence[NewItem], **asked: Any) -> tuple[Added, ...]:
        number = len(self.inner.list(limit=1000))
        return self.inner.add([one.replace(id=one.id or f"fix-login-{number}") for one in items], **asked)


@caught_by("timeline", "test_a_series_sums_what_runs_have_cost")
class StatsOfOneAgentCostAsMuchAsAll(Mistake):
    def stats(self, *, agent: str | None = None) -> Stats:
        return self.inner.stats(agent=agent).replace(cost=self.inner.stats().cost)


caught("finding", "test_next_gives_only_items_with_all_of_the_labels", next_overlooks_labels=asks("next", labels=()))
caught(
    "generated_ids",
    "test_an_id_is_the_words_of_the_title_and_then_a_number",
    takes_one_title_for_one_item=asks(
        "add", items=lambda items: [one.replace(id=one.id or words_of_title(one.title)) for one in items]
    ),
)
caught(
    "pruning",
    "test_a_dry_run_counts_what_would_go_and_deletes_nothing",
    prunes_in_a_dry_run=asks("prune", limit=lambda limit: limit or 1000, dry_run=False),
)
caught(
    "pruning",
    "test_a_chain_that_ended_is_forgotten_as_a_whole",
    prunes_a_chain_from_its_beginning=before("prune", "DELETE FROM dependencies"),
)
