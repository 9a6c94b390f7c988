"""Live: after a view, whoever looks at a board is told every event, and what changes without one."""

from __future__ import annotations

import threading
import time
from queue import Empty, SimpleQueue

from dibs.errors import DibsError
from dibs.model.dashboard import VitalChange
from dibs.sdk import live
from dibs.testing.conformance.asking import PATIENCE_SECONDS, TTL_SECONDS, added, expire, session
from dibs.testing.harness import Harness

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from dibs.model import Event


class Looker:
    """Looks at the board from a view on, in a thread of its own, as the screen of a person does."""

    def __init__(self, harness: Harness) -> None:
        self._harness = harness.as_in_use()
        self._board = self._harness.board()
        self.view = self._board.view()
        self._news: SimpleQueue[Event | VitalChange | DibsError] = SimpleQueue()
        self._live = live.follow(self._board, self.view)
        self._thread = threading.Thread(target=self._run, name="looker", daemon=True)
        self.events: list[Event] = []
        self.changes: list[VitalChange] = []
        #: All changes together, the later ones over the earlier ones.
        self.renewed: dict[str, tuple[int, int]] = {}
        self.seen: dict[str, int] = {}
        self.queues: dict[str, tuple[str, ...]] = {}
        self.started: set[str] = set()
        self.ended: set[str] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.close()
        self._thread.join(PATIENCE_SECONDS)
        self._harness.close()
        assert not self._thread.is_alive(), "a wait for news did not end"

    def hears(self, true: Callable[[], bool]) -> None:
        """Listen until it is so."""
        end = time.monotonic() + PATIENCE_SECONDS
        while not true():
            try:
                news = self._news.get(timeout=max(0.0, end - time.monotonic()))
            except Empty:
                raise AssertionError(f"not told within {PATIENCE_SECONDS:g} s") from None
            if isinstance(news, DibsError):
                raise news
            if isinstance(news, VitalChange):
                self._note(news)
            else:
                self.events.append(news)

    def _note(self, change: VitalChange) -> None:
        self.changes.append(change)
        self.renewed |= change.renewed
        self.seen |= change.seen
        self.queues |= change.queues
        self.started |= {seat.id for seat in change.started}
        self.ended |= set(change.ended)

    def _run(self) -> None:
        try:
            for news in self._live:
                self._news.put(news)
        except DibsError as error:
            self._news.put(error)


class TestLive:
    def test_every_event_after_a_view_is_told_once_and_in_order(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "before", "held")
        me = session(board)
        board.claim("held", session=me, ttl_seconds=TTL_SECONDS)
        with Looker(harness) as looker:
            added(board, "x")
            board.claim("x", session=me)
            board.done("x", session=me)
            looker.hears(lambda: any(event.kind == "done" for event in looker.events))
            # Time alone does the rest: nobody else uses the board.
            expire(harness)
            looker.hears(lambda: any((event.kind, event.item) == ("claimable", "held") for event in looker.events))
            told = [(event.id, event.item, event.kind) for event in looker.events]
        assert [(item, kind) for _, item, kind in told] == [
            *(("x", "added"), ("x", "claimable"), ("x", "claimed"), ("x", "done")),
            *(("held", "expired"), ("held", "claimable")),
        ]
        assert told == [(event.id, event.item, event.kind) for event in board.events(after=looker.view.event)]

    def test_renewals_queues_and_sessions_are_told_without_an_event(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        me, ann, bob = session(board), session(board, "ann"), session(board, "bob")
        board.claim("x", session=me)
        with Looker(harness) as looker:
            looker.hears(lambda: bool(looker.changes))
            harness.clock.advance(7)
            board.heartbeat(session=me)
            for waiter in (bob, ann):
                board.wait("x", session=waiter)
            claim = board.get("x").claim
            # What was read with the latest session was read after all that came before it.
            latest = session(board, "latest")
            looker.hears(lambda: latest in looker.started)
            assert claim is not None
            assert looker.renewed["x"] == (claim.expires_at, claim.heartbeat_count)
            assert looker.queues["x"] == (bob, ann)
            assert looker.seen[me] > looker.view.at
            board.leave("x", session=bob)
            board.leave("x", session=ann)
            board.end_session(latest)
            looker.hears(lambda: latest in looker.ended)
            assert not looker.queues["x"]
        assert looker.events == []
        instants = [change.at for change in looker.changes]
        assert instants == sorted(instants)
        assert instants[0] >= looker.view.at
