"""The contract of a store: the atomic core of every verb.

A store is handed valid input (the board checks it), does each verb in one atomic, durable step that the rules
decide, and answers with values. It compares times only with its own clock, read after its locks are held. What the
docstrings here say about eligibility, order and failure holds for every store and is not repeated in them; the
conformance suite (`dibs.testing.conformance`) shows it.

**Eligible** for `next` is an item that is `ready`, or whose claim has expired; of a type that was asked for and that
the session's agent takes; in one of the projects asked for. **Order**: priority descending, then oldest first; an item
that comes back keeps its place. **Live** is a claim whose `expires_at` lies ahead. **Fenced** verbs take effect iff
(item, token, session) is the live claim at the decision instant; without a token, the session's own live claim is
meant. Otherwise nothing changes, and the refusal says how the claim ended and who has the item now.

**Requests.** A verb given a `Request` that was answered within `request_kept_seconds` gives the same answer and does
nothing; with another fingerprint it is `INVALID`. Refusals and an empty `next` are not kept.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from dibs.model import (
        Activity,
        Agent,
        Detail,
        Ended,
        Event,
        Grant,
        Heartbeat,
        Holding,
        Item,
        NewItem,
        Owner,
        Renewal,
        Request,
        Run,
        Session,
        SessionEnd,
        SessionView,
        Stats,
        Sweep,
    )


class Watch(ABC):
    """A place to wait for change. A hint, never the truth: whoever is woken looks again."""

    @abstractmethod
    def wait(self, timeout_seconds: float) -> bool:
        """Return once something may have changed since the last return (True), or when the time is up (False)."""

    @abstractmethod
    def close(self) -> None: ...


class Store(ABC):
    # Items

    @abstractmethod
    def add(self, items: Sequence[NewItem], *, actor: str, request: Request | None = None) -> tuple[Item, ...]:
        """All of the items or none. A taken id is `INVALID`, unless the item there has the same content: then that
        one is answered. Items are as old as their place in the call."""

    @abstractmethod
    def get(self, item: str) -> Detail:
        """The item, its live claim and its runs (newest first, bounded), read in one instant."""

    @abstractmethod
    def list(
        self,
        *,
        statuses: Sequence[str] = (),
        projects: Sequence[str] = (),
        types: Sequence[str] = (),
        labels: Sequence[str] = (),
        limit: int,
    ) -> tuple[Item, ...]:
        """Items that match every given filter (all of `labels`), in the order of `next`."""

    @abstractmethod
    def edit(self, item: str, changes: Mapping[str, Any], *, actor: str, request: Request | None = None) -> Item:
        """Change content, in any status; what changes nothing writes nothing."""

    @abstractmethod
    def cancel(self, item: str, *, actor: str, reason: str | None = None, request: Request | None = None) -> Item:
        """Not to be done. A holder loses the item and its token is spent."""

    @abstractmethod
    def retry(self, item: str, *, actor: str, reason: str | None = None, request: Request | None = None) -> Item:
        """A failed item is ready again, its strikes forgiven."""

    # Agents and sessions

    @abstractmethod
    def set_agent(self, agent: Agent) -> Agent:
        """Create or replace the agent of that name."""

    @abstractmethod
    def agents(self) -> tuple[Agent, ...]:
        """By name."""

    @abstractmethod
    def start_session(self, session: Session) -> Session:
        """Start it, or start it again if it has ended; a live one is answered as it is, except that a new owner takes
        it over. An unknown agent is created, without limits. A live session of another agent under that id is
        `INVALID`."""

    @abstractmethod
    def end_session(self, session: str, *, reason: str | None = None) -> SessionEnd:
        """A clean end: its live claims are released, without a strike."""

    @abstractmethod
    def sessions(self, *, ended: bool = False, limit: int) -> tuple[SessionView, ...]:
        """Live sessions, or with `ended` all that are remembered, most recently seen first."""

    @abstractmethod
    def owners(self, *, boot_id: str, pid_namespace: int) -> tuple[tuple[str, Owner], ...]:
        """Live sessions with at least one claim whose owner process lives in this namespace, for a look at it."""

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
        """Exclusive. The session's own live claim is renewed and answered again, under the same token. `agent` is who
        the caller takes the session for; if the session is another's, `INVALID`."""

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
        that is still live is renewed and answered."""

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
        request: Request | None = None,
    ) -> tuple[Grant, ...]:
        """The best eligible items, up to `n` and to the room the session has; a session without room is
        `AGENT_AT_CAPACITY`. Empty means that at this instant there was none."""

    @abstractmethod
    def heartbeat(self, *, session: str, holding: Mapping[str, int | None] | None = None) -> Heartbeat:
        """Renew every live claim of the session, and never one that has expired. `holding` maps each item the caller
        believes to hold to its token (None: not known): live claims not in it are released as forgotten, and those in
        it that are not held are answered as lost. Without it, expired claims not yet swept are answered as lost."""

    @abstractmethod
    def renew(self, item: str, *, session: str, token: int | None = None, ttl_seconds: float | None = None) -> Renewal:
        """Fenced: a heartbeat for one claim."""

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
        request: Request | None = None,
    ) -> Ended:
        """Fenced: back to ready, without a strike."""

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
        """Fenced: the item is done."""

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
        """Fenced: the item failed."""

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
        the last strike fails the item."""

    # Reading

    @abstractmethod
    def events(self, *, after: int = 0, item: str | None = None, limit: int) -> tuple[Event, ...]:
        """The feed after a cursor, in feed order: per item in the order of its numbers, and nothing is ever
        skipped."""

    @abstractmethod
    def runs(
        self, *, item: str | None = None, session: str | None = None, agent: str | None = None, limit: int
    ) -> tuple[Run, ...]:
        """Newest first."""

    @abstractmethod
    def activity(self, *, item: str | None = None, agent: str | None = None, limit: int) -> tuple[Activity, ...]:
        """Refused claims, newest first."""

    @abstractmethod
    def who(self) -> tuple[Holding, ...]:
        """Everything in progress, by agent, oldest claim first; what has no live claim comes last, without one."""

    @abstractmethod
    def stats(self) -> Stats: ...

    # Waiting

    @abstractmethod
    def watch(self) -> Watch:
        """A place to wait until anything on the board changes."""

    @abstractmethod
    def due_seconds(self) -> float | None:
        """How long until time alone changes something (the nearest expiry), by the store's clock; None: never."""

    @abstractmethod
    def check(self) -> tuple[str, ...]:
        """Findings about the store itself (damage, wrong settings), each a sentence; empty when it is sound."""

    @abstractmethod
    def close(self) -> None: ...
