"""A session for asyncio: the same session and the same claims, with each call in a thread of its own.

async with board.asession(agent="coder") as me:
    while claim := await me.next(types=["bug"], wait_seconds=60):
        async with claim:
            await fix(claim.item)

Cancelling a task does not stop a call in progress. A claim that such a call still gets is released.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
from concurrent.futures import Future

from dibs import check
from dibs.errors import DibsError
from dibs.sdk.claim_handle import ClaimHandle
from dibs.sdk.session import WAIT_SECONDS, LiveSession, end_reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable
    from typing import Any, Concatenate, ParamSpec, Self, TypeVar

    from dibs.model import Ended, Waiting

    T = TypeVar("T")
    P = ParamSpec("P")
    SessionVerb = Callable[Concatenate["AsyncSession", P], Coroutine[Any, Any, T]]
    ClaimVerb = Callable[Concatenate["AsyncClaim", P], Coroutine[Any, Any, T]]


def _like(
    verb: Callable[Concatenate[LiveSession, P], object],
) -> Callable[[Callable[..., Coroutine[Any, Any, T]]], SessionVerb[P, T]]:
    """Give a coroutine function the parameters and the docstring of the session's own verb."""
    return functools.wraps(verb)


def _awaited(verb: Callable[Concatenate[ClaimHandle, P], T]) -> ClaimVerb[P, T]:
    """A verb of a claim handle as a coroutine function with the same parameters."""

    @functools.wraps(verb)
    async def call(claim: AsyncClaim, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await in_thread(functools.partial(verb, claim.handle, *args, **kwargs))

    return call


def _attribute(get: Callable[[ClaimHandle], T]) -> T:
    """A read-only attribute of a claim handle, with its type."""
    return property(lambda claim: get(claim.handle))  # type: ignore[return-value]  # typed as the property's value


class AsyncSession:
    def __init__(self, start: Callable[[], LiveSession]) -> None:
        """`start` makes the session when this one is entered."""
        self._start = start
        self._live: LiveSession | None = None
        self._releasing = threading.Lock()

    async def __aenter__(self) -> Self:
        self._live = await in_thread(self._start, lambda live: live.end("its start was cancelled"))
        # In a callback of the loop: raised between two of them, the exit would lose the one that is to wake a task, and
        # the program would wait for that task for ever.
        self._live.exit_on_sigterm(asyncio.get_running_loop().call_soon_threadsafe)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        live = self.live
        try:
            await in_thread(functools.partial(self._end, live, end_reason(error)))
        finally:
            live.restore_sigterm()

    @property
    def live(self) -> LiveSession:
        """The session itself."""
        if self._live is None:
            raise RuntimeError("enter the session first: async with board.asession(...) as me")
        return self._live

    @property
    def id(self) -> str:
        return self.live.id

    @property
    def agent(self) -> str:
        return self.live.agent

    @property
    def claims(self) -> tuple[AsyncClaim, ...]:
        return tuple(AsyncClaim(handle) for handle in self.live.claims)

    async def claim(
        self,
        item: str,
        *,
        ttl_seconds: float | None = None,
        wait_seconds: float = 0,
        patience_seconds: float | None = None,
    ) -> AsyncClaim:
        """Claim this item, as `LiveSession.claim` does."""
        asked: dict[str, Any] = {
            "ttl_seconds": ttl_seconds,
            "wait_seconds": wait_seconds,
            "patience_seconds": patience_seconds,
        }
        return await self._claim(functools.partial(self.live.claim, item, **asked))

    async def claim_subject(
        self,
        subject: str,
        *,
        title: str | None = None,
        ttl_seconds: float | None = None,
        wait_seconds: float = 0,
        patience_seconds: float | None = None,
        **fields: Any,
    ) -> AsyncClaim:
        """Claim the item of this subject, as `LiveSession.claim_subject` does."""
        asked: dict[str, Any] = {
            "ttl_seconds": ttl_seconds,
            "wait_seconds": wait_seconds,
            "patience_seconds": patience_seconds,
        }
        return await self._claim(functools.partial(self.live.claim_subject, subject, title=title, **asked, **fields))

    async def _claim(self, claim: Callable[..., ClaimHandle]) -> AsyncClaim:
        cancelled = threading.Event()

        def stop_if_cancelled(_: Waiting) -> None:
            if cancelled.is_set():
                raise asyncio.CancelledError

        try:
            (handle,) = await in_thread(lambda: [claim(on_wait=stop_if_cancelled)], self._release)
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return AsyncClaim(handle)

    @_like(LiveSession.next)
    async def next(self, **options: Any) -> AsyncClaim | None:
        found = await self.next_of(1, **options)
        return found[0] if found else None

    @_like(LiveSession.next_of)
    async def next_of(self, n: int, *, wait_seconds: float = 0, **options: Any) -> list[AsyncClaim]:
        loop = asyncio.get_running_loop()
        end = loop.time() + check.number(wait_seconds, "wait_seconds", low=0, high=1e9)
        while True:
            left = max(0.0, end - loop.time())
            # A thread cannot be stopped, so no call of a cancelled task waits for longer than this.
            ask = functools.partial(self.live.next_of, n, wait_seconds=min(WAIT_SECONDS, left), **options)
            handles = await in_thread(ask, self._release)
            if handles or left <= WAIT_SECONDS:
                return [AsyncClaim(handle) for handle in handles]

    @_like(LiveSession.annotate)
    async def annotate(self, item: str, **added: Any) -> Ended:
        return await in_thread(functools.partial(self.live.annotate, item, **added))

    def _release(self, handles: Iterable[ClaimHandle]) -> None:
        with self._releasing:
            for handle in handles:
                if not self.live.is_over:  # the end of the session has released its claims
                    with contextlib.suppress(DibsError):
                        handle.release("the task that asked for it was cancelled")

    def _end(self, live: LiveSession, reason: str) -> None:
        with self._releasing:
            live.end(reason)


class AsyncClaim:
    """A claim handle whose verbs are coroutines; `handle` is the handle itself."""

    check = _awaited(ClaimHandle.check)
    verify = _awaited(ClaimHandle.verify)
    progress = _awaited(ClaimHandle.progress)
    reserve = _awaited(ClaimHandle.reserve)
    done = _awaited(ClaimHandle.done)
    fail = _awaited(ClaimHandle.fail)
    submit = _awaited(ClaimHandle.submit)
    release = _awaited(ClaimHandle.release)
    hand = _awaited(ClaimHandle.hand)
    reject = _awaited(ClaimHandle.reject)
    recover = _awaited(ClaimHandle.recover)

    item = _attribute(lambda handle: handle.item)
    token = _attribute(lambda handle: handle.token)
    previous = _attribute(lambda handle: handle.previous)
    approval = _attribute(lambda handle: handle.approval)
    approved_draft = _attribute(lambda handle: handle.approved_draft)
    outcome = _attribute(lambda handle: handle.outcome)
    seconds_left = _attribute(lambda handle: handle.seconds_left)
    is_lost = _attribute(lambda handle: handle.lost.is_set())
    lost_by = _attribute(lambda handle: handle.lost_by)

    def __init__(self, handle: ClaimHandle) -> None:
        self.handle = handle

    def __repr__(self) -> str:
        return repr(self.handle)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        await in_thread(functools.partial(self.handle.__exit__, kind, error, None))

    async def until_lost(self) -> None:
        """Return when the claim is lost, which may be never."""
        loop, lost = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(lost.set)

        unsubscribe = self.handle.on_lost(wake)
        try:
            await lost.wait()
        finally:
            unsubscribe()


async def in_thread(call: Callable[[], T], undo: Callable[[T], object] | None = None) -> T:
    """Run the call in a thread. If the task is cancelled meanwhile, the result of the call is undone.

    Each call has a daemon thread of its own. In a pool, calls would queue behind others that wait for items, and the
    program could not exit before all of them.
    """
    pending: Future[T] = Future()
    pending.set_running_or_notify_cancel()

    def run() -> None:
        try:
            answer = call()
        except BaseException as error:
            pending.set_exception(error)
        else:
            pending.set_result(answer)

    threading.Thread(target=run, name="dibs call", daemon=True).start()
    try:
        return await asyncio.wrap_future(pending)
    except asyncio.CancelledError:
        if undo is not None:
            pending.add_done_callback(functools.partial(_undo_result, undo))
        raise


def _undo_result(undo: Callable[[T], object], ended: Future[T]) -> None:
    if ended.exception() is None:
        # In another thread: this one may be the event loop's.
        threading.Thread(target=undo, args=(ended.result(),), name="dibs call", daemon=True).start()
