"""Shares of a server's work: whoever has a key gets their turn, however much another key asks for.

Work waits in a queue of its key. The next to run is that of the key that has used the least so far, so a share binds
only while another key asks for something: a key that is alone gets everything, but for a place that stays free for the
next one. A key that comes back after a pause starts level with the others; it saves nothing up.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from typing import Any, Generic, NamedTuple, TypeVar

T = TypeVar("T")

#: The key whose request the current task serves; requests without a key share the empty one.
KEY: ContextVar[str] = ContextVar("key", default="")
#: For how long after the last request of another key nobody is alone.
SHARED_SECONDS = 2.0
#: Of so many keys that are idle it is remembered what they used.
IDLE_KEYS_MAX = 1_000


class Places(NamedTuple):
    """How much may run at once: in all, of one key while others use the server too, and of one key that is alone."""

    total: int
    per_key: int
    alone: int


def halves(total: int) -> Places:
    """One key has half while another asks, and otherwise all but one: so another need not wait for what is long."""
    return Places(total, max(1, total // 2), max(1, total - 1))


class Users:
    """Whether a server is used with more than one key. Knows no clock."""

    def __init__(self) -> None:
        self.last = ""
        #: Called when a second key begins to use the server.
        self.on_several: Callable[[], None] = lambda: None
        self._changed_at = float("-inf")

    def note(self, key: str, now: float) -> None:
        """A request with another key than the last."""
        if self.last:
            was_alone = not self.are_several(now)
            self._changed_at = now
            if was_alone:
                self.on_several()
        self.last = key

    def are_several(self, now: float) -> bool:
        return now < self._changed_at + SHARED_SECONDS


class Turns(Generic[T]):
    """Which work may run now. Knows no threads and no clock: `end` is told what the work cost."""

    def __init__(self, places: Places) -> None:
        self._places = places
        #: What waits, in the order in which it came, with its number; no key has an empty queue.
        self._waiting: dict[str, deque[tuple[int, T]]] = {}
        self._running: Counter[str] = Counter()
        self._total = self._count = 0
        #: What each key has used, at least as much as the key that ran last had used at that time.
        self._used: dict[str, float] = {}
        self._level = 0.0

    def begin(self, key: str) -> bool:
        """`put` and `take` in one, for work that runs at once because nothing waits: whether it does."""
        running = self._running.get(key, 0)
        if self._waiting or running >= self._places.alone or self._total >= self._places.total:
            return False
        self._running[key] = running + 1
        self._total += 1
        used = self._used.get(key, 0.0)
        if used < self._level:
            self._used[key] = self._level
        else:
            self._used[key] = self._level = used
        return True

    def put(self, key: str, work: T) -> None:
        if key not in self._waiting:
            self._waiting[key] = deque()
            self._used[key] = max(self._used.get(key, 0.0), self._level)
        self._count += 1
        self._waiting[key].append((self._count, work))

    def take(self, *, is_shared: bool = False) -> tuple[str, T] | None:
        """The next work, which counts as running until `end`; None if nothing may run now. `is_shared`: other keys ask
        for something else."""
        if not self._waiting or self._total >= self._places.total:
            return None
        limit = self._places.per_key if is_shared or len(self._waiting) > 1 else self._places.alone
        ready = (key for key in self._waiting if self._running[key] < limit)
        key = min(ready, key=lambda key: (self._used[key], self._waiting[key][0][0]), default=None)
        if key is None:
            return None
        _, work = self._waiting[key].popleft()
        if not self._waiting[key]:
            del self._waiting[key]
        self._running[key] += 1
        self._total += 1
        self._level = self._used[key]
        return key, work

    @property
    def only_one_waits(self) -> bool:
        """Whether one key waits: it may run more than it might while another waited."""
        return len(self._waiting) == 1

    def end(self, key: str, cost: float) -> None:
        self._used[key] = self._used.get(key, self._level) + cost
        self._running[key] -= 1
        self._total -= 1
        if not self._running[key]:
            del self._running[key]
            if len(self._used) > IDLE_KEYS_MAX:
                self._forget()

    def _forget(self) -> None:
        """What idle keys used that are level with the others; if that is too little, of all idle keys."""
        active = {key: used for key, used in self._used.items() if key in self._running or key in self._waiting}
        ahead = {key: used for key, used in self._used.items() if used > self._level}
        self._used = active | ahead if len(ahead) <= IDLE_KEYS_MAX // 2 else active


class LoopTurns:
    """Turns of the tasks of one event loop. What a turn costs is the time until its end."""

    def __init__(self, places: Places) -> None:
        self._turns: Turns[asyncio.Future[None]] = Turns(places)

    @asynccontextmanager
    async def turn(self, key: str) -> AsyncIterator[None]:
        await self._wait(key)
        start = time.perf_counter()
        try:
            yield
        finally:
            self._end(key, time.perf_counter() - start)

    async def step(self, key: str) -> None:
        """A turn that ends once the loop has run what is ready now: so many begin with each round of the loop."""
        await self._wait(key)
        asyncio.get_running_loop().call_soon(self._end, key, 1.0)

    async def _wait(self, key: str) -> None:
        began = asyncio.get_running_loop().create_future()
        self._turns.put(key, began)
        self._begin()
        try:
            await began
        except asyncio.CancelledError:
            if began.done() and not began.cancelled():
                self._end(key, 0.0)
            raise

    def _begin(self) -> None:
        while (found := self._turns.take()) is not None:
            key, began = found
            if began.cancelled():
                self._turns.end(key, 0.0)
            else:
                began.set_result(None)

    def _end(self, key: str, cost: float) -> None:
        self._turns.end(key, cost)
        self._begin()


class Task(NamedTuple):
    work: Callable[[], object]
    #: None: nobody asks what came of it.
    future: Future[Any] | None


class FairThreads:
    """Threads for the work of many keys. What work costs is the time for which it had its thread. With `users`, a key
    has no more than its share while others use the server: its work delays them, whatever they wait for."""

    def __init__(self, name: str, places: Places, users: Users | None = None) -> None:
        self._turns: Turns[Task] = Turns(places)
        self._users = users
        self._threads = ThreadPoolExecutor(places.total, name)
        self._lock = threading.Lock()

    def submit(self, key: str, work: Callable[[], T]) -> Future[T]:
        future: Future[T] = Future()
        self._put(key, Task(work, future))
        return future

    def start(self, key: str, work: Callable[[], object]) -> None:
        """`submit` for work that tells its outcome itself, and never raises."""
        self._put(key, Task(work, None))

    def shutdown(self) -> None:
        """Waits for the work that was submitted before."""
        self._threads.shutdown(wait=True)

    def _put(self, key: str, task: Task) -> None:
        with self._lock:
            self._turns.put(key, task)
        self._threads.submit(self._run_all)

    def _run_all(self) -> None:
        """One thread for each submitted work runs whatever is next. Work that may not run yet is left to a thread that
        runs work now: its end changes what may run."""
        ended, cost = "", 0.0
        while True:
            with self._lock:
                if cost:
                    self._turns.end(ended, cost)
                is_shared = self._users is not None and self._users.are_several(time.monotonic())
                found = self._turns.take(is_shared=is_shared)
                may_run_more = found is not None and self._turns.only_one_waits
            if found is None:
                return
            if may_run_more:
                with suppress(RuntimeError):  # shut down: the threads that run work go on until nothing waits
                    self._threads.submit(self._run_all)
            ended, task = found
            began = time.perf_counter()
            _run(task)
            cost = max(time.perf_counter() - began, 1e-9)


def _run(task: Task) -> None:
    if task.future is None:
        task.work()
    elif task.future.set_running_or_notify_cancel():
        try:
            task.future.set_result(task.work())
        except BaseException as error:
            task.future.set_exception(error)
