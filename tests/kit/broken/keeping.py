"""Mistakes in keeping and ending claims: no fence, no time, two ends, a past that comes back."""

from __future__ import annotations

from dibs.errors import ClaimExpired, ItemNotClaimed
from dibs.model import Ended, Heartbeat, Renewal
from tests.kit.broken.mistake import Mistake, after, asks, before, caught, caught_by

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from dibs.model import Claim, Finished, Grant


@caught_by("idempotency", "test_that_none_of_many_items_was_done_is_an_answer_and_kept")
class ForgetsWhatItAnsweredForMany(Mistake):
    def done_many(self, holding: dict[str, int | None], *, session: str, **asked: Any) -> Finished:
        return self.inner.done_many(holding, session=session)


@caught_by("finishing", "test_a_zombie_is_refused_as_a_whole_and_given_nothing")
class EndsWhatItCan(Mistake):
    """What cannot be ended holds up nothing, and nobody is told."""

    def next(self, *, done: Any = None, **asked: Any) -> tuple[Grant, ...]:
        if done:
            self.inner.done_many(done, session=asked["session"])
        return self.inner.next(**asked)


@caught_by("finishing", "test_room_is_made_for_this_very_look")
class LooksBeforeItEnds(Mistake):
    def next(self, *, done: Any = None, **asked: Any) -> tuple[Grant, ...]:
        grants = self.inner.next(**asked)
        if done:
            self.inner.done_many(done, session=asked["session"])
        return grants


@caught_by("finishing", "test_what_was_done_counts_as_ended_so_a_lost_answer_can_be_asked_again")
class FinishesOnlyOnce(Mistake):
    """Refuses what it was asked again, since that was done by then."""

    def next(self, *, done: Any = None, **asked: Any) -> tuple[Grant, ...]:
        for item, token in sorted((done or {}).items()):
            self.inner.done(item, session=asked["session"], token=token, links={}, cost={})
        return self.inner.next(**asked)


@caught_by("finishing", "test_what_another_session_has_done_is_not_this_ones")
class DoneIsDone(Mistake):
    """Looks at the item and not at who ended it."""

    def next(self, *, done: Any = None, **asked: Any) -> tuple[Grant, ...]:
        open_yet = {item: token for item, token in (done or {}).items() if self.inner.get(item).item.status != "done"}
        return self.inner.next(done=open_yet, **asked)


@caught_by("finishing", "test_what_is_finished_is_done_also_if_the_limits_refuse")
class UndoneByARefusal(Mistake):
    """Ends nothing if there is no room for more afterwards."""

    def next(self, *, done: Any = None, **asked: Any) -> tuple[Grant, ...]:
        limited = any(agent.claims_per_minute for agent in self.inner.agents())
        return self.inner.next(done=None if limited else done, **asked)


class IgnoresTheSession(Mistake):
    def holder(self, item: str, asked: dict[str, Any]) -> dict[str, Any]:
        claim = self.inner.get(item).claim
        return asked if claim is None else {**asked, "session": claim.session}


@caught_by("fencing")
class DoneByAnybody(IgnoresTheSession):
    def done(self, item: str, **asked: Any) -> Ended:
        return self.inner.done(item, **self.holder(item, asked))


@caught_by("fencing")
class ReleasedByAnybody(IgnoresTheSession):
    """A release that ignores the owner."""

    def release(self, item: str, **asked: Any) -> Ended:
        return self.inner.release(item, **self.holder(item, asked))


@caught_by("fencing")
class ZombieCompletes(Mistake):
    """Accepts the end of a claim that has expired, as long as its token was once given."""

    def done(self, item: str, **asked: Any) -> Ended:
        try:
            return self.inner.done(item, **asked)
        except ClaimExpired:
            claim = self.inner.get(item).claim
            if claim is None:
                claim = self.inner.recover(item, session=asked["session"]).claim
            return self.inner.done(item, **{**asked, "session": claim.session, "token": claim.token})


@caught_by("fencing")
class DoneTwice(Mistake):
    """Says yes to the second end of a run as well."""

    def done(self, item: str, **asked: Any) -> Ended:
        try:
            return self.inner.done(item, **asked)
        except ItemNotClaimed as refusal:
            if refusal.facts.get("how") != "done":
                raise
            detail = self.inner.get(item)
            return Ended(item=detail.item, run=detail.runs[0])


@caught_by("fencing")
class SaysNobodyTookOver(Mistake):
    """Tells a late holder that it is late, and not who has the item."""

    def done(self, item: str, **asked: Any) -> Ended:
        try:
            return self.inner.done(item, **asked)
        except ClaimExpired as refusal:
            refusal.facts["taken_over_by"] = None
            raise


@caught_by("fencing")
class ForcedWithoutRecord(Mistake):
    """A forced release that looks like one of the holder's own."""

    def force_release(self, item: str, **asked: Any) -> Ended:
        claim = self.inner.get(item).claim
        if claim is None or asked.get("token") not in (None, claim.token):
            return self.inner.force_release(item, **asked)
        return self.inner.release(item, session=claim.session, token=claim.token, request=asked.get("request"))


@caught_by("leases")
class HeartbeatDoesNotExtend(Mistake):
    """Answers as if it had renewed."""

    def renew(self, item: str, **asked: Any) -> Renewal:
        return self._unchanged(item, lambda: self.inner.renew(item, **asked))

    def _unchanged(self, item: str, renew: Callable[[], Renewal]) -> Renewal:
        before = self.inner.get(item).claim
        renewal = renew()
        if before is not None:
            self.raw("UPDATE claims SET expires_at = :at WHERE item = :item", at=before.expires_at, item=item)
        return renewal


@caught_by("leases")
class RenewsPastTheDeadline(Mistake):
    def renew(self, item: str, **asked: Any) -> Renewal:
        renewal = self.inner.renew(item, **asked)
        claim = self.inner.get(item).claim
        assert claim is not None
        at = claim.renewed_at + round(claim.ttl_seconds * 1000)
        self.raw("UPDATE claims SET expires_at = :at WHERE item = :item", at=at, item=item)
        return renewal.replace(expires_at=at)


@caught_by("leases")
class InheritsHeartbeats(Mistake):
    """A new claim goes on where the heartbeats of the last one stopped."""

    def claim(self, item: str, **asked: Any) -> Grant:
        grant = self.inner.claim(item, **asked)
        if grant.previous is None:
            return grant
        self.raw("UPDATE claims SET heartbeat_count = 2 WHERE item = :item", item=item)
        return grant.replace(claim=grant.claim.replace(heartbeat_count=2))


@caught_by("leases")
class InheritsExpiry(Mistake):
    """A new claim lasts as long as the last one would have."""

    ends: dict[str, int] = {}

    def claim(self, item: str, **asked: Any) -> Grant:
        grant = self.inner.claim(item, **asked)
        at = self.ends.setdefault(grant.item.title + item, grant.claim.expires_at)
        return grant.replace(claim=grant.claim.replace(expires_at=at))


@caught_by("heartbeats")
class HeartbeatRevives(Mistake):
    """A heartbeat brings back what had expired."""

    def heartbeat(self, *, session: str, **asked: Any) -> Heartbeat:
        beat = self.inner.heartbeat(session=session, **asked)
        revived = [
            self._revive(lost.item, session)
            for lost in beat.lost
            if lost.code == ClaimExpired.code and lost.holder is None
        ]
        lost = tuple(one for one in beat.lost if one.item not in {renewal.item for renewal in revived})
        return beat.replace(renewed=(*beat.renewed, *revived), lost=lost)

    def _revive(self, item: str, session: str) -> Renewal:
        claim: Claim = self.inner.recover(item, session=session).claim
        return self.inner.renew(item, session=session, token=claim.token)


@caught_by("heartbeats")
class ForgetsNothing(Mistake):
    """Ignores what the session says it holds."""

    def heartbeat(self, *, session: str, **asked: Any) -> Heartbeat:
        return self.inner.heartbeat(session=session)


@caught_by("heartbeats")
class RenewsBeforeItLooks(Mistake):
    """Says that a claim was renewed just now, and has renewed it again."""

    def heartbeat(self, *, session: str, at_most_every_seconds: float | None = None, **asked: Any) -> Heartbeat:
        beat: Heartbeat = self.inner.heartbeat(session=session, at_most_every_seconds=at_most_every_seconds, **asked)
        if at_most_every_seconds is not None:
            self.inner.heartbeat(session=session)
        return beat


@caught_by("heartbeats", "test_who_beats_is_not_shown_as_stale_whatever_the_interval_is")
class TakesAnyIntervalAtItsWord(Mistake):
    """Leaves a claim alone for so long that its holder seems to be gone."""

    def heartbeat(self, *, session: str, at_most_every_seconds: float | None = None, **asked: Any) -> Heartbeat:
        before = [line.claim for line in self.inner.who() if line.claim is not None and line.claim.session == session]
        beat: Heartbeat = self.inner.heartbeat(session=session, at_most_every_seconds=at_most_every_seconds, **asked)
        for claim in before if at_most_every_seconds is not None else ():
            self.raw("UPDATE claims SET renewed_at = :at WHERE item = :item", at=claim.renewed_at, item=claim.item)
        return beat


@caught_by("heartbeats")
class RenewsEverybody(Mistake):
    """One session's heartbeat keeps the claims of all."""

    def heartbeat(self, *, session: str, **asked: Any) -> Heartbeat:
        for line in self.inner.who():
            if line.claim is not None and line.claim.session != session:
                self.inner.heartbeat(session=line.claim.session)
        return self.inner.heartbeat(session=session, **asked)


caught(
    "fencing",
    # Completes by id: any token of the session opens.
    ignores_the_token=asks("done", token=None),
)
caught(
    "fencing",
    "test_a_token_that_is_over_ends_nothing",
    many_without_their_tokens=asks("done_many", holding=lambda holding: dict.fromkeys(holding)),
)
caught(
    "states",
    loses_the_failed=after("fail", "DELETE FROM items WHERE id = :item"),
    # A rescuer that acts on what it knew before the item was done.
    expiry_overwrites_the_done=before(
        "sweep", "UPDATE items SET status = 'ready', revision = revision + 1 WHERE status = 'done'"
    ),
)
caught(
    "leases",
    # Sweeps by a clock that is a second ahead.
    expires_early=before("sweep", "UPDATE claims SET expires_at = expires_at - 1000"),
    never_strikes=after("sweep", "UPDATE items SET strikes = 0"),
    sweeps_without_bound=asks("sweep", limit=100000),
)
caught(
    "heartbeats",
    # A late heartbeat ends what was given since, too.
    forgets_what_nobody_knew=asks("heartbeat", known_event=None),
)
