"""Keeps claims alive for a client that has no hooks: a thread renews them, and the end of the connection releases them.

The thread starts with the first claim. A claim that is lost is forgotten here; the next call about its item is refused,
and says so to the model.
"""

from __future__ import annotations

import threading

from dibs.errors import DibsError, StoreUnavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.board import Board

CLOSED = "its MCP client closed the connection"
#: The delay after a heartbeat that failed.
RETRY_SECONDS = 5.0


class Keeper:
    def __init__(self, board: Callable[[], Board]) -> None:
        self._board = board
        self._changed = threading.Condition()
        #: The items that each session holds, and whether their claims are released at the end.
        self._held: dict[str, dict[str, bool]] = {}
        self._is_running = self._is_closed = False

    def keep(self, session: str, item: str, *, releases: bool) -> None:
        """`releases`: the claim was made here. One that the session had before is renewed, and left to its maker."""
        with self._changed:
            held = self._held.setdefault(session, {})
            held[item] = releases or held.get(item, False)
            if not self._is_running:
                self._is_running = True
                threading.Thread(target=self._run, name="keeper", daemon=True).start()

    def forget(self, session: str, item: str) -> None:
        with self._changed:
            self._drop(session, {item})

    def close(self) -> None:
        """Renew nothing any more, and release what is held."""
        with self._changed:
            self._is_closed = True
            held, self._held = self._held, {}
            self._changed.notify_all()
        given = [(session, item) for session, items in held.items() for item, releases in items.items() if releases]
        for session, item in given:
            try:
                self._board().release(item, session=session, reason=CLOSED)
            except StoreUnavailable:
                return  # the claims expire by themselves
            except DibsError:
                pass  # it is no longer held

    def _run(self) -> None:
        seconds = every = self._board().settings.heartbeat_seconds
        while True:
            with self._changed:
                if self._changed.wait_for(lambda: self._is_closed, seconds):
                    return
                sessions = list(self._held)
            seconds = min([every, *map(self._beat, sessions)])

    def _beat(self, session: str) -> float:
        """Renew the claims of the session; return the seconds until the next time."""
        board = self._board()
        with self._changed:
            held = set(self._held.get(session, ()))
        try:
            beat = board.heartbeat(session=session)
        except (StoreUnavailable, OSError):
            return RETRY_SECONDS
        except DibsError:
            renewed, seconds = set(), board.settings.heartbeat_seconds  # the session has ended
        else:
            renewed, seconds = {renewal.item for renewal in beat.renewed}, beat.heartbeat_seconds
        with self._changed:
            # What was claimed during the heartbeat stays.
            self._drop(session, held - renewed)
        return seconds

    def _drop(self, session: str, items: set[str]) -> None:
        held = self._held.get(session, {})
        for item in items:
            held.pop(item, None)
        if not held:
            self._held.pop(session, None)
