"""Mistakes in what is told to whoever watches over a board."""

from __future__ import annotations

from tests.kit.broken.mistake import Mistake, answers, caught, caught_by

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.model import Pulse


@caught_by("pulses", "test_what_is_offered_is_ready_still")
class LosesSightOfOffers(Mistake):
    """Counts by an index that leaves out what is offered."""

    def pulse(self) -> Pulse:
        pulse: Pulse = self.inner.pulse()
        offered = sum(item.offered_to is not None for item in self.inner.list(statuses=["ready"], limit=1000))
        ready = [{**group, "count": group["count"] - offered} for group in pulse.ready]
        return pulse.replace(ready=ready, ready_total=pulse.ready_total - offered)


@caught_by("pulses", "test_what_is_ready_is_counted_by_type_and_priority")
class CountsWhatIsNotReady(Mistake):
    def pulse(self) -> Pulse:
        return self.inner.pulse().replace(ready_total=len(self.inner.list(limit=1000)))


@caught_by("pulses", "test_a_claim_counts_while_it_lives")
class CountsTheLapsed(Mistake):
    def pulse(self) -> Pulse:
        started = [run for run in self.inner.runs(limit=1000) if run.outcome in (None, "expired")]
        return self.inner.pulse().replace(active_claims=len(started))


@caught_by("pulses", "test_a_claim_counts_while_it_lives")
class LagsByTheYoungest(Mistake):
    def pulse(self) -> Pulse:
        ages = [line.age_seconds for line in self.inner.who() if line.claim is not None]
        return self.inner.pulse().replace(heartbeat_lag_seconds=min(ages, default=0.0))


@caught_by("pulses", "test_a_person_who_holds_an_item_is_not_late")
class ExpectsHeartbeatsOfPeople(Mistake):
    def pulse(self) -> Pulse:
        ages = [line.age_seconds for line in self.inner.who() if line.claim is not None]
        return self.inner.pulse().replace(heartbeat_lag_seconds=max(ages, default=0.0))


@caught_by("pulses", "test_what_waits_for_a_person_is_counted_from_the_oldest")
class SaysNotSinceWhen(Mistake):
    def pulse(self) -> Pulse:
        pulse: Pulse = self.inner.pulse()
        waiting = self.inner.list(statuses=["pending_approval"], limit=1000)
        newest = max((item.updated_at for item in waiting), default=None)
        oldest = min((item.updated_at for item in waiting), default=None)
        if oldest is None or newest is None:
            return pulse
        late = (newest - oldest) / 1000
        return pulse.replace(waiting_for_person_seconds=pulse.waiting_for_person_seconds - late)


@caught_by("pulses", "test_a_backup_leaves_its_time")
class ForgetsItsBackups(Mistake):
    def note_backup(self) -> None:
        pass


@caught_by("pulses", "test_a_webhook_that_was_given_up_counts_and_a_paused_one_does_not")
class CountsWhatIsPaused(Mistake):
    def pulse(self) -> Pulse:
        disabled = sum(webhook.disabled_at is not None for webhook in self.inner.webhooks())
        return self.inner.pulse().replace(webhooks_disabled=disabled)


@caught_by("pulses", "test_a_session_is_as_healthy_as_its_least_healthy_claim")
class EverybodyIsWell(Mistake):
    def pulse(self) -> Pulse:
        pulse: Pulse = self.inner.pulse()
        idle = pulse.sessions["idle"]
        well = dict.fromkeys(pulse.sessions, 0) | {"healthy": sum(pulse.sessions.values()) - idle, "idle": idle}
        return pulse.replace(sessions=well)


@caught_by("following", "test_a_schedule_that_falls_due_reaches_a_follower")
class OverlooksSchedules(Mistake):
    """Tells when the next claim expires, and nothing else that time does."""

    def due_seconds(self, item: str | None = None) -> float | None:
        left = [line.remaining_seconds for line in self.inner.who() if item in (None, line.item.id)]
        return min(left, default=None)


@caught_by("following", "test_the_death_of_an_owner_reaches_a_follower")
class KnowsNoOwners(Mistake):
    def reap_dead_owners(self) -> bool:
        return False


caught("pulses", "test_who_waits_and_who_was_refused_is_counted", forgets_who_waits=answers("pulse", waiters=0))
caught(
    "live",
    "test_every_event_after_a_view_is_told_once_and_in_order",
    # Tells what callers do, and not what expires.
    leaves_out_what_time_does=answers(
        "events", lambda events: tuple(event for event in events if event.kind != "expired")
    ),
)
caught(
    "live",
    "test_renewals_queues_and_sessions_are_told_without_an_event",
    vitals_count_no_heartbeats=answers(
        "vitals",
        lambda vitals: vitals.replace(
            claims={item: (expires_at, 0) for item, (expires_at, _) in vitals.claims.items()}
        ),
    ),
    vitals_sort_the_queue=answers(
        "vitals",
        lambda vitals: vitals.replace(queues={item: tuple(sorted(queue)) for item, queue in vitals.queues.items()}),
    ),
)
