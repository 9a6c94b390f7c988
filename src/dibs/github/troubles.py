"""Subjects about which GitHub refuses to answer, or gives no usable answer: an issue, a commit, an item.

One of them stops no other. What is wrong is reported once, and the subject is left alone for a minute for each request
that was spent on it, longer with each failure, so that a subject that never works costs at most a request a minute.
What GitHub refuses is left alone for ten minutes: it will not change its mind because of a note of progress.

If nothing works, GitHub is away, and that is the caller's matter: after some failures in a row the repository itself is
asked for. A rate limit is a matter for all subjects, too, unless one subject is limited again after others were not.
"""

from __future__ import annotations

import time

from dibs.errors import Forbidden, Invalid, ItemNotFound
from dibs.github.api import BadToken, Failed, Moved
from dibs.github.budget import Limited
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeVar

    from dibs.errors import DibsError
    from dibs.github.api import Api

    T = TypeVar("T")

#: A subject that fails costs at most one request in this time.
RETRY_SECONDS = 60.0
#: The longest time after which one that fails is tried again, and the time for one that is refused.
RETRY_SECONDS_MAX = 600.0
#: After so many failures in a row, find out whether GitHub answers at all.
FAILURES_MAX = 3
#: Failures of one subject after which the caller goes on with what it has.
TRIES_MAX = 5
#: How many subjects are remembered, and how many problems as reported.
SUBJECTS_MAX = 10_000
REPORTED_MAX = 1000
REFUSED = (Forbidden, ItemNotFound, Invalid)


class Trouble(Value):
    """`until` is when the subject may be asked about again; `count` is how often it failed in a row, `cost` what the
    last time cost in seconds without a request."""

    count: int
    until: float
    cost: float
    is_refused: bool


class Troubles:
    def __init__(self, api: Api, probe: Callable[[], None], clock: Callable[[], float] = time.monotonic) -> None:
        """`probe` asks for the repository itself, and raises what is wrong with all subjects."""
        self._api, self._probe, self._clock = api, probe, clock
        self._known: dict[str, Trouble] = {}
        self._suspects: set[str] = set()
        self._failures = 0
        self._reported: dict[str, None] = {}
        self._problems: list[str] = []

    def attempt(
        self, subject: str, do: Callable[[], T], *, label: str = "", hint: Callable[[DibsError], str] = lambda _: ""
    ) -> T | None:
        """Do it, unless the subject is left alone. What fails is noted, and None is answered. `label` stands before
        the report, and `hint` says what would help."""
        if self.is_left_alone(subject):
            return None
        before = self._api.budget.sent
        try:
            with self._api.once():
                found = do()
        except REFUSED as refusal:
            if isinstance(refusal, (BadToken, Moved)):
                self._probe()  # it may be so whatever is asked
            self._note(subject, before, refusal, f"{label}{refusal.message}{hint(refusal)}", is_refused=True)
            return None
        except Limited as limited:
            if subject not in self._suspects:
                self._suspects.add(subject)
                raise
            self._note(subject, before, limited, f"{label}{limited.message}")
            return None
        except Failed as failed:
            self._failures += 1
            if self._failures >= FAILURES_MAX:
                self._probe()
                self._failures = 0
            self._note(subject, before, failed, f"{label}{failed.message}")
            return None
        self._failures = 0
        self._known.pop(subject, None)
        self._suspects.discard(subject)
        return found

    def is_left_alone(self, subject: str) -> bool:
        known = self._known.get(subject)
        return known is not None and self._clock() < known.until

    def has(self, subject: str) -> bool:
        """Whether the last attempt failed."""
        return subject in self._known

    def is_lasting(self, subject: str) -> bool:
        """Whether to go on without an answer: it was refused, or failed too often."""
        known = self._known.get(subject)
        return known is not None and (known.is_refused or known.count >= TRIES_MAX)

    def is_suspect(self, subject: str) -> bool:
        """Whether it is to be asked about last: the rate limit was reached there."""
        return subject in self._suspects

    def spread(self, subjects: Sequence[str]) -> None:
        """Let these subjects, which are parts of one, cost together what one may cost."""
        known = {one: self._known[one] for one in subjects if one in self._known}
        until = self._clock() + sum(one.cost for one in known.values())
        self._known |= {name: one.replace(until=max(one.until, until)) for name, one in known.items()}

    def report(self, problem: str) -> None:
        """Once."""
        if problem not in self._reported:
            self._reported[problem] = None
            self._problems.append(problem)
            if len(self._reported) > REPORTED_MAX:
                del self._reported[next(iter(self._reported))]

    def problems(self) -> tuple[str, ...]:
        """What was not reported before."""
        found, self._problems = tuple(self._problems), []
        return found

    def _note(self, subject: str, before: int, error: DibsError, problem: str, *, is_refused: bool = False) -> None:
        known = self._known.pop(subject, None)
        count = 1 if known is None else known.count + 1
        cost = RETRY_SECONDS * max(1, self._api.budget.sent - before)
        wait = RETRY_SECONDS_MAX if is_refused else min(cost * 2.0 ** min(count - 1, 10), RETRY_SECONDS_MAX)
        told = error.facts.get("retry_after_seconds") if isinstance(error, Limited) else None
        wait = max(wait, cost, float(told or 0))
        self._known[subject] = Trouble(count=count, until=self._clock() + wait, cost=cost, is_refused=is_refused)
        if len(self._known) > SUBJECTS_MAX:
            del self._known[next(iter(self._known))]
        self.report(problem)
