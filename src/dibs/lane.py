"""What one handler of a worker takes, and how each item of it goes: from the claim to the end of its run."""

from __future__ import annotations

import contextlib
import inspect
import threading
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
from dibs.handle import LOSSES, REASON_CHARACTERS_MAX, ClaimHandle, keepable, summary
from dibs.heart import clock
from dibs.model import READY
from dibs.patience import drawn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from typing import Any

    from dibs.asession import AsyncClaim
    from dibs.model import Item
    from dibs.worker import Worker

    #: It is given a ClaimHandle, or if it is a coroutine function an AsyncClaim.
    Handler = Callable[[Any], Any]

#: Before asking again after a refusal, or a store that is away: longer each time, drawn so that a crowd spreads out.
PAUSE_SECONDS = 0.2
PAUSE_SECONDS_MAX = 30.0
#: An agent that holds all it may can hold less at any moment: others of its name may have ended something.
FULL_SECONDS_MAX = 5.0
#: What runs out of time, or is let go at the end, gets so long to notice.
GRACE_SECONDS = 5.0
TICK_SECONDS = 0.5
#: A claim that is older when the work begins is asked for once more: it can have been taken away since.
FRESH_SECONDS = 1.0
#: What a handler may return of how it was done.
DONE_FIELDS = frozenset({"note", "links", "cost"})
#: Refusals that no waiting helps against.
FINAL = (StoreUnusable, Invalid, Forbidden, Unauthenticated)


class Draft(str):
    """What a handler returns that is not to be done before a person has approved it."""

    __slots__ = ()


class CannotBegin(DibsError):
    """What a handler raises that could not begin, for a reason that is not the item's, such as a full disk: the item is
    released, and before the next one is taken there is a pause, longer each time."""

    code = "CANNOT_BEGIN"
    http_status = 503
    exit_code = 75


class Lane:
    """What one handler takes: a thread that asks, and as many that work as it may have claims."""

    def __init__(
        self, worker: Worker, handler: Handler, types: Sequence[str], max_claims: int, timeout_seconds: float | None
    ) -> None:
        self.worker, self.handler, self.types = worker, handler, tuple(types)
        self.timeout_seconds = timeout_seconds
        self.awaits = any(map(inspect.iscoroutinefunction, (handler, type(handler).__call__)))
        #: Whether it takes anything more.
        self.is_open = False
        self._room = threading.Semaphore(max_claims)
        self._once = False
        self._lock = threading.Lock()
        self._stumbles, self._rests_until = 0, 0.0
        self._thread: threading.Thread | None = None
        #: What was put off in a run that takes all there is once, and why; and what of it was handed out again.
        self._later: dict[str, str] = {}
        self._kept: list[ClaimHandle] = []

    def start(self, once: bool, interval_seconds: float | None) -> None:
        # A daemon: it may be waiting for work when everybody leaves.
        name = f"dibs lane {', '.join(self.types) or 'any'}"
        asked = (self.worker.stopping, once, interval_seconds)
        self.is_open, self._once = True, once
        self._later, self._kept = {}, []
        self._thread = threading.Thread(target=self._open, args=asked, name=name, daemon=True)
        self._thread.start()

    def join(self, seconds: float) -> None:
        if self._thread is not None:
            self._thread.join(seconds)

    def leave(self) -> None:
        self._room.release()

    def stumble(self, error: CannotBegin) -> None:
        """Nothing can begin here: there is a pause, or the end where nobody waits."""
        if self._once:
            self.worker.give_up(error)
        else:
            self._rest_for_a_while(error.message)

    def put_off(self, item: Item, why: str) -> None:
        """It was given back for later, and would be handed out again at once."""
        if self._once:
            self._later[item.id] = why
        else:
            self._rest_for_a_while(f"{item.id} was released: {why}" if why else f"{item.id} was released")

    def _rest_for_a_while(self, why: str) -> None:
        with self._lock:
            if clock() < self._rests_until:
                return  # another one of this lane has just found the same
            self._stumbles += 1
            self._rests_until = clock() + drawn(_longest_pause(self._stumbles))
        if self._stumbles == 1:
            self.worker.tell("waiting", None, why)

    def begun(self) -> None:
        self._stumbles = 0

    def _open(self, stopping: threading.Event, once: bool, interval_seconds: float | None) -> None:
        try:
            self._take(stopping, once, interval_seconds)
        except BaseException as error:  # nobody waits for a thread: whoever runs the worker is to hear of it
            if not stopping.is_set():
                self.worker.give_up(error)
        finally:
            for claim in self._kept:
                with contextlib.suppress(DibsError):  # it ends with its session
                    claim.release(self._later[claim.item.id] or None)
            if stopping is self.worker.stopping:
                self.is_open = False
                self.worker.wake()

    def _take(self, stopping: threading.Event, once: bool, interval_seconds: float | None) -> None:
        waits = not once and interval_seconds is None
        refusals = 0
        while not stopping.is_set():
            if not self._room.acquire(timeout=TICK_SECONDS):
                continue
            if stopping.is_set():
                self._room.release()
                return  # the room is that of a claim that was just let go
            if (rest_seconds := self._rests_until - clock()) > 0:
                self._room.release()
                stopping.wait(rest_seconds)
                continue
            claim, ended = None, self.worker.tally.total()
            try:
                claim = self.worker.next(self, stopping, waits=waits, is_patient=once)
                refusals = 0
            except SessionNotFound:
                pass  # the next one is another's
            except DibsError as error:
                refusals += 1
                if isinstance(error, FINAL) or (once and isinstance(error, StoreUnavailable)):
                    raise
                # What this worker held when it asked may have ended since.
                is_idle = not self.worker.claims and self.worker.tally.total() == ended
                if once and isinstance(error, AgentAtCapacity) and is_idle:
                    return  # others of its name hold all there may be
                self._rest(error, refusals)
                continue
            finally:
                if claim is None:
                    self._room.release()
            if claim is not None and claim.item.id in self._later:
                # Kept to the end, so that it does not stand before all others.
                self._kept.append(claim)
                self._room.release()
            elif claim is not None:
                self._begin(claim, stopping)
            elif once:
                return
            elif interval_seconds is not None:
                stopping.wait(interval_seconds)

    def _begin(self, claim: ClaimHandle, stopping: threading.Event) -> None:
        if not stopping.is_set():
            running = Running(self, claim)
            try:
                self.worker.begin(running)
            except RuntimeError as error:  # the system has no thread for it
                running.not_begun(CannotBegin(f"the work could not be started: {error}"))
            return
        self._room.release()
        with contextlib.suppress(DibsError):  # it ends with its session
            claim.release("the worker was about to stop")

    def _rest(self, error: DibsError, refusals: int) -> None:
        longest = _longest_pause(refusals)
        if isinstance(error, AgentAtCapacity):
            return self.worker.pause_until_one_is_over(drawn(min(FULL_SECONDS_MAX, longest)))
        self.worker.tell("waiting", None, error.message)
        return self.worker.pause(max(float(error.facts.get("retry_after_seconds") or 0), drawn(longest)))


def _longest_pause(times: int) -> float:
    return min(PAUSE_SECONDS_MAX, PAUSE_SECONDS * 2.0**times)


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
        if self._thread.ident is not None:
            self._thread.join(seconds)

    def is_over_time(self, now: float) -> bool:
        return not self._cut and self.timeout_seconds is not None and now > self._began + self.timeout_seconds

    def cut_short(self, verb: str, reason: str, word: str) -> None:
        """End the claim from outside; whoever works on it finds it lost, and its place is given to the next."""
        with self._lock:
            if self._cut or self.claim.outcome is not None:
                return
            self._cut = True
        # What a handler has started goes first: the next holder may be there at once.
        abandon = getattr(self.lane.handler, "abandon", None)
        if abandon is not None:
            abandon(self.claim)
        try:
            self.claim.cut_short(verb, reason, GRACE_SECONDS)
        except DibsError as error:
            # It may have come to its own end in that very moment.
            word, reason = self.claim.outcome or word, f"{reason}; {error.message}"
        self.lane.worker.over(self, word, reason)
        self.lane.leave()

    def not_begun(self, error: CannotBegin) -> None:
        self._over(*self._put_off(error))

    def _run(self) -> None:
        self._over(*self._worked())

    def _over(self, word: str, text: str) -> None:
        with self._lock:
            if self._cut:
                return
            self._cut = True
        self.lane.worker.over(self, word, text)
        self.lane.leave()

    def _worked(self) -> tuple[str, str]:
        """How it went: a word, and what there is to say."""
        try:
            self._verify()
        except (*LOSSES, StoreUnavailable, RateLimited) as error:
            return self._lost(error)  # not begun, and so not failed
        try:
            result = self._handled()
        except CannotBegin as error:
            return self._put_off(error)
        except BaseException as error:  # also of a handler that wants to leave: it is the item that ends
            self.lane.begun()
            # A handler may ask for other items, too: only what its own claim says is about that.
            return self._lost(self.claim.lost_by) if error is self.claim.lost_by else self._failed(error)
        try:
            self._end(result)
        except (*LOSSES, StoreUnavailable, RateLimited) as error:
            # It may be done, and nobody could be told while the claim lasted: to say that it failed would be wrong.
            return self._lost(error)
        except Exception as error:
            return self._failed(error)
        if self.claim.outcome == "released" and self.claim.item.status == READY and not self._cut:
            self.lane.put_off(self.claim.item, self.claim.why_ended)
        else:
            self.lane.begun()
        return self.claim.outcome or "", self.claim.why_ended

    def _put_off(self, error: CannotBegin) -> tuple[str, str]:
        """It is as good as it was."""
        self.lane.stumble(error)
        try:
            if self.claim.outcome is None and not self._cut:
                self.claim.release(keepable(error.message[:REASON_CHARACTERS_MAX]))
        except DibsError as lost:
            return self._lost(lost)
        return self.claim.outcome or "released", error.message

    def _lost(self, error: DibsError) -> tuple[str, str]:
        """Nobody works on it any more: it is not renewed, and comes back by itself."""
        self.claim.give_up(error)
        return "lost", error.message

    def _verify(self) -> None:
        self.claim.check()
        if clock() > self._began + FRESH_SECONDS:
            self.claim.verify()

    def _handled(self) -> object:
        result = self.lane.handler(self._given())
        return self._awaited(result) if inspect.isawaitable(result) else result

    def _given(self) -> ClaimHandle | AsyncClaim:
        """A coroutine awaits its claim's verbs: one that blocks would hold up all of them."""
        if not self.lane.awaits:
            return self.claim
        from dibs.asession import AsyncClaim

        return AsyncClaim(self.claim)

    def _awaited(self, result: Awaitable[object]) -> object:
        import asyncio

        async def handled() -> object:
            try:
                return await result
            except (SystemExit, KeyboardInterrupt) as error:
                return Left(error)  # raised in there, it would end the loop of everybody

        async def watched() -> object:
            task = asyncio.ensure_future(handled())
            while not task.done():
                await asyncio.wait({task}, timeout=TICK_SECONDS)
                if self.claim.lost.is_set():
                    task.cancel()
                    await asyncio.wait({task}, timeout=GRACE_SECONDS)
                    break
            return task.result()

        try:
            found = asyncio.run_coroutine_threadsafe(watched(), self.lane.worker.loop()).result()
        except (CancelledError, asyncio.CancelledError, asyncio.InvalidStateError):
            self.claim.check()
            raise
        if isinstance(found, Left):
            raise found.error
        return found

    def _end(self, result: object) -> None:
        """What the handler returned is how it ends, unless it said so itself."""
        claim = self.claim
        if claim.outcome is not None or self._cut:
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
        try:
            if self.claim.outcome is None:
                self.claim.check()
                self.claim.fail(reason)
            return "failed", reason
        except LOSSES as lost:
            return self._lost(lost)
        except DibsError as refusal:
            self.claim.give_up(refusal)
            return "failed", f"{reason}; and could not be ended: {refusal.message}"


class Left:
    """A coroutine that wanted to leave the program."""

    def __init__(self, error: BaseException) -> None:
        self.error = error
