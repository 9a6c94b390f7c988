"""The words the groups share: start a session, expect a refusal, look at all of an item, let time pass."""

from __future__ import annotations

import time

from dibs.check import BATCH_MAX
from dibs.errors import DibsError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from dibs.board import Board
    from dibs.model import Event
    from dibs.testing.harness import Harness

    E = TypeVar("E", bound=DibsError)

TTL_SECONDS = 600.0
PATIENCE_SECONDS = 60.0


def session(board: Board, agent: str = "coder", **kwargs: Any) -> str:
    """A new session of this agent."""
    return board.start_session(agent, **kwargs).id


def added(board: Board, *ids: str, **fields: Any) -> None:
    """Items under these ids, in this order."""
    for start in range(0, len(ids), BATCH_MAX):
        board.add_many([{"id": id, "title": f"do {id}", **fields} for id in ids[start : start + BATCH_MAX]])


def refused(kind: type[E], verb: Callable[..., object], *args: Any, **kwargs: Any) -> E:
    """The refusal of this kind, and no other, that the call has to end in."""
    try:
        answer = verb(*args, **kwargs)
    except kind as refusal:
        if type(refusal) is kind:
            return refusal
        raise
    except DibsError as refusal:
        raise AssertionError(f"refused with {refusal.code} ({refusal.message}), not with {kind.code}") from refusal
    raise AssertionError(f"not refused with {kind.code}, but answered {answer!r}")


def whole(board: Board, item: str) -> dict[str, Any]:
    """Everything the board has about an item, to be compared with itself later."""
    return {"detail": board.get(item), "log": board.log(item), "runs": board.runs(item=item)}


def expire(harness: Harness, seconds: float = TTL_SECONDS) -> None:
    """Let a claim of that TTL run out, and not much more."""
    harness.clock.advance(seconds + 1)


def until(board: Board, true: Callable[[], bool], what: str) -> None:
    """Wait for the board to be so, woken by its changes."""
    watch = board.watch()
    end = time.monotonic() + PATIENCE_SECONDS
    try:
        while not true():
            assert time.monotonic() < end, f"not within {PATIENCE_SECONDS:g} s: {what}"
            watch.wait(0.5)
    finally:
        watch.close()


def ids(grants: Any) -> list[str]:
    """The items of grants, or the ids of items, in order."""
    return [found.item.id if hasattr(found, "item") else found.id for found in grants]


def kinds(board: Board, item: str) -> list[str]:
    """What happened to an item, in order."""
    return [event.kind for event in board.log(item)]


def latest(board: Board, item: str) -> Event:
    """What happened to it last, apart from who can claim it now."""
    return next(event for event in reversed(board.log(item)) if event.kind not in ("claimable", "offered"))
