"""What a contest asks of those who take part in it."""

from __future__ import annotations

from abc import ABC, abstractmethod

from bench.contest.result import Result


class Contestant(ABC):
    name: str

    @abstractmethod
    def supply(self, count: int) -> None:
        """A fresh set of things to do, this many, and no trace of earlier ones."""

    @abstractmethod
    def run(self, workers: int, batch: int, seconds: float) -> Result:
        """Claim and end, by so many workers at once, so many at a time."""

    @abstractmethod
    def left(self) -> int:
        """How many things nobody has claimed yet: a run that met the end of its supply says nothing."""

    def close(self) -> None:  # noqa: B027  # most of them start nothing
        """End what was started."""
