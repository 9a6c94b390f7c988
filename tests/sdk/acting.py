"""What processes of these tests play: a session that holds an item and does what it is told, a line at a time."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from dibs.board import Board
from dibs.errors import DibsError
from dibs.sdk.claim_handle import ClaimHandle
from dibs.sdk.session import LiveSession
from dibs.testing.actors import say
from tests.kit.waiting import PATIENCE_SECONDS


def holding(board: Board, *, item: str, ttl_seconds: float, recover: bool = True) -> str:
    """Hold the item and obey, until told to leave; whoever is stopped says what stopped it by how it ends."""
    with board.session("coder", ttl_seconds=ttl_seconds, recover=recover) as me:
        claim = me.claim(item)
        watched(claim)
        say({"holds": claim.token, "session": me.id})
        for line in sys.stdin:
            order = json.loads(line)
            if order["verb"] == "leave":
                break
            said = ORDERS[order["verb"]](me, claim, **order["kwargs"])
            say({"did": said})
    return "left"


def watched(claim: ClaimHandle) -> None:
    """Remember when it was known to be lost."""

    def look() -> None:
        if claim.lost.wait(PATIENCE_SECONDS):
            KNOWN.append(time.time() * 1000)

    threading.Thread(target=look, daemon=True).start()


KNOWN: list[float] = []


def look(_: LiveSession, claim: ClaimHandle) -> dict[str, Any]:
    how = None if claim.lost_by is None else claim.lost_by.facts.get("how")
    return {"token": claim.token, "lost": claim.lost.is_set(), "how": how, "outcome": claim.outcome}


def await_lost(me: LiveSession, claim: ClaimHandle) -> dict[str, Any]:
    assert claim.lost.wait(PATIENCE_SECONDS)
    end = time.monotonic() + PATIENCE_SECONDS
    while not KNOWN and time.monotonic() < end:
        time.sleep(0.001)  # bounded: the other thread was woken by the same event
    return {**look(me, claim), "at": KNOWN[0]}


def await_token(me: LiveSession, claim: ClaimHandle, beyond: int) -> dict[str, Any]:
    """Until it goes on under a later token, or is lost."""
    end = time.monotonic() + PATIENCE_SECONDS
    while claim.token <= beyond and not claim.lost.wait(0.005) and time.monotonic() < end:
        pass
    return look(me, claim)


def check(_: LiveSession, claim: ClaimHandle) -> str | None:
    return _refused(claim.check)


def end(_: LiveSession, claim: ClaimHandle, verb: str = "done", **said: Any) -> str | None:
    return _refused(lambda: getattr(claim, verb)(**said))


def block(me: LiveSession, claim: ClaimHandle, seconds: float, in_c: bool) -> dict[str, Any]:
    """Nothing else is done by this thread for so long."""
    if in_c:
        ctypes.CDLL(None).usleep(int(seconds * 1e6))
    else:
        time.sleep(seconds)
    return look(me, claim)


def fork(me: LiveSession, claim: ClaimHandle, seconds: float) -> dict[str, Any]:
    """A child that outlives a TTL, leaves the handle and the session, and ends as programs do."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            with claim, me:
                time.sleep(seconds)
                refused = [_refused(does) for does in (me.next, claim.done, claim.release)]
                if threading.active_count() == 1 and refused == ["INVALID"] * 3:
                    code = 0
        finally:
            import atexit

            atexit._run_exitfuncs()
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    return {"child": os.waitstatus_to_exitcode(status), **look(me, claim)}


def _refused(does: Callable[[], object]) -> str | None:
    try:
        does()
    except DibsError as refusal:
        return refusal.code
    return None


ORDERS: dict[str, Callable[..., Any]] = {
    "look": look,
    "await_lost": await_lost,
    "await_token": await_token,
    "check": check,
    "end": end,
    "block": block,
    "fork": fork,
}


def stopped_by_sigterm(board: Board, *, item: str, own_handler: bool) -> dict[str, Any]:
    """In the middle of an item when the signal comes."""
    told: list[int] = []
    if own_handler:
        signal.signal(signal.SIGTERM, lambda number, _: told.append(number))
    with board.session("coder") as me, me.claim(item):
        say({"holds": item, "session": me.id})
        end = time.monotonic() + PATIENCE_SECONDS
        while not told and time.monotonic() < end:
            time.sleep(0.01)  # bounded: a signal is what is waited for
    return {"told": told, "handler_left": signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL}


def never_left(board: Board, *, item: str) -> str:
    """A program that ends with its session open."""
    me = board.session("coder")
    me.claim(item)
    say({"holds": item, "session": me.id})
    sys.exit(0)


def awaiting(board: Board, *, item: str) -> None:
    """A program of coroutines, in the middle of an item when the signal comes."""

    async def work() -> None:
        async with board.asession("coder") as me, await me.claim(item):
            say({"holds": item, "session": me.id})
            await asyncio.sleep(PATIENCE_SECONDS)

    asyncio.run(work())


def awaiting_a_signal_inside_the_loop(board: Board, *, item: str) -> None:
    """The signal comes when the loop has taken a callback from its queue and has not run it yet."""

    class Callbacks(deque[Any]):
        def popleft(self) -> Any:
            taken = super().popleft()
            if not signalled:
                signalled.append(signal.SIGTERM)
                signal.raise_signal(signal.SIGTERM)
            return taken

    signalled: list[int] = []

    async def work() -> None:
        async with board.asession("coder") as me, await me.claim(item):
            loop: Any = asyncio.get_running_loop()
            loop._ready = Callbacks(loop._ready)
            await asyncio.sleep(0)
            await asyncio.sleep(PATIENCE_SECONDS)

    asyncio.run(work())
