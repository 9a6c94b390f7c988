"""Interruptions: a caller that is interrupted at whatever point of a verb leaves nothing half done and nothing locked.

It has its exception and does not know whether the verb was done. It was, once, or it was not; asked again under the
same request id, it is. The handle can be used as before, by this thread and by others, and so can every other handle.
"""

from __future__ import annotations

import threading
from collections import Counter

import pytest

from dibs.errors import ItemNotFound
from dibs.testing import sizes
from dibs.testing.conformance.asking import PATIENCE_SECONDS, added, session
from dibs.testing.harness import Harness, open_recipe
from dibs.testing.interrupting import evenly, interrupt
from dibs.testing.invariants import assert_sound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

#: Where a verb is interrupted: evenly over all its points, so often, or in a soak often; a few points before its end,
#: when little is left to do; and around the point from which on it takes effect, which is searched for.
POINTS, BEFORE_THE_END, BEHIND = 2, (2, 8, 20), 2
MANY_POINTS, OPENINGS = 80, 12


class Verb:
    """A verb about one item: what has to be before it, how it is asked, and the event that tells it was done."""

    def __init__(self, event: str, ask: Callable[..., object], *, exists: bool = True, held: bool = True) -> None:
        self.event, self.ask, self.exists, self.held = event, ask, exists, held


VERBS: dict[str, Verb] = {
    "add": Verb("added", lambda b, i, s, **k: b.add("new", id=i, **k), exists=False, held=False),
    "claim": Verb("claimed", lambda b, i, s, **k: b.claim(i, session=s, **k), held=False),
    "next": Verb("claimed", lambda b, i, s, **k: b.next(session=s, types=["next"], **k), held=False),
    "progress": Verb("progress", lambda b, i, s, **k: b.progress(i, "half", session=s, **k)),
    "release": Verb("released", lambda b, i, s, **k: b.release(i, session=s, **k)),
    "done": Verb("done", lambda b, i, s, **k: b.done(i, session=s, **k)),
}
#: Whose answers cannot be found out again without a request id.
UNREPEATABLE = ("add", "next", "progress")


class Scene:
    """A board whose verbs are interrupted, and another handle that looks at what came of it."""

    def __init__(self, harness: Harness) -> None:
        self.board, self.other = harness.board(), harness.board()
        self._number = 0

    def prepare(self, name: str, verb: Verb, *, request: bool) -> tuple[str, Callable[[], object]]:
        """An item for which the verb can be asked, and the asking."""
        self._number += 1
        item = f"{name}-{self._number}"
        # Of an agent of its own each, so that none is waited for by, or counted for, another.
        asker = session(self.other, f"agent-{self._number}")
        if verb.exists:
            added(self.other, item, type=name)
        if verb.held:
            self.other.claim(item, session=asker)
        more = {"request_id": item} if request else {}
        return item, lambda: verb.ask(self.board, item, asker, **more)

    def points(self, name: str, verb: Verb, *, request: bool) -> int:
        """How many points the verb has. Of its second time: the first one connects, and prepares statements."""
        for _ in range(2):
            found = interrupt(self.prepare(name, verb, request=request)[1], 0).points
        return found

    def times(self, name: str, verb: Verb) -> int:
        """How often the verb was done."""
        try:
            return sum(event.kind == verb.event for event in self.other.log(name))
        except ItemNotFound:
            return 0

    def clear(self, item: str) -> None:
        """Take the item out of the way of the next one."""
        try:
            if self.other.get(item).item.status == "ready":
                self.other.cancel(item)
        except ItemNotFound:
            pass

    def assert_usable(self) -> None:
        """The handle serves another thread, and another handle writes: nothing is left locked."""
        error: list[BaseException] = []

        def write() -> None:
            try:
                self.board.start_session("elsewhere", id="elsewhere", meta={"at": self._number})
                self.other.start_session("elsewhere", id="elsewhere", meta={"by": self._number})
            except BaseException as failure:
                error.append(failure)

        thread = threading.Thread(target=write, daemon=True)
        thread.start()
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive(), "somebody waits for what an interrupted caller holds"
        assert not error, error


def interrupt_at_points(harness: Harness, scene: Scene, name: str, *, request: bool) -> None:
    """Interrupt a verb at points that are chosen evenly, and around the one from which on it takes effect."""
    verb, met = VERBS[name], Counter[str]()
    total = scene.points(name, verb, request=request)

    def is_done_at(at: int) -> bool:
        """Interrupt it there; whether it was done all the same."""
        item, ask = scene.prepare(name, verb, request=request)
        where = f"{name}, interrupted at point {at} of {total},"
        met["interrupted"] += interrupt(ask, at).interrupted
        scene.assert_usable()
        times = scene.times(item, verb)
        assert times <= 1, f"{where} was done {times} times"
        met["done"] += times
        if request:
            answer = ask()
            assert ask() == answer, f"{where} has two answers"
            again = scene.times(item, verb)
            assert again == 1, f"{where} and asked again, was done {again} times"
        scene.clear(item)
        return bool(times)

    for at in evenly(total, harness.fewer(POINTS, 2) if sizes.FACTOR == 1 else sizes.times(MANY_POINTS)):
        is_done_at(at)
    for before in BEFORE_THE_END:
        is_done_at(max(1, total - before))
    undone, done = 0, total
    while done - undone > 1:
        middle = (undone + done) // 2
        if is_done_at(middle):
            done = middle
        else:
            undone = middle
    for at in range(done + 1, min(done + BEHIND, total) + 1):
        is_done_at(at)
    print(f"{name}: {total} points, {dict(met)}")
    assert met["interrupted"] > 0, f"no interrupt hit {name}"


# An object that an interrupt kept from being closed closes itself, and says so.
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
class TestInterruptions:
    def test_an_interrupted_verb_is_done_once_or_not_at_all(self, harness: Harness) -> None:
        scene = Scene(harness)
        for name in UNREPEATABLE:
            interrupt_at_points(harness, scene, name, request=False)
        assert_sound(scene.other)

    def test_an_interrupted_verb_that_is_asked_again_is_done_once(self, harness: Harness) -> None:
        scene = Scene(harness)
        for name in VERBS:
            interrupt_at_points(harness, scene, name, request=True)
        assert_sound(scene.other)

    def test_whoever_is_interrupted_while_it_opens_a_board_leaves_it_to_the_others(self, harness: Harness) -> None:
        scene = Scene(harness)

        def open_and_close() -> None:
            open_recipe(harness.recipe()).close()

        interrupt(open_and_close, 0)
        total = interrupt(open_and_close, 0).points
        for at in evenly(total, harness.fewer(OPENINGS, 4) if sizes.FACTOR == 1 else sizes.times(MANY_POINTS)):
            interrupt(open_and_close, at)
            scene.assert_usable()

    def test_a_handle_outlives_any_number_of_interrupts(self, harness: Harness) -> None:
        """What an interrupt costs is not missing in the end: places, connections, descriptors."""
        scene = Scene(harness)
        added(scene.other, "x")
        asker = session(scene.other)
        scene.other.claim("x", session=asker)

        def renew() -> object:
            return scene.board.renew("x", session=asker)

        interrupt(renew, 0)
        total = interrupt(renew, 0).points
        for at in evenly(total, harness.fewer(MANY_POINTS, 10)):
            interrupt(renew, at)
        renew()
        scene.assert_usable()
        assert_sound(scene.other)
