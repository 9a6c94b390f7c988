"""Mistakes with subjects and hand-overs: two items of one subject, a claim in two hands, a moment in between."""

from __future__ import annotations

from dibs.errors import DibsError, ItemNotClaimable
from dibs.model import Grant
from tests.kit.broken.mistake import Mistake, caught_by

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from dibs.model import Added, Edited, NewItem, Renewal


@caught_by("subjects", "test_of_many_processes_that_claim_a_new_subject_one_adds_it_and_one_holds_it")
class LooksThenAdds(Mistake):
    """Looks for the subject in one transaction, and adds the item in another."""

    def claim_subject(self, new: NewItem, **asked: Any) -> Grant:
        found = self.inner.list(subject=new.subject, limit=1)
        if found:
            return self.inner.claim_subject(new, **asked)
        added = self.inner.add([new.replace(subject=None)], actor="nobody")[0]
        self.raw("UPDATE items SET subject = :subject WHERE id = :id", subject=new.subject, id=added.id)
        asked.pop("request", None)
        return self.inner.claim(added.id, **asked)


@caught_by("subjects", "test_the_item_of_an_ended_subject_is_named_and_nothing_is_added")
class BeginsAnEndedSubjectAnew(Mistake):
    """Takes the subject of an ended item for free."""

    def claim_subject(self, new: NewItem, **asked: Any) -> Grant:
        try:
            return self.inner.claim_subject(new, **asked)
        except ItemNotClaimable as refusal:
            ended = refusal.facts.get("item")
            if ended is None:
                raise
            self.inner.edit(ended, {"subject": None}, actor="nobody")
            return self.inner.claim_subject(new, **asked)


@caught_by("subjects", "test_a_new_item_that_cannot_be_claimed_is_not_added")
class AddsWhatItCannotGive(Mistake):
    """Adds the item, whether or not the session may have it."""

    def claim_subject(self, new: NewItem, **asked: Any) -> Grant:
        self.inner.add([new], actor="nobody")
        return self.inner.claim_subject(new, **asked)


@caught_by("subjects", "test_adding_a_subject_again_answers_its_item")
class AddsASubjectTwice(Mistake):
    def add(self, items: Sequence[NewItem], **asked: Any) -> tuple[Added, ...]:
        added = self.inner.add([new.replace(subject=None) for new in items], **asked)
        for new in items:
            self.raw("UPDATE items SET subject = :subject WHERE id = :id", subject=new.subject, id=new.id)
        return added


@caught_by("handing", "test_the_queue_keeps_its_order_and_gets_no_offer")
class ReleasesThenClaims(Mistake):
    """Hands over by a release and a claim: in between, the item is whoever's is first."""

    def hand(self, item: str, *, to: str, session: str, token: int | None = None, **asked: Any) -> Grant:
        self.inner.release(item, session=session, token=token, reason=asked.get("reason"))
        return self.inner.claim(item, session=to, ttl_seconds=asked.get("ttl_seconds"))


@caught_by("handing", "test_a_token_is_worth_nothing_from_the_instant_in_which_its_claim_is_handed_on")
class RemembersItsHolders(Mistake):
    """Asks once whether a token is good, and takes it from then on."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._good: dict[tuple[str, Any], Renewal] = {}

    def progress(self, item: str, **asked: Any) -> Renewal:
        key = (item, asked.get("token"))
        if key not in self._good:
            self._good[key] = self.inner.progress(item, **asked)
        return self._good[key]


@caught_by("handing", "test_the_old_token_is_refused_and_told_who_holds_it")
class HandsOverUnderTheOldToken(Mistake):
    """Writes another name into the claim."""

    def hand(self, item: str, *, to: str, session: str, token: int | None = None, **asked: Any) -> Grant:
        self.inner.renew(item, session=session, token=token)
        for table in ("claims", "runs"):
            self.raw(f"UPDATE {table} SET session = :to WHERE item = :item", to=to, item=item)  # noqa: S608
        held = self.inner.get(item)
        assert held.claim is not None
        return Grant(item=held.item, claim=held.claim)


@caught_by("handing", "test_what_the_other_could_not_claim_it_is_not_handed")
class ForcesItOnTheOther(Mistake):
    """Asks nobody whether the other session may have it."""

    def hand(self, item: str, **asked: Any) -> Grant:
        try:
            return self.inner.hand(item, **asked)
        except DibsError as refusal:
            if refusal.code != "AGENT_AT_CAPACITY":
                raise
            for agent in self.inner.agents():
                self.inner.set_agent(agent.replace(max_claims=None))
            return self.inner.hand(item, **asked)


@caught_by("handing", "test_only_the_holder_hands_over_and_only_what_is_live")
class LetsAnybodyHandOver(Mistake):
    """Does not ask whose claim it is."""

    def hand(self, item: str, *, session: str, token: int | None = None, **asked: Any) -> Grant:
        held = self.inner.get(item).claim
        holder = session if held is None else held.session
        return self.inner.hand(item, session=holder, **asked)


@caught_by("approvals", "test_an_approval_does_not_cover_the_state_of_the_subject_elsewhere")
class CoversNoPayload(Mistake):
    """Takes every payload for the state of the subject elsewhere."""

    def edit(self, item: str, changes: Any, **asked: Any) -> Edited:
        if changes.keys() == {"payload"}:
            changes = {"payload": {**self.inner.get(item).item.payload, "external": changes["payload"]}}
        return self.inner.edit(item, changes, **asked)
