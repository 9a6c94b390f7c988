"""Mistakes in what dashboards are shown."""

from __future__ import annotations

import time

from dibs.model import STATUSES
from dibs.model.dashboard import Bulk, Deduction
from tests.kit.broken.mistake import Mistake, after, answers, asks, before, caught, caught_by
from tests.kit.broken.overlooking import NEVER, ForgetfulReads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from dibs.model import Prune
    from dibs.model.dashboard import Paged, Seat, Series, View, Window
    from dibs.rules.decision import State


@caught_by("overview", "test_a_view_is_what_a_claim_would_find")
class ViewForgetsExpiry(ForgetfulReads):
    def forget(self, state: State) -> State:
        return state if state.claim is None else state.replace(claim=state.claim.replace(expires_at=NEVER))


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


@caught_by("overview", "test_a_failed_item_is_shown_with_its_reason")
class ViewKeepsTheReasonOfARetriedItem(Mistake):
    def view(self) -> View:
        view = self.inner.view()
        runs = {item.id: self.inner.runs(item=item.id, limit=1) for item in view.items}
        return view.replace(
            items=tuple(item.replace(reason=runs[item.id][0].reason if runs[item.id] else None) for item in view.items)
        )


@caught_by("overview", "test_a_score_is_about_the_runs_that_are_shown")
class ScoresRunsThatAreNotShown(Mistake):
    """Counts failed runs that are further back than the ten that are shown."""

    def view(self) -> View:
        view = self.inner.view()
        return view.replace(sessions=tuple(seat.replace(reasons=self._reasons(seat)) for seat in view.sessions))

    def _reasons(self, seat: Seat) -> tuple[Deduction, ...]:
        share = seat.ended.get("failed", 0) / (sum(seat.ended.values()) or 1)
        return (Deduction(code="failed", points=int(20 * share + 0.5), text="failed"),) if share else ()


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


@caught_by("overview", "test_a_page_is_what_a_claim_would_find")
class PageForgetsSchedules(ForgetfulReads):
    def forget(self, state: State) -> State:
        return state if state.item.not_before is None else state.replace(item=state.item.replace(not_before=NEVER))


@caught_by("bulk", "test_each_item_is_decided_for_itself")
class BulkStopsAtARefusal(Mistake):
    def bulk(self, verb: str, *, items: Any = (), **asked: Any) -> Bulk:
        answer = Bulk(done=(), refused=())
        for one in items:
            each = self.inner.bulk(verb, items=[one], **asked)
            answer = Bulk(done=answer.done + each.done, refused=answer.refused + each.refused)
            if each.refused:
                break
        return answer


@caught_by("bulk", "test_what_changed_meanwhile_is_left_alone")
class BulkIgnoresRevisions(Mistake):
    def bulk(self, verb: str, *, items: Any = (), **asked: Any) -> Bulk:
        known = [{name: value for name, value in one.items() if name != "revision"} for one in items]
        return self.inner.bulk(verb, items=known, **asked)


@caught_by("bulk", "test_a_filter_changes_what_matches_if_that_is_what_was_expected")
class BulkExpectsWhatThereIs(Mistake):
    def bulk(self, verb: str, *, expect: int | None = None, filter: Any = None, **asked: Any) -> Bulk:
        if filter is not None:
            expect = self.inner.page(**filter, limit=1).total
        return self.inner.bulk(verb, filter=filter, expect=expect, **asked)


@caught_by("timeline", "test_a_window_has_every_run_that_it_touches")
class WindowHasOnlyWhatBeganInIt(Mistake):
    def window(self, **asked: Any) -> Window:
        window = self.inner.window(**asked)
        return window.replace(runs=tuple(run for run in window.runs if run[4] >= (asked["from_"] or 0)))


@caught_by("timeline", "test_a_window_has_every_run_that_it_touches")
class WindowForgetsExpiry(ForgetfulReads):
    def forget(self, state: State) -> State:
        return state if state.claim is None else state.replace(claim=state.claim.replace(expires_at=NEVER))


@caught_by("timeline", "test_the_length_of_a_stretch_counts_back_from_the_clock_of_the_board")
class CountsBackOnTheClockOfTheCaller(Mistake):
    def window(self, *, since: float | None = None, **asked: Any) -> Window:
        if since is not None:
            asked["from_"] = round((time.time() - since) * 1000)
        return self.inner.window(**asked)


@caught_by("timeline", "test_a_series_counts_and_measures_each_step")
class SeriesMeasuresFromTheFirstEvent(Mistake):
    """Every item seems to have waited since it was added."""

    def series(self, **asked: Any) -> Series:
        series = self.inner.series(**asked)
        waits = {name: [line[0]] * len(line) for name, line in series.time_to_claim.items()}
        return series.replace(time_to_claim=waits)


@caught_by("timeline", "test_a_series_sums_what_runs_have_cost")
class SeriesCostsOfEverybody(Mistake):
    """Sums the costs of all runs, whatever agent or project was asked for."""

    def series(self, **asked: Any) -> Series:
        everybody = self.inner.series(**{**asked, "agent": None, "project": None})
        return self.inner.series(**asked).replace(cost=everybody.cost)


@caught_by("figures")
class PruneLeavesTheFigures(Mistake):
    """Deletes items, and goes on counting them."""

    def prune(self, **asked: Any) -> Prune:
        pruned = self.inner.prune(**asked)
        self.raw("UPDATE figures SET count = count + :n WHERE kind = 'ended' AND name = 'done'", n=pruned.items)
        return pruned


caught(
    "overview",
    "test_a_view_has_what_has_not_ended_and_what_just_ended",
    # Shows the first items, and does not say that there are more.
    leaves_off_in_silence=answers("view", lambda view: view.replace(items=view.items[:3])),
    # What needs somebody stands anywhere, and may be what is left off.
    shows_in_order_of_ids=answers(
        "view", lambda view: view.replace(items=tuple(sorted(view.items, key=lambda item: item.id)))
    ),
)
caught(
    "overview",
    "test_the_feed_continues_a_view",
    views_ahead_of_the_feed=answers("view", lambda view: view.replace(event=view.event + 1)),
)
caught(
    "overview",
    "test_a_claim_is_shown_with_its_note_and_its_queue",
    view_mixes_up_the_queue=answers(
        "view",
        lambda view: view.replace(holdings=tuple(held.replace(waiters=held.waiters[::-1]) for held in view.holdings)),
    ),
)
caught(
    "overview",
    "test_a_session_is_scored_and_told_why",
    everybody_scores_a_hundred=answers(
        "view", lambda view: view.replace(sessions=tuple(seat.replace(score=100, reasons=()) for seat in view.sessions))
    ),
)
caught(
    "overview",
    "test_a_page_has_what_matches_and_counts_that_obey_the_filter",
    # Finds the brackets around the labels.
    searches_the_text_of_lists=asks("page", q=lambda q: None if q == "[" else q),
)
caught("overview", "test_pages_follow_each_other_in_every_order", pages_start_again=asks("page", cursor=None))
caught("bulk", "test_a_repeated_request_changes_nothing_more", bulk_forgets_requests=asks("bulk", request=None))
caught("timeline", "test_a_window_says_that_it_was_cut", window_is_cut_in_silence=answers("window", truncated=False))
caught(
    "timeline",
    "test_a_series_ends_in_what_there_is_now",
    series_counts_backwards=answers(
        "series", lambda series: series.replace(depth={status: line[::-1] for status, line in series.depth.items()})
    ),
)
caught(
    "figures",
    # Forgets how far it has counted.
    sweeps_count_twice=before("sweep", "UPDATE figures SET count = 0 WHERE kind = 'upto' AND name = 'event'"),
    # A run that was live when it was counted is never counted as ended.
    counts_only_what_had_ended=after("sweep", "DELETE FROM uncounted_runs"),
)
