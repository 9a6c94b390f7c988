"""Mistakes in what is told and kept: history, reading, repeated requests."""

from __future__ import annotations

from dibs.errors import DibsError, Invalid, ItemNotClaimed, NotClaimOwner, StoreUnavailable
from dibs.model import Ended, SessionEnd
from dibs.store.contract import page
from dibs.text import json_text
from tests.kit.broken.mistake import Mistake, answers, asks, caught, caught_by

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from dibs.model import (
        Added,
        Edited,
        Grant,
        Item,
        Key,
        Run,
        SoftClaim,
        Waiting,
    )
    from dibs.store.contract import Page

NEWER = "test_what_a_newer_version_wrote_is_read_without_the_fields_that_this_one_does_not_know"
ENDS = "test_what_ends_without_a_token_gives_the_same_answer_and_does_nothing_again"


@caught_by("annotations")
class JudgesByTheChecks(Mistake):
    """A check that failed makes the run a failed one."""

    def annotate(self, item: str, **asked: Any) -> Ended:
        ended: Ended = self.inner.annotate(item, **asked)
        if any(check["state"] == "failed" for check in asked["checks"].values()):
            self.raw("UPDATE runs SET outcome = 'failed' WHERE item = :item", item=item)
        return ended


@caught_by("annotations")
class AnnotatesForTheHolder(Mistake):
    """Lets everybody annotate a run that has not ended."""

    def annotate(self, item: str, **asked: Any) -> Ended:
        claim = self.inner.get(item).claim
        if claim is not None and asked["token"] in (None, claim.token):
            asked = {**asked, "session": claim.session, "agent": None}
        return self.inner.annotate(item, **asked)


class LinksOfOneCall(Mistake):
    def only(self, ended: Ended, links: Any) -> Ended:
        self.raw(
            "UPDATE runs SET links = :links WHERE item = :item AND token = :token",
            links=json_text.dumps(links),
            item=ended.item.id,
            token=ended.run.token,
        )
        return ended


@caught_by("annotations")
class EndsWithoutWhatWasAnnotated(LinksOfOneCall):
    """A run that ends has the links of its end alone."""

    def fail(self, item: str, **asked: Any) -> Ended:
        return self.only(self.inner.fail(item, **asked), asked["links"])


@caught_by("annotations")
class ForgetsWhatTheRunSaid(LinksOfOneCall):
    """Puts the new links in the place of all the old ones."""

    def annotate(self, item: str, **asked: Any) -> Ended:
        return self.only(self.inner.annotate(item, **asked), asked["links"])


@caught_by("annotations")
class ChangesWhatWasApproved(Mistake):
    """Adds to a run whose draft was approved: the next holder reads it under the approver's name."""

    def annotate(self, item: str, **asked: Any) -> Ended:
        approved = self.inner.get(item).item.approved
        self.raw("UPDATE items SET approved = FALSE WHERE id = :item", item=item)
        try:
            return self.inner.annotate(item, **asked)
        finally:
            self.raw("UPDATE items SET approved = :approved WHERE id = :item", item=item, approved=approved)


@caught_by("annotations")
class TakesAllOnesForEqual(Mistake):
    """Compares values as Python does, to which 1, true and 1.0 are one."""

    def annotate(self, item: str, **asked: Any) -> Ended:
        runs = self.inner.get(item).runs
        run = next((run for run in runs if asked["token"] in (None, run.token)), None)
        if run is None or not all(run.cost.get(name) == value for name, value in asked["cost"].items()):
            return self.inner.annotate(item, **asked)
        return self.inner.annotate(item, **{**asked, "cost": {}})


@caught_by("items")
class AddsOneByOne(Mistake):
    """Some of the items are there although the call was refused."""

    def add(self, items: Any, **asked: Any) -> tuple[Item, ...]:
        return tuple(found for item in items for found in self.inner.add([item], **asked))


@caught_by("answers")
class WithdrawsWithoutAWord(Mistake):
    """Says nothing of the approval that an edit took away."""

    def edit(self, item: str, changes: Any, **asked: Any) -> Edited:
        edited = self.inner.edit(item, changes, **asked)
        return edited.replace(before={name: value for name, value in edited.before.items() if name in changes})


@caught_by("answers", "test_a_taken_id_is_refused_with_what_differs")
class HidesWhatDiffers(Mistake):
    def add(self, items: Any, **asked: Any) -> tuple[Added, ...]:
        try:
            return self.inner.add(items, **asked)
        except Invalid as refusal:
            raise Invalid(refusal.message, **{**refusal.facts, "differs": []}) from refusal


@caught_by("history")
class EditsUntold(Mistake):
    """Changes the item, and the history says nothing of it."""

    def edit(self, item: str, changes: Any, **asked: Any) -> Item:
        if "title" in changes:
            self.raw("UPDATE items SET title = :title WHERE id = :item", title=changes["title"], item=item)
        return self.inner.edit(item, changes, **asked)


@caught_by("items", "test_a_caller_that_changes_an_answer_changes_nothing_else")
class SharesADefault(Mistake):
    """Gives all items without a payload one and the same."""

    payload: dict[str, Any] = {}

    def add(self, items: Any, **asked: Any) -> tuple[Added, ...]:
        added = self.inner.add([one if one.payload else one.replace(payload=self.payload) for one in items], **asked)
        return tuple(one if one.payload else one.replace(payload=self.payload) for one in added)


@caught_by("idempotency", ENDS)
class LeavesTwice(Mistake):
    def leave(self, item: str, *, session: str, **asked: Any) -> Waiting:
        return self.inner.leave(item, session=session)


@caught_by("idempotency", ENDS)
class LetsGoTwice(Mistake):
    def soft_release(self, item: str, *, session: str, **asked: Any) -> SoftClaim:
        return self.inner.soft_release(item, session=session)


@caught_by("idempotency", "test_a_key_is_revoked_once_and_no_answer_tells_its_digest")
class RevokesTwice(Mistake):
    def revoke_key(self, id: str, **asked: Any) -> Key:
        return self.inner.revoke_key(id)


@caught_by("idempotency", "test_a_key_is_revoked_once_and_no_answer_tells_its_digest")
class TellsWhatAKeyIsCheckedBy(Mistake):
    def revoke_key(self, id: str, **asked: Any) -> Key:
        known = self.inner.find_key(id)
        revoked: Key = self.inner.revoke_key(id, **asked)
        return revoked if known is None else revoked.replace(digest=known.digest)


@caught_by("idempotency", "test_a_key_is_found_while_it_is_good")
class KeysNeverExpire(Mistake):
    def find_key(self, id: str) -> Key | None:
        known = self.inner.keys()
        return next((key for key in known if key.id == id and key.revoked_at is None), None)


@caught_by("idempotency", "test_the_very_same_key_is_kept_once")
class KnowsAKeyByItsIdAlone(Mistake):
    def put_key(self, key: Key, **asked: Any) -> Key:
        return self.inner.find_key(key.id) or self.inner.put_key(key, **asked)


@caught_by("idempotency", "test_the_very_same_key_is_kept_once")
class RefusesTheSameKeyAgain(Mistake):
    def put_key(self, key: Key, **asked: Any) -> Key:
        if self.inner.find_key(key.id) is not None:
            raise Invalid(f"there is a key {key.id} already", field="id")
        return self.inner.put_key(key, **asked)


@caught_by("idempotency")
class AnswersOtherInput(Mistake):
    """Looks at the request id and not at what was asked."""

    def claim(self, item: str, *, request: Any = None, **asked: Any) -> Grant:
        same = None if request is None else request.replace(fingerprint="same")
        return self.inner.claim(item, request=same, **asked)


@caught_by("idempotency")
class KeepsRefusals(Mistake):
    refusals: dict[str, DibsError] = {}

    def claim(self, item: str, *, request: Any = None, **asked: Any) -> Grant:
        key = "" if request is None else f"{request.actor} {request.id}"
        if key in self.refusals:
            raise self.refusals[key]
        try:
            return self.inner.claim(item, request=request, **asked)
        except DibsError as refusal:
            if key:
                self.refusals[key] = refusal
            raise


@caught_by("idempotency")
class KeepsRequestsForEver(Mistake):
    answers: dict[str, tuple[Grant, ...]] = {}

    def next(self, *, request: Any = None, **asked: Any) -> tuple[Grant, ...]:
        key = "" if request is None else f"{request.actor} {request.id}"
        grants = self.answers.get(key) or self.inner.next(request=request, **asked)
        if key:
            self.answers[key] = grants
        return grants


@caught_by("idempotency", NEWER)
class KnowsOnlyItsOwnAnswers(Mistake):
    """Reads a kept answer as if no other version had written it."""

    def end_session(self, session: str, *, request: Any = None, **asked: Any) -> SessionEnd:
        for kind, data in self.inner.export():
            if kind == "request" and request is not None and data["id"] == request.id:
                SessionEnd(**json_text.loads(data["answer"]))
        return self.inner.end_session(session, request=request, **asked)


@caught_by("idempotency")
class OneRequestForAll(Mistake):
    """Request ids of different callers are taken for the same."""

    def next(self, *, request: Any = None, **asked: Any) -> tuple[Grant, ...]:
        same = None if request is None else request.replace(actor="anybody", fingerprint=request.id)
        return self.inner.next(request=same, **asked)


@caught_by("reading")
class AnyLabelWillDo(Mistake):
    def list(self, *, labels: Any = (), **asked: Any) -> tuple[Item, ...]:
        found = self.inner.list(**asked)
        return tuple(item for item in found if not labels or set(labels) & set(item.labels))


@caught_by("pages")
class SkipsBetweenPages(Mistake):
    def runs(self, *, after: Any = None, **asked: Any) -> Page[Run]:
        found = self.inner.runs(after=after, **asked)
        return page(found if after is None else found[1:], more=found.more)


@caught_by("lost_answers", "test_without_a_request_id_an_earlier_effect_is_not_taken_for_ones_own")
class AnEarlierEndIsItsOwn(Mistake):
    """Takes a run that the session ended under this token, in this way, for the one that this call ended."""

    def submit(self, item: str, **asked: Any) -> Ended:
        return self.ended("submitted", self.inner.submit, item, asked)

    def release(self, item: str, **asked: Any) -> Ended:
        return self.ended("released", self.inner.release, item, asked)

    def ended(self, outcome: str, end: Any, item: str, asked: dict[str, Any]) -> Ended:
        try:
            found: Ended = end(item, **asked)
            return found
        except (ItemNotClaimed, NotClaimOwner):
            detail = self.inner.get(item)
            for run in detail.runs:
                if (run.session, run.token, run.outcome) == (asked["session"], asked["token"], outcome):
                    return Ended(item=detail.item, run=run)
            raise


@caught_by("lost_answers", "test_without_a_request_id_a_verb_did_what_it_says_or_says_that_it_is_not_known")
class AwayAfterwards(Mistake):
    """Something goes wrong after the commit, and the caller is told that the store is away, as if nothing were done."""

    def cancel(self, item: str, **asked: Any) -> Item:
        self.inner.cancel(item, **asked)
        raise StoreUnavailable("the store is away", retry_after_seconds=1)


caught(
    "annotations",
    # Takes a session's word about another agent's run.
    annotates_for_anybody=asks("annotate", session=None),
)
caught(
    "items",
    # Does not keep all that it was given.
    drops_the_phase=asks("add", items=lambda items: [item.replace(phase=None) for item in items]),
)
caught(
    "answers",
    says_added_of_what_was_there=answers("add", existed=False),
    # Says nothing of the list that an edit took away.
    replaces_without_a_word=answers("edit", before={}),
    # Says of a dependency that was cancelled that it will be done.
    promises_that_all_moves=answers(
        "add",
        lambda added: tuple(
            item.replace(blockers=tuple(blocker.replace(will_move=True) for blocker in item.blockers)) for item in added
        ),
    ),
)
caught(
    "history",
    forgets_an_event=answers("events", lambda events: tuple(event for event in events if event.kind != "released")),
    # Reads who held the item after it was cleared.
    event_without_actor=answers(
        "events",
        lambda events: tuple(
            event.replace(session=None, agent=None) if event.kind == "expired" else event for event in events
        ),
    ),
    # A reader at a cursor never sees what committed late.
    feed_skips=asks("events", after=lambda after: after + 1 if after and after % 3 == 0 else after),
    feed_out_of_order=answers(
        "events", lambda events: tuple(sorted(events, key=lambda event: (event.item, event.number)))
    ),
)
caught("idempotency", ignores_request_ids=asks("next", request=None))
caught("idempotency", ENDS, ends_a_session_twice=asks("end_session", request=None))
caught(
    "idempotency",
    NEWER,
    # Passes over a record that has a field of another version.
    knows_only_its_own_records=asks(
        "load", records=lambda records: ((kind, data) for kind, data in records if "of_the_next_version" not in data)
    ),
)
caught(
    "pages",
    # A page that was cut short looks like all there is.
    says_nothing_of_more=answers("list", lambda items: page(items)),
)
caught(
    "reading",
    runs_oldest_first=answers("runs", lambda runs: tuple(reversed(runs))),
    miscounts_conflicts=answers("stats", conflicts_avoided=0),
    credits_an_agent_with_everything=asks("stats", agent=None),
    hides_who_let_it_lapse=answers("who", lapsed=None),
    forgets_activity=answers("activity", lambda rows: rows[:1]),
    shows_five_runs=answers("sessions", lambda views: tuple(view.replace(recent=view.recent[:5]) for view in views)),
)
caught(
    "lost_answers",
    "test_with_a_request_id_a_verb_is_done_once_and_its_answer_is_found_again",
    # Keeps no answer: whoever asks again because the first answer was lost has it done twice.
    does_it_again=asks("progress", request=None),
)
