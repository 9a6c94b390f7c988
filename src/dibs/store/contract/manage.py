"""The verbs that manage a board: items, decisions about them, agents, sessions and keys."""

from __future__ import annotations

from abc import ABC, abstractmethod

from dibs.errors import Invalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from dibs.model import (
        Added,
        Agent,
        Detail,
        Edited,
        Ended,
        Item,
        Key,
        NewItem,
        Owner,
        Request,
        Session,
        SessionEnd,
        SessionView,
    )
    from dibs.store.contract.page import Page


class ManageVerbs(ABC):
    # Items

    @abstractmethod
    def add(self, items: Sequence[NewItem], *, actor: str, request: Request | None = None) -> tuple[Added, ...]:
        """All of the items or none. A taken id is `INVALID`, unless the item there has the same content: then that
        one is answered, as one that `existed`. So is an unknown dependency and a circle of them; items of one call may
        depend on each other in any order. Items are as old as their place in the call."""

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
        after: str | None = None,
        limit: int,
        bytes_max: int | None = None,
    ) -> Page[Item]:
        """Items that match every given filter (all of `labels`), in the order of `next`; with `after`, those that come
        after that item, wherever it stands now (unknown: `INVALID`).

        `bytes_max`: no more once the texts of what was found have that many characters. So at least one item, if there
        is any; the page says whether there is `more`. Each page is of its own instant."""

    @abstractmethod
    def edit(
        self,
        item: str,
        changes: Mapping[str, Any],
        *,
        actor: str,
        revision: int | None = None,
        relabel: bool = True,
        request: Request | None = None,
    ) -> Edited:
        """Change content, in any status; what changes nothing writes nothing. Answers what was there `before`. An item
        that nobody holds moves to where it rests then. Editing what was approved asks for approval again; project and
        resources of a claimed item, and what was approved of it, are `INVALID`, with the `holder`. With `revision`,
        only of the item as it was read: see Revisions. Without `relabel`, another type or action is `FORBIDDEN`: they
        decide whose item it is."""

    @abstractmethod
    def cancel(self, item: str, *, actor: str, reason: str | None = None, request: Request | None = None) -> Item:
        """Not to be done. A holder loses the item and its token is spent."""

    @abstractmethod
    def retry(self, item: str, *, actor: str, reason: str | None = None, request: Request | None = None) -> Item:
        """A failed item is to be done again, its strikes and failures forgiven."""

    @abstractmethod
    def park(self, item: str, *, actor: str, reason: str | None = None, request: Request | None = None) -> Item:
        """Set aside an item that nobody holds: `next` does not hand it out, a claim by id takes it."""

    @abstractmethod
    def unpark(self, item: str, *, actor: str, reason: str | None = None, request: Request | None = None) -> Item:
        """Back to where it rests."""

    @abstractmethod
    def approve(
        self,
        item: str,
        *,
        actor: str,
        comment: str | None = None,
        done: bool = False,
        token: int | None = None,
        revision: int | None = None,
        request: Request | None = None,
    ) -> Item:
        """An item that waits for approval may be done, by agents allowed its action, or with `done` is done with its
        draft. By the agent that drafted it: `FORBIDDEN`. With `token`, only if the draft is that run's: another one
        is `TASK_NOT_CLAIMABLE`. With `revision`, only if the item, and so the draft, is as it was read."""

    @abstractmethod
    def send_back(
        self, item: str, *, actor: str, comment: str, revision: int | None = None, request: Request | None = None
    ) -> Item:
        """An item that waits for approval is to be drafted again; with `revision`, only if it is as it was read."""

    @abstractmethod
    def annotate(
        self,
        item: str,
        *,
        token: int | None = None,
        links: Mapping[str, Any],
        checks: Mapping[str, Any],
        cost: Mapping[str, Any],
        session: str | None = None,
        actor: str,
        request: Request | None = None,
    ) -> Ended:
        """Add links, checks and costs to a run that has ended (without a token: the item's latest run), each under its
        name, where they replace what had that name. Nothing else changes, the outcome least of all; what changes
        nothing writes nothing. With `session`, only a run of that session's agent: another's is `NOT_CLAIM_OWNER`. A
        run that is going on is `TASK_NOT_CLAIMABLE`, and an item that was never claimed is `TASK_NOT_CLAIMED`."""

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
        it over, and that a meta which says anything replaces the one before. An unknown agent is created, without
        limits. A session of another agent under that id, also one that has ended, is `INVALID`. One that was registered
        by another key, or by none, is `FORBIDDEN` to a caller with a key; an ended one no longer, once the key that
        registered it is no longer good."""

    @abstractmethod
    def end_session(self, session: str, *, reason: str | None = None, request: Request | None = None) -> SessionEnd:
        """A clean end: its live claims are released, without a strike."""

    @abstractmethod
    def sessions(self, *, ended: bool = False, limit: int) -> tuple[SessionView, ...]:
        """Live sessions, or with `ended` all that are remembered, most recently seen (to five seconds) first."""

    @abstractmethod
    def find_session(self, id: str) -> Session | None:
        """The session of this id, also one that has ended."""

    def take_up(self, session: str, *, key: str) -> Session:
        """A live session that was made in SQL, and so by no key, is this key's from now on. Any other, or one that
        another key has taken up, is answered as it is. For a server, which knows whose key that is."""
        raise Invalid("only a server takes up sessions", field="store")

    @abstractmethod
    def put_key(self, key: Key, *, seconds: float | None = None) -> Key:
        """Keep a new key, for so long or until it is revoked. The very same key, kept already, is answered as it is;
        another one of that id is `INVALID`."""

    @abstractmethod
    def find_key(self, id: str) -> Key | None:
        """The key of this id, if it is good now."""

    @abstractmethod
    def keys(self) -> tuple[Key, ...]:
        """All there ever were, oldest first."""

    @abstractmethod
    def revoke_key(self, id: str, *, request: Request | None = None) -> Key:
        """Not good any more, from now on; answered without its digest, since an answer is kept and exported. Unknown or
        revoked already: `INVALID`; of two at once, one is told so."""

    @abstractmethod
    def owners(self, *, boot_id: str, pid_namespace: int) -> tuple[tuple[str, Owner], ...]:
        """Live sessions with at least one claim whose owner process lives in this namespace, for a look at it."""
