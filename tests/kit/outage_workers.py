"""Directing workers through outages: they are started, watched and stopped, and what they wrote down is judged."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterable
from statistics import median
from typing import Any

from dibs.board import Board
from dibs.testing import history, recording
from dibs.testing.actors import Actor
from dibs.testing.invariants import assert_sound
from dibs.testing.recording import Call
from tests.kit import outages


class Troupe:
    """Worker processes on one board, each with a handle of its own."""

    def __init__(self, recipe: dict[str, Any], folder: str, count: int, seed: int) -> None:
        self._stop = os.path.join(folder, "stop")
        self._folder = folder
        self.actors = [Actor(recipe, folder) for _ in range(count)]
        self._counts: dict[Actor, dict[str, int]] = {}
        for number, actor in enumerate(self.actors):
            actor.await_ready()
            asked = {"folder": folder, "seed": seed * 100 + number, "stop": self._stop}
            actor.play("tests.kit.outages:carry_on", **asked)
        self.await_answers()

    def __enter__(self) -> Troupe:
        return self

    def __exit__(self, *_: object) -> None:
        for actor in self.actors:
            actor.end()

    def await_answers(self) -> int:
        """Wait until each was answered from now on; the instant from which on that counts."""
        now_ns = time.monotonic_ns()
        for actor in self.actors:
            while (told := actor.read("answered_ns"))["answered_ns"] <= now_ns:
                pass
            self._counts[actor] = told["counts"]
        return now_ns

    def have_met(self, *what: str) -> bool:
        """Whether each of these answers was met by some of them, by the last time that answers were waited for."""
        return all(any(counts.get(one) for counts in self._counts.values()) for one in what)

    def stop(self) -> Counter[str]:
        """Let them end, and what they counted, together."""
        with open(self._stop, "w", encoding="ascii"):
            pass
        counts: Counter[str] = Counter()
        for actor in self.actors:
            told = actor.read_past("answered_ns", "result")["result"]
            counts.update(told.pop("counts"))
            counts.update(told)
        return counts

    def calls(self) -> list[Call]:
        return recording.read(self._folder)


def assert_nothing_lost(calls: list[Call], board: Board, context: str) -> None:
    """The notes of all workers agree with each other and with the record, and the board is sound."""
    asked = outages.as_asked(calls)
    found = [*history.check(asked, board), *outages.unaccounted(asked, board)]
    assert not found, f"{context} notes and record disagree:\n" + "\n".join(found[:20])
    assert_sound(board, context)


def in_flight(calls: Iterable[Call], at_ns: int) -> int:
    return sum(call.start_ns < at_ns and (call.end_ns is None or call.end_ns > at_ns) for call in calls)


def silences(calls: Iterable[Call], around_ns: Iterable[int]) -> list[float]:
    """For each of these instants, the longest time around it that one worker went without an answer, in seconds."""
    answers: dict[str, list[int]] = {}
    for call in calls:
        if call.end_ns is not None and call.code != outages.AWAY:
            answers.setdefault(call.process, []).append(call.end_ns)
    return [max(_gap(sorted(its), at_ns) for its in answers.values()) / 1e9 for at_ns in around_ns]


def _gap(ends_ns: list[int], at_ns: int) -> int:
    before = max((end for end in ends_ns if end <= at_ns), default=at_ns)
    after = min((end for end in ends_ns if end > at_ns), default=at_ns)
    return after - before


def in_words(seconds: list[float]) -> str:
    return f"{min(seconds):.2f} to {max(seconds):.2f} s, {median(seconds):.2f} s in the middle"
