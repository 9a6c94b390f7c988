"""The verbs that read a board, and those about a whole board."""

from __future__ import annotations

from abc import ABC, abstractmethod

from dibs.errors import Invalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from dibs.model import Activity, Event, Holding, Prune, Pulse, Run, Stats, Synced
    from dibs.store.contract.page import Page


class ReadVerbs(ABC):
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
