"""Mistakes in queues: the wrong waiter, a dead one, an offer that anybody takes or that never ends; in soft claims."""

from __future__ import annotations

from dibs.errors import AgentAtCapacity, DibsError, ItemAlreadyClaimed, ItemNotClaimable
from tests.kit.broken.mistake import Mistake, MistakenTransactions, after, answers, asks, before, caught, caught_by

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from dibs.model import Ended, Grant, Item, SessionEnd, SoftClaim, Waiting
    from dibs.store.sql.transaction import Transaction

NEVER_AT = 9_000_000_000_000


class Reoffers(Mistake):
    """Makes offers of its own."""

    def offer(self, item: str, session: str | None) -> None:
        at = None if session is None else NEVER_AT
        sql = "UPDATE items SET offered_to = :session, offer_expires_at = :at WHERE id = :item AND status = 'ready'"
        self.raw(sql, item=item, session=session, at=at)


@caught_by("tickets", "test_waiters_are_served_in_the_order_of_their_tickets")
class LastComeFirstServed(Reoffers):
    def release(self, item: str, **asked: Any) -> Ended:
        ended = self.inner.release(item, **asked)
        waiters = self.inner.get(item).waiters
        if waiters:
            self.offer(item, waiters[-1].session)
        return ended


@caught_by("offers", "test_only_the_offered_session_may_claim")
class AnyoneAcceptsAnOffer(Reoffers):
    def claim(self, item: str, **asked: Any) -> Grant:
        self.offer(item, None)
        return self.inner.claim(item, **asked)


@caught_by("tickets", "test_waiting_again_renews_the_ticket_in_its_place")
class WaitingAgainGoesToTheEnd(Mistake):
    def wait(self, item: str, *, session: str, **asked: Any) -> Waiting:
        if any(ticket.session == session for ticket in self.inner.get(item).waiters):
            self.inner.leave(item, session=session)
        return self.inner.wait(item, session=session, **asked)


@caught_by("tickets", "test_a_queue_is_full_at_its_limit")
class QueueWithoutEnd(Mistake):
    def wait(self, item: str, **asked: Any) -> Waiting:
        engine = self.inner.engine  # type: ignore[attr-defined]
        engine.settings = engine.settings.replace(waiters_max=10**6)
        return self.inner.wait(item, **asked)


@caught_by("tickets", "test_an_ended_item_closes_its_tickets_and_says_how_it_ended")
class TicketsOutliveTheItem(Mistake):
    def done(self, item: str, **asked: Any) -> Ended:
        waiters = self.inner.get(item).waiters
        ended = self.inner.done(item, **asked)
        for ticket in waiters:
            self.raw("UPDATE tickets SET closed_at = NULL, reason = NULL WHERE id = :id", id=ticket.id)
        return ended


@caught_by("offers", "test_every_way_into_ready_offers_to_the_first_waiter")
class UnparkTellsNobody(Reoffers):
    """One of the ways into ready forgets who waits."""

    def unpark(self, item: str, **asked: Any) -> Item:
        self.inner.unpark(item, **asked)
        self.offer(item, None)
        return self.inner.get(item).item


@caught_by("offers", "test_an_offer_that_cannot_be_accepted_goes_to_the_next")
class KeepsWhatCannotBeAccepted(Reoffers):
    """An offer to a session without room stays with it until it lapses."""

    def claim(self, item: str, **asked: Any) -> Grant:
        try:
            return self.inner.claim(item, **asked)
        except AgentAtCapacity:
            self.offer(item, asked["session"])
            raise


@caught_by("offers", "test_a_lapsed_offer_needs_no_sweep")
class LapsedOffersStandInTheWay(Mistake):
    """Needs a sweep before anybody else can have what was not accepted."""

    def claim(self, item: str, **asked: Any) -> Grant:
        offered_to = self.inner.get(item).item.offered_to
        if offered_to not in (None, asked["session"]):
            raise ItemNotClaimable(f"{item} is kept", item=item, offered_to=offered_to, retry_after_seconds=1)
        return self.inner.claim(item, **asked)


@caught_by("tickets", "test_an_offer_that_is_left_goes_to_the_next_at_once")
class LeavingKeepsTheOffer(Reoffers):
    def leave(self, item: str, *, session: str, **asked: Any) -> Waiting:
        offered = self.inner.get(item).item.offered_to == session
        left = self.inner.leave(item, session=session, **asked)
        if offered:
            self.offer(item, session)
        return left


@caught_by("queues", "test_a_waiting_claim_that_is_interrupted_leaves")
class NobodyEverLeaves(Mistake):
    def leave(self, item: str, *, session: str, **asked: Any) -> Waiting:
        return self.inner.ticket(item, session=session)


@caught_by("queues", "test_a_ticket_is_told_of_its_offer")
class AcceptsForWhoIsTold(Mistake):
    """Gives the item to who waits, and perhaps is not there any more, instead of telling it."""

    def ticket(self, item: str, *, session: str) -> Waiting:
        standing: Waiting = self.inner.ticket(item, session=session)
        if standing.offered:
            self.inner.claim(item, session=session)
        return standing


@caught_by("soft_claims", "test_a_soft_claim_is_in_nobodys_way")
class SoftClaimExcludes(Mistake):
    def next(self, **asked: Any) -> tuple[Grant, ...]:
        return () if any(line.soft is not None for line in self.inner.who()) else self.inner.next(**asked)


@caught_by("soft_claims", "test_a_soft_claim_is_in_nobodys_way")
class OneSoftClaimAnItem(Mistake):
    def soft_claim(self, item: str, **asked: Any) -> SoftClaim:
        if any(line.soft is not None and line.item.id == item for line in self.inner.who()):
            raise ItemAlreadyClaimed(f"{item} is softly claimed", item=item)
        return self.inner.soft_claim(item, **asked)


@caught_by("soft_claims", "test_a_soft_claim_has_no_token_and_no_history")
class SoftClaimIsAnEvent(Mistake):
    def soft_claim(self, item: str, **asked: Any) -> SoftClaim:
        self.inner.edit(item, {"labels": ("soft",)}, actor="somebody")
        return self.inner.soft_claim(item, **asked)


@caught_by("soft_claims", "test_a_soft_claim_is_gone_with_its_session")
class SoftClaimsOutliveTheSession(Mistake):
    def end_session(self, session: str, **asked: Any) -> SessionEnd:
        kept = [line.soft for line in self.inner.who() if line.soft is not None and line.soft.session == session]
        end = self.inner.end_session(session, **asked)
        for soft in kept:
            columns = "item, session, agent, claimed_at, expires_at, ttl_seconds"
            values = ", ".join(f":{name}" for name in columns.split(", "))
            self.raw(f"INSERT INTO soft_claims ({columns}) VALUES ({values})", **soft.as_dict())  # noqa: S608  fixed names
        return end


@caught_by("soft_claims", "test_a_soft_claim_is_given_up_by_who_has_it")
class AnyoneGivesUpSoftClaims(Mistake):
    def soft_release(self, item: str, *, session: str, **asked: Any) -> SoftClaim:
        try:
            return self.inner.soft_release(item, session=session, **asked)
        except DibsError:
            for line in self.inner.who():
                if line.soft is not None and line.item.id == item:
                    return self.inner.soft_release(item, session=line.soft.session)
            raise


caught(
    "tickets",
    "test_a_dead_ticket_is_skipped_and_says_so",
    offers_to_the_dead=before("release", "UPDATE tickets SET expires_at = :at WHERE item = :item", at=NEVER_AT),
)
caught(
    "offers",
    "test_next_passes_over_what_is_offered",
    next_ignores_offers=before("next", "UPDATE items SET offered_to = NULL, offer_expires_at = NULL"),
)
caught(
    "offers",
    "test_nothing_extends_an_offer",
    heartbeat_extends_offers=before(
        "heartbeat", "UPDATE items SET offer_expires_at = offer_expires_at + 15000 WHERE offered_to = :session"
    ),
)
caught(
    "tickets",
    "test_only_waiting_renews_a_ticket",
    heartbeat_renews_tickets=before(
        "heartbeat", "UPDATE tickets SET expires_at = expires_at + 60000 WHERE session = :session"
    ),
)
caught("tickets", "test_a_ticket_tells_where_it_stands", everybody_is_first=answers("ticket", position=1))
caught(
    "tickets",
    "test_a_ticket_lives_to_the_last_millisecond_and_not_longer",
    tickets_last_a_second_longer=asks(
        "wait", ttl_seconds=lambda ttl_seconds: None if ttl_seconds is None else ttl_seconds + 1
    ),
)
caught(
    "tickets",
    "test_an_ended_item_closes_its_tickets_and_says_how_it_ended",
    closes_tickets_without_a_word=answers(
        "ticket", lambda standing: standing.replace(ticket=standing.ticket.replace(reason=None))
    ),
)
caught(
    "offers",
    "test_with_nobody_waiting_every_way_into_ready_makes_it_claimable",
    claimable_is_no_event=answers(
        "events", lambda events: tuple(event for event in events if event.kind != "claimable")
    ),
)
caught(
    "offers",
    "test_a_lapsed_offer_goes_to_the_next_and_is_lost",
    offers_never_lapse=before(
        "sweep", "UPDATE items SET offer_expires_at = :at WHERE offered_to IS NOT NULL", at=NEVER_AT
    ),
)
caught(
    "tickets",
    "test_the_end_of_a_session_leaves_its_queues",
    the_ended_still_wait=after(
        "end_session", "UPDATE tickets SET closed_at = NULL, reason = NULL WHERE session = :session"
    ),
)
caught(
    "soft_claims",
    "test_a_soft_claim_expires",
    soft_claims_never_expire=after("soft_claim", "UPDATE soft_claims SET expires_at = :at", at=NEVER_AT),
)
caught(
    "soft_claims",
    "test_a_heartbeat_renews_a_soft_claim_and_never_a_lapsed_one",
    heartbeat_forgets_soft_claims=after(
        "heartbeat", "UPDATE soft_claims SET expires_at = claimed_at + CAST(ttl_seconds * 1000 AS BIGINT)"
    ),
    heartbeat_revives_soft_claims=before(
        "heartbeat", "UPDATE soft_claims SET expires_at = expires_at + 600000 WHERE session = :session"
    ),
)


@caught_by("dead_owners", "test_an_offer_is_not_lost_to_what_a_dead_owner_holds")
class PassesAnOfferOnAtOnce(MistakenTransactions):
    """Before it has looked whether the claim in its way is of a dead owner."""

    kinds = ("write",)

    def mistake(self, t: Transaction) -> None:
        vars(t)["dead_owners"] = list
