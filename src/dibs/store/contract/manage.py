"""The verbs that manage a board: items, decisions about them, agents, sessions and keys."""

from __future__ import annotations

from abc import ABC, abstractmethod

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
        Request,
        Session,
        SessionEnd,
        SessionView,
    )
    from dibs.model.dashboard import Bulk
    from dibs.model.webhooks import DeadLetter, Webhook
    from dibs.store.contract import Page


class ManageVerbs(ABC):
    # Items

    @abstractmethod
    def add(self, items: Sequence[NewItem], *, actor: str, request: Request | None = None) -> tuple[Added, ...]:
        """Add all of the items or none. An item with an empty id gets one that is made of its title and that no item
        has, ended ones included: `fix-login`, then `fix-login-2`; in a vault with a git remote, the words and a random
        part, since clones do not see each other's new items.

        An existing id is `INVALID`, unless that item has the same content: then the answer is that item, as one that
        `existed`. One subject, one item: if an item has the subject of a new one, in whatever status, the answer is
        that item, as one that `existed`, whatever else the new one says. An unknown dependency and a cycle are
        `INVALID`; items of one call may depend on each other in any order. Earlier items of the call are older."""

    @abstractmethod
    def get(self, item: str) -> Detail:
        """The item, its live claim and its latest runs, newest first, of one snapshot."""

    @abstractmethod
    def list(
        self,
        *,
        statuses: Sequence[str] = (),
        projects: Sequence[str] = (),
        types: Sequence[str] = (),
        labels: Sequence[str] = (),
        subject: str | None = None,
        after: str | None = None,
        limit: int,
        bytes_max: int | None = None,
    ) -> Page[Item]:
        """Items that match every filter (all of `labels`, the `subject`), in the order of `next`; with `after`, those
        after the current place of that item (unknown: `INVALID`).

        `bytes_max`: the page ends once the texts of its items have that many characters, so it has at least one item if
        any matches; `more` tells whether others follow. Each page is a snapshot of its own."""

    @abstractmethod
    def bulk(
        self,
        verb: str,
        *,
        args: Mapping[str, Any],
        items: Sequence[Mapping[str, Any]] = (),
        filter: Mapping[str, Any] | None = None,
        expect: int | None = None,
        actor: str,
        request: Request | None = None,
    ) -> Bulk:
        """A verb of people on up to 1,000 items, in one transaction: `park`, `unpark`, `cancel`, `retry`, `reopen`,
        `approve`, `send_back`, `reject` or `force_release`, with `args` for all. Each item is decided for itself: a
        refused one is left alone and the others are not affected. An item has its `id` and may have the `revision` that
        the caller read, and for `approve` and `force_release` the `token`. With `filter` instead (that of `page`), the
        items that match it now, if they are `expect` many; otherwise `INVALID`, with how many `matches`. They are read
        before the transaction, which refuses those that changed meanwhile."""

    @abstractmethod
    def edit(
        self,
        item: str,
        changes: Mapping[str, Any],
        *,
        actor: str,
        revision: int | None = None,
        relabel: bool = True,
        add_labels: Sequence[str] = (),
        remove_labels: Sequence[str] = (),
        add_needs: Sequence[str] = (),
        remove_needs: Sequence[str] = (),
        add_resources: Sequence[str] = (),
        session: str | None = None,
        token: int | None = None,
        request: Request | None = None,
    ) -> Edited:
        """Change content, in any status; an edit that changes nothing writes nothing. The answer has the old values as
        `before`. An unclaimed item moves to the status that follows from its content. An edit of approved content
        withdraws the approval; the key `external` of the payload is not covered by it. Project and resources of a
        claimed item, and its approved content, cannot change: `INVALID`, with the `holder`. The subject of another item
        is `INVALID`, too. With `revision`: see Revisions. Without `relabel`, another type, action or
        `review` is `FORBIDDEN`, because they decide which agents may take the item, and whether its result is reviewed;
        so is another `external` in the payload, since what another system says may end the item, and another subject
        of an item that has it.

        `add_labels` and `remove_labels` change the labels that the item has in the same transaction, `add_needs` and
        `remove_needs` its dependencies; what is to be added goes to the end. Adding what is there and removing what is
        not change nothing; what is in both lists is removed.

        `add_resources` are added to the item's, except those that the item's already cover. With `session`, the edit is
        fenced, and its actor is the session's agent: the holder may add resources to its item, unless the item is
        approved. What another session's claim holds is refused as a claim would be: `RESOURCE_BUSY`, and nothing
        changes. The claim holds the added resources from then on. They stay with the item when the claim ends."""

    @abstractmethod
    def cancel(self, item: str, *, actor: str, reason: str | None = None, request: Request | None = None) -> Item:
        """End the item as cancelled; a claim of it ends, too."""

    @abstractmethod
    def retry(self, item: str, *, actor: str, reason: str | None = None, request: Request | None = None) -> Item:
        """Make a failed item claimable again, without its strikes and failures."""

    @abstractmethod
    def reopen(self, item: str, *, actor: str, reason: str | None = None, request: Request | None = None) -> Item:
        """Return an item that is done, cancelled or rejected to the status that follows from its content, without its
        strikes and failures; a failed one is retried. Its runs stay as they ended, and its next claim has a higher
        token than all before. Items that depend on it and that nobody holds wait for it again: they become blocked,
        and lose an offer. While one of them is held, or has ended, the item cannot be reopened:
        `TASK_NOT_CLAIMABLE`, with the `dependent`.

        An approval is withdrawn, because it was for the work that has ended: the item waits for another one, unless
        its result is reviewed. An item whose subject is over elsewhere loses this mark, so that it is not cancelled
        again when a holder lets go of it."""

    @abstractmethod
    def park(self, item: str, *, actor: str, reason: str | None = None, request: Request | None = None) -> Item:
        """Set aside an unclaimed item: `next` skips it, a claim by id takes it."""

    @abstractmethod
    def unpark(self, item: str, *, actor: str, reason: str | None = None, request: Request | None = None) -> Item:
        """Return a parked item to the status that follows from its content."""

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
        """Approve an item that waits for approval, for agents that are allowed its action; with `done`, end it as done
        with its draft. Approving a result that `done` submitted ends the item in any case. The agent that drafted it is
        `FORBIDDEN`. With `token`, only the draft of that run: another one
        is `TASK_NOT_CLAIMABLE`. With `revision`: see Revisions."""

    @abstractmethod
    def send_back(
        self, item: str, *, actor: str, comment: str, revision: int | None = None, request: Request | None = None
    ) -> Item:
        """Ask for another draft or result of an item that waits for approval. With `revision`: see Revisions."""

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
        agent: str | None = None,
        key: str | None = None,
        actor: str,
        request: Request | None = None,
    ) -> Ended:
        """Add links, checks and costs to a run (without a token: the item's latest run); an entry
        replaces one of the same name. Apart from the item's revision and `updated_at`, nothing else changes, in
        particular not the outcome; an annotation that changes nothing writes nothing. With `session`, or with `agent`,
        only a run of that agent, and with `key` only a run of a session that this key registered: another run is
        `NOT_CLAIM_OWNER`. A run that has not ended is annotated by the `session` that holds it, without renewing its
        claim, and its end adds to what was annotated, whoever ends it; to everybody else it is `TASK_NOT_CLAIMABLE`.
        So is the run whose draft the current approval is about, until the item is done, rejected or cancelled. An item
        that was never claimed is `TASK_NOT_CLAIMED`."""

    # Agents and sessions

    @abstractmethod
    def set_agent(self, agent: Agent) -> Agent:
        """Create or replace the agent of that name."""

    @abstractmethod
    def agents(self) -> tuple[Agent, ...]:
        """All agents, by name."""

    @abstractmethod
    def start_session(self, session: Session) -> Session:
        """Start a session, or start it again after its end. A live one is answered unchanged, except that a new owner
        and a non-empty meta replace the old ones. An unknown agent is created, without limits. The
        id of a session of another agent, even an ended one, is `INVALID`. A session that was registered by another key,
        or without one, is `FORBIDDEN` to a caller with a key; an ended one is free once the key that registered it is
        revoked or expired. The kind decides the TTL of claims that ask for none: `person` has a setting of its own,
        `agent` has half as long again as others, within `ttl_seconds_max`.

        With a `parent`, the session is a child of that session, which must be live (`SESSION_NOT_FOUND`). A session
        with `ANCESTORS_MAX` ancestors cannot be a parent, and neither can the session itself or one of its descendants:
        `INVALID`. A live session keeps its parent; another one is `INVALID`. When a session ends, by whatever verb, its
        descendants end in the same transaction and in the same manner."""

    @abstractmethod
    def end_session(self, session: str, *, reason: str | None = None, request: Request | None = None) -> SessionEnd:
        """End the session and its descendants, and release their live claims, without a strike."""

    @abstractmethod
    def sessions(self, *, ended: bool = False, limit: int) -> tuple[SessionView, ...]:
        """Live sessions, or with `ended` also ended ones that are not pruned, most recently seen first. `seen_at` may
        lag by five seconds."""

    @abstractmethod
    def find_session(self, id: str) -> Session | None:
        """The session with this id, live or ended."""

    @abstractmethod
    def put_key(self, key: Key, *, seconds: float | None = None) -> Key:
        """Store a new key, valid for `seconds` or until it is revoked. The same key again is answered as stored;
        another key with that id is `INVALID`."""

    @abstractmethod
    def find_key(self, id: str) -> Key | None:
        """The key with this id, if it is valid now."""

    @abstractmethod
    def keys(self) -> tuple[Key, ...]:
        """All keys ever stored, oldest first."""

    @abstractmethod
    def rotate_key(self, id: str, key: Key, *, seconds: float | None = None, grace_seconds: float) -> Key:
        """Store a new key in place of the key `id`: it has its role, agent and name, and acts for its sessions. That
        one is valid for `grace_seconds` more at most; it may be revoked or expired already. The same new key again is
        answered as stored. Unknown: `INVALID`."""

    @abstractmethod
    def revoke_key(self, id: str, *, request: Request | None = None) -> Key:
        """Revoke a key. The answer has no digest, because answers are kept and exported. Unknown or already revoked:
        `INVALID`, also for the second of two concurrent calls."""

    @abstractmethod
    def add_webhook(self, webhook: Webhook, *, secret: str) -> Webhook:
        """Store a new webhook, which is sent the events after its cursor. The same webhook with the same secret again
        is answered as stored; another one with that id is `INVALID`, and so is one more than the limit."""

    @abstractmethod
    def webhooks(self) -> tuple[Webhook, ...]:
        """All webhooks, oldest first. No answer has a secret."""

    @abstractmethod
    def change_webhook(self, webhook: str, *, enabled: bool | None = None, secret: str | None = None) -> Webhook:
        """Enable or disable a webhook, or give it a new secret: the one before signs for another day. A disabled
        webhook does not keep events from being pruned; enabled again, it goes on where it stood, or after what was
        pruned. Unknown: `INVALID`."""

    @abstractmethod
    def remove_webhook(self, webhook: str) -> Webhook:
        """Delete a webhook and its dead letters. Unknown: `INVALID`."""

    @abstractmethod
    def dead_letters(self, webhook: str) -> tuple[DeadLetter, ...]:
        """The events that the webhook gave up on, oldest first. Unknown: `INVALID`."""
