"""The contract of a store: the atomic core of every verb.

A store is handed valid input (the board checks it), does each verb in one atomic, durable step that the rules
decide, and answers with values. It compares times only with its own clock, read after its locks are held. What the
docstrings here say about eligibility, order and failure holds for every store and is not repeated in them; the
conformance suite (`dibs.testing.conformance`) shows it.

**Eligible** for `next` is an item that is `ready` (time counts: an expired claim, a schedule that has come and an offer
nobody accepted are recorded first) and offered to nobody; of a type that was asked for and that the session's agent
takes; of an action that its policy hands it; in one of the projects asked for; none of whose resources another session
holds. **Order**: priority descending, then oldest first; an item
that comes back keeps its place. **Live** is a claim whose `expires_at` lies ahead. **Fenced** verbs take effect iff
(item, token, session) is the live claim at the decision instant; without a token, the session's own live claim is
meant. Otherwise nothing changes, and the refusal says how the claim ended and who has the item now.

**Requests.** A verb given a `Request` whose answer is kept gives the same answer and does nothing; with another
fingerprint it is `INVALID`. Refusals and an empty `next` are not kept. A sweep forgets answers older than
`request_kept_seconds`, but for the latest 1,000 of them, since the clock may have leapt.

**Revisions.** An item's `revision` is the number of its latest event, and reads answer with it. A verb given a
`revision` decides about the item as its caller has read it: if the stored one differs, nothing changes, and the refusal
is `TASK_CHANGED`, with the current revision and who made it. This comes before every other refusal about the item's
state. What time has done and nobody has recorded makes no difference.

**Reads** answer as a claim at that instant would: expired claims, schedules that have come, lapsed offers (and the
offer to the next in line), the strike that fails an item, and the claims and tickets of sessions that `find_dead` finds
dead are applied, counts included. A read writes nothing of it; the feed and the history have what was recorded.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from dibs.errors import Invalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any, TypeVar

    from dibs.model import (
        Activity,
        Added,
        Agent,
        Detail,
        Edited,
        Ended,
        Event,
        Finished,
        Grant,
        Heartbeat,
        Holding,
        Item,
        Key,
        NewItem,
        Owner,
        Prune,
        Pulse,
        Reason,
        Renewal,
        Request,
        Run,
        Session,
        SessionEnd,
        SessionView,
        SoftClaim,
        Stats,
        Sweep,
        Synced,
        Waiting,
    )

    V = TypeVar("V")

    #: Given a way to look up sessions with owner processes in a namespace (boot id, pid namespace), those of them whose
    #: owner is proven dead from here.
    FindDead = Callable[[Callable[[str, int], Iterable[tuple[str, Owner]]]], Sequence[tuple[str, Owner]]]


def judge_nobody(_: Callable[[str, int], Iterable[tuple[str, Owner]]]) -> Sequence[tuple[str, Owner]]:
    """A store alone does not look at processes."""
    return ()


class Watch(ABC):
    """A place to wait for change. A hint, never the truth: whoever is woken looks again."""

    @abstractmethod
    def wait(self, timeout_seconds: float) -> bool:
        """Return once something may have changed since the last return (True), or when the time is up (False)."""

    def sync(self, *, expire: bool = False) -> Synced:
        """Bring together what was done here and in other clones of a vault, over its git remote.

        With `expire`, by a process that does so again and again: claims of sessions elsewhere that were silent for too
        long end.
        """
        raise Invalid("only a vault has other clones to sync with", field="store")

    @abstractmethod
    def close(self) -> None: ...


if TYPE_CHECKING:

    class Page(tuple[V, ...]):
        more: bool

else:

    class Page(tuple):
        """What was asked for, from its beginning. `more`: `bytes_max` cut it short, and asking `after` the last of it
        goes on."""

        more = False


def page(found: Iterable[V], *, more: bool = False) -> Page[V]:
    made = Page(found)
    made.more = more
    return made


class Store(ABC):
    #: Called after a commit of this object by which something can be had, by the thread that did it: who waits in the
    #: same process need not hear of it from outside.
    on_freed: Callable[[], None] | None = None
    #: How reads find dead owner processes; the board sets it, so that what a read says is what a claim would find.
    find_dead: FindDead = staticmethod(judge_nobody)
    #: Whether waiting can be left to the store: a server hears of a change sooner than whoever it tells.
    waits = False

    def separate_readers(self) -> None:  # noqa: B027 - a store may have nothing to separate
        """From now on no read holds up a write: for a process in which many threads share this store."""

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
        agent: str | None = None,
        key: str | None = None,
        actor: str,
        request: Request | None = None,
    ) -> Ended:
        """Add links, checks and costs to a run that has ended (without a token: the item's latest run), each under its
        name, where they replace what had that name. Nothing else changes but the item's revision and `updated_at`, the
        outcome least of all; what changes nothing writes nothing. With `session`, only a run of that session's agent:
        another's is `NOT_CLAIM_OWNER`; so without one with `agent`, and with `key` a run of a session that another key
        registered. A run that is going on is `TASK_NOT_CLAIMABLE`, and so is, until the item is
        done, rejected or cancelled, the run whose draft the approval in force is about. An item that was never claimed
        is `TASK_NOT_CLAIMED`."""

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

    def take_up(self, session: str, *, key: str, agent: str) -> Session:
        """A live session that was made in SQL, and so by no key, is this key's from now on, if it is of this agent, to
        which the key is bound. Any other, or one that another key has taken up which is still good, is answered as it
        is. For a server, which knows whose key that is."""
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

        With `at_most_every_seconds`, of which no more than a third of the claim's TTL and of `stale_seconds` counts, a
        claim that was renewed less than that ago is left as it is and answered as not `renewed`, with the expiry it
        has: of any number of callers at once, one renews it. Soft claims likewise. If everything is left so, nothing
        is written."""

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

    # Reading

    @abstractmethod
    def events(
        self,
        *,
        after: int | None = None,
        item: str | None = None,
        newest: bool = False,
        limit: int,
        bytes_max: int | None = None,
    ) -> Page[Event]:
        """The feed after a cursor, or with `newest` only the end of it, in feed order: per item in the order of its
        numbers, and nothing is ever skipped. None is the beginning of what is remembered; a cursor from before what
        was pruned is `INVALID`. `bytes_max` is as in `list`; with `newest` it is the end of the feed that remains."""

    @abstractmethod
    def runs(
        self,
        *,
        item: str | None = None,
        session: str | None = None,
        agent: str | None = None,
        after: tuple[str, int] | None = None,
        limit: int,
        bytes_max: int | None = None,
    ) -> Page[Run]:
        """Newest first; with `after`, those that began before the run of this item and token (unknown: `INVALID`).
        `bytes_max` is as in `list`."""

    @abstractmethod
    def activity(self, *, item: str | None = None, agent: str | None = None, limit: int) -> tuple[Activity, ...]:
        """Refused claims, newest first."""

    @abstractmethod
    def who(self) -> tuple[Holding, ...]:
        """Everything in progress, by agent, oldest claim first; then soft claims."""

    @abstractmethod
    def stats(self, *, agent: str | None = None) -> Stats:
        """With an agent, the figures about claims, runs, waiters and sessions are its own; what it was refused counts
        as far as it is remembered. Items are the board's."""

    @abstractmethod
    def pulse(self) -> Pulse:
        """The figures of this instant alone, so that they can be asked for every few seconds."""

    # Waiting

    @abstractmethod
    def watch(self, *, session: str | None = None) -> Watch:
        """A place to wait until anything on the board changes. With a session, what does not concern its tickets need
        not wake it."""

    @abstractmethod
    def due_seconds(self, item: str | None = None) -> float | None:
        """How long until time alone changes something on the board, or about one item (an expiry, a schedule, an
        offer), by the store's clock; None: never."""

    def next_in_time(self, wait_seconds: float, **asked: Any) -> tuple[Grant, ...]:
        """`next`, answered when there is something or the time is up, by a store that `waits`. Where that cannot be
        (there is no room for more who wait), it is unavailable, and the caller watches for itself."""
        raise NotImplementedError

    def wait_in_time(self, wait_seconds: float, item: str, **asked: Any) -> Waiting:
        """`wait`, answered when the ticket is offered the item or stands elsewhere, or the time is up; as above."""
        raise NotImplementedError

    # Whole boards

    @abstractmethod
    def prune(self, *, older_than_seconds: float, limit: int) -> Prune:
        """Forget up to `limit` items that ended so long ago, with their history, and raise the floors to the highest
        token and event forgotten. One that is not done stays while something that has yet to end depends on it."""

    @abstractmethod
    def export(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Everything on the board, of one instant, as (kind of record, JSON object)."""

    @abstractmethod
    def load(self, records: Iterable[tuple[str, dict[str, Any]]]) -> int:
        """What `export` gave, into an empty board, all or nothing; how many records. Tokens are kept. A record that no
        verb could have written is refused by its number: an export is a file that anybody may have written."""

    @abstractmethod
    def backup(self, path: str) -> None:
        """A consistent copy of the board as a new file, while everybody goes on."""

    @abstractmethod
    def restore(self, path: str, *, actor: str) -> int:
        """Make the board what the backup says. Live claims end, tokens and event numbers move on past everything ever
        given, so that whoever still holds one is refused; how many items that concerned. A backup is input like any
        other: nothing in it is run, and its records are checked as by `load`."""

    @abstractmethod
    def check(self) -> tuple[str, ...]:
        """Findings about the store itself, each a sentence; empty when it is sound. After "; " a wrong setting says
        what sets it right. Without that the finding is damage, which only a backup repairs."""

    def remarks(self) -> tuple[tuple[str, str], ...]:
        """What lies beside a sound board and is not on it, though somebody may think so: each with what to do."""
        return ()

    def notes(self) -> tuple[tuple[str, str], ...]:
        """What is worth knowing about where a sound board lies, and is no fault: each with what to do."""
        return ()

    def sync(self, *, expire: bool = False) -> Synced:
        """Bring together what was done here and in other clones of a vault, over its git remote.

        With `expire`, by a process that does so again and again: claims of sessions elsewhere that were silent for too
        long end.
        """
        raise Invalid("only a vault has other clones to sync with", field="store")

    @abstractmethod
    def close(self) -> None: ...
