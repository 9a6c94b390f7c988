"""What all routes share: the board, who calls, the threads in which verbs are done, and the feed."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from fastapi import Request

from dibs import access
from dibs.board import Board
from dibs.config import SERVER_DEFAULTS, Settings
from dibs.errors import StoreUnavailable
from dibs.server.callers import Caller, Callers, secret_of
from dibs.server.feed import LOOK_SECONDS, Feed
from dibs.store.contract import Store
from dibs.sweeper import Sweeper
from dibs.value import Value

T = TypeVar("T")

#: As many verbs at once as can share a commit; those who wait have threads of their own, so that they keep nobody out.
VERB_THREADS = 32
WAITING_THREADS = 256
#: So many of them with one key: nobody takes all the room.
WAITING_OF_ONE = 128
#: Longer ones are cut by whatever lies between a client and a server.
WAIT_SECONDS_MAX = 60.0


class Streaming(Value):
    """How live events are sent. Who takes nothing for `stalled_seconds` is cut off, and can resume."""

    subscribers_max: int = SERVER_DEFAULTS.subscribers_max
    keep_alive_seconds: float = 15.0
    stalled_seconds: float = 30.0


STREAMING = Streaming()


class Service:
    def __init__(
        self,
        store: Store,
        settings: Settings,
        *,
        sweeps: bool = True,
        streaming: Streaming = STREAMING,
        wait_seconds_max: float = WAIT_SECONDS_MAX,
    ) -> None:
        """`sweeps`: moves on by itself what time has done to the board."""
        self.settings = settings
        self.wait_seconds_max = wait_seconds_max
        self.streaming = streaming
        self._sweeps = sweeps
        # Nobody acts as the server: every call names its actor.
        self.feed = Feed(Board(store, settings, actor="dibs"))
        self.board = Board(store, settings, actor="dibs", watch=self.feed.watch)
        self.callers = Callers(self.board)
        store.on_freed = self.feed.stir
        self._verbs = ThreadPoolExecutor(VERB_THREADS, "verb")
        self._waits = ThreadPoolExecutor(WAITING_THREADS, "wait")
        #: How many wait, by the digest of their key.
        self._waiting: Counter[str] = Counter()
        self._sweeper = threading.Thread(target=self._sweep, name="sweep", daemon=True)

    def start(self) -> None:
        self.feed.start()
        if self._sweeps:
            self._sweeper.start()

    @property
    def is_whole(self) -> bool:
        """Whether everything runs that was started."""
        return self.feed.is_followed and (self._sweeper.is_alive() or not self._sweeps)

    def stop(self) -> None:
        self.feed.stop()

    def close(self) -> None:
        """After the last answer."""
        self.feed.stop()
        self._verbs.shutdown(wait=True)
        self._waits.shutdown(wait=True)
        self.board.close()

    def caller(self, request: Request) -> Caller:
        found = self.callers.known(request)
        request.state.caller = found.key
        return found

    async def admit(self, request: Request, role: str) -> None:
        """Refuse whose key is not good, or not of this role, before anything that it says is read."""
        caller = self.callers.just_known(request)
        if caller is None:
            caller = await self.run(lambda: self.callers.known(request))
        request.state.caller = caller.key
        self.callers.need(caller, role)

    async def run(self, work: Callable[[], T]) -> T:
        """Do something that takes its time, without holding up the event loop."""
        return await asyncio.get_running_loop().run_in_executor(self._verbs, work)

    async def wait(self, request: Request, work: Callable[[Board], T]) -> T:
        """Do something that waits, on a board that waits for nobody who left."""
        left = threading.Event()
        board = Board(self.board.store, self.settings, actor="dibs", watch=self.feed.watch_until(left))
        with self._room_for(request):
            listening = asyncio.ensure_future(self._note_leaving(request, left))
            try:
                return await asyncio.get_running_loop().run_in_executor(self._waits, work, board)
            finally:
                listening.cancel()

    @contextmanager
    def _room_for(self, request: Request) -> Iterator[None]:
        """Counted before anybody asks whether the key is good, which takes a thread."""
        key = access.digest(secret_of(request))
        if self._waiting.total() >= WAITING_THREADS:
            raise StoreUnavailable(f"{WAITING_THREADS} are waiting here already", retry_after_seconds=1)
        if self._waiting[key] >= WAITING_OF_ONE:
            raise StoreUnavailable(f"{WAITING_OF_ONE} are waiting with this key already", retry_after_seconds=1)
        self._waiting[key] += 1
        try:
            yield
        finally:
            self._waiting -= Counter([key])

    async def _note_leaving(self, request: Request, left: threading.Event) -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass  # the rest of a body that nobody read
        self.feed.leave(left)

    def _sweep(self) -> None:
        """Move on what time has done to the board, when it has, so that those who watch see it then."""
        board, every_seconds = self.board, self.settings.sweep_seconds
        sweeper = Sweeper(board.store, board.sweep, board.reap_dead_owners, every_seconds=every_seconds)
        while not self.feed.stopping:
            try:
                sweeper.look()
                self.feed.wait_for_stop(sweeper.seconds_left())
            except Exception:
                # Whatever it was about, the rest of the board is moved on all the same.
                logging.exception("the sweep failed, and is tried again")
                self.feed.wait_for_stop(LOOK_SECONDS)
