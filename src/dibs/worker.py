"""A worker: takes items as they come and gives each to the function that handles its type.

    worker = Worker(board, agent="reviewer")

    @worker.handles("pr_review", max_claims=4)
    def review(claim):
        claim.progress("reading")
        return "looks good"          # the note of the end; an exception is a failure

    worker.run()

Each `handles` is a lane of its own: a thread that asks for what it can take, and threads that work on it. What goes
wrong with one item is written into its run and stops nobody.
"""

from __future__ import annotations

import inspect
import os
import signal
import threading
from collections import Counter
from concurrent.futures import CancelledError

from dibs.errors import AgentAtCapacity, DibsError, Invalid, SessionNotFound, StoreUnusable
from dibs.handle import LOSSES, ClaimHandle, summary
from dibs.heart import clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping, Sequence
    from types import FrameType
    from typing import Any, TypeVar

    from dibs.board import Board
    from dibs.session import LiveSession

    Handler = Callable[[ClaimHandle], Any]
    H = TypeVar("H", bound=Handler)
    Tell = Callable[[str, ClaimHandle | None, str], None]

#: How long one call waits for something to do before it is asked again, by the same connection to be woken on.
WAIT_SECONDS = 60.0
#: Before asking again after a refusal, or a store that is away: longer each time, drawn so that a crowd spreads out.
PAUSE_SECONDS = 0.2
PAUSE_SECONDS_MAX = 30.0
#: What runs out of time, or is let go at the end, gets so long to notice.
GRACE_SECONDS = 5.0
TICK_SECONDS = 0.5


class Draft(str):
    """What a handler returns that is not to be done before a person has approved it."""

    __slots__ = ()


class Worker:
    def __init__(
        self,
        board: Board,
        agent: str,
        *,
        projects: Sequence[str] = (),
        ttl_seconds: float | None = None,
        drain_seconds: float = 30.0,
        meta: Mapping[str, Any] | None = None,
        tell: Tell | None = None,
    ) -> None:
        """`drain_seconds`: how long, once stopped, what has begun may take to finish; what has not is released. `tell`
        hears of everything that happens: a word, the claim it is about, and what there is to say."""
        self.board, self.agent = board, agent
        self.drain_seconds = drain_seconds
        self.tally: Counter[str] = Counter()
        #: What made it give up, if something did.
        self.refusal: DibsError | None = None
        self._projects, self._ttl_seconds, self._meta = tuple(projects), ttl_seconds, meta
        self._tell = tell or (lambda word, claim, text: None)
        self._lanes: list[Lane] = []
        self._changed = threading.Condition()
        self._running: set[Running] = set()
        self._stopping = threading.Event()
        self._session: LiveSession | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def handles(self, *types: str, max_claims: int = 1, timeout_seconds: float | None = None) -> Callable[[H], H]:
        """The function for items of these types (of any, if none is named), on up to so many at a time. It may be a
        coroutine function. What takes longer than `timeout_seconds` has failed."""
        if max_claims < 1:
            raise Invalid("max_claims is at least 1", field="max_claims")

        def decorate(handler: H) -> H:
            self._lanes.append(Lane(self, handler, types, max_claims, timeout_seconds))
            return handler

        return decorate

    @property
    def claims(self) -> tuple[ClaimHandle, ...]:
        with self._changed:
            return tuple(running.claim for running in self._running)

    def run(self, *, once: bool = False, interval_seconds: float | None = None) -> Counter[str]:
        """Work until stopped; with `once`, until there is nothing to take. How often each outcome was reached. With
        `interval_seconds`, look that often instead of being woken."""
        if not self._lanes:
            raise Invalid("a worker needs a handler: @worker.handles(...)", field="handles")
        before = self._take_signals()
        try:
            for lane in self._lanes:
                lane.start(once, interval_seconds)
            while not self._stopping.is_set() and (self._running or any(lane.is_open for lane in self._lanes)):
                self._look_after(self._tick())
            self._drain()
        finally:
            self._stopping.set()
            self._let_go("the worker was interrupted")
            for number, handler in before.items():
                signal.signal(number, handler)
            if self._session is not None:
                self._session.end("the worker stopped")
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._loop.stop)
        return self.tally

    def stop(self) -> None:
        """Take nothing more, and let what has begun come to its end."""
        self._stopping.set()

    # For the lanes

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    def pause(self, seconds: float) -> None:
        self._stopping.wait(seconds)

    def session(self) -> LiveSession:
        """This worker's session; another one if somebody has ended it."""
        with self._changed:
            if self._session is None or self._session.is_over:
                self._session = self.board.session(self.agent, meta=self._meta, ttl_seconds=self._ttl_seconds)
            return self._session

    def next(self, lane: Lane, wait_seconds: float) -> ClaimHandle | None:
        return self.session().next(
            types=lane.types, projects=self._projects, wait_seconds=wait_seconds, patience_seconds=0
        )

    def tell(self, word: str, claim: ClaimHandle | None, text: str = "") -> None:
        self._tell(word, claim, text)

    def begin(self, running: Running) -> None:
        with self._changed:
            self._running.add(running)
        self.tell("claimed", running.claim)
        running.start()

    def over(self, running: Running, word: str, text: str = "") -> None:
        with self._changed:
            known = running in self._running
            self._running.discard(running)
            if known:
                self.tally[word] += 1
            self._changed.notify_all()
        if known:
            self.tell(word, running.claim, text)

    def loop(self) -> asyncio.AbstractEventLoop:
        """Where coroutines run: one loop in a thread of its own."""
        import asyncio

        with self._changed:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="dibs coroutines", daemon=True).start()
            return self._loop

    # The worker's own

    def _tick(self) -> float:
        with self._changed:
            self._changed.wait(TICK_SECONDS)
        return clock()

    def _look_after(self, now: float) -> None:
        for running in [one for one in list(self._running) if one.is_over_time(now)]:
            running.cut_short("fail", f"timed out after {running.timeout_seconds:g}s", "timed_out")

    def _drain(self) -> None:
        if self._running:
            self.tell("draining", None, f"{len(self._running)} to finish within {self.drain_seconds:g}s")
        end = clock() + self.drain_seconds
        while self._running and clock() < end:
            self._look_after(self._tick())
        self._let_go("the worker stopped before it was finished")

    def _let_go(self, reason: str) -> None:
        left = list(self._running)
        for running in left:
            running.cut_short("release", reason, "released")
        end = clock() + GRACE_SECONDS
        for running in left:
            running.join(max(0.0, end - clock()))

    def _take_signals(self) -> dict[int, Any]:
        """Stopped politely, a worker drains; asked a second time, it lets go at once."""
        if threading.current_thread() is not threading.main_thread():
            return {}

        def stop(number: int, frame: FrameType | None) -> None:
            if self._stopping.is_set():
                raise KeyboardInterrupt
            self.stop()

        return {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}


class Lane:
    """What one handler takes: a thread that asks, and as many that work as it may have claims."""

    def __init__(
        self, worker: Worker, handler: Handler, types: Sequence[str], max_claims: int, timeout_seconds: float | None
    ) -> None:
        self.worker, self.handler, self.types = worker, handler, tuple(types)
        self.timeout_seconds = timeout_seconds
        self._room = threading.Semaphore(max_claims)
        self._thread: threading.Thread | None = None

    @property
    def is_open(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def start(self, once: bool, interval_seconds: float | None) -> None:
        # A daemon: it may be waiting for work when everybody leaves.
        name = f"dibs lane {', '.join(self.types) or 'any'}"
        self._thread = threading.Thread(target=self._take, args=(once, interval_seconds), name=name, daemon=True)
        self._thread.start()

    def leave(self) -> None:
        self._room.release()

    def _take(self, once: bool, interval_seconds: float | None) -> None:
        waits = not once and interval_seconds is None
        refusals = 0
        while not self.worker.is_stopping:
            if not self._room.acquire(timeout=TICK_SECONDS):
                continue
            if self.worker.is_stopping:
                return  # the room is that of a claim that was just let go
            claim = None
            try:
                claim = self.worker.next(self, WAIT_SECONDS if waits else 0)
                refusals = 0
            except SessionNotFound:
                pass  # the next one is another's
            except DibsError as error:
                refusals += 1
                if self._is_final(error, once):
                    return
                self._rest(error, refusals)
                continue
            finally:
                if claim is None:
                    self._room.release()
            if claim is not None:
                self._begin(claim)
            elif once:
                return
            elif interval_seconds is not None:
                self.worker.pause(interval_seconds)

    def _is_final(self, error: DibsError, once: bool) -> bool:
        if isinstance(error, StoreUnusable | Invalid) or (once and not isinstance(error, AgentAtCapacity)):
            self.worker.refusal = error
            self.worker.tell("refused", None, error.message)
            return True
        return False

    def _begin(self, claim: ClaimHandle) -> None:
        if self.worker.is_stopping:
            claim.release("the worker was about to stop")
            self._room.release()
        else:
            self.worker.begin(Running(self, claim))

    def _rest(self, error: DibsError, refusals: int) -> None:
        if not isinstance(error, AgentAtCapacity):
            self.worker.tell("waiting", None, error.message)
        draw = 0.5 + os.urandom(1)[0] / 512
        longest = min(PAUSE_SECONDS_MAX, PAUSE_SECONDS * 2.0**refusals)
        self.worker.pause(max(float(error.facts.get("retry_after_seconds") or 0), draw * longest))


class Running:
    """A claim that is being worked on, by a thread of its own."""

    def __init__(self, lane: Lane, claim: ClaimHandle) -> None:
        self.lane, self.claim = lane, claim
        self.timeout_seconds = lane.timeout_seconds
        self._began = clock()
        self._cut = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name=f"dibs item {claim.item.id}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def join(self, seconds: float) -> None:
        self._thread.join(seconds)

    def is_over_time(self, now: float) -> bool:
        return self.timeout_seconds is not None and now > self._began + self.timeout_seconds

    def cut_short(self, verb: str, reason: str, word: str) -> None:
        """End the claim from outside; whoever works on it finds it lost, and its place is given to the next."""
        with self._lock:
            if self._cut or self.claim.outcome is not None:
                return
            self._cut = True
        try:
            self.claim.cut_short(verb, reason, GRACE_SECONDS)
        except DibsError as error:
            reason = f"{reason}; {error.message}"
        self.lane.worker.over(self, word, reason)
        self.lane.leave()

    def _run(self) -> None:
        word, text = "", ""
        try:
            self.claim.check()
            self._end(self._handled())
            word, text = self.claim.outcome or "", ""
        except LOSSES as error:
            word, text = "lost", error.message
        except BaseException as error:  # also of a handler that wants to leave: it is the item that ends
            word, text = self._failed(error)
        with self._lock:
            if self._cut:
                return
            self._cut = True
        self.lane.worker.over(self, word, text)
        self.lane.leave()

    def _handled(self) -> object:
        if not inspect.iscoroutinefunction(self.lane.handler):
            return self.lane.handler(self.claim)
        import asyncio

        async def watched() -> object:
            task = asyncio.ensure_future(self.lane.handler(self.claim))
            while not task.done():
                await asyncio.wait({task}, timeout=TICK_SECONDS)
                if self.claim.lost.is_set():
                    task.cancel()
                    await asyncio.wait({task}, timeout=GRACE_SECONDS)
                    break
            return task.result()

        try:
            return asyncio.run_coroutine_threadsafe(watched(), self.lane.worker.loop()).result()
        except (CancelledError, asyncio.CancelledError, asyncio.InvalidStateError):
            self.claim.check()
            raise

    def _end(self, result: object) -> None:
        """What the handler returned is how it ends, unless it said so itself."""
        claim = self.claim
        if claim.outcome is not None or self._cut:
            return
        if isinstance(result, Draft):
            claim.submit(result)
        elif isinstance(result, dict):
            claim.done(**result)
        elif result is None or isinstance(result, str):
            claim.done(result)
        else:
            raise Invalid(f"a handler returns None, a note, a Draft or the fields of done, not {result!r}")

    def _failed(self, error: BaseException) -> tuple[str, str]:
        reason = summary(error)
        try:
            if self.claim.outcome is None:
                self.claim.fail(reason)
            return "failed", reason
        except LOSSES as lost:
            return "lost", lost.message
        except DibsError as refusal:
            return "failed", f"{reason}; and could not be ended: {refusal.message}"
