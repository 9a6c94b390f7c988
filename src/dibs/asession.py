"""A session for programs that await: the same session and the same claims, each call in a thread of its own.

async with board.asession(agent="coder") as me:
    while claim := await me.next(types=["bug"], wait_seconds=60):
        async with claim:
            await fix(claim.item)

Nothing is decided here. Whoever stops waiting for a call, because its task was cancelled, does not stop the call: what
comes of it afterwards is given back.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
from concurrent.futures import Future

from dibs.errors import DibsError
from dibs.session import WAIT_SECONDS, why_left

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any, Self, TypeVar

    from dibs.handle import ClaimHandle
    from dibs.model import Approval, Ended, Item, Previous, Renewal, Waiting
    from dibs.session import LiveSession

    T = TypeVar("T")


class AsyncSession:
    def __init__(self, start: Callable[[], LiveSession]) -> None:
        """`start` makes the session that this one stands for, when it is entered."""
        self._start = start
        self._live: LiveSession | None = None
        self._giving_back = threading.Lock()

    async def __aenter__(self) -> Self:
        self._live = await aside(self._start, lambda live: live.end("nobody waited for it"))
        self._live.leave_on_sigterm()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        live = self.live
        try:
            await aside(functools.partial(self._end, live, why_left(error)))
        finally:
            live.let_sigterm_be()

    @property
    def live(self) -> LiveSession:
        """The session itself."""
        if self._live is None:
            raise RuntimeError("a session begins with `async with`")
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
        """As that of a session."""
        gone = threading.Event()

        def stop_if_gone(_: Waiting) -> None:
            if gone.is_set():
                raise asyncio.CancelledError

        def ask() -> list[ClaimHandle]:
            handle = self.live.claim(
                item,
                ttl_seconds=ttl_seconds,
                wait_seconds=wait_seconds,
                patience_seconds=patience_seconds,
                on_wait=stop_if_gone,
            )
            return [handle]

        try:
            (handle,) = await aside(ask, self._give_back)
        except asyncio.CancelledError:
            gone.set()
            raise
        return AsyncClaim(handle)

    async def next(
        self,
        *,
        types: Sequence[str] = (),
        projects: Sequence[str] = (),
        ttl_seconds: float | None = None,
        wait_seconds: float = 0,
        patience_seconds: float | None = None,
    ) -> AsyncClaim | None:
        """As that of a session."""
        found = await self.next_of(
            1,
            types=types,
            projects=projects,
            ttl_seconds=ttl_seconds,
            wait_seconds=wait_seconds,
            patience_seconds=patience_seconds,
        )
        return found[0] if found else None

    async def next_of(
        self,
        n: int,
        *,
        types: Sequence[str] = (),
        projects: Sequence[str] = (),
        ttl_seconds: float | None = None,
        wait_seconds: float = 0,
        patience_seconds: float | None = None,
    ) -> list[AsyncClaim]:
        """As that of a session."""
        loop = asyncio.get_running_loop()
        end = loop.time() + wait_seconds
        while True:
            left = max(0.0, end - loop.time())
            ask = functools.partial(
                self.live.next_of,
                n,
                types=types,
                projects=projects,
                ttl_seconds=ttl_seconds,
                # No longer, since nobody can stop a thread: a task that was cancelled leaves it to its call.
                wait_seconds=min(WAIT_SECONDS, left),
                patience_seconds=patience_seconds,
            )
            handles = await aside(ask, self._give_back)
            if handles or left <= WAIT_SECONDS:
                return [AsyncClaim(handle) for handle in handles]

    async def annotate(
        self,
        item: str,
        *,
        token: int | None = None,
        links: Mapping[str, Any] | None = None,
        checks: Mapping[str, Any] | None = None,
        cost: Mapping[str, Any] | None = None,
    ) -> Ended:
        """As that of a session."""
        said: dict[str, Any] = {"token": token, "links": links, "checks": checks, "cost": cost}
        return await aside(functools.partial(self.live.annotate, item, **said))

    def _give_back(self, handles: Iterable[ClaimHandle]) -> None:
        with self._giving_back:
            for handle in handles:
                if not self.live.is_over:  # its end has released it
                    with contextlib.suppress(DibsError):
                        handle.release("nobody waited for it any more")

    def _end(self, live: LiveSession, reason: str) -> None:
        with self._giving_back:
            live.end(reason)


class AsyncClaim:
    """A claim handle whose verbs are awaited; `handle` is the handle itself."""

    def __init__(self, handle: ClaimHandle) -> None:
        self.handle = handle

    def __repr__(self) -> str:
        return repr(self.handle)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        await aside(functools.partial(self.handle.__exit__, kind, error, None))

    @property
    def item(self) -> Item:
        return self.handle.item

    @property
    def token(self) -> int:
        return self.handle.token

    @property
    def previous(self) -> Previous | None:
        return self.handle.previous

    @property
    def approval(self) -> Approval | None:
        return self.handle.approval

    @property
    def approved_draft(self) -> str | None:
        return self.handle.approved_draft

    @property
    def outcome(self) -> str | None:
        return self.handle.outcome

    @property
    def seconds_left(self) -> float:
        return self.handle.seconds_left

    @property
    def is_lost(self) -> bool:
        return self.handle.lost.is_set()

    @property
    def lost_by(self) -> DibsError | None:
        return self.handle.lost_by

    async def until_lost(self) -> None:
        """Returns when the claim is lost, which may be never."""
        loop, lost = asyncio.get_running_loop(), asyncio.Event()

        def tell() -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens any more
                loop.call_soon_threadsafe(lost.set)

        take_back = self.handle.when_lost(tell)
        try:
            await lost.wait()
        finally:
            take_back()

    async def check(self) -> None:
        await aside(self.handle.check)

    async def verify(self) -> None:
        await aside(self.handle.verify)

    async def progress(self, note: str, *, meta: Mapping[str, Any] | None = None) -> Renewal:
        return await aside(functools.partial(self.handle.progress, note, meta=meta))

    async def done(
        self,
        note: str | None = None,
        *,
        links: Mapping[str, Any] | None = None,
        cost: Mapping[str, Any] | None = None,
    ) -> Ended:
        return await aside(functools.partial(self.handle.done, note, links=links, cost=cost))

    async def fail(
        self,
        reason: str | None = None,
        *,
        links: Mapping[str, Any] | None = None,
        cost: Mapping[str, Any] | None = None,
    ) -> Ended:
        return await aside(functools.partial(self.handle.fail, reason, links=links, cost=cost))

    async def submit(
        self,
        draft: str,
        note: str | None = None,
        *,
        links: Mapping[str, Any] | None = None,
        cost: Mapping[str, Any] | None = None,
    ) -> Ended:
        return await aside(functools.partial(self.handle.submit, draft, note, links=links, cost=cost))

    async def release(self, reason: str | None = None, *, park: bool = False) -> Ended:
        return await aside(functools.partial(self.handle.release, reason, park=park))

    async def reject(self, reason: str) -> Item:
        return await aside(functools.partial(self.handle.reject, reason))

    async def recover(self) -> None:
        await aside(self.handle.recover)


async def aside(do: Callable[[], T], undo: Callable[[T], object] | None = None) -> T:
    """Do this in a thread. If nobody waits for it any more when it is done, it is undone.

    The thread is its own and dies with the process: a pool would make calls wait for others that wait for work, and
    the end of the program for all of them.
    """
    pending: Future[T] = Future()
    pending.set_running_or_notify_cancel()

    def run() -> None:
        try:
            answer = do()
        except BaseException as error:
            pending.set_exception(error)
        else:
            pending.set_result(answer)

    threading.Thread(target=run, name="dibs call", daemon=True).start()
    try:
        return await asyncio.wrap_future(pending)
    except asyncio.CancelledError:
        if undo is not None:
            pending.add_done_callback(functools.partial(_undone, undo))
        raise


def _undone(undo: Callable[[T], object], ended: Future[T]) -> None:
    if ended.exception() is None:
        # Not here: this may be the thread of the loop.
        threading.Thread(target=undo, args=(ended.result(),), name="dibs call", daemon=True).start()
