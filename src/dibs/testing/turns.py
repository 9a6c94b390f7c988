"""Scenes about queues and load: loops that actors play, of which only the store decides who comes next."""

from __future__ import annotations

import random
import time

from dibs.errors import DibsError
from dibs.testing.actors import pass_gate, say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from dibs.board import Board

WAIT_SECONDS = 60.0


def take_turns(board: Board, *, item: str, turns: int, gate: str) -> dict[str, Any]:
    """Claim the item in turn and let it go, so many times: when it was had, and when its release began, on the shared
    clock."""
    me = board.start_session("turner").id
    had_ns, let_go_ns = [], []
    say({"at_gate": True})
    pass_gate(gate)
    for _ in range(turns):
        claim = board.claim(item, session=me, wait_seconds=WAIT_SECONDS).claim
        had_ns.append(time.monotonic_ns())
        let_go_ns.append(time.monotonic_ns())
        board.release(item, session=me, token=claim.token)
    return {"session": me, "had_ns": had_ns, "let_go_ns": let_go_ns}


def churn(board: Board, *, seed: int, calls: int, items: int) -> dict[str, int]:
    """So many random calls of every sort, on items that others are at as well; how many were answered, and refused.

    Says `churning` after the first few, so that a director knows when it has begun.
    """
    draw = random.Random(seed)
    me = board.start_session(f"churner-{seed % 1000}").id
    told = {"answered": 0, "refused": 0}
    for number in range(calls):
        if number == 5:
            say({"churning": True})
        try:
            _any_call(board, draw, me, f"item-{draw.randrange(items):02}", f"{me}-{number}")
            told["answered"] += 1
        except DibsError:
            told["refused"] += 1
    return told


def _any_call(board: Board, draw: random.Random, me: str, item: str, new: str) -> None:
    match draw.choice(("next", "next", "claim", "wait", "release", "release", "fail", "done", "add", "park", "submit")):
        case "next":
            board.next(session=me, n=draw.randint(1, 2))
        case "claim":
            board.claim(item, session=me)
        case "wait":
            board.wait(item, session=me, ttl_seconds=5)
        case "release":
            board.release(item, session=me, park=draw.random() < 0.2)
        case "fail":
            board.fail(item, session=me)
        case "done":
            board.done(item, session=me)
        case "add":
            board.add("more", id=new, depends_on=[item] if draw.random() < 0.5 else [], resources=["src/" + item])
        case "park":
            (board.unpark if draw.random() < 0.6 else board.retry)(item)
        case _:
            board.submit(item, session=me, draft="like this")
            board.approve(item, actor="boss")
