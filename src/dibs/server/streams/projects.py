"""Which project an item belongs to now: for streams that want only some, since most events do not say."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence

from dibs.board import Board
from dibs.errors import ItemNotFound
from dibs.model import Event

PROJECTS_KEPT = 20_000


class Projects:
    def __init__(self, board: Board) -> None:
        self._board = board
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, str | None] = OrderedDict()
        self._moves = 0

    def hear(self, after: int, events: Sequence[Event]) -> None:
        """An item that is new, or moved to another project, says where it belongs."""
        for event in events:
            if event.kind in ("added", "edited") and "project" in event.data:
                with self._lock:
                    self._moves += 1
                    self._keep(event.item, event.data["project"])

    def known(self, items: Iterable[str]) -> dict[str, str | None] | None:
        """The project of each of these; None if one of them has to be looked up."""
        with self._lock:
            found = {}
            for item in items:
                if item not in self._kept:
                    return None
                found[item] = self._kept[item]
                self._kept.move_to_end(item)
            return found

    def look_up(self, items: Iterable[str]) -> dict[str, str | None]:
        """The same with the store's help: not for the event loop. Without a project is what is gone."""
        found: dict[str, str | None] = {}
        for item in items:
            with self._lock:
                if item in self._kept:
                    found[item] = self._kept[item]
                    continue
                moves = self._moves
            found[item] = self._stored(item)
            with self._lock:
                # What was read may be older than what was heard meanwhile.
                if moves == self._moves:
                    self._keep(item, found[item])
        return found

    def _stored(self, item: str) -> str | None:
        try:
            return self._board.get(item).item.project
        except ItemNotFound:
            return None

    def _keep(self, item: str, project: str | None) -> None:
        self._kept[item] = project
        self._kept.move_to_end(item)
        if len(self._kept) > PROJECTS_KEPT:
            self._kept.popitem(last=False)
