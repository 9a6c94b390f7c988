"""A caller is interrupted at every point of a write, while others write: threads on the same handle, other processes.

What the others asked for is done once, whatever happened to the one that was interrupted; what it asked for itself is
done once or not at all, and asked again under its request id it is done once.
"""

from __future__ import annotations

import gc
import random
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import pytest

from dibs.board import Board
from dibs.testing import sizes
from dibs.testing.harness import Harness
from dibs.testing.history import read_feed
from dibs.testing.interrupting import evenly, interrupt
from dibs.testing.invariants import assert_sound
from tests.conformance.conftest import folder
from tests.kit import sqlite
from tests.kit.waiting import PATIENCE_SECONDS

__all__ = ["folder"]

BYSTANDERS = 3
#: How many interrupts there are at least, in each of the tests.
INTERRUPTS = 120 if sizes.FACTOR == 1 else 10_000
SIGNAL_SECONDS_MAX = 0.003


class Bystander:
    """A thread that notes one thing after the other until it is told to stop, and remembers what was acknowledged."""

    def __init__(self, board: Board, number: int) -> None:
        self._board, self._item = board, f"item-{number}"
        self._session = board.start_session("bystander").id
        board.add("bystander's", id=self._item)
        board.claim(self._item, session=self._session)
        self.acknowledged: list[str] = []
        self.error: BaseException | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._stop.set()
        self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive(), "a bystander waits for ever"
        assert self.error is None, self.error

    def _run(self) -> None:
        try:
            for number in count():
                if self._stop.is_set():
                    return
                note = f"{self._item}-{number}"
                self._board.progress(self._item, note, session=self._session)
                self.acknowledged.append(note)
        except BaseException as error:
            self.error = error


@pytest.fixture(autouse=True)
def no_collector() -> Iterator[None]:
    """A signal's exception in a callback of the collector, which hypothesis registers, would be swallowed."""
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
def harness(folder: Path) -> Iterator[Harness]:
    with sqlite.harness(folder) as harness:
        yield harness


@pytest.fixture(params=["nobody", "threads", "processes"])
def bystanders(request: pytest.FixtureRequest, harness: Harness, board: Board) -> list[Bystander]:
    """Who writes at the same time. A thread with a handle of its own is to the board what another process is."""
    if request.param == "nobody":
        return []
    boards = [board if request.param == "threads" else harness.board() for _ in range(BYSTANDERS)]
    return [Bystander(one, number) for number, one in enumerate(boards)]


@pytest.fixture
def board(harness: Harness) -> Board:
    return harness.board()


def noted(board: Board) -> Counter[str]:
    """How often each note stands in the history."""
    return Counter(event.data["note"] for event in read_feed(board) if event.kind == "progress")


def storm(
    board: Board, bystanders: list[Bystander], interrupted: Callable[[Callable[[], object]], bool]
) -> Counter[str]:
    """Interrupt notes of this thread beside the bystanders' until there were enough; what was met."""
    session = board.start_session("interrupted").id
    board.add("interrupted", id="mine")
    board.claim("mine", session=session)
    met: Counter[str] = Counter()
    unsure, asked = [], []
    for number in count():
        note, once = f"mine-{number}", number % 2 == 0

        def ask(note: str = note, once: bool = once) -> object:
            return board.progress("mine", note, session=session, request_id=note if once else None)

        if not interrupted(ask):
            met["not interrupted"] += 1
            asked.append(note)
        elif once:
            met["asked again"] += 1
            ask()
            asked.append(note)
        else:
            met["left unknown"] += 1
            unsure.append(note)
        if met["asked again"] + met["left unknown"] >= INTERRUPTS:
            break
        assert met["not interrupted"] < 100 * INTERRUPTS, f"the interrupts come to nothing: {met}"
    for bystander in bystanders:
        bystander.end()
    there = noted(board)
    acknowledged = [note for bystander in bystanders for note in bystander.acknowledged] + asked
    twice = {note: times for note, times in there.items() if times > 1}
    assert not twice, f"done twice: {len(twice)}, {list(twice)[:10]} ({met})"
    missing = [note for note in acknowledged if note not in there]
    assert not missing, f"acknowledged and not there: {missing[:10]} ({met})"
    assert there.keys() <= {*acknowledged, *unsure}, "somebody's note was done and not acknowledged"
    met["of those done"] = sum(note in there for note in unsure)
    met["notes of others"] = len(acknowledged) - len(asked)
    assert_sound(board)
    return met


def test_interrupts_at_every_bytecode_of_a_write_do_nothing_twice_and_leave_out_nothing(
    board: Board, bystanders: list[Bystander]
) -> None:
    longest = 0
    points: Iterator[int] = iter(())

    def interrupted(ask: Callable[[], object]) -> bool:
        nonlocal points, longest
        at = next(points, None)
        if at is not None:
            return interrupt(ask, at, everywhere=True).interrupted
        # A write that is queued is short, one that is carried out by this thread is long.
        found = interrupt(ask, 0, everywhere=True).points
        if found <= longest:
            points = iter(evenly(longest, INTERRUPTS))
        longest = max(longest, found)
        return False

    met = storm(board, bystanders, interrupted)
    print(f"{longest} bytecodes a call: {dict(met)}")


class Interrupted(BaseException):
    """What the handler of a signal raises."""


def test_signals_at_any_instant_of_a_write_do_nothing_twice_and_leave_out_nothing(
    board: Board, bystanders: list[Bystander]
) -> None:
    seed = sizes.seed()
    draw = random.Random(seed)

    armed: list[bool] = []

    def raise_it(*_: object) -> None:
        if armed:
            armed.clear()
            raise Interrupted

    def interrupted(ask: Callable[[], object]) -> bool:
        armed.append(True)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.00001 + draw.random() * SIGNAL_SECONDS_MAX)
            ask()
            armed.clear()
        except Interrupted:
            return True
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        return False

    with ExitStack() as stack:
        stack.callback(signal.signal, signal.SIGALRM, signal.signal(signal.SIGALRM, raise_it))
        stack.callback(signal.setitimer, signal.ITIMER_REAL, 0)
        met = storm(board, bystanders, interrupted)
    print(f"seed {seed}: {dict(met)}")
