"""A process that is stopped while it holds the board's lock: others are told in time, and all goes on when it does."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dibs.errors import StoreUnavailable
from dibs.testing.actors import Actor
from dibs.testing.conformance.asking import added, refused
from dibs.testing.harness import Harness
from dibs.testing.invariants import assert_sound
from tests.kit import sqlite
from tests.kit.stopping_clock import StoppingClock

LOCK_WAIT_SECONDS = 0.5


@pytest.fixture
def harness(folder: Path) -> Iterator[Harness]:
    with sqlite.harness(folder, lock_wait_seconds=LOCK_WAIT_SECONDS) as harness:
        board = harness.board()
        added(board, "x", "y")
        board.start_session("ann", id="ann")
        board.start_session("bob", id="bob")
        yield harness


@pytest.fixture
def holder(harness: Harness) -> Iterator[Actor]:
    """A process that stopped in the middle of a claim of `x`, lock in hand."""
    recipe = harness.recipe()
    actor = Actor({**recipe, "kwargs": {**recipe["kwargs"], "stopping": True}}, harness.folder)
    try:
        actor.await_ready()
        StoppingClock(recipe["kwargs"]["clock"]).arm()
        actor.send("claim", "x", session="ann")
        actor.await_stop()
        yield actor
    finally:
        actor.end()


def test_others_are_told_in_time_who_stands_in_the_way(harness: Harness, holder: Actor) -> None:
    board = harness.board()
    begun = time.monotonic()
    refusal = refused(StoreUnavailable, board.claim, "y", session="bob")
    assert time.monotonic() - begun < 20 * LOCK_WAIT_SECONDS
    assert str(holder.pid) in refusal.message, "the one to look for is not named"
    assert refusal.exit_code == 75


def test_readers_wait_for_nobody(harness: Harness, holder: Actor) -> None:
    board = harness.board()
    assert board.get("x").item.status == "ready"
    assert len(board.list()) == 2
    assert board.who() == ()


def test_all_goes_on_when_it_does(harness: Harness, holder: Actor) -> None:
    board = harness.board()
    refused(StoreUnavailable, board.claim, "y", session="bob")
    holder.resume()
    assert holder.answer().code is None
    assert board.claim("y", session="bob").claim.token == 1
    assert board.get("x").item.status == "in_progress"
    assert_sound(board)


def test_its_death_frees_the_board_at_once(harness: Harness, holder: Actor) -> None:
    board = harness.board()
    holder.kill()
    # What was never acknowledged need not have been.
    assert board.claim("x", session="bob").claim.token == 1
    assert_sound(board)


class Interrupted(Exception):
    """What a signal handler raises: Ctrl-C, a time limit of a test runner."""


def test_whoever_gives_up_waiting_leaves_no_lock_behind(harness: Harness, holder: Actor) -> None:
    """Also a process that goes on living, and does nothing on the board for a long time."""
    kwargs = harness.recipe()["kwargs"]
    patient = sqlite.open_board(**{**kwargs, "settings": {"lock_wait_seconds": 60.0}})

    def interrupt(*_: object) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(Interrupted):
            patient.claim("y", session="bob")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    holder.resume()
    assert holder.answer().code is None
    assert harness.actor().ask("claim", "y", session="bob").code is None, "the lock is held by one who gave up"
    patient.close()
