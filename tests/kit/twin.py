"""Two boards of different stores, given the same verbs at the same time: word for word the same answers are expected.

Where one store is decided by the rules and the other restates them in its own language, this shows that they agree.
"""

from __future__ import annotations

import json
from collections import Counter

from dibs.board import Board
from dibs.errors import DibsError
from dibs.model import Sweep
from dibs.testing.harness import Harness
from dibs.text import wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from dibs.store.contract import Store
    from dibs.testing.clock import Clock

#: Verbs that answer with more than values: asked of the first board alone.
ALONE = ("watch", "export", "close", "check")
#: Verbs that only look. The other board is looked at only so often, since each look at it is many round trips: what it
#: does wrong is in its history, and in the end the two are compared to the last record.
LOOKS = ("list", "who", "get")
LOOK_EVERY = 10


class TwinStore:
    """Every verb on both; an answer if they agree."""

    def __init__(self, one: Store, other: Store) -> None:
        self.stores = (one, other)
        #: Where the other store's feed stood when this one's stood there.
        self._cursors: dict[int | None, int | None] = {None: None}
        self._looks: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        if name in ALONE or (name in LOOKS and not self._is_due(name)):
            return getattr(self.stores[0], name)
        return lambda *args, **kwargs: self._both(name, *args, **kwargs)

    def close(self) -> None:
        for store in self.stores:
            store.close()

    def events(self, *, after: int | None = None, **asked: Any) -> Any:
        answers = [
            _answer(store.events, (), {**asked, "after": cursor})
            for store, cursor in zip(self.stores, (after, self._cursors.get(after, after)), strict=True)
        ]
        if not any(isinstance(answer, DibsError) for answer in answers) and answers[0] and asked.get("item") is None:
            self._cursors[answers[0][-1].id] = answers[1][-1].id if answers[1] else None
        return _agreed("events", answers)

    def heartbeat(self, *, known_event: int | None = None, **asked: Any) -> Any:
        known = (known_event, self._cursors.get(known_event, known_event))
        answers = [
            _answer(store.heartbeat, (), {**asked, "known_event": event})
            for store, event in zip(self.stores, known, strict=True)
        ]
        if not any(isinstance(answer, DibsError) for answer in answers):
            self._cursors[answers[0].event] = answers[1].event
            answers[1] = answers[1].replace(event=answers[0].event)
        return _agreed(f"heartbeat{asked}", answers)

    def _is_due(self, look: str) -> bool:
        self._looks[look] += 1
        return self._looks[look] % LOOK_EVERY == 0

    def _both(self, name: str, *args: Any, **kwargs: Any) -> Any:
        answers = [_answer(getattr(store, name), args, kwargs) for store in self.stores]
        return _agreed(f"{name}{args}{kwargs}", answers)


class TwinClock:
    """Both clocks, standing still together."""

    def __init__(self, one: Clock, other: Clock) -> None:
        self.clocks = (one, other)

    def now(self) -> int:
        return self.clocks[0].now()

    def advance(self, seconds: float) -> None:
        for clock in self.clocks:
            clock.advance(seconds)

    def freeze(self) -> None:
        for clock in self.clocks:
            clock.freeze()
        # Wherever they stopped, they show the same from now on.
        self.clocks[1].advance((self.clocks[0].now() - self.clocks[1].now()) / 1000)

    def run(self) -> None:
        raise AssertionError("two clocks that run do not show the same")


class TwinHarness(Harness):
    def __init__(self, one: Harness, other: Harness) -> None:
        super().__init__("", {}, TwinClock(one.clock, other.clock), one.folder)
        self.twins = (one, other)
        self.clock.freeze()

    def board(self) -> Board:
        one, other = (twin.board() for twin in self.twins)
        both: Any = TwinStore(one.store, other.store)
        return Board(both, one.settings, actor=one.actor)

    def elsewhere(self) -> Harness:
        raise AssertionError("twins have no siblings")

    def close(self) -> None:
        exports = [sorted(_records(twin)) for twin in self.twins]
        for twin in self.twins:
            twin.close()
        different = set(exports[0]) ^ set(exports[1])
        assert not different, f"the boards differ: {sorted(different)[:6]}"


#: What a database counts, also where it takes a step back.
NUMBERED = ("event", "activity")


def _records(harness: Harness) -> list[str]:
    """What is on the board, each record a line, without the numbers of events and activity: these may have gaps."""
    return [
        f"{kind} {json.dumps(_plain({**value, 'id': None} if kind in NUMBERED else value), sort_keys=True)}"
        for kind, value in harness.board().store.export()
    ]


def _plain(value: Any) -> Any:
    """A number is one number, however it was written, and a mean is one however it was rounded."""
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if isinstance(value, float):
        return int(value) if value.is_integer() else round(value, 6)
    return value


def _agreed(verb: str, answers: list[Any]) -> Any:
    one, other = (_said(answer) for answer in answers)
    assert one == other, f"{verb}: {_difference(one, other)}"
    if isinstance(answers[0], DibsError):
        raise answers[0]
    return answers[0]


def _answer(verb: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    try:
        return verb(*args, **kwargs)
    except DibsError as error:
        return error


def _said(answer: Any) -> Any:
    """An answer as the wire has it, without the numbers of the feed: these may have gaps."""
    if isinstance(answer, DibsError):
        return _plain(wire.error(answer))
    if isinstance(answer, Sweep):
        # What falls due in the same millisecond has no order.
        return {name: sorted(value) if isinstance(value, tuple) else value for name, value in answer.as_dict().items()}
    return _without_ids(_plain(wire.encode(answer)))


def _difference(one: Any, other: Any, where: str = "the answer") -> str:
    """The first place in which the two differ."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        for name in one:
            if one[name] != other[name]:
                return _difference(one[name], other[name], f"{where}.{name}")
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for place, (mine, its) in enumerate(zip(one, other, strict=True)):
            if mine != its:
                return _difference(mine, its, f"{where}[{place}]")
    return f"{where} is {one!r} and {other!r}"


def _without_ids(said: Any) -> Any:
    """The same for events: they are numbered per item, and only there is an order promised."""
    if not isinstance(said, list) or not all(isinstance(one, dict) and "number" in one for one in said):
        return said
    plain = [{name: value for name, value in one.items() if name != "id"} for one in said]
    return sorted(plain, key=lambda one: (one["item"], one["number"]))
