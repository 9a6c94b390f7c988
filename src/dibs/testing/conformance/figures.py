"""Figures that a store keeps are those of a recount, whatever happened before and after they were counted."""

from __future__ import annotations

from collections import Counter

from dibs.model import STATUSES
from dibs.testing.conformance.asking import TTL_SECONDS, added, expire, session
from dibs.testing.harness import Harness

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from dibs.board import Board
    from dibs.model import Run


def told(board: Board, agent: str | None) -> dict[str, Any]:
    stats = board.stats(agent=agent)
    return {
        "items": stats.items,
        "outcomes": stats.outcomes,
        "claims": stats.total_claims,
        "time_to_claim": stats.time_to_claim_seconds,
        "duration": stats.claim_duration_seconds,
    }


def recount(board: Board, agent: str | None) -> dict[str, Any]:
    items = {item.id: item for item in board.list()}
    runs = [run for run in board.runs() if agent in (None, run.agent)]
    first: dict[str, Run] = {}
    for run in runs:
        first[run.item] = min(run, first.get(run.item, run), key=lambda one: one.token)
    waits = [run.started_at - items[id].created_at for id, run in first.items()]
    times = [run.ended_at - run.started_at for run in runs if run.ended_at is not None]
    statuses = Counter(item.status for item in items.values())
    return {
        "items": {status: statuses[status] for status in STATUSES},
        "outcomes": dict(Counter(run.outcome or "running" for run in runs)),
        "claims": len(runs),
        "time_to_claim": sum(waits) / len(waits) / 1000 if waits else None,
        "duration": sum(times) / len(times) / 1000 if times else None,
    }


def compare(board: Board) -> None:
    for agent in (None, "ann", "bob", "nobody"):
        assert told(board, agent) == recount(board, agent), agent


class TestKeptFigures:
    def test_figures_are_those_of_a_recount(self, harness: Harness) -> None:
        harness.clock.freeze()
        board = harness.board()
        ann, bob = session(board, "ann"), session(board, "bob")
        compare(board)
        added(board, *(f"i{n}" for n in range(10)))
        harness.clock.advance(3)
        for number in range(6):
            board.claim(f"i{number}", session=ann if number % 2 else bob, ttl_seconds=TTL_SECONDS)
        board.done("i0", session=bob)
        board.fail("i1", session=ann)
        board.sweep()  # while four runs are live
        compare(board)
        harness.clock.advance(5)
        board.done("i2", session=bob)
        board.retry("i1")
        board.release("i3", session=ann)
        board.claim("i3", session=bob)
        board.cancel("i9")
        compare(board)
        expire(harness)
        compare(board)  # i3, i4 and i5 have expired and nobody has recorded it
        board.sweep()
        compare(board)
        board.claim("i4", session=ann, ttl_seconds=7200)
        board.sweep()
        harness.clock.advance(60)
        board.prune(older_than_seconds=30)
        assert len(board.list()) == 7
        compare(board)
        board.done("i4", session=ann)
        compare(board)
        harness.clock.advance(1)
        board.prune(older_than_seconds=0)  # what was never counted, too
        compare(board)
        board.sweep()
        board.sweep()
        compare(board)

    def test_a_restored_board_is_counted_anew(self, harness: Harness) -> None:
        board = harness.board()
        added(board, *"abcd")
        ann = session(board, "ann")
        for item in "abc":
            board.claim(item, session=ann)
        board.done("a", session=ann)
        board.sweep()
        saved = f"{harness.folder}/saved"
        board.backup(saved)
        board.done("b", session=ann)
        board.sweep()
        board.restore(saved)
        compare(board)
        board.sweep()
        compare(board)
