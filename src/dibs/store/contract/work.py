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
        NewItem,
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
        """Claim an item exclusively. A live claim of the same session is renewed and answered again, under the same
        token and as `renewed`. `agent` is the agent that the caller takes the session for; if it is another's,
        `INVALID`. A parked item can be claimed if it would be ready; an item offered to another session cannot. A
        session that cannot accept its offer loses it to the next ticket. The answer has the approval in force, with the
        run whose draft was approved, even if other runs came since."""

    @abstractmethod
    def claim_subject(
        self,
        new: NewItem,
        *,
        session: str,
        agent: str | None = None,
        ttl_seconds: float | None = None,
        request: Request | None = None,
    ) -> Grant:
        """Claim the item of the subject of `new`; if there is none, add `new` first, in the same transaction and with
        the session's agent as its actor. Of any number of callers with one subject, one adds the item and one holds it.

        An item of that subject is claimed or refused as by `claim`, whatever its status and whatever else `new` says:
        an ended one is `TASK_NOT_CLAIMABLE`, and nothing is added beside it. A new item is added only if the session
        can claim it: a refusal then changes nothing, and its facts have `added` false and no item. What `prune`
        deleted is forgotten, with its subject. If a vault has two items of a subject, the older one is meant."""

    @abstractmethod
    def hand(
        self,
        item: str,
        *,
        to: str,
        session: str,
        token: int | None = None,
        reason: str | None = None,
        ttl_seconds: float | None = None,
        request: Request | None = None,
    ) -> Grant:
        """Fenced: hand the claim over to the live session `to`, in one transaction. The run ends as `handed`, without a
        strike, and a run of the other session begins, under the next token, with a TTL and a deadline of its own. The
        answer is its grant; the token of the handing session is refused from then on.

        The other session is refused what it could not claim if the item were free: its agent's policy and limits, and
        the resources that other claims hold (also other claims of the handing session) apply, and an item that has got
        an open dependency is `TASK_NOT_CLAIMABLE`. A refusal changes nothing: the claim stays where it is. Nobody in
        the item's queue is offered the item, and the queue keeps its order; a ticket of the other session is served.
        The item's resources stay with the item. An unknown or ended session `to` is `SESSION_NOT_FOUND`, the handing
        session itself `INVALID`."""

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
        """Claim an item again that this session lost by expiry, under a new token, iff no other session claimed it
        since. A claim that is still live is renewed and answered as `renewed`."""

    @abstractmethod
    def next(
        self,
        *,
        session: str,
        agent: str | None = None,
        types: Sequence[str] = (),
        projects: Sequence[str] = (),
        labels: Sequence[str] = (),
        n: int = 1,
        ttl_seconds: float | None = None,
        done: Mapping[str, int] | None = None,
        request: Request | None = None,
    ) -> tuple[Grant, ...]:
        """Claim the best eligible items, up to `n` and within the session's limits; with `labels`, only items that have
        all of these. A session at its limit is `AGENT_AT_CAPACITY`, one that claims too fast `RATE_LIMITED`. Empty
        means that there was none at this instant.

        `done` maps items that this session has finished to their tokens. They end as done in the same transaction,
        before the search, so that their capacity, their resources and their dependents are available to it. All of them
        end or none: if the session may not end one, nothing changes, and the refusal is that of `done` for the first
        such item by id. An item that this session already ended as done under that token counts as ended. The items
        stay ended if the search then finds nothing or a limit refuses."""

    @abstractmethod
    def heartbeat(
        self,
        *,
        session: str,
        holding: Mapping[str, int | None] | None = None,
        known_event: int | None = None,
        at_most_every_seconds: float | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> Heartbeat:
        """Renew every live claim of the session, soft ones too, and never an expired one. `holding` maps each item that
        the caller believes to hold to its token (None: not known): live claims not in it are released as forgotten, and
        those in it that the session does not hold are answered as lost. Without it, expired claims that were not swept
        yet are answered as lost.

        A heartbeat may arrive late, when the session holds claims that the caller did not know of. `known_event` is an
        event that the caller had seen before it listed `holding`, such as the `event` of an earlier answer: a claim
        given after that event is renewed instead of forgotten. Without it, the caller is taken to know every claim. The
        answer's `event` is after every claim that the session has, and before any that it will get.

        With `at_most_every_seconds`, capped at a third of the claim's TTL, a claim that was renewed less than that ago
        is left as it is and answered as not `renewed`, so that one of many concurrent callers renews it. Soft claims
        likewise. If no claim is due, nothing is written; for a session without claims, if it was seen less than that
        ago.

        `meta` is merged into the session's, name by name; null removes a name. It is stored by a heartbeat that renews
        a claim, or of a session without claims, and not by one that `at_most_every_seconds` keeps from writing. If the
        session's meta would become larger than `start_session` allows, nothing changes: `INVALID`."""

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
        """Fenced: renew one claim. `at_most_every_seconds` is as in `heartbeat`, unless the TTL changes."""

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
        """Fenced: record a note for watchers and for the next holder, and renew the claim."""

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
        """Fenced: return the item to the board, or park it, without a strike."""

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
        """Fenced: end the item as done, and unblock its dependents in the same transaction. An agent for which the
        action is sensitive cannot: `FORBIDDEN`. If the result of the item is reviewed (`review`), the run ends as
        submitted instead, without a draft, and the item waits for approval of its result; an approval of the work
        stays. So it is for `done_many` and for the `done` of `next`."""

    @abstractmethod
    def done_many(self, holding: Mapping[str, int | None], *, session: str, request: Request | None = None) -> Finished:
        """`done` for each of these items (with its token, or None), in one transaction and in the order of their ids.
        Each is fenced by itself: an item that is not held, or may not be done, is answered as lost. That is an answer
        and no refusal: it is kept for a request even if no item ended."""

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
        """Fenced: fail the item; while retries remain, schedule it again after an exponential backoff."""

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
        """Fenced: end the run with a draft; the item waits for approval."""

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
        """End the item as rejected: fenced, if its holder (`session`) does it; otherwise `actor` rejects an item that
        waits for approval. With `revision`: see Revisions."""

    @abstractmethod
    def force_release(
        self, item: str, *, actor: str, reason: str, token: int | None = None, request: Request | None = None
    ) -> Ended:
        """An admin ends the claim of an item (with `token`: only that claim), without a strike."""

    @abstractmethod
    def sweep(self, *, limit: int) -> Sweep:
        """Record overdue steps, of at most `limit` claims: end expired claims, and those of sessions with dead owners
        and of their descendants; all these sessions end once none of them holds a claim. Each claim counts a strike;
        the last strike fails the item. Schedules that have come and lapsed offers are recorded, too."""

    # Waiting for one item

    @abstractmethod
    def wait(self, item: str, *, session: str, ttl_seconds: float | None = None) -> Waiting:
        """Take a ticket at the end of the item's queue, or renew the session's ticket in its place. Tickets are served
        in order: each transition of the item into ready offers it to the first live ticket, in the same transaction and
        for `accept_seconds`; a claim by that session accepts. An item that is free is offered at once. An ended item is
        `TASK_NOT_CLAIMABLE`."""

    @abstractmethod
    def leave(self, item: str, *, session: str, request: Request | None = None) -> Waiting:
        """Give up the ticket; its offer goes to the next ticket. Without a ticket: `TASK_NOT_CLAIMED`."""

    @abstractmethod
    def ticket(self, item: str, *, session: str) -> Waiting:
        """The position of the session's latest ticket, or how it was closed. Without one: `TASK_NOT_CLAIMED`."""

    @abstractmethod
    def soft_claim(self, item: str, *, session: str, ttl_seconds: float | None = None) -> SoftClaim:
        """Show that the session works on the item under a lock outside of dibs. `who` shows it, the session's heartbeat
        renews it, it expires; it excludes no other session, has no token and no events."""

    @abstractmethod
    def soft_release(self, item: str, *, session: str, request: Request | None = None) -> SoftClaim: ...

    @abstractmethod
    def why(self, item: str, *, session: str | None = None, agent: str | None = None) -> tuple[Reason, ...]:
        """Every reason that keeps the item from this session now, or why `claim` and `next` would give it. Without a
        session: for a new session of this agent, or of an agent without limits and policy."""
