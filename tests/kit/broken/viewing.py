"""Mistakes in what dashboards are shown."""

from __future__ import annotations

from tests.kit.broken.mistake import Mistake, caught_by
from tests.kit.broken.overlooking import NEVER, ForgetfulReads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.model.dashboard import View
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
