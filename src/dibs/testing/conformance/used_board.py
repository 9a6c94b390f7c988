"""Boards with a history, for the groups about whole boards: finished items, and every verb used once."""

from __future__ import annotations

import json
import os
from typing import Any

from dibs.errors import DibsError, ItemNotFound
from dibs.testing.conformance.asking import TTL_SECONDS, added, session
from dibs.testing.harness import Harness

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.board import Board

DAY_SECONDS = 86_400.0


def finished(board: Board, *items: str, **fields: Any) -> None:
    """Items that were added, claimed and done."""
    added(board, *items, **fields)
    me = session(board, "finisher")
    for item in items:
        board.claim(item, session=me)
        board.done(item, session=me)


def gone(board: Board, item: str) -> bool:
    try:
        board.get(item)
    except ItemNotFound:
        return True
    return False


def used(harness: Harness, board: Board) -> None:
    """A board on which everything has been done that can be done."""
    rate: dict[str, Any] = {"claims_per_minute": 600, "claims_burst": 50}
    board.set_agent("limited", types=["task"], role="local", max_claims=9, max_claims_total=20, **rate)
    board.set_agent("cloud", allowed_actions=["draft"], sensitive_actions=["send"])
    finished(board, "done", "pruned")
    harness.clock.advance(2 * DAY_SECONDS)
    board.prune(older_than_seconds=DAY_SECONDS)
    finished(board, "parent")
    added(board, "x", payload={"deep": [1, {"at": "2026-01-01T00:00:00Z"}]}, labels=["a", "b"], phase="one", retries=3)
    added(board, "child", depends_on=["parent", "x"], resources=["src/api", "port:80"], body="*line*\nünï ☂")
    added(board, "later", not_before=harness.clock.now() + 60_000)
    added(board, "asked", needs_approval=True)
    added(board, "mail", action="send")
    added(board, "held", "queued", "aside", "dropped", "failed", resources=["docs"])
    me = session(board, "limited", kind="autonomous", meta={"context_percent": 40}, owner_pid=os.getpid())
    cloud, over, patient = session(board, "cloud"), session(board), session(board)
    board.claim("mail", session=cloud, request_id="one")
    board.submit("mail", session=cloud, draft="Dear all,", links={"pr": 1}, cost={"usd": 2.5})
    board.claim("x", session=me)
    board.progress("x", "half way", session=me, meta={"lines": 3})
    board.fail("x", session=me, reason="red")
    for item in ("held", "queued", "failed"):
        board.claim(item, session=me, ttl_seconds=TTL_SECONDS, request_id=f"claim-{item}")
    board.fail("failed", session=me)
    board.heartbeat(session=me)
    for waiter in (patient, over):
        board.wait("queued", session=waiter, ttl_seconds=300)
    board.leave("queued", session=over)
    try:
        board.claim("held", session=over)
    except DibsError:
        pass
    board.soft_claim("asked", session=over)
    board.park("aside", reason="later")
    board.cancel("dropped")
    board.release("queued", session=me)
    ended = session(board, "gone")
    board.end_session(ended, reason="over")


def records(board: Board) -> list[tuple[str, dict[str, Any]]]:
    """An export, as it is after a way through JSON."""
    return [(kind, json.loads(json.dumps(data))) for kind, data in board.export()]


def refused_all(board: Board, item: str, token: int, me: str, context: object = "") -> None:
    """Nothing that needs a claim can be done under this token."""
    known: dict[str, Any] = {"session": me, "token": token}
    for verb in (board.renew, board.release, board.done, board.fail):
        try:
            answer = verb(item, **known)
        except DibsError:
            continue
        raise AssertionError(f"{context}: {verb.__name__} of {item} under the old token {token} gave {answer}")
