"""What all routes share: the board, authentication, the threads that run verbs, and the feed."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import TypeVar

from fastapi import Request

from dibs.board import Board
from dibs.config import SERVER_DEFAULTS, Settings
from dibs.errors import DibsError, StoreUnavailable
from dibs.model import VIEWER
from dibs.sdk.sweeper import Sweeper
from dibs.server import background
from dibs.server.auth.callers import Caller, Callers
from dibs.server.ops.connection import use_key
from dibs.server.ops.store_state import StoreState
from dibs.server.shared_calls import OnEnd, SharedCalls
from dibs.server.shares import KEY, FairThreads, Places, Users, halves
from dibs.server.streams.feed import POLL_SECONDS, ClientGone, Feed, Waiter
from dibs.server.streams.open_requests import OpenRequest, OpenRequests, Quota
from dibs.store.contract import Store, Watch
from dibs.value import Value
from dibs.webhooks.deliverer import Deliverer

T = TypeVar("T")
R = TypeVar("R")

#: As many verbs at once as one group commit can hold. Waiting requests have threads of their own and block no verb.
VERB_THREADS = 32
WAITING_THREADS = 256
#: Large bodies, and verbs that may hold the writer for long. What runs at once is committed together, and others wait
#: for all of it; a large body of the key whose verb is at the writer would make that verb slower for everybody.
LONG_WORK = Places(total=4, per_key=1, alone=3)
#: Together fewer than the store's read connections, so that reads block neither verbs nor authentication.
LONG_READ_THREADS = 4
SMALL_READ_THREADS = 4
KEY_THREADS = 4
#: One key may use half of the waiting threads.
WAITS = Quota(activity="waiting", limit=WAITING_THREADS, limit_per_key=WAITING_THREADS // 2, retry_seconds=1)
#: After how many events the store's figures are brought up to date, and how many events at a time.
CATCH_UP_EVENTS = 1000
CATCH_UP_BATCH = 2000
CATCH_UP_PAUSE_SECONDS = 0.05
#: How long a scrape may wait for its key to be checked.
ADMIT_SECONDS = 0.4
#: Proxies cut longer requests.
WAIT_SECONDS_MAX = 60.0


class Streaming(Value):
    """Limits of streams. A client that reads nothing for `stalled_seconds` is disconnected, and can resume."""

    subscribers_max: int = SERVER_DEFAULTS.subscribers_max
    subscribers_per_key: int = SERVER_DEFAULTS.subscribers_per_key
    keep_alive_seconds: float = 15.0
    stalled_seconds: float = 30.0

    def quota(self, activity: str) -> Quota:
        """For streams, or other requests of the same cost."""
        return Quota(
            activity=activity,
            limit=self.subscribers_max,
            limit_per_key=self.subscribers_per_key,
            retry_seconds=5,
        )


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
        browser_mark: str = "",
    ) -> None:
        """`sweeps`: a thread sweeps the board when something is due, and another delivers webhooks. `browser_mark` is
        that of a background server, whose browsers are signed out when the service closes, or else when the next one
        starts."""
        self.settings = settings
        self.wait_seconds_max = wait_seconds_max
        self.streaming = streaming
        self._sweeps = sweeps
        self._browser_mark = browser_mark
        # Every call names its actor, so this one never appears in the history.
        self.feed = Feed(Board(store, settings, actor="dibs"))
        self.board = Board(store, settings, actor="dibs", watch=self.feed.watch_for(Waiter()))
        self.callers = Callers(self.board, browser_mark)
        self.store_state = StoreState(store)
        store.on_freed = self.feed.wake_waiters
        self._verbs = FairThreads("verb", halves(VERB_THREADS))
        self.users = Users()
        #: Also for large bodies: see `LONG_WORK`.
        self.long_work = FairThreads("long", LONG_WORK, self.users)
        self._reads = FairThreads("read", halves(LONG_READ_THREADS), self.users)
        self._small_reads = FairThreads("look", halves(SMALL_READ_THREADS))
        self._keys = ThreadPoolExecutor(KEY_THREADS, "key")
        self._waits = ThreadPoolExecutor(WAITING_THREADS, "wait")
        store.separate_readers()
        self._shared_calls = SharedCalls(store, settings, self._verbs)
        self.open_requests = OpenRequests()
        self.callers.on_revoked = self.open_requests.check_now
        self._is_behind, self._counted_event = True, 0
        self._sweeper = threading.Thread(target=self._sweep, name="sweep", daemon=True)
        self._deliverer = Deliverer(self.board)
        #: What else runs in threads of its own for as long as the feed does; each is given a watch that wakes it.
        self.in_background: list[Callable[[Watch], None]] = []

    def start(self) -> None:
        self._sign_out_browsers()
        self.feed.start()
        self.store_state.start()
        if self._sweeps:
            self._sweeper.start()
            watch = self.feed.watch_for(Waiter())(None)
            threading.Thread(target=self._deliverer.run, args=(watch,), name="deliver", daemon=True).start()
            for work in self.in_background:
                watch = self.feed.watch_for(Waiter())(None)
                threading.Thread(target=work, args=(watch,), name="background", daemon=True).start()

    @property
    def is_healthy(self) -> bool:
        """Whether the background threads run."""
        return self.feed.is_running and (self._sweeper.is_alive() or not self._sweeps)

    def note(self, error: Exception) -> None:
        """What a request was refused with: it may say something about the store."""
        if isinstance(error, StoreUnavailable):
            self.store_state.note(error)

    def stop(self) -> None:
        self.feed.stop()
        self.store_state.stop()

    def close(self) -> None:
        """Call this after the last answer."""
        self.stop()
        self._deliverer.stop()
        for threads in (self._verbs, self.long_work, self._reads, self._small_reads):
            threads.shutdown()
        self._keys.shutdown(wait=True)
        self._waits.shutdown(wait=True)
        self.open_requests.close()
        self._sign_out_browsers()
        self.board.close()

    def _sign_out_browsers(self) -> None:
        if self._browser_mark:
            background.sign_out_browsers(self.board, self._browser_mark)

    def caller(self, request: Request, board: Board | None = None) -> Caller:
        """Who sent the request. `board`: see `Callers.authenticate`."""
        found = self.callers.authenticate(request, board)
        request.state.caller = found.key
        return found

    async def admit(self, request: Request, role: str) -> None:
        """Refuse a caller without a valid key of this role."""
        caller = self.callers.cached(request)
        if caller is None:
            caller = await self._ask_for_key(lambda: self.callers.authenticate(request))
        KEY.set(caller.key)
        self._use_key(request, caller.key)
        self.callers.require_role(caller, role)
        known = caller
        request.state.cookie = self.callers.cookie_to_renew(request, known)
        if request.state.cookie is not None and not await self._ask_for_key(lambda: self.callers.renew(known)):
            request.state.cookie = None

    async def admit_scrape(self, request: Request) -> None:
        """`admit` for metrics, within `ADMIT_SECONDS` also when the store does not answer: then a key is accepted that
        was valid a while ago."""
        try:
            if not self.store_state.answers:
                raise TimeoutError
            await asyncio.wait_for(self.admit(request, VIEWER), ADMIT_SECONDS)
        except (TimeoutError, StoreUnavailable):
            caller = self.callers.formerly_valid(request)
            if caller is None:
                text = "the store does not answer, so the key cannot be checked"
                raise StoreUnavailable(text, retry_after_seconds=1) from None
            request.state.caller, request.state.cookie = caller.key, None

    def is_admitted(self, request: Request, role: str) -> bool:
        """`admit` for a request with a key in its header; False if the store has to be read for it, or is gone."""
        self.store_state.require_there()
        caller = self.callers.cached(request)
        if caller is None or request.headers.get("authorization") is None:
            return False
        self._use_key(request, caller.key)
        self.callers.require_role(caller, role)
        return True

    def _use_key(self, request: Request, key: str) -> None:
        request.state.caller = key
        if key != self.users.last:
            self.users.note(key, monotonic())
        use_key(request.scope, key)

    async def run(self, work: Callable[[], T], *, is_long: bool = False) -> T:
        """Run a verb in a thread. `is_long`: it writes so much that others would wait for it."""
        self.store_state.require_there()
        return await asyncio.wrap_future((self.long_work if is_long else self._verbs).submit(KEY.get(), work))

    async def run_hot(self, work: Callable[[Board], T], then: Callable[[T], R]) -> R:
        """Run a verb that is called all the time and never takes long: it shares its commit with others, if the store
        can do that. `then` is called with its answer after the commit, in a thread too."""
        self.store_state.require_there()
        return await self._shared_calls.run(KEY.get(), work, then)

    def start_hot(self, key: str, work: Callable[[Board], T], then: Callable[[T], R], on_end: OnEnd) -> None:
        """`run_hot` without a task: `on_end` is called in the event loop."""
        self._shared_calls.start(key, work, then, on_end)

    async def read(self, work: Callable[[], T]) -> T:
        """Run a read, which may take long, in a thread."""
        self.store_state.require_there()
        return await asyncio.wrap_future(self._reads.submit(KEY.get(), work))

    async def read_one(self, work: Callable[[], T]) -> T:
        """Run a read of one record, which waits for no long one."""
        self.store_state.require_there()
        return await asyncio.wrap_future(self._small_reads.submit(KEY.get(), work))

    async def _ask_for_key(self, work: Callable[[], T]) -> T:
        self.store_state.require_there()
        return await asyncio.get_running_loop().run_in_executor(self._keys, work)

    async def wait(self, request: Request, work: Callable[[Board], T]) -> T:
        """Run a verb that waits, in a thread and on a board whose waits end when the client disconnects."""
        self.store_state.require_there()
        waiter = Waiter(lambda: self.callers.reauthenticate(request))
        open_request = self.open_request(WAITS, request, lambda refusal: self.feed.cancel(waiter, refusal))
        board = Board(self.board.store, self.settings, actor="dibs", watch=self.feed.watch_for(waiter))
        with self.open_requests.tracked(open_request):
            listening = asyncio.ensure_future(self._await_disconnect(request, waiter))
            try:
                return await asyncio.get_running_loop().run_in_executor(self._waits, work, board)
            finally:
                listening.cancel()

    def open_request(self, quota: Quota, request: Request, refuse: Callable[[DibsError], None]) -> OpenRequest:
        """An admitted request that stays open, if the quota has room for it."""
        key: str = request.state.caller
        self.open_requests.require_room(quota, key)
        return OpenRequest(quota, key, lambda: self.callers.reauthenticate(request), refuse)

    async def _await_disconnect(self, request: Request, waiter: Waiter) -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass  # the rest of a body
        self.feed.cancel(waiter, ClientGone("the client has disconnected"))

    def _catch_up(self) -> float:
        """Bring the store's figures up to date once there are many new events; the seconds until the next look."""
        if self._is_behind or self.feed.newest - self._counted_event >= CATCH_UP_EVENTS:
            self._counted_event = self.feed.newest
            self._is_behind = self.board.store.catch_up(CATCH_UP_BATCH)
        # A pause between two batches, so that claims are not held up.
        return CATCH_UP_PAUSE_SECONDS if self._is_behind else POLL_SECONDS

    def _sweep(self) -> None:
        """Sweep as soon as something is due, so that watchers see it then."""
        board, every_seconds = self.board, self.settings.sweep_seconds
        sweeper = Sweeper(board.store, board.record_due, board.reap_dead_owners, every_seconds=every_seconds)
        silent_at = 0.0
        while not self.feed.stopping:
            try:
                sweeper.sweep_if_due()
                if monotonic() >= silent_at:
                    ended = board.store.end_silent(limit=self.settings.sweep_batch)
                    silent_at = monotonic() + (0 if ended else every_seconds)
                for key in self.callers.take_used():
                    board.store.note_key_use(key)
                self.feed.wait_for_stop(min(sweeper.seconds_left(), self._catch_up()))
            except StoreUnavailable as refusal:
                self.note(refusal)  # the state of the store says why
                self.feed.wait_for_stop(POLL_SECONDS)
            except Exception:
                # A failure about one item must not stop the sweep of all others.
                logging.exception("the sweep failed; retrying")
                self.feed.wait_for_stop(POLL_SECONDS)
