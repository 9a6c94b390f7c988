"""Mistakes in giving items out: to two, in the wrong order, too many, under a number already used."""

from __future__ import annotations

import json
import time

from dibs.config import DEFAULTS
from dibs.errors import ClaimExpired, ItemAlreadyClaimed, ResourceBusy
from dibs.model import Grant
from tests.kit.broken.mistake import Mistake, answers, asks, caught, caught_by

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from dibs.model import Edited, Ended, Item


@caught_by("claims")
class DoubleClaim(Mistake):
    """Gives a held item again, to whoever asks."""

    def claim(self, item: str, **asked: Any) -> Grant:
        try:
            return self.inner.claim(item, **asked)
        except ItemAlreadyClaimed:
            held = self.inner.get(item)
            assert held.claim is not None
            return Grant(item=held.item, claim=held.claim.replace(session=asked["session"]))


@caught_by("racing", "test_a_claim_against_a_release_is_before_or_after_it")
class LooksThenClaims(Mistake):
    """Reads, then writes what it read: right in every test that has one process."""

    def claim(self, item: str, **asked: Any) -> Grant:
        if self.inner.get(item).claim is not None:
            return self.inner.claim(item, **asked)
        time.sleep(0.002)
        try:
            return self.inner.claim(item, **asked)
        except ItemAlreadyClaimed:
            self.inner.force_release(item, actor="nobody", reason="overwritten")
            return self.inner.claim(item, **asked)


@caught_by("racing", "test_one_session_in_many_processes_keeps_its_limit")
class CountsThenGives(Mistake):
    """Counts what a session holds before it takes its turn."""

    def next(self, **asked: Any) -> tuple[Grant, ...]:
        agent = next(agent for agent in self.inner.agents() if agent.max_claims)
        held = next(view.claims for view in self.inner.sessions(limit=1000) if view.session.id == asked["session"])
        room = (agent.max_claims or 0) - held
        time.sleep(0.002)
        self.inner.set_agent(agent.replace(max_claims=None))
        grants = self.inner.next(**{**asked, "n": room}) if room > 0 else ()
        self.inner.set_agent(agent)
        return grants


@caught_by("claims")
class OwnClaimAnew(Mistake):
    """Gives its own session a new claim instead of the one it has."""

    def claim(self, item: str, **asked: Any) -> Grant:
        held = self.inner.get(item).claim
        if held is not None and held.session == asked["session"]:
            self.inner.release(item, session=held.session, token=held.token)
        return self.inner.claim(item, **asked)


@caught_by("claims", "test_a_session_kind_has_its_own_default_ttl")
class AllKindsAlike(Mistake):
    """Gives the claims of a coding agent the TTL of others."""

    def next(self, **asked: Any) -> tuple[Grant, ...]:
        given = {"ttl_seconds": asked.get("ttl_seconds") or DEFAULTS.ttl_seconds}
        return self.inner.next(**{**asked, **given})


@caught_by("claims", "test_a_session_kind_has_its_own_default_ttl")
class LengthensWhatWasAsked(Mistake):
    """Gives a claim that asks for the default of other kinds the default of its own."""

    def claim(self, item: str, **asked: Any) -> Grant:
        is_default = asked.get("ttl_seconds") == DEFAULTS.ttl_seconds
        return self.inner.claim(item, **{**asked, "ttl_seconds": None if is_default else asked.get("ttl_seconds")})


@caught_by("claims")
class ReusesToken(Mistake):
    """A release takes the counter back with it."""

    def release(self, item: str, **asked: Any) -> Ended:
        ended = self.inner.release(item, **asked)
        self.raw("DELETE FROM runs WHERE item = :item AND token = :token", item=item, token=ended.run.token)
        self.raw("UPDATE items SET token = token - 1 WHERE id = :item", item=item)
        return ended


@caught_by("claims")
class ExpiredStandsInTheWay(Mistake):
    """Needs a sweep before anybody can have what has expired."""

    def claim(self, item: str, **asked: Any) -> Grant:
        recorded = self.inner.events(item=item, newest=True, limit=1)[0].status
        if recorded == "in_progress" and self.inner.get(item).claim is None:
            raise ItemAlreadyClaimed(f"{item} is in progress", item=item)
        return self.inner.claim(item, **asked)


@caught_by("states")
class ClaimsTheDone(Mistake):
    """Takes whatever is not in progress for ready."""

    def claim(self, item: str, **asked: Any) -> Grant:
        if self.inner.get(item).item.status == "done":
            self.raw("UPDATE items SET status = 'ready' WHERE id = :item", item=item)
        return self.inner.claim(item, **asked)


@caught_by("recovery")
class RecoversWhatWasTaken(Mistake):
    """Lets a late holder claim again although somebody had the item since."""

    def recover(self, item: str, *, token: int | None = None, **asked: Any) -> Grant:
        try:
            return self.inner.recover(item, token=token, **asked)
        except ClaimExpired:
            return self.inner.claim(item, **asked)


class Chooses(Mistake):
    """A `next` of its own: claims by id, in the order that `choice` gives to what is ready."""

    def choice(self, items: list[Item]) -> list[Item]:
        raise NotImplementedError

    def next(
        self,
        *,
        session: str,
        types: Any = (),
        projects: Any = (),
        labels: Any = (),
        n: int = 1,
        done: Any = None,
        request: Any = None,
        **asked: Any,
    ) -> tuple[Grant, ...]:
        if done:
            self.inner.done_many(done, session=session)
        self.inner.sweep(limit=1000)
        ready = list(self.inner.list(statuses=["ready"], types=types, projects=projects, labels=labels, limit=1000))
        return tuple(self.inner.claim(item.id, session=session, **asked) for item in self.choice(ready)[:n])


@caught_by("ordering")
class NewestFirst(Chooses):
    def choice(self, items: list[Item]) -> list[Item]:
        return sorted(items, key=lambda item: (-item.priority, -items.index(item)))


@caught_by("ordering")
class IgnoresPriority(Chooses):
    def choice(self, items: list[Item]) -> list[Item]:
        return sorted(items, key=lambda item: (item.created_at, item.id))


@caught_by("ordering")
class LowestFirst(Chooses):
    def choice(self, items: list[Item]) -> list[Item]:
        return sorted(items, key=lambda item: item.priority)


@caught_by("limits")
class IgnoresTheLimit(Mistake):
    """Knows a limit and hands out more."""

    def claim(self, item: str, **asked: Any) -> Grant:
        limited = self.inner.agents()
        for agent in limited:
            self.inner.set_agent(agent.replace(max_claims=None))
        grant = self.inner.claim(item, **asked)
        for agent in limited:
            self.inner.set_agent(agent)
        return grant


@caught_by("limits")
class LimitsTheAgentNotTheSession(Mistake):
    """Counts all sessions of an agent together."""

    def next(self, **asked: Any) -> tuple[Grant, ...]:
        views = self.inner.sessions(limit=1000)
        mine = next((view for view in views if view.session.id == asked["session"]), None)
        others = [view for view in views if mine and view.session.agent == mine.session.agent and view is not mine]
        return () if any(view.claims for view in others) else self.inner.next(**asked)


@caught_by("added_resources", "test_a_holder_is_refused_what_another_holds_as_a_claim_would_be")
class AddsWhatAnotherHolds(Mistake):
    def edit(self, item: str, changes: Any, **asked: Any) -> Edited:
        try:
            return self.inner.edit(item, changes, **asked)
        except ResourceBusy:
            resources = json.dumps(asked["add_resources"])
            self.raw("UPDATE items SET resources = :resources WHERE id = :item", resources=resources, item=item)
            return self.inner.edit(item, {}, actor=asked["actor"])


@caught_by("added_resources", "test_of_those_who_add_or_claim_the_same_one_gets_it")
class LooksBeforeItAdds(Mistake):
    """Looks for what others hold in one transaction, and adds in another."""

    def edit(self, item: str, changes: Any, **asked: Any) -> Edited:
        holding = [line for line in self.inner.who() if line.claim is not None and line.item.resources]
        if not asked.get("add_resources") or any(line.item.project == self._project(item) for line in holding):
            return self.inner.edit(item, changes, **asked)
        time.sleep(0.01)
        resources = json.dumps(asked["add_resources"])
        self.raw("UPDATE items SET resources = :resources WHERE id = :item", resources=resources, item=item)
        return self.inner.edit(item, {}, actor=asked["actor"])

    def _project(self, item: str) -> str:
        return self.inner.get(item).item.project


caught(
    "claims",
    # Answers a claim that its session had already as if it were new.
    renews_in_silence=answers("claim", renewed=False),
    # Takes a claim for renewed if it is older than its last renewal: within one millisecond, it cannot tell.
    tells_renewals_by_their_times=answers(
        "claim", lambda grant: grant.replace(renewed=grant.claim.renewed_at > grant.claim.claimed_at)
    ),
    # Does not tell the next holder where the last one stopped.
    forgets_the_previous=answers("claim", previous=None),
)
caught(
    "ordering",
    ignores_types=asks("next", types=()),
    ignores_projects=asks("next", projects=()),
    gives_more_than_asked=asks("next", n=1000),
)
caught("fencing", "test_a_spent_token_of_the_holder_itself_is_refused", adds_under_any_token=asks("edit", token=None))
