"""The loop that takes items for one handler of a worker, and a call of the handler: from the claim to the run's end."""

from __future__ import annotations

import contextlib
import inspect
import logging
import threading
import traceback
from concurrent.futures import CancelledError

from dibs.errors import (
    AgentAtCapacity,
    DibsError,
    Forbidden,
    Invalid,
    RateLimited,
    SessionNotFound,
    StoreUnavailable,
    StoreUnusable,
    Unauthenticated,
)
from dibs.model import READY
from dibs.randomness import backoff_seconds
from dibs.sdk.claim_handle import LOSSES, REASON_CHARACTERS_MAX, ClaimHandle, storable, summary
from dibs.sdk.heartbeat import clock

#: Where workers log: the starts and ends of runs, and with a traceback what a handler raised.
LOGGER = logging.getLogger("dibs.worker")

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from typing import Any

    from dibs.model import Item
    from dibs.sdk.async_session import AsyncClaim
    from dibs.worker.worker import Worker

    #: Called with a ClaimHandle; a coroutine function with an AsyncClaim.
    Handler = Callable[[Any], Any]

#: The delays after a refusal, or while the store is unavailable: doubled each time, jittered.
PAUSE_SECONDS = 0.2
PAUSE_SECONDS_MAX = 30.0
#: The longest delay of an agent at its limit: another session of the agent may end a claim at any moment.
FULL_SECONDS_MAX = 5.0
#: How long a handler has to return after its claim was ended early.
GRACE_SECONDS = 5.0
TICK_SECONDS = 0.5
#: A claim that is older when its handler starts is verified first.
FRESH_SECONDS = 1.0
#: The keys of a dict that a handler may return.
DONE_FIELDS = frozenset({"note", "links", "cost"})
#: Errors that waiting cannot cure.
FATAL = (StoreUnusable, Invalid, Forbidden, Unauthenticated)


class Draft(str):
    """Returned by a handler whose result needs a person's approval."""

    __slots__ = ()


class CannotBegin(DibsError):
    """Raised by a handler that could not start, for a reason that has nothing to do with the item, such as a full disk.
    The item is released, and the next one is taken after a delay that grows each time."""

    code = "CANNOT_BEGIN"
    http_status = 503
    exit_code = 75


class HandlerLoop:
    """Takes items for one handler: one thread asks for them, and each claim has a thread."""

    def __init__(
        self, worker: Worker, handler: Handler, types: Sequence[str], max_claims: int, timeout_seconds: float | None
    ) -> None:
        self.worker, self.handler, self.types = worker, handler, tuple(types)
        self.timeout_seconds = timeout_seconds
        self.is_async = any(map(inspect.iscoroutinefunction, (handler, type(handler).__call__)))
        #: Whether it takes more items.
        self.is_open = False
        self._slots = threading.Semaphore(max_claims)
        self._once = False
        self._lock = threading.Lock()
        self._delays, self._delayed_until = 0, 0.0
        self._thread: threading.Thread | None = None
        #: With `once`: the items that their handler released, with its reasons, and the claims of those that were
        #: given to this worker again.
        self._postponed: dict[str, str] = {}
        self._set_aside: list[ClaimHandle] = []

    def start(self, once: bool, interval_seconds: float | None) -> None:
        self.is_open, self._once = True, once
        self._postponed, self._set_aside = {}, []
        self._thread = threading.Thread(
            target=self._run,
            args=(self.worker.stopping, once, interval_seconds),
            name=f"dibs handler {', '.join(self.types) or 'any'}",
            # It may wait for an item when the program exits.
            daemon=True,
        )
        self._thread.start()

    def join(self, seconds: float) -> None:
        if self._thread is not None:
            self._thread.join(seconds)

    def free_slot(self) -> None:
        self._slots.release()

    def cannot_begin(self, error: CannotBegin) -> None:
        """Delay the next item; with `once`, end the worker."""
        if self._once:
            self.worker.fail(error)
        else:
            self._delay(error.message)

    def postpone(self, item: Item, why: str) -> None:
        """The handler released the item, and `next` would give it to this worker again at once."""
        if self._once:
            self._postponed[item.id] = why
        else:
            self._delay(f"{item.id} was released: {why}" if why else f"{item.id} was released")

    def reset_delay(self) -> None:
        self._delays = 0

    def _delay(self, why: str) -> None:
        with self._lock:
            if clock() < self._delayed_until:
                return  # another claim of this loop has just done the same
            self._delays += 1
            self._delayed_until = clock() + _backoff_seconds(self._delays)
        if self._delays == 1:
            self.worker.report("waiting", None, why)

    def _run(self, stopping: threading.Event, once: bool, interval_seconds: float | None) -> None:
        try:
            self._take_items(stopping, once, interval_seconds)
        except BaseException as error:  # `Worker.run` raises it: an error of a thread would go unnoticed
            if not stopping.is_set():
                self.worker.fail(error)
        finally:
            for claim in self._set_aside:
                with contextlib.suppress(DibsError):  # the end of the session releases it
                    claim.release(self._postponed[claim.item.id] or None)
            if stopping is self.worker.stopping:
                self.is_open = False
                self.worker.wake()

    def _take_items(self, stopping: threading.Event, once: bool, interval_seconds: float | None) -> None:
        waits = not once and interval_seconds is None
        refusals = 0
        while not stopping.is_set():
            if not self._slots.acquire(timeout=TICK_SECONDS):
                continue
            if stopping.is_set():
                self._slots.release()
                return  # the slot is that of a claim that was just released
            if (delay_seconds := self._delayed_until - clock()) > 0:
                self._slots.release()
                stopping.wait(delay_seconds)
                continue
            claim, ended = None, self.worker.tally.total()
            try:
                claim = self.worker.next(self.types, stopping, waits=waits, retries=once)
                refusals = 0
            except SessionNotFound:
                pass  # the next call starts another session
            except DibsError as error:
                refusals += 1
                if isinstance(error, FATAL) or (once and isinstance(error, StoreUnavailable)):
                    raise
                # A claim that this worker held when it asked may have ended since.
                is_idle = not self.worker.claims and self.worker.tally.total() == ended
                if once and isinstance(error, AgentAtCapacity) and is_idle:
                    return  # other sessions of the agent hold all its claims
                self._pause_after(error, refusals)
                continue
            finally:
                if claim is None:
                    self._slots.release()
            if claim is not None and claim.item.id in self._postponed:
                # Held until the end, or `next` would give it again before all others.
                self._set_aside.append(claim)
                self._slots.release()
            elif claim is not None:
                self._begin(claim, stopping)
            elif once:
                return
            elif interval_seconds is not None:
                stopping.wait(interval_seconds)

    def _begin(self, claim: ClaimHandle, stopping: threading.Event) -> None:
        if not stopping.is_set():
            call = HandlerCall(self, claim)
            try:
                self.worker.begin(call)
            except RuntimeError as error:  # the system has no thread left
                call.not_begun(CannotBegin(f"the work could not be started: {error}"))
            return
        self._slots.release()
        with contextlib.suppress(DibsError):  # the end of the session releases it
            claim.release("the worker was about to stop")

    def _pause_after(self, error: DibsError, refusals: int) -> None:
        if isinstance(error, AgentAtCapacity):
            self.worker.pause_until_a_run_ends(_backoff_seconds(refusals, FULL_SECONDS_MAX))
        else:
            self.worker.report("waiting", None, error.message)
            retry_after = float(error.facts.get("retry_after_seconds") or 0)
            self.worker.pause(max(retry_after, _backoff_seconds(refusals)))


def _backoff_seconds(attempt: int, max_seconds: float = PAUSE_SECONDS_MAX) -> float:
    return backoff_seconds(attempt, base_seconds=PAUSE_SECONDS, max_seconds=max_seconds)


class HandlerCall:
    """One claim with its handler, in a thread of its own."""

    def __init__(self, loop: HandlerLoop, claim: ClaimHandle) -> None:
        self.loop, self.claim = loop, claim
        self.timeout_seconds = loop.timeout_seconds
        self._began = clock()
        self._is_over = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name=f"dibs item {claim.item.id}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def join(self, seconds: float) -> None:
        if self._thread.ident is not None:
            self._thread.join(seconds)

    def is_timed_out(self, now: float) -> bool:
        return not self._is_over and self.timeout_seconds is not None and now > self._began + self.timeout_seconds

    def end_early(self, verb: str, reason: str, word: str) -> None:
        """End the claim from outside, and free its slot. The handler finds the claim lost."""
        with self._lock:
            if self._is_over or self.claim.outcome is not None:
                return
            self._is_over = True
        # Processes of the handler are ended first: the next holder may begin at once.
        abandon = getattr(self.loop.handler, "abandon", None)
        if abandon is not None:
            abandon(self.claim)
        try:
            self.claim.end_early(verb, reason, GRACE_SECONDS)
        except DibsError as error:
            # The handler may have ended the claim at the same moment.
            word, reason = self.claim.outcome or word, f"{reason}; {error.message}"
        self.loop.worker.finished(self, word, reason)
        self.loop.free_slot()

    def not_begun(self, error: CannotBegin) -> None:
        self._finish(*self._release_unbegun(error))

    def _run(self) -> None:
        self._finish(*self._work())

    def _finish(self, word: str, text: str) -> None:
        with self._lock:
            if self._is_over:
                return
            self._is_over = True
        self.loop.worker.finished(self, word, text)
        self.loop.free_slot()

    def _work(self) -> tuple[str, str]:
        """Run the handler and end the claim; return how the run ended, as a word and a text."""
        try:
            self.claim.check()
            if clock() > self._began + FRESH_SECONDS:
                self.claim.verify()
        except (*LOSSES, StoreUnavailable, RateLimited) as error:
            return self._lost(error)  # the handler has not begun, so the item has not failed
        try:
            result = self._call_handler()
        except CannotBegin as error:
            return self._release_unbegun(error)
        except BaseException as error:  # also SystemExit: it ends the item, not the worker
            self.loop.reset_delay()
            # The handler may use other claims too, so only the error of this claim counts as its loss.
            return self._lost(self.claim.lost_by) if error is self.claim.lost_by else self._failed(error)
        try:
            self._end(result)
        except (*LOSSES, StoreUnavailable, RateLimited) as error:
            # The work may be done, but the result did not reach the board in time: the item has not failed.
            return self._lost(error)
        except Exception as error:
            return self._failed(error)
        if self.claim.outcome == "released" and self.claim.item.status == READY and not self._is_over:
            self.loop.postpone(self.claim.item, self.claim.end_reason)
        else:
            self.loop.reset_delay()
        return self.claim.outcome or "", self.claim.end_reason

    def _release_unbegun(self, error: CannotBegin) -> tuple[str, str]:
        self.loop.cannot_begin(error)
        try:
            if self.claim.outcome is None and not self._is_over:
                self.claim.release(storable(error.message[:REASON_CHARACTERS_MAX]))
        except DibsError as lost:
            return self._lost(lost)
        return self.claim.outcome or "released", error.message

    def _lost(self, error: DibsError) -> tuple[str, str]:
        self.claim.stop_renewing(error)
        return "lost", error.message

    def _call_handler(self) -> object:
        result = self.loop.handler(self._argument())
        return self._await(result) if inspect.isawaitable(result) else result

    def _argument(self) -> ClaimHandle | AsyncClaim:
        """A coroutine awaits its claim's verbs: a verb that blocks would block all coroutines."""
        if not self.loop.is_async:
            return self.claim
        from dibs.sdk.async_session import AsyncClaim

        return AsyncClaim(self.claim)

    def _await(self, result: Awaitable[object]) -> object:
        import asyncio

        async def handle() -> object:
            try:
                return await result
            except (SystemExit, KeyboardInterrupt) as error:
                return _Exit(error)  # raised in the event loop, it would end all coroutines

        async def watch() -> object:
            task = asyncio.ensure_future(handle())
            while not task.done():
                await asyncio.wait({task}, timeout=TICK_SECONDS)
                if self.claim.lost.is_set():
                    task.cancel()
                    await asyncio.wait({task}, timeout=GRACE_SECONDS)
                    break
            return task.result()

        try:
            found = asyncio.run_coroutine_threadsafe(watch(), self.loop.worker.event_loop()).result()
        except (CancelledError, asyncio.CancelledError, asyncio.InvalidStateError):
            self.claim.check()
            raise
        if isinstance(found, _Exit):
            raise found.error
        return found

    def _end(self, result: object) -> None:
        """End the claim as the returned value says, unless the handler has ended it."""
        claim = self.claim
        if claim.outcome is not None or self._is_over:
            return
        if isinstance(result, Draft):
            claim.submit(result)
        elif isinstance(result, dict) and result.keys() <= DONE_FIELDS:
            claim.done(**result)
        elif result is None or isinstance(result, str):
            claim.done(result)
        else:
            fields = ", ".join(sorted(DONE_FIELDS))
            raise Invalid(f"a handler returns None, a note, a Draft or a dict of {fields}, not {result!r:.200}")

    def _failed(self, error: BaseException) -> tuple[str, str]:
        reason = summary(error)
        # Of an exception with a lone surrogate in it, which a log in UTF-8 cannot keep, only the summary is logged.
        is_text = reason.startswith("".join(traceback.format_exception_only(error)).strip()[:REASON_CHARACTERS_MAX])
        what = "the handler of %s raised" + ("" if is_text else f" {reason}".replace("%", "%%"))
        LOGGER.error(what, self.claim.item.id, exc_info=error if is_text else None)
        try:
            if self.claim.outcome is None:
                self.claim.check()
                self.claim.fail(reason)
            return "failed", reason
        except LOSSES as lost:
            return self._lost(lost)
        except DibsError as refusal:
            self.claim.stop_renewing(refusal)
            return "failed", f"{reason}; and the claim could not be ended: {refusal.message}"


class _Exit:
    """How a coroutine that called `sys.exit` ended."""

    def __init__(self, error: BaseException) -> None:
        self.error = error
