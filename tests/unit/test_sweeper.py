"""Sweeping for those who follow: only when something is due, one for all, and never at the cost of following."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dibs.board import Board
from dibs.errors import DibsError, StoreUnavailable, StoreUnusable
from dibs.model import Sweep
from dibs.sdk import sweeper
from dibs.sdk.sweeper import Sweeper
from tests.kit import sqlite
from tests.kit.sqlite import SqliteHarness


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[SqliteHarness]:
    with sqlite.harness(tmp_path) as harness:
        harness.clock.freeze()
        yield harness


class Time:
    """What sweepers take for the time that has passed."""

    def __init__(self) -> None:
        self.now = 1000.0

    def pass_to(self, one: Sweeper) -> float:
        """Let it be time for the next look; how long that took."""
        left = one.seconds_left()
        self.now += left
        return left


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Time:
    clock = Time()
    monkeypatch.setattr("dibs.sdk.sweeper.monotonic", lambda: clock.now)
    monkeypatch.setattr("dibs.sdk.sweeper.thread_time", lambda: 0.0)
    return clock


class Counted:
    """A sweeper of a board, and how often it swept."""

    def __init__(self, board: Board, refusal: DibsError | None = None, every_seconds: float | None = None) -> None:
        self.sweeps = 0

        def sweep() -> Sweep:
            self.sweeps += 1
            if refusal is not None:
                raise refusal
            return board.sweep()

        self.sweeper = Sweeper(board.store, sweep, board.reap_dead_owners, every_seconds=every_seconds)


def test_of_many_who_follow_one_sweeps(harness: SqliteHarness, clock: Time) -> None:
    board = harness.board()
    board.add("later", id="x", not_before=harness.clock.now() + 100)
    crowd = [Counted(harness.board()) for _ in range(5)]
    for one in crowd:
        one.sweeper.sweep_if_due()
    waits = {one.sweeper.seconds_left() for one in crowd}
    assert len(waits) > 1, "all of them would look at the same instant"
    assert min(waits) >= 0.1
    assert max(waits) <= 0.1 + sweeper.SPREAD_SECONDS
    harness.clock.advance(0.3)
    clock.now += 0.3
    for one in crowd:
        one.sweeper.sweep_if_due()
    assert [one.sweeps for one in crowd] == [1, 0, 0, 0, 0]


def test_without_anything_due_nothing_is_swept_and_a_look_comes_within_a_second(
    harness: SqliteHarness, clock: Time
) -> None:
    counted = Counted(harness.board())
    for _ in range(20):
        counted.sweeper.sweep_if_due()
        assert sweeper.LOOK_SECONDS <= clock.pass_to(counted.sweeper) <= sweeper.LOOK_SECONDS_MAX < 1
    assert counted.sweeps == 0


def test_for_a_server_it_also_sweeps_now_and_then(harness: SqliteHarness, clock: Time) -> None:
    counted = Counted(harness.board(), every_seconds=60.0)
    begun = clock.now
    while clock.now - begun < 200:
        counted.sweeper.sweep_if_due()
        clock.pass_to(counted.sweeper)
    assert counted.sweeps == 3


@pytest.mark.parametrize(
    ("refusal", "longest"),
    [
        (StoreUnavailable("away"), sweeper.AGAIN_SECONDS_MAX),
        (StoreUnusable("permission denied"), sweeper.FORBIDDEN_SECONDS),
    ],
)
def test_who_may_not_write_is_not_disturbed_and_rarely_tries(
    harness: SqliteHarness, clock: Time, refusal: DibsError, longest: float
) -> None:
    board = harness.board()
    board.add("later", id="x", not_before=harness.clock.now() + 100)
    harness.clock.advance(1)
    counted = Counted(board, refusal)
    waits = []
    for _ in range(12):
        counted.sweeper.sweep_if_due()
        waits.append(clock.pass_to(counted.sweeper))
    assert counted.sweeps == len(waits)
    assert waits[-1] == pytest.approx(longest)
    assert sum(waits) >= longest
    harness.board().sweep()
    counted.sweeper.sweep_if_due()
    assert counted.sweeps == len(waits)
    assert board.get("x").item.status == "ready"


def test_a_look_that_takes_long_is_not_taken_often(
    harness: SqliteHarness, clock: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = harness.board()
    counted = Counted(board)

    spent = iter([0.0, 2.0])
    monkeypatch.setattr("dibs.sdk.sweeper.thread_time", lambda: next(spent))
    counted.sweeper.sweep_if_due()
    assert counted.sweeper.seconds_left() == pytest.approx(2.0 / sweeper.LOOK_SHARE)


def test_what_is_due_in_great_numbers_is_swept_batch_by_batch(tmp_path: Path, clock: Time) -> None:
    with sqlite.harness(tmp_path, sweep_batch=2) as harness:
        harness.clock.freeze()
        board = harness.board()
        at = harness.clock.now() + 100
        board.add_many([{"title": "later", "id": f"x{n}", "not_before": at} for n in range(5)])
        harness.clock.advance(1)
        counted = Counted(board)
        while board.store.due_seconds() == 0:
            counted.sweeper.sweep_if_due()
            assert clock.pass_to(counted.sweeper) <= sweeper.AGAIN_SECONDS
        assert counted.sweeps == 3


def test_a_follower_that_may_not_write_follows_all_the_same(harness: SqliteHarness) -> None:
    board, other = harness.board(), harness.board()
    board.add("later", id="x", not_before=harness.clock.now() + 100)
    harness.clock.advance(1)

    def refuse(**asked: object) -> Sweep:
        raise StoreUnusable("permission denied")

    board.store.sweep = refuse  # type: ignore[method-assign]
    latest = board.events(newest=True, limit=1)[-1].id
    feed = board.follow(after=latest, wait_seconds=30)
    other.add("now", id="y")
    assert [next(feed).item for _ in range(2)] == ["y", "y"]
    other.sweep()
    begun = time.monotonic()
    assert [next(feed).kind for _ in range(2)] == ["due", "claimable"]
    print(f"told after {time.monotonic() - begun:.2f} s")
