"""What all routes share: the board, who calls, the threads in which verbs are done, and the feed."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from fastapi import Request

from dibs.board import Board
from dibs.config import SERVER_DEFAULTS, Settings
from dibs.errors import DibsError
from dibs.sdk.sweeper import Sweeper
from dibs.server.api.open_requests import Kind, OpenRequest, OpenRequests
from dibs.server.auth.callers import Caller, Callers
from dibs.server.streams.feed import LOOK_SECONDS, Feed, Left, Waiter
from dibs.store.contract import Store
from dibs.value import Value

T = TypeVar("T")

#: As many verbs at once as can share a commit; those who wait have threads of their own, so that they keep nobody out.
VERB_THREADS = 32
WAITING_THREADS = 256
#: Fewer than a store has for readers, so that long answers hold up neither verbs nor what these look up.
READ_THREADS = 4
#: One key takes no more than half of the room.
WAITS = Kind(do="waiting", limit=WAITING_THREADS, limit_of_key=WAITING_THREADS // 2, retry_seconds=1)
#: Longer ones are cut by whatever lies between a client and a server.
WAIT_SECONDS_MAX = 60.0


class Streaming(Value):
    """How live events are sent. Who takes nothing for `stalled_seconds` is cut off, and can resume."""

    subscribers_max: int = SERVER_DEFAULTS.subscribers_max
    subscribers_per_key: int = SERVER_DEFAULTS.subscribers_per_key
    keep_alive_seconds: float = 15.0
    stalled_seconds: float = 30.0

    def kind(self, do: str) -> Kind:
        """Streams, or whatever else costs as much as one of them."""
        return Kind(do=do, limit=self.subscribers_max, limit_of_key=self.subscribers_per_key, retry_seconds=5)


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
        self._reads = ThreadPoolExecutor(READ_THREADS, "read")
        self._waits = ThreadPoolExecutor(WAITING_THREADS, "wait")
        store.separate_readers()
        self.open_requests = OpenRequests()
        self.callers.on_revoked = self.open_requests.look_now
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
        self._reads.shutdown(wait=True)
        self._waits.shutdown(wait=True)
        self.open_requests.close()
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

    async def read(self, work: Callable[[], T]) -> T:
        """The same for what only reads, and may be long."""
        return await asyncio.get_running_loop().run_in_executor(self._reads, work)

    async def wait(self, request: Request, work: Callable[[Board], T]) -> T:
        """Do something that waits, on a board that waits for nobody who left."""
        waiter = Waiter(lambda: self.callers.known_now(request))
        one = self.open_request(WAITS, request, lambda refusal: self.feed.send_home(waiter, refusal))
        board = Board(self.board.store, self.settings, actor="dibs", watch=self.feed.watch_of(waiter))
        with self.open_requests.joined(one):
            listening = asyncio.ensure_future(self._note_leaving(request, waiter))
            try:
                return await asyncio.get_running_loop().run_in_executor(self._waits, work, board)
            finally:
                listening.cancel()

    def open_request(self, kind: Kind, request: Request, refuse: Callable[[DibsError], None]) -> OpenRequest:
        """One that has been admitted and stays, if there is room for it."""
        key: str = request.state.caller
        self.open_requests.need_room(kind, key)
        return OpenRequest(kind, key, lambda: self.callers.known_now(request), refuse)

    async def _note_leaving(self, request: Request, waiter: Waiter) -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass  # the rest of a body that nobody read
        self.feed.send_home(waiter, Left("whoever asked has left"))

    def _sweep(self) -> None:
        """Move on what time has done to the board, when it has, so that those who watch see it then."""
        board, every_seconds = self.board, self.settings.sweep_seconds
        sweeper = Sweeper(board.store, board.sweep, board.reap_dead_owners, every_seconds=every_seconds)
        while not self.feed.stopping:
            try:
                sweeper.sweep_if_due()
                self.feed.wait_for_stop(sweeper.seconds_left())
            except Exception:
                # Whatever it was about, the rest of the board is moved on all the same.
                logging.exception("the sweep failed, and is tried again")
                self.feed.wait_for_stop(LOOK_SECONDS)
