"""Keeps claims alive for a client that has no hooks: a thread renews them, and the end of the connection releases them.

The thread starts with the first claim. A claim that is lost is forgotten here; the next call about its item is refused,
and says so to the model.
"""

from __future__ import annotations

import threading

from dibs.errors import DibsError, StoreUnavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from dibs.board import Board

CLOSED = "its MCP client closed the connection"
#: The delay after a heartbeat that failed.
RETRY_SECONDS = 5.0


class Keeper:
    def __init__(self, board: Callable[[], Board]) -> None:
        self._board = board
        self._changed = threading.Condition()
        #: The claims of each session, as tokens by item, and which of them are released at the end. The session may end
        #: a claim and make another without this process: then the item has another token.
        self._held: dict[str, dict[str, int]] = {}
        self._made_here: set[tuple[str, str, int]] = set()
        self._is_running = self._is_closed = False

    def keep(self, session: str, item: str, token: int, *, is_new: bool) -> None:
        """`is_new`: the claim was made here, and is released at the end. One that the session had before is renewed,
        and left to its maker."""
        with self._changed:
            self._held.setdefault(session, {})[item] = token
            if is_new:
                self._made_here.add((session, item, token))
            if not self._is_running:
                self._is_running = True
                threading.Thread(target=self._run, name="keeper", daemon=True).start()

    def forget(self, session: str, item: str) -> None:
        with self._changed:
            self._drop(session, [claim for claim in self._held.get(session, {}).items() if claim[0] == item])

    def close(self) -> None:
        """Renew nothing any more, and release what is held."""
        with self._changed:
            self._is_closed = True
            made, self._made_here = self._made_here, set()
            self._held.clear()
            self._changed.notify_all()
        for session, item, token in sorted(made):
            try:
                self._board().release(item, token=token, session=session, reason=CLOSED)
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
            held = set(self._held.get(session, {}).items())
        try:
            beat = board.heartbeat(session=session)
        except (StoreUnavailable, OSError):
            return RETRY_SECONDS
        except DibsError:
            renewed, seconds = set(), board.settings.heartbeat_seconds  # the session has ended
        else:
            renewed = {(renewal.item, renewal.token) for renewal in beat.renewed}
            seconds = beat.heartbeat_seconds
        with self._changed:
            # What was claimed during the heartbeat stays.
            self._drop(session, held - renewed)
        return seconds

    def _drop(self, session: str, claims: Collection[tuple[str, int]]) -> None:
        held = self._held.get(session, {})
        for item, token in claims:
            self._made_here.discard((session, item, token))
            if held.get(item) == token:
                del held[item]
        if not held:
            self._held.pop(session, None)
