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

from dibs.store.contract.manage import ManageVerbs
from dibs.store.contract.page import Page, page
from dibs.store.contract.read import ReadVerbs
from dibs.store.contract.work import WorkVerbs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from dibs.model import Grant, Owner, Waiting

    #: Given a way to look up sessions with owner processes in a namespace (boot id, pid namespace), those of them whose
    #: owner is proven dead from here.
    FindDead = Callable[[Callable[[str, int], Iterable[tuple[str, Owner]]]], Sequence[tuple[str, Owner]]]

__all__ = ["FindDead", "Page", "Store", "Watch", "judge_nobody", "page"]


def judge_nobody(_: Callable[[str, int], Iterable[tuple[str, Owner]]]) -> Sequence[tuple[str, Owner]]:
    """A store alone does not look at processes."""
    return ()


class Watch(ABC):
    """A place to wait for change. A hint, never the truth: whoever is woken looks again."""

    @abstractmethod
    def wait(self, timeout_seconds: float) -> bool:
        """Return once something may have changed since the last return (True), or when the time is up (False)."""

    @abstractmethod
    def close(self) -> None: ...


class Store(ManageVerbs, WorkVerbs, ReadVerbs):
    #: Called by the committing thread after a commit that made an item claimable, so that waiters in this process wake
    #: without a notification.
    on_freed: Callable[[], None] | None = None
    #: How reads find dead owner processes; the board sets it, so that what a read says is what a claim would find.
    find_dead: FindDead = staticmethod(judge_nobody)
    #: Whether waiting can be left to the store: a server hears of a change sooner than whoever it tells.
    waits = False

    def separate_readers(self) -> None:
        """From now on no read holds up a write: for a process in which many threads share this store."""

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

    @abstractmethod
    def close(self) -> None: ...
