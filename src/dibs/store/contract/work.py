"""The verbs of sessions that work: claiming, keeping, ending, and waiting for an item."""

from __future__ import annotations

from abc import ABC, abstractmethod

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from dibs.model import (
        Ended,
        Finished,
        Grant,
        Heartbeat,
        Item,
        Owner,
        Reason,
        Renewal,
        Request,
        SoftClaim,
        Sweep,
        Waiting,
    )


class WorkVerbs(ABC):
    # The claim path

    @abstractmethod
    def claim(
        self,
        item: str,
        *,
        session: str,
        agent: str | None = None,
        ttl_seconds: float | None = None,
        request: Request | None = None,
    ) -> Grant:
        """Exclusive. The session's own live claim is renewed and answered again, under the same token and as
        `renewed`. `agent` is who the caller takes the session for; if the session is another's, `INVALID`. A parked
        item can be claimed if it would be ready; one offered to another session cannot. A session that cannot accept
        its offer loses it to the next. The answer carries the approval that holds, with the very run whose draft was
        approved, however many runs came since."""

    @abstractmethod
    def recover(
        self,
        item: str,
        *,
        session: str,
        token: int | None = None,
        ttl_seconds: float | None = None,
        request: Request | None = None,
    ) -> Grant:
        """Claim again what this session lost by expiry, under a new token, iff nobody was given it since. A claim
        that is still live is renewed and answered, as `renewed`."""

    @abstractmethod
    def next(
        self,
        *,
        session: str,
        agent: str | None = None,
        types: Sequence[str] = (),
        projects: Sequence[str] = (),
        n: int = 1,
        ttl_seconds: float | None = None,
        done: Mapping[str, int] | None = None,
        request: Request | None = None,
    ) -> tuple[Grant, ...]:
        """The best eligible items, up to `n` and to the room the session has; a session without room is
        `AGENT_AT_CAPACITY`, one that claims too fast `RATE_LIMITED`. Empty means that at this instant there was
        none.

        `done` maps items that this session has finished to their tokens. They are ended as done in the same step,
        before anything is looked for, so that their room, their resources and what depended on them are there for
        this very look. All of them or nothing: if one is not this session's to end, nothing is done and the refusal
        is that of `done` for that item, the first by id. One that this session had already ended as done under that
        token counts as ended. They stay ended if nothing is given then, be it that there is nothing or that the
        limits refuse."""

    @abstractmethod
    def heartbeat(
        self,
        *,
        session: str,
        holding: Mapping[str, int | None] | None = None,
        known_event: int | None = None,
        at_most_every_seconds: float | None = None,
    ) -> Heartbeat:
        """Renew every live claim of the session, soft ones too, and never one that has expired. `holding` maps each
        item the caller believes to hold to its token (None: not known): live claims not in it are released as
        forgotten, and those in it that are not held are answered as lost. Without it, expired claims not yet swept
        are answered as lost.

        A heartbeat may arrive late, when the session has been given more than the caller knew of. `known_event` is an
        event that the caller had learned of before it listed `holding`, such as the `event` of an earlier answer: a
        claim that was given after that event is renewed, and not forgotten. Without it, every claim is taken for known
        to the caller. The answer's `event` comes after every claim that the session has been given, and before any
        that it will be given.

        With `at_most_every_seconds`, of which no more than a third of the claim's TTL counts, a claim that was renewed
        less than that ago is left as it is and answered as not `renewed`, with the expiry it has: of any number of
        callers at once, one renews it. Soft claims likewise. If everything is left so, nothing is written."""

    @abstractmethod
    def renew(
        self,
        item: str,
        *,
        session: str,
        token: int | None = None,
        ttl_seconds: float | None = None,
        at_most_every_seconds: float | None = None,
    ) -> Renewal:
        """Fenced: a heartbeat for one claim. `at_most_every_seconds` is as in `heartbeat`, for a claim that keeps its
        TTL."""

    @abstractmethod
    def progress(
        self,
        item: str,
        *,
        session: str,
        token: int | None = None,
        note: str,
        meta: Mapping[str, Any],
        request: Request | None = None,
    ) -> Renewal:
        """Fenced: a note for watchers and for the next holder; renews."""

    @abstractmethod
    def release(
        self,
        item: str,
        *,
        session: str,
        token: int | None = None,
        reason: str | None = None,
        park: bool = False,
        request: Request | None = None,
    ) -> Ended:
        """Fenced: back to where it rests, or parked, without a strike."""

    @abstractmethod
    def done(
        self,
        item: str,
        *,
        session: str,
        token: int | None = None,
        note: str | None = None,
        links: Mapping[str, Any],
        cost: Mapping[str, Any],
        request: Request | None = None,
    ) -> Ended:
        """Fenced: the item is done, and what depended on it alone moves on in the same step. An agent for which the
        action is sensitive cannot: `FORBIDDEN`."""

    @abstractmethod
    def done_many(self, holding: Mapping[str, int | None], *, session: str, request: Request | None = None) -> Finished:
        """`done` for each of these items (with its token, or None), in one step: each is fenced for itself, what is
        not held, or may not be done, is answered as lost and does not hold up the others. In the order of their
        ids."""

    @abstractmethod
    def fail(
        self,
        item: str,
        *,
        session: str,
        token: int | None = None,
        reason: str | None = None,
        links: Mapping[str, Any],
        cost: Mapping[str, Any],
        request: Request | None = None,
    ) -> Ended:
        """Fenced: the item failed; while retries remain it is scheduled again, after an exponential backoff."""

    @abstractmethod
    def submit(
        self,
        item: str,
        *,
        session: str,
        token: int | None = None,
        draft: str,
        note: str | None = None,
        links: Mapping[str, Any],
        cost: Mapping[str, Any],
        request: Request | None = None,
    ) -> Ended:
        """Fenced: the run ends with a draft, and the item waits for approval."""

    @abstractmethod
    def reject(
        self,
        item: str,
        *,
        reason: str,
        session: str | None = None,
        token: int | None = None,
        revision: int | None = None,
        actor: str,
        request: Request | None = None,
    ) -> Item:
        """The item is not to be done: fenced, if its holder (`session`) finds so; else `actor` says so of an item
        that waits for approval, and with `revision` only if that is as it was read."""

    @abstractmethod
    def force_release(
        self, item: str, *, actor: str, reason: str, token: int | None = None, request: Request | None = None
    ) -> Ended:
        """An admin takes the item back from whoever holds it (with `token`: only from that claim), without a
        strike."""

    @abstractmethod
    def sweep(self, *, dead: Sequence[tuple[str, Owner]] = (), limit: int) -> Sweep:
        """End what has lapsed, at most `limit` claims: claims past their expiry, and those of sessions whose owner
        the caller has found dead (if it still is the session's owner; the session ends with it). Each is a strike;
        the last strike fails the item. Schedules that have come and offers nobody accepted move on, too."""

    # Waiting for one item

    @abstractmethod
    def wait(self, item: str, *, session: str, ttl_seconds: float | None = None) -> Waiting:
        """The session's ticket, at the end of the item's queue or renewed in its place. Tickets are served in order:
        each transition of the item into ready offers it to the first live one, in the same step, for
        `accept_seconds`; a claim by that session accepts. An item that is free at once is offered at once. An ended
        item is `TASK_NOT_CLAIMABLE`."""

    @abstractmethod
    def leave(self, item: str, *, session: str, request: Request | None = None) -> Waiting:
        """Give the ticket up; an offer to it goes to the next. Without a ticket: `TASK_NOT_CLAIMED`."""

    @abstractmethod
    def ticket(self, item: str, *, session: str) -> Waiting:
        """Where the session's latest ticket stands, or how it was closed. Without one: `TASK_NOT_CLAIMED`."""

    @abstractmethod
    def soft_claim(self, item: str, *, session: str, ttl_seconds: float | None = None) -> SoftClaim:
        """Say that the session is on the item, under a lock of its own elsewhere. Shown in `who`, expires, renewed by
        the session's heartbeat, excludes nobody, has no token, is no part of the history."""

    @abstractmethod
    def soft_release(self, item: str, *, session: str, request: Request | None = None) -> SoftClaim: ...

    @abstractmethod
    def why(self, item: str, *, session: str | None = None, agent: str | None = None) -> tuple[Reason, ...]:
        """Everything that keeps the item from this session now; or why `claim` and `next` would give it. Without a
        session, what a new session would meet: one of this agent, or of an agent without limits and policy."""
