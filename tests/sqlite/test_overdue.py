"""Many claims, schedules or offers that end at once: one `next` records a bounded part, and still gives the best
item."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dibs.board import Board
from dibs.config import DEFAULTS
from dibs.model import Grant
from dibs.store.sqlite.claim_path import OVERDUE_MAX
from dibs.store.sqlite.store import SqliteStore

MANY = 3 * OVERDUE_MAX
NOW = 1_800_000_000_000
LATER = 3_600_000


class Clock:
    now = NOW

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def board(tmp_path: Path, clock: Clock) -> Iterator[Board]:
    with Board(SqliteStore(str(tmp_path / "board.db"), DEFAULTS, create=True, clock=clock)) as board:
        yield board


def add(board: Board, kind: str, **fields: object) -> list[str]:
    """Many items whose priorities are not in the order in which they were added."""
    added = board.add_many(
        {"id": f"{kind}-{number}", "title": kind, "priority": number % 7, **fields} for number in range(MANY)
    )
    return [one.item.id for one in added]


def expired(board: Board, clock: Clock, **fields: object) -> None:
    add(board, "expired", **fields)
    claim_all(board, clock)


def claim_all(board: Board, clock: Clock) -> None:
    board.next(session=board.start_session("holder").id, n=MANY, ttl_seconds=60)
    clock.now += LATER


def scheduled(board: Board, clock: Clock) -> None:
    add(board, "due", not_before=clock.now + 1000)
    clock.now += LATER


def offered(board: Board, clock: Clock) -> None:
    ids = add(board, "offered")
    holder, waiter = board.start_session("holder").id, board.start_session("waiter").id
    board.next(session=holder, n=MANY)
    for item in ids:
        board.store.wait(item, session=waiter)
        board.release(item, session=holder)
    clock.now += LATER


OVERDUE = {"expired": expired, "scheduled": scheduled, "offered": offered}


def ids(grants: tuple[Grant, ...]) -> list[str]:
    return [grant.item.id for grant in grants]


@pytest.mark.parametrize("kind", OVERDUE)
def test_items_are_given_in_the_order_of_the_list(board: Board, clock: Clock, kind: str) -> None:
    OVERDUE[kind](board, clock)
    board.add("in the middle", id="ready", priority=3)
    wanted = ids_in_list(board)
    me = board.start_session("me").id
    given = []
    while grants := board.next(session=me):
        given += ids(grants)
        assert ids_in_list(board) == wanted[len(given) :]
    assert given == wanted
    assert len(given) == MANY + 1


def ids_in_list(board: Board) -> list[str]:
    return [item.id for item in board.list(statuses=["ready"], limit=MANY + 1)]


def test_the_first_next_records_no_more_than_the_bound_and_what_it_gives(board: Board, clock: Clock) -> None:
    expired(board, clock)
    before = len(board.events(after=0, limit=5000))
    (grant,) = board.next(session=board.start_session("me").id)
    assert grant.item.priority == 6
    kinds = [event.kind for event in board.events(after=0, limit=5000)][before:]
    assert kinds.count("expired") in (OVERDUE_MAX, OVERDUE_MAX + 1)
    assert kinds[-1] == "claimed"


def test_items_that_fail_by_their_last_strike_are_recorded_on_the_way_to_a_ready_one(
    board: Board, clock: Clock
) -> None:
    add(board, "struck")
    for _ in range(DEFAULTS.max_strikes):
        claim_all(board, clock)
    board.add("worse than all", id="ready", priority=0)
    assert ids(board.next(session=board.start_session("me").id)) == ["ready"]
    assert board.stats().items["failed"] == MANY


def test_other_types_than_asked_for_stay_unrecorded(board: Board, clock: Clock) -> None:
    expired(board, clock, type="other")
    board.add("mine", id="mine", type="mine", priority=0)
    assert ids(board.next(session=board.start_session("me").id, types=["mine"])) == ["mine"]
    assert ids(board.next(session=board.start_session("me").id, types=["mine"])) == []
    assert len(board.next(session=board.start_session("me").id, types=["other"], n=MANY)) == MANY
