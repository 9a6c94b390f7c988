"""The verbs that read a board, and those about a whole board."""

from __future__ import annotations

from abc import ABC, abstractmethod

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    from dibs.model import Activity, Event, Holding, Item, Prune, Pulse, Run, Stats
    from dibs.model.dashboard import Paged, Series, View, Window
    from dibs.store.contract import Page


class ReadVerbs(ABC):
    # Reading

    @abstractmethod
    def ids(self, prefix: str, *, limit: int) -> tuple[str, ...]:
        """The first ids, in the order of their bytes, that begin with `prefix`; found through an index."""

    @abstractmethod
    def preview(
        self,
        *,
        session: str | None = None,
        agent: str | None = None,
        types: Sequence[str] = (),
        projects: Sequence[str] = (),
        labels: Sequence[str] = (),
        n: int = 1,
    ) -> tuple[Item, ...]:
        """The items that `next` would give to this session now, in that order; nothing is written. Without a session:
        to a new session of this agent, or of an agent without limits and policy. A limit refuses as it does `next`. At
        most 10,000 ready items are looked at."""

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
        """The feed after a cursor, or with `newest` only its end, in feed order: the events of an item are in the order
        of their numbers, and a reader that continues from its last event misses none. None is the start of the kept
        events; a cursor before pruned events is `INVALID`. `bytes_max` is as in `list`; with `newest` it keeps the end
        of the feed."""

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
        """Runs, newest first; with `after` (item and token of a run; unknown: `INVALID`), those that began before it.
        `bytes_max` is as in `list`. An unknown `item` is `TASK_NOT_FOUND`."""

    @abstractmethod
    def activity(self, *, item: str | None = None, agent: str | None = None, limit: int) -> tuple[Activity, ...]:
        """Refused claims, newest first."""

    @abstractmethod
    def who(self) -> tuple[Holding, ...]:
        """All items in progress, by agent, oldest claim first; then soft claims."""

    @abstractmethod
    def stats(self, *, agent: str | None = None) -> Stats:
        """Figures of the board. With an agent, those about claims, runs, waiters and sessions are the agent's; its
        refused claims count as long as they are kept."""

    @abstractmethod
    def view(self) -> View:
        """The board at one instant, for people: see `View`. `items` are at most 2,000, chosen in this order: items that
        wait for approval (500 at most), that failed (200 at most), or that are blocked by a dependency that will never
        be done (200 at most); items in progress; items that ended among the latest 5,000 events (200 at most); then the
        other pending ones, ready, scheduled, blocked and parked ones in the order of `next`. `holdings` are at most
        2,000 live claims, the first to expire first; `sessions` at most 1,000 live ones, holders first, then the most
        recently seen. `me` is None: the board knows the caller. Its cost does not grow with the number of ended
        items."""

    @abstractmethod
    def page(
        self,
        *,
        status: Sequence[str] = (),
        project: Sequence[str] = (),
        type: Sequence[str] = (),
        label: Sequence[str] = (),
        agent: str | None = None,
        q: str | None = None,
        sort: str = "next",
        cursor: str | None = None,
        limit: int,
    ) -> Paged:
        """A page of the items that match every filter: one of the statuses, projects and types, all of the labels, the
        agent of the latest run, and every word of `q` in the id, the title or a label, in any case. `sort` is `next`
        (the order of `next`), `updated` (latest change first) or `created` (newest first); `cursor` is `next` of the
        page before in the same order.
        Looked at are all items that have not ended, the first 10,000 failed ones, and items that ended among the latest
        20,000 events; `left_off` is how many others there are."""

    @abstractmethod
    def window(
        self,
        *,
        from_: int | None = None,
        to: int | None = None,
        since: float | None = None,
        agent: str | None = None,
        session: str | None = None,
        project: str | None = None,
        limit: int,
    ) -> Window:
        """The runs that a stretch of time touches, newest first, and the claims that were refused in it; by default the
        last hour. Without `to` the stretch ends now; `since` is its length in seconds, in place of `from_`. Runs that
        began before it are found if they are live, or among the 5,000 that began last before it; of a stretch with more
        than 100,000 runs, the latest are searched."""

    @abstractmethod
    def series(
        self,
        *,
        from_: int | None = None,
        to: int | None = None,
        since: float | None = None,
        step: float | None = None,
        project: str | None = None,
        agent: str | None = None,
    ) -> Series:
        """Figures over time, of what was recorded; by default the last four hours in 100 steps. The stretch is given as
        for `window`. `agent` chooses claims and runs, not the depth. The latest 200,000 events are read. `cost` sums,
        by name, the numbers in the costs of the runs that ended in each step: numbers up to 10**15, of the ten names of
        up to 64 characters that the most of these runs have."""

    @abstractmethod
    def pulse(self) -> Pulse:
        """Figures of the current state only, cheap enough to read every few seconds."""

    # Whole boards

    @abstractmethod
    def prune(self, *, older_than_seconds: float, limit: int | None, dry_run: bool = False) -> Prune:
        """Delete up to `limit` items that ended so long ago, with their history, and raise the floors to the highest
        deleted token and event. An item that is not done stays while the board has an item that depends on it, and an
        item with events after the cursor of an enabled webhook stays, too. With `dry_run`, nothing is deleted: the
        answer counts what repeated calls would delete now, and no `limit` is needed."""

    @abstractmethod
    def export(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """All records of one snapshot, as (kind of record, JSON object)."""

    @abstractmethod
    def load(self, records: Iterable[tuple[str, dict[str, Any]]]) -> int:
        """Import the records of `export` into an empty board, all or none; return their number. Tokens are kept. A
        record that no verb could have written is refused by its number: an attacker may have written the export."""

    @abstractmethod
    def backup(self, path: str) -> None:
        """Write a consistent copy of the board into a new file, without blocking other callers. The file gets its name
        once it was read again: of a board whose backup could not be restored there is none."""

    @abstractmethod
    def restore(self, path: str, *, actor: str) -> int:
        """Replace the board with a backup in the store's own format; return how many items got a new token. Live claims
        end, and tokens and event ids rise above all that were ever given, so that a former holder is refused. The
        backup is untrusted input: nothing in it is executed, and its records are checked as by `load`."""

    @abstractmethod
    def check(self) -> tuple[str, ...]:
        """Faults of the store itself, one sentence each; empty if it is sound. A fault with a remedy has the remedy
        after "; ". A fault without one is damage, which only a restore repairs."""
