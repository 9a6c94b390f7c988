"""Mistakes in what dashboards are shown."""

from __future__ import annotations

from dibs.model import STATUSES
from tests.kit.broken.mistake import Mistake, caught_by
from tests.kit.broken.overlooking import NEVER, ForgetfulReads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from dibs.model.dashboard import Paged, View
    from dibs.rules.decision import State


@caught_by("overview", "test_a_view_has_what_has_not_ended_and_what_just_ended")
class LeavesOffInSilence(Mistake):
    """Shows the first items, and does not say that there are more."""

    def view(self) -> View:
        view = self.inner.view()
        return view.replace(items=view.items[:3])


@caught_by("overview", "test_a_view_has_what_has_not_ended_and_what_just_ended")
class ShowsInOrderOfAge(Mistake):
    """What needs somebody stands anywhere, and may be what is left off."""

    def view(self) -> View:
        view = self.inner.view()
        return view.replace(items=tuple(sorted(view.items, key=lambda item: item.created_at)))


@caught_by("overview", "test_the_feed_continues_a_view")
class ViewsAheadOfTheFeed(Mistake):
    def view(self) -> View:
        view = self.inner.view()
        return view.replace(event=view.event + 1)


@caught_by("overview", "test_a_view_is_what_a_claim_would_find")
class ViewForgetsExpiry(ForgetfulReads):
    def forget(self, state: State) -> State:
        return state if state.claim is None else state.replace(claim=state.claim.replace(expires_at=NEVER))


@caught_by("overview", "test_a_claim_is_shown_with_its_note_and_its_queue")
class ViewMixesUpTheQueue(Mistake):
    def view(self) -> View:
        view = self.inner.view()
        return view.replace(holdings=tuple(held.replace(waiters=held.waiters[::-1]) for held in view.holdings))


@caught_by("overview", "test_a_claim_is_shown_with_its_note_and_its_queue")
class ViewKeepsTheFirstNote(Mistake):
    def view(self) -> View:
        view = self.inner.view()
        return view.replace(
            holdings=tuple(
                held.replace(note=held.note and held.note.replace(note=self.inner.get(held.item).notes[0].note))
                for held in view.holdings
            )
        )


@caught_by("overview", "test_a_session_is_scored_and_told_why")
class EverybodyScoresAHundred(Mistake):
    def view(self) -> View:
        view = self.inner.view()
        return view.replace(sessions=tuple(seat.replace(score=100, reasons=()) for seat in view.sessions))


@caught_by("overview", "test_a_page_has_what_matches_and_counts_that_obey_the_filter")
class CountsThePageOnly(Mistake):
    """Counts what it shows, so that a chosen status hides all others."""

    def page(self, **asked: Any) -> Paged:
        page = self.inner.page(**asked)
        shown = [item.status for item in page.items]
        return page.replace(counts={**page.counts, "status": {status: shown.count(status) for status in STATUSES}})


@caught_by("overview", "test_a_page_has_what_matches_and_counts_that_obey_the_filter")
class SearchesByCase(Mistake):
    def page(self, *, q: str | None = None, **asked: Any) -> Paged:
        page = self.inner.page(q=q, **asked)
        found = tuple(item for item in page.items if all(word in item.title + item.id for word in (q or "").split()))
        return page.replace(items=found, total=len(found))


@caught_by("overview", "test_pages_follow_each_other_in_every_order")
class PagesStartAgain(Mistake):
    def page(self, *, cursor: str | None = None, **asked: Any) -> Paged:
        return self.inner.page(**asked)


@caught_by("overview", "test_a_page_is_what_a_claim_would_find")
class PageForgetsSchedules(ForgetfulReads):
    def forget(self, state: State) -> State:
        return state if state.item.not_before is None else state.replace(item=state.item.replace(not_before=NEVER))
