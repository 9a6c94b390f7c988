"""The verbs that read, and those about a whole board."""

from __future__ import annotations

from dibs import check
from dibs.board import base
from dibs.board.base import BoardBase
from dibs.errors import StoreUnavailable
from dibs.model import ADMIN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from dibs.model import Activity, Event, Holding, Item, Prune, Run, Stats, Synced
    from dibs.model.dashboard import Paged, Series, View, Window
    from dibs.store.contract import Page

PRUNE_BATCH = 200


class ReadVerbs(BoardBase):
    def ids(self, prefix: str, *, limit: int = 20) -> tuple[str, ...]:
        """The first `limit` ids that begin with `prefix`."""
        return self._call(self.store.ids, prefix=prefix and check.item_id(prefix, "prefix"), limit=limit)

    def preview(
        self,
        *,
        session: str | None = None,
        agent: str | None = None,
        types: Iterable[str] = (),
        projects: Iterable[str] = (),
        labels: Iterable[str] = (),
        n: int = 1,
    ) -> tuple[Item, ...]:
        """The items that `next` would give to this session, or to a new one of this agent; nothing is written."""
        filters: dict[str, Any] = {"types": types, "projects": projects, "labels": labels, "n": n}
        return self._call(self.store.preview, session=session, agent=agent, **filters)

    def events(
        self,
        *,
        after: int | None = None,
        item: str | None = None,
        newest: bool = False,
        limit: int = 1000,
        bytes_max: int | None = None,
    ) -> Page[Event]:
        after = check.optional_whole(after, "after", low=0, high=check.TOKEN_MAX)
        parameters: dict[str, Any] = {
            "after": after,
            "item": item,
            "newest": newest,
            "limit": limit,
            "bytes_max": bytes_max,
        }
        return self._call(self.store.events, **parameters)

    def log(self, item: str, *, after: int | None = None, bytes_max: int | None = None) -> Page[Event]:
        """The whole history of one item, oldest first."""
        self._call(self.store.get, item)
        return self.events(after=after, item=item, limit=check.LIST_MAX, bytes_max=bytes_max)

    def follow(self, *, after: int | None = None, wait_seconds: float | None = None) -> Iterator[Event]:
        """Yield the events after a cursor as they arrive; end after `wait_seconds` without one. Overdue steps are
        recorded meanwhile, if the caller may write, so that their events are in the feed."""
        watch = self.watch(sweeps=True)
        try:
            while True:
                events = self.events(after=after)
                yield from events
                if events:
                    after = events[-1].id
                    watch.wait(0)  # lets the watch record overdue steps while the feed is busy
                elif wait_seconds is None:
                    watch.wait(base.OWNER_LOOK_SECONDS)
                elif not watch.wait(wait_seconds):
                    return
        finally:
            watch.close()

    def runs(
        self,
        *,
        item: str | None = None,
        session: str | None = None,
        agent: str | None = None,
        after: str | None = None,
        limit: int = 1000,
        bytes_max: int | None = None,
    ) -> Page[Run]:
        """`after` names a run as `item:token`."""
        begin = None if after is None else check.run(after, "after")
        parameters: dict[str, Any] = {"item": item, "session": session, "agent": agent, "after": begin}
        return self._call(self.store.runs, **parameters, limit=limit, bytes_max=bytes_max)

    def activity(self, *, item: str | None = None, agent: str | None = None, limit: int = 1000) -> tuple[Activity, ...]:
        return self._call(self.store.activity, item=item, agent=agent, limit=limit)

    def who(self) -> tuple[Holding, ...]:
        return self.store.who()

    def stats(self, *, agent: str | None = None) -> Stats:
        return self._call(self.store.stats, agent=agent)

    def view(self) -> View:
        """The board at one instant, for people. Direct access to a store is an admin's."""
        found = self.store.view()
        return found if found.me is not None else found.replace(me={"role": ADMIN, "actor": self.actor})

    def page(
        self,
        *,
        status: Iterable[str] = (),
        project: Iterable[str] = (),
        type: Iterable[str] = (),
        label: Iterable[str] = (),
        agent: str | None = None,
        q: str | None = None,
        sort: str = "next",
        cursor: str | None = None,
        limit: int = 100,
    ) -> Paged:
        from dibs.board import filters

        wanted = filters.checked(status=status, project=project, type=type, label=label, agent=agent, q=q)
        return self.store.page(**wanted, **filters.checked_page(sort=sort, cursor=cursor, limit=limit))

    def window(
        self,
        *,
        from_: int | str | None = None,
        to: int | str | None = None,
        since: float | None = None,
        agent: str | None = None,
        session: str | None = None,
        project: str | None = None,
        limit: int = 1000,
    ) -> Window:
        from dibs.board import filters

        stretch = filters.checked_stretch(from_, to, since)
        whose = filters.checked_owner(agent=agent, session=session, project=project)
        most = check.whole(limit, "limit", low=1, high=filters.WINDOW_MAX)
        return self.store.window(**stretch, **whose, limit=most)

    def series(
        self,
        *,
        from_: int | str | None = None,
        to: int | str | None = None,
        since: float | None = None,
        step: float | None = None,
        project: str | None = None,
        agent: str | None = None,
    ) -> Series:
        """`since` and `step` are in seconds."""
        from dibs.board import filters

        stretch = filters.checked_stretch(from_, to, since)
        whose = filters.checked_owner(agent=agent, project=project)
        return self.store.series(**stretch, step=filters.checked_step(step), **whose)

    def check(self) -> tuple[str, ...]:
        return self.store.check()

    # Whole boards

    def sync(self, *, expire: bool = False) -> Synced:
        """Synchronize a vault with its git remote. With `expire`, for a process that does so in a loop, end the claims
        of sessions in other clones that were silent for too long."""
        return self.store.sync(expire=expire)

    def prune(self, *, older_than_seconds: float, limit: int | None = None, dry_run: bool = False) -> Prune:
        """Delete items that ended at least `older_than_seconds` ago, in short batches, so that other callers do not
        wait long; with a limit, only one batch. With `dry_run`, only count them."""
        seconds = check.number(older_than_seconds, "older_than_seconds", low=0, high=1e10)
        if check.flag(dry_run, "dry_run"):
            return self.store.prune(older_than_seconds=seconds, limit=None, dry_run=True)
        if limit is not None:
            return self.store.prune(older_than_seconds=seconds, limit=check.limit(limit))
        items = events = 0
        while True:
            batch = self.store.prune(older_than_seconds=seconds, limit=PRUNE_BATCH)
            items, events = items + batch.items, events + batch.events
            # Not at the first short batch: an item that is not done goes after those that depend on it.
            if not batch.items:
                return batch.replace(items=items, events=events)

    def export(self) -> Iterator[tuple[str, dict[str, Any]]]:
        return self.store.export()

    def load(self, records: Iterable[tuple[str, dict[str, Any]]]) -> int:
        return self.store.load(records)

    def backup(self, path: str) -> StoreUnavailable | None:
        """Write a backup. The answer is why its time could not be recorded for the pulse, if it could not: the caller
        may only read, or the disk of the board is full. The backup is complete all the same."""
        self.store.backup(path)
        try:
            self.store.note_backup()
        except StoreUnavailable as refusal:
            return refusal
        return None

    def restore(self, path: str, *, actor: str | None = None) -> int:
        from dibs.store import board_files

        with board_files.in_format(path, self.store.backup_format, self.settings) as own:
            return self.store.restore(own, actor=self._actor(actor))
