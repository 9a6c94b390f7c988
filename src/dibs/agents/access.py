"""The board of an agent's session, as far as a hook may open it.

A hook opens a board in a SQLite file of this machine, and waits for its lock only briefly. Only the keeper talks to a
database, to a server, and to a vault, whose look may run git. For these a hook reads what the keeper saw. Hooks of
tasks are the exception: a claim needs the board's own answer.
"""

from __future__ import annotations

import time

from dibs import location
from dibs.agents import keeper_process, look
from dibs.agents.look import Reservation, View
from dibs.agents.state import POKE, VIEW, State
from dibs.board import open_board
from dibs.location import VAULT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.agents.state import Record
    from dibs.board import Board

#: How long a hook waits for the lock of a board before it does without.
LOCK_SECONDS = 0.5
#: How long a hook waits for the keeper to look, where it does not look itself.
KEEPER_SECONDS = 0.3
KEEPER_POLL_SECONDS = 0.01


def is_local(url: str) -> bool:
    return "://" not in url and not url.startswith(VAULT)


class Access:
    """One hook's way to the board of its session. `board` is None if the hook must not open it."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._place = location.look(folder)
        self.url = self._place.url
        self._board: Board | None = None

    @property
    def board(self) -> Board | None:
        if self._board is None and is_local(self.url):
            self._board = self.connect(LOCK_SECONDS)
        return self._board

    def connect(self, wait_seconds: float) -> Board:
        """The board, wherever it is, for a caller that needs its answer and closes it."""
        return open_board(self._place, lean=True, lenient=True, lock_wait_seconds=wait_seconds)

    def close(self) -> None:
        if self._board is not None:
            self._board.close()

    def held(self, state: State) -> tuple[tuple[str, int], ...]:
        """What the session holds, looked up now or seen by the keeper just now; losses are noted."""
        if self.board is not None:
            return look.refresh(self.board, state)
        record = state.record()
        kept = State(record.parent) if record is not None and record.parent is not None else state
        kept.touch(POKE)
        keeper_process.ensure(kept)
        end = time.monotonic() + KEEPER_SECONDS
        while kept.has(POKE) and time.monotonic() < end:
            time.sleep(KEEPER_POLL_SECONDS)
        return () if kept.has(POKE) else seen(state).held

    def reserved(self, state: State, record: Record) -> tuple[Reservation, ...]:
        if self.board is not None:
            return look.reservations(self.board, state.session, record.parent)
        return seen(state).reserved

    def projects(self, state: State, record: Record) -> tuple[str, ...]:
        if self.board is not None:
            return look.projects(self.board, state.session, record.parent)
        return seen(state).projects


def seen(state: State) -> View:
    """What the keeper last saw."""
    found = state.load(VIEW)
    try:
        return View(
            held=tuple((str(item), int(token)) for item, token in found.get("held", ())),
            projects=tuple(found.get("projects", ())),
            reserved=tuple(
                Reservation.of_known({**one, "resources": tuple(one["resources"])}) for one in found.get("reserved", ())
            ),
        )
    except (TypeError, ValueError, KeyError):
        return View()
