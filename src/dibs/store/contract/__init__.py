"""The contract of a store: the atomic core of every verb.

The board checks the input before it calls a store. A store runs each verb in one atomic and durable transaction, lets
the rules decide, and answers with values. It compares times only with its own clock, read after its locks are held. The
docstrings here hold for every store; the conformance suite (`dibs.testing.conformance`) tests them.

**Eligible** for `next` is an item that is `ready`, after expired claims, schedules and lapsed offers were recorded;
that is not offered to a session; whose type the caller asked for and the agent takes; whose action the agent's policy
allows; whose project the caller asked for; and none of whose resources another session holds. **Order**: priority
descending, then oldest first; an item that returns keeps its place. A claim is **live** until its `expires_at`. A
**fenced** verb takes effect iff (item, token, session) is the live claim at the time of the decision; without a token,
the session's own live claim. Otherwise nothing changes, and the facts of the refusal are how the claim ended and which
session holds the item now.

**Requests.** A verb with a `Request` whose answer is kept gives that answer and changes nothing; with another
fingerprint it is `INVALID`. Refusals and an empty `next` are not kept. A sweep deletes answers older than
`request_kept_seconds`, except the latest 1,000 of them, because the clock may have jumped.

**Over.** A payload with a text as `external.over` says that the item's subject needs no more work. Such an item is
cancelled when its claim ends in a way that would return it to the board or park it, in the same step.

**Revisions.** The `revision` of an item is the number of its latest event. A verb with a `revision` takes effect only
if the item is still at that revision, which the caller has read: otherwise nothing changes, and the refusal is
`TASK_CHANGED`, with the current revision and its actor. This check comes before every other one of the item's state.
Overdue steps that are not recorded yet do not count as a change.

**Dead owners.** Only a store whose process can prove it ends a session because its owner process is dead. It looks
before a claim is the reason of a refusal (except that of a rate) or of an empty `next`, and then calls the verb again.
An offer is not lost to what a dead owner holds.

**Reads** answer as a claim at that instant would: they apply expired claims, schedules, lapsed offers (and the offer to
the next ticket), the strike that fails an item, and the end of sessions with dead owners, also in counts. A read
writes nothing; the feed and the history show what was recorded.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from dibs.errors import Invalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, TypeVar

    from dibs.model import Event, Grant, Key, Session, Synced, Waiting
    from dibs.model.dashboard import VitalChange, Vitals
    from dibs.model.webhooks import Attempt, Delivery, Taken, Webhook
    from dibs.store.contract.manage import ManageVerbs
    from dibs.store.contract.read import ReadVerbs
    from dibs.store.contract.work import WorkVerbs

    V = TypeVar("V")

__all__ = ["Page", "SharedCommits", "Store", "Watch", "page"]


#: Formats of backups: a SQLite database; lines of JSON (`dibs.text.record_lines`).
SQLITE, LINES = "sqlite", "lines"
#: The fact `problem` of a `STORE_UNAVAILABLE` that many verbs will get: nobody answers, or writes are not accepted.
GONE, FULL, READ_ONLY = "gone", "full", "read-only"
#: In place of the kind of a record: the refusal that ended a server's export.
BROKEN_OFF = "error"
#: Of a board from before version 1 of the schema, which no migration reads.
BEFORE_SCHEMA_1 = (
    "was made by a dibs from before schema 1: export it with that version (dibs export FILE; restore a backup there"
    " first), and import the file into a new board with this one (dibs import FILE)"
)
DELIVERED_BY_SERVER = "the server of this board delivers its webhooks; run dibs deliver where the board itself is"


if TYPE_CHECKING:

    class Page(tuple[V, ...]):
        more: bool

else:

    class Page(tuple):
        """The first part of an answer. `more`: `bytes_max` cut it short; a read `after` its last entry continues."""

        more = False


def page(found: Iterable[V], *, more: bool = False) -> Page[V]:
    made = Page(found)
    made.more = more
    return made


class Watch(ABC):
    """Waits for changes of the board. Only a hint: a caller that wakes reads the board again."""

    @abstractmethod
    def wait(self, timeout_seconds: float) -> bool:
        """Return once something may have changed since the last return (True), or when the time is up (False)."""

    @abstractmethod
    def close(self) -> None: ...


#: The message of the `STORE_UNAVAILABLE` that ends a `Live`.
REPLACED = "the board was replaced; read it again"


class Live(ABC):
    """What happens on a board, as it comes. One thread iterates."""

    @abstractmethod
    def __iter__(self) -> Iterator[Event | VitalChange]:
        """Ends after `close`, or by an error: the store is unavailable, or refuses, or the board was restored or
        replaced since the view (`STORE_UNAVAILABLE`); then read the view again."""

    @abstractmethod
    def close(self) -> None:
        """Called from any thread, at any time: a wait for news ends."""


if TYPE_CHECKING:

    class Verbs(ManageVerbs, WorkVerbs, ReadVerbs):
        """What every store has to implement."""

else:
    # Declarations only: they would cost every command about a millisecond, and the type checker misses none.
    Verbs = ABC


class Store(Verbs):
    """The base of every store: besides the verbs, what the board and servers use, with defaults."""

    #: Called by the committing thread after a commit that made an item claimable, so that waiters in this process wake
    #: without a notification.
    on_freed: Callable[[], None] | None = None
    #: The format that `backup` writes and `restore` reads; the board converts other files. None: the server does so.
    backup_format: str | None = None
    #: Whether the store itself can wait (`next_in_time`, `wait_in_time`), as a server does for its clients.
    waits = False

    def separate_readers(self) -> None:
        """Let reads and writes use separate connections, for a process in which many threads share this store."""

    def shared_commits(self) -> SharedCommits | None:
        """How verbs of many callers are part of one commit; None: each verb has its own."""
        return None

    def checkpoint_on_close(self) -> None:
        """Leave a file that is complete by itself when this store is closed. A store in files does so anyway, unless
        the process runs one command, for which this would take too long."""

    # Waiting

    @abstractmethod
    def watch(self, *, session: str | None = None) -> Watch:
        """A watch of all changes of the board; with a session, of at least the changes of its tickets."""

    @abstractmethod
    def due_seconds(self, item: str | None = None) -> float | None:
        """The time until the next expiry, schedule or end of an offer, on the board or of one item; None: never."""

    def next_in_time(self, wait_seconds: float, **asked: Any) -> tuple[Grant, ...]:
        """`next` by a store that `waits`: it answers when an item is granted or the time is up. A store that cannot
        serve another waiting caller is `STORE_UNAVAILABLE`; the caller then uses `watch`."""
        raise NotImplementedError

    def wait_in_time(self, wait_seconds: float, item: str, **asked: Any) -> Waiting:
        """`wait` by a store that `waits`: it answers when the ticket gets an offer or another position, or the time is
        up."""
        raise NotImplementedError

    # What only some stores can do

    def reap_dead_owners(self) -> bool:
        """End the claims of sessions whose owners this process can prove dead, and those of their descendants, at most
        `sweep_batch`; and these sessions, once none of them holds a claim. Returns whether there were any. Behind a
        server, the server does that: any client could claim that an owner is dead."""
        return False

    def end_silent(self, *, limit: int) -> tuple[str, ...]:
        """End live sessions that have called no verb for a day, at most `limit`, if they hold nothing, wait for nothing
        and have no live child; their ids. Behind a server, the server does that."""
        return ()

    def sessions_of_key(self, key: str) -> tuple[int, int]:
        """How many live sessions a key has, and how many bytes of `meta` they have together. Only servers ask."""
        raise Invalid("only a server counts the sessions of a key", field="store")

    def take_up(self, session: str, *, key: str, agent: str) -> Session:
        """Bind a live session of this agent that was started in SQL, and so without a key, to this key of the agent.
        Any other session, and one that is bound to another valid key, is answered unchanged. Only servers call this: a
        server knows the agent of a key."""
        raise Invalid("only a server can bind a session to a key", field="store")

    def renew_key(self, id: str, *, seconds: float, seconds_max: float) -> Key | None:
        """Let a valid key that expires last for `seconds` from now, but not longer than `seconds_max` from its
        creation; None if it is not valid. Only servers call this, for the keys of browsers that are in use."""
        raise Invalid("only a server can renew the key of a browser", field="store")

    def note_backup(self) -> None:
        """Record that a backup of the board is complete, for its pulse. A server does that itself, before it sends the
        backup."""

    def ping(self) -> None:
        """Raise what keeps the store from answering or from accepting writes, with the fact `problem`: `GONE`, `FULL`
        or `READ_ONLY`. Not tried again, unlike a verb, and as far as possible independent of other callers. Only
        servers call this."""
        self.due_seconds()

    def try_write(self) -> None:
        """Commit something that nobody reads, to see whether writes are accepted. Only servers call this."""

    def free_bytes(self) -> int | None:
        """The free space of the disk of the board, if the board is in files of this machine."""
        return None

    def note_key_use(self, id: str) -> None:
        """Record that a key is in use, unless that was recorded within the hour. Only servers call this."""

    def send_webhook(self, webhook: str, *, event: int | None = None) -> Delivery | None:
        """Let the server of the board send a message by hand: a test, or a dead letter again. None: this board has no
        server, and the caller sends."""
        return None

    def take_webhook(self, webhook: str, *, deliverer: str | None, seconds: float = 0.0) -> Taken | None:
        """Take the lease of a webhook for `seconds`, with its secrets, unless another deliverer has it or a retry is
        ahead: then the answer says how long to wait. None: there is no such webhook, or it is disabled. Without a
        `deliverer` nothing is taken: for messages that are sent by hand."""
        raise Invalid(DELIVERED_BY_SERVER, field="store")

    def advance_webhook(
        self,
        webhook: str,
        *,
        deliverer: str,
        after: int,
        cursor: int | None = None,
        attempt: Attempt | None = None,
        seconds: float = 0.0,
    ) -> Webhook | None:
        """Record what the deliverer that has the lease did since the cursor was at `after`: events up to `cursor`
        passed over, then an attempt to send one. If the lease is another's or the cursor is elsewhere, nothing changes,
        and the answer is None. The lease is kept for `seconds`, or given up."""
        raise Invalid(DELIVERED_BY_SERVER, field="store")

    def drop_dead_letter(self, webhook: str, event: int) -> bool:
        """Delete a dead letter that was sent by hand; whether there was one."""
        raise Invalid(DELIVERED_BY_SERVER, field="store")

    def catch_up(self, limit: int) -> bool:
        """Bring the figures that the store keeps up to date with up to `limit` events; whether there may be more. Each
        sweep does so for a few, and a server whenever there are many."""
        return False

    def vitals(self) -> Vitals:
        """What changes without an event: see `Vitals`. Servers read it, for the streams of dashboards, and so does
        `dibs.sdk.live`."""
        raise Invalid("only the server of a board reads its vitals", field="store")

    def live(self, after: int) -> Live:
        """By a store that `waits`: the events after a cursor without their long texts, and between them what changes
        without an event."""
        raise NotImplementedError

    def histories(self) -> Iterator[tuple[str, Any]]:
        """What `doctor` compares, as (kind, value), from one snapshot. First the floors ("board"), the sessions that
        have not ended, and each subject of several items, with these items, oldest first. Then the records of each
        item, by id: the item, its dependencies ([item, needs, status of the other item, when that was added, whether
        the dependency is recorded]), claims, open tickets, runs and events. Records of an item that does not exist
        come where it would be. A record that `load` would refuse is followed by "invalid": [its item or None, its kind,
        the reason]. A store that keeps many items reads them in bounded memory; this default does not, and checks no
        single record."""
        from dibs.store.contract import histories

        return histories.of_export(self.export())

    def remarks(self) -> tuple[tuple[str, str], ...]:
        """Findings of `doctor` that are not damage, such as files of a vault that are not on the board: (finding,
        advice)."""
        return ()

    def notes(self) -> tuple[tuple[str, str], ...]:
        """Findings of `doctor` that are not faults, such as a file that every user can read: (finding, advice)."""
        return ()

    def sync(self, *, expire: bool = False) -> Synced:
        """Synchronize a vault with its git remote. With `expire`, which only a process that synchronizes in a loop may
        set, end the claims of sessions in other clones that were silent for too long."""
        raise Invalid("only a vault can be synchronized; this board is not one", field="store")

    @abstractmethod
    def close(self) -> None: ...


class SharedCommits(ABC):
    """Verbs of many callers in one commit, for a server."""

    #: Its verbs are part of the commit, and can be called by `work` only.
    store: Store

    @abstractmethod
    def call(self, work: Callable[[], Any], on_end: Callable[[Callable[[], Any]], None]) -> None:
        """Have a thread of the store call `work`, and after the commit `on_end`, with a function that returns what
        `work` returned or raises what it raised; or the failure of the store, and then nothing is changed. Does not
        wait for either."""
