"""Which events a stream sends: those of some projects, items or sessions. Most events do not name their project."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Sequence

from dibs.board import Board
from dibs.errors import ItemNotFound
from dibs.model import Event
from dibs.server.streams.pages import EventPage

CACHED_ITEMS = 20_000

ProjectsOf = dict[str, str | None]


class EventFilter:
    """An empty filter matches everything. `messages`: send unnamed messages instead of named events; `brief`: send
    events without bodies, drafts and the session-task contract's forms."""

    def __init__(
        self,
        projects: Sequence[str],
        items: Sequence[str],
        sessions: Sequence[str],
        messages: bool = False,
        brief: bool = False,
    ) -> None:
        self._projects, self._items, self._sessions = frozenset(projects), frozenset(items), frozenset(sessions)
        self._messages, self.brief = messages, brief
        self._is_empty = not (projects or items or sessions or messages or brief)

    async def apply(self, page: EventPage, projects_of: Callable[[set[str]], Awaitable[ProjectsOf]]) -> bytes:
        """The bytes to send of a page."""
        if self._is_empty:
            return page.frames
        events = [
            event
            for event in page.events
            if (not self._items or event.item in self._items)
            and (not self._sessions or event.session in self._sessions)
        ]
        if self._projects and events:
            projects = await projects_of({event.item for event in events})
            events = [event for event in events if projects[event.item] in self._projects]
        if self.brief:
            return b"".join(event.brief for event in events)
        return b"".join(event.message if self._messages else event.frames for event in events)


class ProjectCache:
    """The current project of each item; None for an item that no longer exists."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._lock = threading.Lock()
        self._cache: OrderedDict[str, str | None] = OrderedDict()
        self._moves = 0

    def on_events(self, after: int, events: Sequence[Event]) -> None:
        for event in events:
            if event.kind in ("added", "edited") and "project" in event.data:
                with self._lock:
                    self._moves += 1
                    self._put(event.item, event.data["project"])

    def cached(self, items: Iterable[str]) -> ProjectsOf | None:
        """The project of each item; None if one of them is not cached."""
        with self._lock:
            found = {}
            for item in items:
                if item not in self._cache:
                    return None
                found[item] = self._cache[item]
                self._cache.move_to_end(item)
            return found

    def load(self, items: Iterable[str]) -> ProjectsOf:
        """The project of each item. Do not call this in the event loop: it may read from the store."""
        found: ProjectsOf = {}
        for item in items:
            with self._lock:
                if item in self._cache:
                    found[item] = self._cache[item]
                    continue
                moves = self._moves
            found[item] = self._read(item)
            with self._lock:
                # An event that arrived during the read is newer than its result.
                if moves == self._moves:
                    self._put(item, found[item])
        return found

    def _read(self, item: str) -> str | None:
        try:
            return self._board.get(item).item.project
        except ItemNotFound:
            return None

    def _put(self, item: str, project: str | None) -> None:
        self._cache[item] = project
        self._cache.move_to_end(item)
        if len(self._cache) > CACHED_ITEMS:
            self._cache.popitem(last=False)
