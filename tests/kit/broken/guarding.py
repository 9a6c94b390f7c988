"""Mistakes in guarding what agents may touch, do and hold: resources, approvals, policies, limits; in saying why."""

from __future__ import annotations

import time

from dibs.errors import AgentAtCapacity, DibsError, Forbidden, RateLimited, ResourceBusy
from dibs.model import Approval, Reason
from tests.kit.broken.mistake import Mistake, after, answers, asks, before, caught, caught_by

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from dibs.model import Agent, Ended, Grant, Holding, Item

    T = TypeVar("T")


class Touches(Mistake):
    """Has a rule of its own about what stands in the way of a claim by id."""

    def in_the_way(self, item: Item, line: Holding, me: str) -> bool:
        raise NotImplementedError

    def claim(self, item: str, **asked: Any) -> Grant:
        wanted = self.inner.get(item).item
        for line in self.inner.who():
            if line.claim is not None and line.item.id != item and self.in_the_way(wanted, line, asked["session"]):
                raise ResourceBusy(f"{item} touches what {line.item.id} does", item=item)
        return self.inner.claim(item, **asked)


@caught_by("resources", "test_a_sessions_own_holds_are_no_conflict")
class OwnHoldsConflict(Touches):
    def in_the_way(self, item: Item, line: Holding, me: str) -> bool:
        return bool(set(item.resources) & set(line.item.resources))


@caught_by("resources", "test_the_scope_of_a_resource_is_its_project")
class ResourcesOfTheWholeBoard(Touches):
    def in_the_way(self, item: Item, line: Holding, me: str) -> bool:
        return item.project != line.item.project and bool(set(item.resources) & set(line.item.resources))


@caught_by("resources", "test_what_touches_what")
class OverlapsByPrefix(Mistake):
    """Compares paths as strings: `src/api` is taken to cover `src/apis`."""

    def next(self, **asked: Any) -> tuple[Grant, ...]:
        held = [one for line in self.inner.who() for one in line.item.resources]
        grants = self.inner.next(**asked)
        for grant in grants:
            if any(a.startswith(b) or b.startswith(a) for a in grant.item.resources for b in held):
                self.inner.release(grant.item.id, session=asked["session"])
                return ()
        return grants


@caught_by("resources", "test_what_touches_what")
class OnlyEqualsTouch(Mistake):
    """Does not see that a path covers what lies below it."""

    def next(self, **asked: Any) -> tuple[Grant, ...]:
        held = {one for line in self.inner.who() for one in line.item.resources}
        for item in self.inner.list(statuses=["ready"], projects=asked["projects"], limit=1000):
            if not held & set(item.resources):
                self.raw("UPDATE items SET resources = '[]' WHERE id = :item", item=item.id)
        return self.inner.next(**asked)


@caught_by("resources", "test_a_hold_ends_with_its_claim_however_that_ends")
class HoldsOutliveTheClaim(Mistake):
    kept: tuple[str, ...] = ()

    def release(self, item: str, **asked: Any) -> Ended:
        ended = self.inner.release(item, **asked)
        self.kept = ended.item.resources
        return ended

    def claim(self, item: str, **asked: Any) -> Grant:
        if set(self.inner.get(item).item.resources) & set(self.kept):
            raise ResourceBusy(f"{item} touches what was held", item=item)
        return self.inner.claim(item, **asked)


@caught_by("resources", "test_a_busy_resource_is_refused_with_its_holder_and_item")
class BusyWithoutAHolder(Mistake):
    def claim(self, item: str, **asked: Any) -> Grant:
        try:
            return self.inner.claim(item, **asked)
        except ResourceBusy as refusal:
            raise ResourceBusy(refusal.message, item=item, resource="", held_for="", holder={}) from refusal


@caught_by("resources", "test_resources_and_project_of_a_claimed_item_stay_as_they_are")
class EditsWhatIsHeld(Mistake):
    def edit(self, item: str, changes: Any, **asked: Any) -> Item:
        if "resources" in changes and self.inner.get(item).claim is not None:
            self.raw("UPDATE items SET resources = '[]' WHERE id = :item", item=item)
            return self.inner.get(item).item
        return self.inner.edit(item, changes, **asked)


@caught_by("resources", "test_items_that_touch_are_never_held_by_two_sessions")
class LooksThenHolds(Mistake):
    """Looks at what is held before it takes its turn."""

    def claim(self, item: str, **asked: Any) -> Grant:
        project = self.inner.get(item).item.project
        free = not any(line.item.project == project for line in self.inner.who())
        time.sleep(0.002)
        try:
            return self.inner.claim(item, **asked)
        except ResourceBusy:
            if not free:
                raise
            self.raw("UPDATE items SET resources = '[]' WHERE project = :project", project=project)
            return self.inner.claim(item, **asked)


@caught_by("reviews", "test_only_an_admin_writes_what_another_system_says")
class LetsAgentsSpeakForOthers(Mistake):
    def edit(self, item: str, changes: Any, *, relabel: bool = True, **asked: Any) -> Any:
        return self.inner.edit(item, changes, relabel=relabel or "payload" in changes, **asked)


@caught_by("reviews", "test_only_an_admin_takes_an_item_off_the_subject_that_it_follows")
class LetsAgentsMoveSubjects(Mistake):
    def edit(self, item: str, changes: Any, *, relabel: bool = True, **asked: Any) -> Any:
        return self.inner.edit(item, changes, relabel=relabel or "subject" in changes, **asked)


@caught_by("reviews", "test_a_result_leaves_the_approval_of_the_work")
class ForgetsTheApproval(Mistake):
    """Takes a result for a draft, which asks for an approval of its own."""

    def send_back(self, item: str, **asked: Any) -> Item:
        sent = self.inner.send_back(item, **asked)
        self.raw("UPDATE items SET approved = FALSE WHERE id = :item", item=item)
        return sent.replace(approved=False)


@caught_by("approvals", "test_a_revision_has_the_draft_in_it")
class RevisionsOfContentAlone(Mistake):
    """Takes a revision for the one that was read as long as nobody has edited the item since."""

    def approve(self, item: str, *, revision: int | None = None, **asked: Any) -> Item:
        edits = [event.number for event in self.inner.events(after=0, item=item, limit=100) if event.kind == "edited"]
        same = revision is not None and all(number <= revision for number in edits)
        return self.inner.approve(item, revision=None if same else revision, **asked)


@caught_by("items", "test_who_may_not_relabel_changes_no_type_and_no_action")
class ActionsFollowTypesUnseen(Mistake):
    def edit(self, item: str, changes: Any, *, relabel: bool = True, **asked: Any) -> Item:
        return self.inner.edit(item, changes, relabel=relabel or "action" not in changes, **asked)


@caught_by("items", "test_who_may_not_relabel_changes_no_type_and_no_action")
class RefusesLabelsThatStay(Mistake):
    def edit(self, item: str, changes: Any, *, relabel: bool = True, **asked: Any) -> Item:
        if not relabel and {"type", "action"} & changes.keys():
            raise Forbidden("not for you", item=item, field=next(iter(changes)))
        return self.inner.edit(item, changes, relabel=relabel, **asked)


@caught_by("items", "test_what_time_has_done_is_no_other_revision")
class CountsWhatTimeHasDone(Mistake):
    def edit(self, item: str, changes: Any, **asked: Any) -> Item:
        self.inner.sweep(limit=100)
        return self.inner.edit(item, changes, **asked)


class Doubtful(Mistake):
    """Is not sure about what was approved."""

    def approval(self, grant: Grant) -> Grant:
        raise NotImplementedError

    def claim(self, item: str, **asked: Any) -> Grant:
        return self.approval(self.inner.claim(item, **asked))

    def next(self, **asked: Any) -> tuple[Grant, ...]:
        return tuple(self.approval(grant) for grant in self.inner.next(**asked))


@caught_by("approvals", "test_the_approved_draft_reaches_also_who_comes_after_others")
class TakesTheRunBeforeForTheApprovedOne(Doubtful):
    def approval(self, grant: Grant) -> Grant:
        if grant.approval is None or grant.previous is None:
            return grant
        return grant.replace(approval=grant.approval.replace(run=grant.previous.run))


@caught_by("approvals", "test_a_draft_that_nobody_approved_is_no_approved_draft")
class TakesEveryDraftForApproved(Doubtful):
    def approval(self, grant: Grant) -> Grant:
        if grant.approval is not None or grant.previous is None or grant.previous.run.draft is None:
            return grant
        return grant.replace(approval=Approval(actor="somebody", at=0, run=grant.previous.run))


@caught_by("approvals", "test_editing_what_was_approved_asks_for_approval_again")
class ApprovesWhateverItBecomes(Mistake):
    def edit(self, item: str, changes: Any, **asked: Any) -> Item:
        approved = self.inner.get(item).item.approved
        self.inner.edit(item, changes, **asked)
        if approved:
            self.raw(
                "UPDATE items SET approved = TRUE, needs_approval = FALSE, status = 'ready' WHERE id = :item", item=item
            )
        return self.inner.get(item).item


@caught_by("approvals", "test_what_does_not_wait_for_approval_cannot_be_decided_on")
class RejectsWhateverThereIs(Mistake):
    def reject(self, item: str, *, session: str | None = None, **asked: Any) -> Item:
        if session is None and self.inner.get(item).item.status == "ready":
            return self.inner.cancel(item, actor=asked["actor"])
        return self.inner.reject(item, session=session, **asked)


class Lenient(Mistake):
    """Forgets for a moment what was said of its agents."""

    def without(self, work: Callable[[], T], **forgotten: Any) -> T:
        known: tuple[Agent, ...] = self.inner.agents()
        for agent in known:
            self.inner.set_agent(agent.replace(**forgotten))
        try:
            return work()
        finally:
            for agent in known:
                self.inner.set_agent(agent)


@caught_by("policy", "test_a_sensitive_action_ends_in_a_draft_and_not_in_done")
class FinishesWhatIsSensitive(Lenient):
    def done(self, item: str, **asked: Any) -> Ended:
        try:
            return self.inner.done(item, **asked)
        except Forbidden:
            return self.without(lambda: self.inner.done(item, **asked), allowed_actions=(), sensitive_actions=())


@caught_by("policy", "test_an_action_that_is_both_is_done_once_it_is_approved_and_not_before")
class AllowedIsAllowed(Lenient):
    """Does not ask whether what is allowed is sensitive, too."""

    def next(self, **asked: Any) -> tuple[Grant, ...]:
        return self.without(lambda: self.inner.next(**asked), sensitive_actions=())


@caught_by("policy", "test_an_agent_is_handed_only_the_actions_of_its_policy")
class NextKnowsNoPolicy(Lenient):
    def next(self, **asked: Any) -> tuple[Grant, ...]:
        return self.without(lambda: self.inner.next(**asked), allowed_actions=(), sensitive_actions=())


@caught_by("agent_limits", "test_the_sessions_of_an_agent_hold_no_more_together_than_it_may")
class IgnoresTheTotal(Lenient):
    def next(self, **asked: Any) -> tuple[Grant, ...]:
        return self.without(lambda: self.inner.next(**asked), max_claims_total=None)


@caught_by("agent_limits", "test_a_session_holds_no_more_than_it_may")
class TellsNoTimeToComeBack(Mistake):
    def claim(self, item: str, **asked: Any) -> Grant:
        try:
            return self.inner.claim(item, **asked)
        except AgentAtCapacity as refusal:
            raise AgentAtCapacity(refusal.message, **{**refusal.facts, "retry_after_seconds": None}) from refusal


@caught_by("agent_limits", "test_many_claimers_of_one_agent_never_hold_more_than_it_may")
class CountsTheAgentThenGives(Lenient):
    """Counts what an agent holds before it takes its turn."""

    def claim(self, item: str, **asked: Any) -> Grant:
        if len(self.inner.who()) >= 3:
            return self.inner.claim(item, **asked)
        time.sleep(0.002)
        return self.without(lambda: self.inner.claim(item, **asked), max_claims_total=None)


@caught_by("agent_limits", "test_a_claim_renewed_by_its_session_takes_no_room")
class RenewingTakesRoom(Mistake):
    def claim(self, item: str, **asked: Any) -> Grant:
        claim = self.inner.get(item).claim
        if claim is not None and claim.session == asked["session"]:
            raise AgentAtCapacity(f"{claim.agent} has no room", agent=claim.agent)
        return self.inner.claim(item, **asked)


class Buckets(Mistake):
    """Does something to every bucket before it is asked for anything."""

    sql = ""

    def claim(self, item: str, **asked: Any) -> Grant:
        self.raw(self.sql)
        return self.inner.claim(item, **asked)

    def next(self, **asked: Any) -> tuple[Grant, ...]:
        self.raw(self.sql)
        return self.inner.next(**asked)


@caught_by("agent_limits", "test_a_burst_is_given_at_once_and_then_no_more")
class IgnoresTheRate(Buckets):
    sql = "UPDATE agents SET bucket = claims_burst"


@caught_by("agent_limits", "test_the_bucket_refills_with_time_and_no_further_than_its_burst")
class BucketNeverRefills(Buckets):
    sql = "UPDATE agents SET bucket_at = 9000000000000"


@caught_by("agent_limits", "test_the_bucket_refills_with_time_and_no_further_than_its_burst")
class BucketOverflows(Buckets):
    sql = "UPDATE agents SET claims_burst = 1000"


@caught_by("agent_limits", "test_a_burst_is_given_at_once_and_then_no_more")
class TellsTheTooFastNothing(Mistake):
    def claim(self, item: str, **asked: Any) -> Grant:
        try:
            return self.inner.claim(item, **asked)
        except RateLimited as refusal:
            raise RateLimited(refusal.message, **{**refusal.facts, "retry_after_seconds": 0}) from refusal


@caught_by("why", "test_what_another_holds")
class TriesItOut(Mistake):
    """Finds out why by claiming."""

    def why(self, item: str, **asked: Any) -> tuple[Reason, ...]:
        try:
            self.inner.claim(item, **asked)
        except DibsError as refusal:
            return (Reason(code=refusal.code, text=refusal.message),)
        self.inner.release(item, **asked)
        return (Reason(code="CLAIMABLE", text="it was", claimable=True),)


caught(
    "resources",
    "test_next_passes_over_what_is_busy_and_takes_the_next_best",
    next_ignores_resources=before("next", "UPDATE items SET resources = '[]' WHERE status = 'ready'"),
)
caught(
    "approvals",
    "test_an_agent_never_approves_its_own_draft",
    approves_its_own_draft=asks("approve", actor=lambda actor: f"not-{actor}"),
)
caught(
    "approvals",
    "test_an_item_that_needs_approval_is_not_handed_out",
    asks_nobody=asks("add", items=lambda items: [item.replace(needs_approval=False) for item in items]),
)
caught("approvals", "test_a_draft_ends_the_run_and_waits", drops_the_draft=asks("submit", draft=""))
caught(
    "reviews",
    "test_done_of_a_reviewed_item_is_recorded_as_submitted",
    reviews_nothing=after("add", "UPDATE items SET review = FALSE"),
)
caught(
    "approvals",
    "test_an_approval_can_be_for_the_draft_that_was_read_alone",
    approves_whatever_draft_there_is=asks("approve", token=None),
)
caught(
    "approvals",
    "test_a_decision_is_about_the_revision_that_was_read",
    approves_what_nobody_read=asks("approve", revision=None),
    rejects_what_nobody_read=asks("reject", revision=None),
)
caught(
    "items", "test_an_edit_does_not_overwrite_what_came_after_it_was_read", last_edit_wins=asks("edit", revision=None)
)
caught(
    "approvals", "test_a_draft_can_be_sent_back_with_a_comment", sends_back_without_a_word=asks("send_back", comment="")
)
caught(
    "approvals",
    "test_setting_aside_does_not_get_around_approval",
    parking_gets_around_approval=before("park", "UPDATE items SET needs_approval = FALSE WHERE id = :item"),
)
caught(
    "policy",
    "test_what_is_approved_goes_only_to_agents_allowed_the_action",
    approved_to_anybody=before("next", "UPDATE items SET approved = FALSE"),
)
caught("why", "test_every_reason_is_told", tells_one_reason=answers("why", lambda reasons: reasons[:1]))
caught(
    "why",
    "test_how_many_next_would_choose_before",
    always_says_next=answers(
        "why", lambda told: tuple(one.replace(code="NEXT") if one.code == "BEHIND" else one for one in told)
    ),
)
