"""A worker: takes items as they come and gives each to the function that handles its type.

    worker = Worker(board, agent="reviewer")

    @worker.handles("pr_review", max_claims=4)
    def review(claim):
        claim.progress("reading")
        return "looks good"          # the note of the end; an exception is a failure

    worker.run()

Each `handles` is a lane of its own: a thread that asks for what it can take, and threads that work on it. What goes
wrong with one item is written into its run and stops nobody. What an agent's policy does not allow is never handed to
it; what it may only draft, its handler returns as a `Draft`; and what a person approved is `claim.approved_draft`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
import traceback
from collections import Counter

from dibs import check, when
from dibs.errors import DibsError, Invalid, SessionNotFound, StoreUnavailable
from dibs.handle import summary
from dibs.heart import clock
from dibs.lane import GRACE_SECONDS, TICK_SECONDS, CannotBegin, Draft, Lane

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping, Sequence
    from types import FrameType
    from typing import Any, TypeVar

    from dibs.board import Board
    from dibs.handle import ClaimHandle
    from dibs.lane import Handler, Running
    from dibs.session import LiveSession

    H = TypeVar("H", bound=Handler)
    Tell = Callable[[str, ClaimHandle | None, str], None]

__all__ = ["CannotBegin", "Draft", "Worker", "appending"]

#: How long one call waits for something to do before it is asked again, by the same connection to be woken on.
WAIT_SECONDS = 20.0
#: All that is let go at the end has so long together: to end what was started for it, and to be given back.
LET_GO_SECONDS = 2 * GRACE_SECONDS
#: What a lane that waits for work gets, at the end, to hear that there will be none.
LAST_ASKING_SECONDS = 1.0


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
        log: str | os.PathLike[str] | None = None,
    ) -> None:
        """`drain_seconds`: how long, once stopped, what has begun may take to finish; what has not is released. `tell`
        hears of everything that happens: a word, the claim it is about, and what there is to say. `log` is a file
        that is told the same, a line each."""
        self.board, self.agent = board, agent
        self.drain_seconds = drain_seconds
        self.tally: Counter[str] = Counter()
        self._projects, self._ttl_seconds, self._meta = tuple(projects), ttl_seconds, meta
        self._tells = [one for one in (tell, None if log is None else appending(log, agent)) if one is not None]
        self._lanes: list[Lane] = []
        self._changed = threading.Condition()
        self._running: set[Running] = set()
        self._cutting: list[threading.Thread] = []
        self._stopping = threading.Event()
        self._final: BaseException | None = None
        self._registering = threading.Lock()
        self._session: LiveSession | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def handles(self, *types: str, max_claims: int = 1, timeout_seconds: float | None = None) -> Callable[[H], H]:
        """The function for items of these types (of any, if none is named), on up to so many at a time. It may be a
        coroutine function, and is given an `AsyncClaim` then. What takes longer than `timeout_seconds` has failed. If
        it has a method `abandon`, that is called with a claim that is being worked on before it is let go."""
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
        `interval_seconds`, look that often instead of being woken. What no waiting helps against is raised, once
        what has begun has come to its end; with `once`, also a store that is away."""
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
                signal.signal(number, handler or signal.SIG_DFL)
            self._leave()
        error, self._final = self._final, None
        if error is not None:
            raise error
        return self.tally

    def stop(self) -> None:
        """Take nothing more, and let what has begun come to its end."""
        self._stopping.set()

    # For the lanes

    @property
    def stopping(self) -> threading.Event:
        """Set once nothing more is to be taken in this run."""
        return self._stopping

    def pause(self, seconds: float) -> None:
        self._stopping.wait(seconds)

    def pause_until_one_is_over(self, seconds: float) -> None:
        with self._changed:
            overs = self.tally.total()
            end = clock() + seconds
            while self.tally.total() == overs and not self._stopping.is_set() and (left := end - clock()) > 0:
                self._changed.wait(min(left, TICK_SECONDS))

    def give_up(self, error: BaseException) -> None:
        """Nothing more can be had: what has begun comes to its end, and the error is whoever's who runs this."""
        if self._final is None:
            self._final = error
            self.tell("refused", None, error.message if isinstance(error, DibsError) else summary(error))
        self.stop()

    def wake(self) -> None:
        """Whoever waits for something to be over looks again."""
        with self._changed:
            self._changed.notify_all()

    def session(self, stopping: threading.Event) -> LiveSession:
        """This worker's session; another one if somebody has ended it, but none once it stops."""
        with self._registering:
            if stopping.is_set():
                raise SessionNotFound("the worker stops", session="", ended=True)
            if self._session is None or self._session.is_over:
                self._session = self.board.session(self.agent, meta=self._meta, ttl_seconds=self._ttl_seconds)
            return self._session

    def next(self, lane: Lane, stopping: threading.Event, *, waits: bool, is_patient: bool) -> ClaimHandle | None:
        return self.session(stopping).next(
            types=lane.types,
            projects=self._projects,
            wait_seconds=WAIT_SECONDS if waits else 0,
            patience_seconds=None if is_patient else 0,
        )

    def tell(self, word: str, claim: ClaimHandle | None, text: str = "") -> None:
        for tell in self._tells:
            try:
                tell(word, claim, text)
            except Exception:  # a full disk under a log is no reason to stop working
                traceback.print_exc()

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
                threading.Thread(target=_run, args=(self._loop,), name="dibs coroutines", daemon=True).start()
            return self._loop

    # The worker's own

    def _tick(self) -> float:
        with self._changed:
            self._changed.wait(TICK_SECONDS)
        return clock()

    def _look_after(self, now: float) -> None:
        for running in [one for one in list(self._running) if one.is_over_time(now)]:
            self._cut_short(running, "fail", f"timed out after {running.timeout_seconds:g}s", "timed_out")

    def _cut_short(self, running: Running, verb: str, reason: str, word: str) -> None:
        """Beside everything else: a store that is away would hold up the others."""
        thread = threading.Thread(target=running.cut_short, args=(verb, reason, word), name="dibs end", daemon=True)
        self._cutting = [one for one in self._cutting if one.is_alive()]
        try:
            thread.start()
            self._cutting.append(thread)
        except RuntimeError:  # the system has no thread for it
            running.cut_short(verb, reason, word)

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
            self._cut_short(running, "release", reason, "released")
        end = clock() + LET_GO_SECONDS
        for thread in self._cutting:
            thread.join(max(0.0, end - clock()))
        end = min(end, clock() + GRACE_SECONDS)
        for running in left:
            running.join(max(0.0, end - clock()))

    def _leave(self) -> None:
        with self._registering:
            session, self._session = self._session, None
        loop, self._loop = self._loop, None
        # Whoever still waits for work has the old one; the next run has its own.
        self._stopping = threading.Event()
        if loop is not None:
            loop.call_soon_threadsafe(loop.stop)
        if session is not None:
            with contextlib.suppress(StoreUnavailable):
                session.end("the worker stopped")
        # Whoever asks for work hears that its session is over. The board may be closed next, and its folder removed.
        end = clock() + LAST_ASKING_SECONDS
        for lane in self._lanes:
            lane.join(max(0.0, end - clock()))

    def _take_signals(self) -> dict[int, Any]:
        """Stopped politely, a worker drains; asked a second time, it lets go at once."""
        if threading.current_thread() is not threading.main_thread():
            return {}

        def stop(number: int, frame: FrameType | None) -> None:
            if self._stopping.is_set():
                raise KeyboardInterrupt
            self.stop()

        numbers = [signal.SIGTERM, signal.SIGINT]
        if signal.getsignal(signal.SIGHUP) == signal.SIG_DFL:  # else somebody wants it to go on
            numbers.append(signal.SIGHUP)
        return {number: signal.signal(number, stop) for number in numbers}


def log_file(path: str | os.PathLike[str], agent: str) -> str:
    """The file that is meant: of a folder, the agent's own file in it. A path that ends in `/` is a folder, which is
    made if it is not there."""
    path = os.fspath(path)
    name = f"agent-{check.agent_name(agent)}.log"
    if path.endswith("/"):
        os.makedirs(path, exist_ok=True)
    return os.path.join(path, name) if os.path.isdir(path) else path


def appending(path: str | os.PathLike[str], agent: str) -> Tell:
    """Lines for a file: when, who, what happened, to which item, and what there is to say. It may be moved away."""
    path = log_file(path, agent)

    def tell(word: str, claim: ClaimHandle | None, text: str) -> None:
        at = when.iso(time.time_ns() // 1_000_000)
        words = " ".join([at, agent, word, *([] if claim is None else [claim.item.id]), text])
        line = "".join(sign if sign.isprintable() else " " for sign in words)
        with open(path, "a", encoding="utf-8") as file:
            file.write(" ".join(line.split()) + "\n")

    return tell


def _run(loop: asyncio.AbstractEventLoop) -> None:
    import asyncio

    loop.run_forever()
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(asyncio.wait(left, timeout=GRACE_SECONDS))
    loop.close()
