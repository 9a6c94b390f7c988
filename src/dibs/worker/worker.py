"""A worker: takes items as they come and gives each to the function that handles its type.

    worker = Worker(board, agent="reviewer")

    @worker.handles("pr_review", max_claims=4)
    def review(claim):
        claim.progress("reading")
        return "looks good"          # the note of the end; an exception is a failure

    worker.run()

Each `handles` has a thread that asks for items, and threads that run the handler. A failure is recorded in the run of
its item and affects no other. An agent is never given an item that its policy does not allow. For an action that needs
approval, its handler returns a `Draft`; an approved draft is in `claim.approved_draft`.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import threading
import time
import traceback
from collections import Counter

from dibs import check
from dibs.errors import DibsError, Invalid, SessionNotFound, StoreUnavailable
from dibs.sdk.claim_handle import summary
from dibs.sdk.heartbeat import clock
from dibs.text import times
from dibs.worker.handler_loop import GRACE_SECONDS, LOGGER, TICK_SECONDS, CannotBegin, Draft, HandlerLoop

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping, Sequence
    from types import FrameType
    from typing import Any, TypeVar

    from dibs.board import Board
    from dibs.sdk.claim_handle import ClaimHandle
    from dibs.sdk.session import LiveSession
    from dibs.worker.handler_loop import Handler, HandlerCall

    H = TypeVar("H", bound=Handler)
    Listener = Callable[[str, ClaimHandle | None, str], None]

__all__ = ["CannotBegin", "Draft", "Worker", "appending"]

#: How long one call to the board waits for an item.
WAIT_SECONDS = 20.0
#: How long a stopping worker takes at most to end the processes of its claims and to release the claims.
RELEASE_ALL_SECONDS = 2 * GRACE_SECONDS
#: How long a stopping worker waits for handler loops that wait for an item: the end of the session ends their wait.
LAST_ASKING_SECONDS = 1.0


LEVELS = dict.fromkeys(("failed", "timed_out", "lost", "refused"), logging.WARNING)


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
        tell: Listener | None = None,
        log: str | os.PathLike[str] | None = None,
    ) -> None:
        """`drain_seconds`: how long handlers may go on after `stop`; the claims of those that have not finished by then
        are released. `tell` is called for every event, with its kind in one word, the claim and a text. `log` is a file
        to which the same is appended, one line each."""
        self.board, self.agent = board, agent
        self.drain_seconds = drain_seconds
        self.tally: Counter[str] = Counter()
        self._projects, self._ttl_seconds, self._meta = tuple(projects), ttl_seconds, meta
        self._listeners = [one for one in (tell, None if log is None else appending(log, agent)) if one is not None]
        self._handler_loops: list[HandlerLoop] = []
        self._changed = threading.Condition()
        self._calls: set[HandlerCall] = set()
        self._ending: list[threading.Thread] = []
        #: Set once this run takes no more items.
        self.stopping = threading.Event()
        self._fatal: BaseException | None = None
        self._registering = threading.Lock()
        self._session: LiveSession | None = None
        self._event_loop: asyncio.AbstractEventLoop | None = None

    def handles(self, *types: str, max_claims: int = 1, timeout_seconds: float | None = None) -> Callable[[H], H]:
        """Register a handler for items of these types (all types if none is given), for at most `max_claims` at a
        time. A coroutine function is given an `AsyncClaim`. An item that takes longer than `timeout_seconds` fails. If
        the handler has a method `abandon`, it is called with a claim before that claim is ended early."""
        if max_claims < 1:
            raise Invalid("max_claims must be at least 1", field="max_claims")

        def decorate(handler: H) -> H:
            self._handler_loops.append(HandlerLoop(self, handler, types, max_claims, timeout_seconds))
            return handler

        return decorate

    @property
    def claims(self) -> tuple[ClaimHandle, ...]:
        with self._changed:
            return tuple(call.claim for call in self._calls)

    def run(self, *, once: bool = False, interval_seconds: float | None = None) -> Counter[str]:
        """Work until stopped; with `once`, until there is no item to take. Returns the number of runs by outcome. With
        `interval_seconds`, ask that often instead of waiting for changes. An error that waiting cannot cure is raised
        once the running handlers have finished; with `once`, so is an unavailable store."""
        if not self._handler_loops:
            raise Invalid("a worker needs a handler: @worker.handles(...)", field="handles")
        kinds = ", ".join(" or ".join(loop.types) or "every type" for loop in self._handler_loops)
        LOGGER.info("%s works on items of %s", self.agent, kinds)
        before = self._take_signals()
        try:
            for loop in self._handler_loops:
                loop.start(once, interval_seconds)
            while not self.stopping.is_set() and (self._calls or any(loop.is_open for loop in self._handler_loops)):
                self._end_timed_out(self._tick())
            self._drain()
        finally:
            self.stopping.set()
            self._release_all("the worker was interrupted")
            for number, handler in before.items():
                signal.signal(number, handler or signal.SIG_DFL)
            self._end_session()
        error, self._fatal = self._fatal, None
        if error is not None:
            raise error
        LOGGER.info(
            "%s stopped: %s", self.agent, ", ".join(f"{n} {word}" for word, n in self.tally.items()) or "no runs"
        )
        return self.tally

    def stop(self) -> None:
        """Take no more items, and let the running handlers finish."""
        self.stopping.set()

    # For the handler loops

    def pause(self, seconds: float) -> None:
        self.stopping.wait(seconds)

    def pause_until_a_run_ends(self, seconds: float) -> None:
        with self._changed:
            ended = self.tally.total()
            end = clock() + seconds
            while self.tally.total() == ended and not self.stopping.is_set() and (left := end - clock()) > 0:
                self._changed.wait(min(left, TICK_SECONDS))

    def fail(self, error: BaseException) -> None:
        """Stop because of an error that waiting cannot cure; `run` raises it."""
        if self._fatal is None:
            self._fatal = error
            self.report("refused", None, error.message if isinstance(error, DibsError) else summary(error))
        self.stop()

    def wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def session(self, stopping: threading.Event) -> LiveSession:
        """This worker's session; a new one if the board has ended it, unless the worker is stopping."""
        with self._registering:
            if stopping.is_set():
                raise SessionNotFound("the worker is stopping", session="", ended=True)
            if self._session is None or self._session.is_over:
                self._session = self.board.session(self.agent, meta=self._meta, ttl_seconds=self._ttl_seconds)
            return self._session

    def next(
        self, types: Sequence[str], stopping: threading.Event, *, waits: bool, retries: bool
    ) -> ClaimHandle | None:
        return self.session(stopping).next(
            types=types,
            projects=self._projects,
            wait_seconds=WAIT_SECONDS if waits else 0,
            patience_seconds=None if retries else 0,
        )

    def report(self, word: str, claim: ClaimHandle | None, text: str = "") -> None:
        LOGGER.log(LEVELS.get(word, logging.INFO), "%s", _log_line(self.agent, word, claim, text))
        for listener in self._listeners:
            try:
                listener(word, claim, text)
            except Exception:  # a full disk under a log is no reason to stop working
                traceback.print_exc()

    def begin(self, call: HandlerCall) -> None:
        with self._changed:
            self._calls.add(call)
        self.report("claimed", call.claim)
        call.start()

    def finished(self, call: HandlerCall, word: str, text: str = "") -> None:
        with self._changed:
            is_first = call in self._calls
            self._calls.discard(call)
            if is_first:
                self.tally[word] += 1
            self._changed.notify_all()
        if is_first:
            self.report(word, call.claim, text)

    def event_loop(self) -> asyncio.AbstractEventLoop:
        """The event loop of all coroutine handlers, in a thread of its own."""
        import asyncio

        with self._changed:
            if self._event_loop is None:
                self._event_loop = asyncio.new_event_loop()
                threading.Thread(target=_run, args=(self._event_loop,), name="dibs coroutines", daemon=True).start()
            return self._event_loop

    # The worker's own

    def _tick(self) -> float:
        with self._changed:
            self._changed.wait(TICK_SECONDS)
        return clock()

    def _end_timed_out(self, now: float) -> None:
        for call in [one for one in list(self._calls) if one.is_timed_out(now)]:
            self._end_early(call, "fail", f"timed out after {call.timeout_seconds:g}s", "timed_out")

    def _end_early(self, call: HandlerCall, verb: str, reason: str, word: str) -> None:
        """In a thread, so that an unavailable store does not delay the others."""
        thread = threading.Thread(target=call.end_early, args=(verb, reason, word), name="dibs end", daemon=True)
        self._ending = [one for one in self._ending if one.is_alive()]
        try:
            thread.start()
            self._ending.append(thread)
        except RuntimeError:  # the system has no thread left
            call.end_early(verb, reason, word)

    def _drain(self) -> None:
        if self._calls:
            self.report("draining", None, f"{len(self._calls)} to finish within {self.drain_seconds:g}s")
        end = clock() + self.drain_seconds
        while self._calls and clock() < end:
            self._end_timed_out(self._tick())
        self._release_all("the worker stopped before it was finished")

    def _release_all(self, reason: str) -> None:
        left = list(self._calls)
        for call in left:
            self._end_early(call, "release", reason, "released")
        end = clock() + RELEASE_ALL_SECONDS
        for thread in self._ending:
            thread.join(max(0.0, end - clock()))
        end = min(end, clock() + GRACE_SECONDS)
        for call in left:
            call.join(max(0.0, end - clock()))

    def _end_session(self) -> None:
        with self._registering:
            session, self._session = self._session, None
        event_loop, self._event_loop = self._event_loop, None
        # A handler loop that still waits for an item has the old event; the next run has a new one.
        self.stopping = threading.Event()
        if event_loop is not None:
            event_loop.call_soon_threadsafe(event_loop.stop)
        if session is not None:
            with contextlib.suppress(StoreUnavailable):
                session.end("the worker stopped")
        # Wait until the handler loops see that: the caller may close the board next, and remove its folder.
        end = clock() + LAST_ASKING_SECONDS
        for loop in self._handler_loops:
            loop.join(max(0.0, end - clock()))

    def _take_signals(self) -> dict[int, Any]:
        """On the first signal the worker drains, on the second it releases everything at once."""
        if threading.current_thread() is not threading.main_thread():
            return {}

        def stop(number: int, frame: FrameType | None) -> None:
            if self.stopping.is_set():
                raise KeyboardInterrupt
            self.stop()

        numbers = [signal.SIGTERM, signal.SIGINT]
        if signal.getsignal(signal.SIGHUP) == signal.SIG_DFL:  # otherwise nohup lets the worker outlive its terminal
            numbers.append(signal.SIGHUP)
        return {number: signal.signal(number, stop) for number in numbers}


def quiet_logger() -> None:
    """For a program that shows the events itself."""
    LOGGER.addHandler(logging.NullHandler())
    LOGGER.propagate = False


def _log_line(agent: str, word: str, claim: ClaimHandle | None, text: str) -> str:
    """`coder failed fix-login: no such file`, in one line, whatever the texts contain."""
    line = " ".join([agent, word, *([] if claim is None else [claim.item.id])]) + (f": {text}" if text else "")
    return " ".join("".join(char if char.isprintable() else " " for char in line).split())


def log_file(path: str | os.PathLike[str], agent: str) -> str:
    """The path of the log: in a directory, the agent's own file. A path that ends in `/` is a directory, which is
    created if missing."""
    path = os.fspath(path)
    name = f"agent-{check.agent_name(agent)}.log"
    if path.endswith("/"):
        os.makedirs(path, exist_ok=True)
    return os.path.join(path, name) if os.path.isdir(path) else path


def appending(path: str | os.PathLike[str], agent: str) -> Listener:
    """A listener that appends to a file: time, agent, word, item and text. The file may be rotated."""
    path = log_file(path, agent)

    def append(word: str, claim: ClaimHandle | None, text: str) -> None:
        at = times.iso(time.time_ns() // 1_000_000)
        words = " ".join([at, agent, word, *([] if claim is None else [claim.item.id]), text])
        line = "".join(char if char.isprintable() else " " for char in words)
        with open(path, "a", encoding="utf-8") as file:
            file.write(" ".join(line.split()) + "\n")

    return append


def _run(loop: asyncio.AbstractEventLoop) -> None:
    import asyncio

    loop.run_forever()
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(asyncio.wait(left, timeout=GRACE_SECONDS))
    loop.close()
