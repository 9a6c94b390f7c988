"""Lost answers: the connection is cut at some point of a call, and what the caller is told is true all the same.

Either the call took effect once, and the answer is that of the effect. Or it may have taken effect: the refusal says
`outcome` `unknown`, and asking again under the request id settles it. Or it did not take effect, and is refused. The
effect of an earlier call is never answered as the effect of this one.
"""

from __future__ import annotations

import random

import pytest

from dibs.errors import DibsError, StoreUnavailable
from dibs.testing import sizes
from dibs.testing.conformance.call_subject import Subject
from dibs.testing.conformance.refused_calls import REFUSED
from dibs.testing.conformance.repeatable_calls import PRUNE
from dibs.testing.conformance.write_calls import CALLS, TAKE_NO_REQUEST_ID
from dibs.testing.harness import Harness
from dibs.testing.invariants import assert_sound
from dibs.testing.proxy import POINTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from dibs.testing.conformance.call_subject import Call
    from dibs.testing.conformance.refused_calls import Refused
    from dibs.testing.harness import Wire

#: How many cuts of each call are tried beside those that always are; in a soak, every point of every exchange is.
SAMPLE = 1


class TestLostAnswers:
    def test_with_a_request_id_a_verb_is_done_once_and_its_answer_is_found_again(self, harness: Harness) -> None:
        def judge(caller: Caller, call: Call, request_id: str) -> None:
            try:
                answer = caller.ask(call, request_id=request_id)
            except StoreUnavailable as refusal:
                may_have_been_done(call, refusal)
                answer = caller.ask(call, request_id=request_id)
            took_effect_once(call, answer)
            assert caller.ask(call, request_id=request_id) == answer, "asked again, the answer is another one"
            assert call.effects() == 1, "asked again, it was done again"

        lose_answers(harness, {name: call for name, call in CALLS.items() if name not in TAKE_NO_REQUEST_ID}, judge)

    def test_without_a_request_id_a_verb_did_what_it_says_or_says_that_it_is_not_known(self, harness: Harness) -> None:
        lose_answers(harness, CALLS, did_what_it_says)

    def test_a_prune_forgot_what_it_says_or_says_that_it_is_not_known(self, harness: Harness) -> None:
        def judge(caller: Caller, call: Call, request_id: str) -> None:
            try:
                answer = caller.ask(call)
            except StoreUnavailable as refusal:
                may_have_been_done(call, refusal)
            else:
                assert call.is_true(answer), f"another number was forgotten: {answer!r}"

        lose_answers(harness, PRUNE, judge)

    def test_with_a_request_id_an_earlier_effect_is_not_taken_for_ones_own(self, harness: Harness) -> None:
        def judge(caller: Caller, call: Refused, request_id: str) -> None:
            is_refused(caller, call, request_id=request_id)

        lose_answers(harness, REFUSED, judge)

    def test_without_a_request_id_an_earlier_effect_is_not_taken_for_ones_own(self, harness: Harness) -> None:
        def judge(caller: Caller, call: Refused, request_id: str) -> None:
            is_refused(caller, call)

        lose_answers(harness, REFUSED, judge)


class Caller:
    """Makes calls through a wire. One exchange of its first call is cut, if that is asked for."""

    def __init__(self, wire: Wire, cut: tuple[int, str] | None) -> None:
        self._wire, self._cut = wire, cut
        #: How many exchanges the first call had.
        self.exchanges: int | None = None

    def ask(self, call: Call | Refused, **asked: str) -> Any:
        proxy, before = self._wire.proxy, self._wire.proxy.exchanges
        if self._cut is not None and self.exchanges is None:
            proxy.cut(self._cut[1], skip=self._cut[0])
        try:
            return call.ask(self._wire.board, **asked)
        finally:
            proxy.calm()
            if self.exchanges is None:
                self.exchanges = proxy.exchanges - before


def did_what_it_says(caller: Caller, call: Call, request_id: str) -> None:
    try:
        answer = caller.ask(call)
    except StoreUnavailable as refusal:
        may_have_been_done(call, refusal)
    else:
        took_effect_once(call, answer)


def took_effect_once(call: Call, answer: object) -> None:
    effects = call.effects()
    assert effects == 1, f"answered {answer!r}, and done {effects} times"
    assert call.is_true(answer), f"the answer is not that of the effect: {answer!r}"


def may_have_been_done(call: Call, refusal: StoreUnavailable) -> None:
    effects = call.effects()
    assert effects <= 1, f"done {effects} times"
    if refusal.facts.get("outcome") != "unknown":
        assert effects == 0, f"done, and refused as if it were not: {refusal.message}"


def is_refused(caller: Caller, call: Refused, **asked: str) -> None:
    """Refused as if nothing had been lost: at once, or when it is asked again."""
    before = call.witness()
    codes = []
    for _ in range(2):
        try:
            answer = caller.ask(call, **asked)
        except DibsError as refusal:
            codes.append(refusal.code)
        else:
            raise AssertionError(f"not refused with {call.code}, but answered {answer!r}")
    assert codes in ([call.code] * 2, [StoreUnavailable.code, call.code])
    assert call.witness() == before, "a refused call changed something"


def lose_answers(
    harness: Harness, calls: Mapping[str, Callable[[Subject], Any]], judge: Callable[[Caller, Any, str], None]
) -> None:
    """Make each call uncut, and then anew for each of its cuts, each time on an item of its own."""
    wiring = harness.wire()
    if wiring is None:
        pytest.skip(f"{type(harness).__name__}: between a call and this store there is no connection to cut")
    seed, played = sizes.seed(), 0
    near, draw = harness.board(), random.Random(seed)
    wrong = []

    def play(prepare: Callable[[Subject], Any], cut: tuple[int, str] | None) -> int:
        nonlocal played
        played += 1
        call = prepare(Subject(harness, near, f"lost-{played}"))
        # A cut leaves no connection behind. To make one again is no part of the next call.
        wire.board.agents()
        caller = Caller(wire, cut)
        judge(caller, call, f"request-{played}")
        assert caller.exchanges is not None
        return caller.exchanges

    with wiring as wire:
        for name, prepare in calls.items():
            exchanges = play(prepare, None)
            for cut in _cuts(exchanges, draw):
                try:
                    play(prepare, cut)
                except Exception as failure:
                    where = f"{name}, cut {cut[1]} of exchange {cut[0] + 1} of {exchanges}"
                    wrong.append(f"{where}: {type(failure).__name__}: {failure}")
    assert not wrong, f"seed {seed}: {len(wrong)} calls\n" + "\n".join(wrong)
    if calls is not PRUNE:
        harness.clock.freeze()  # what falls due between two reads would differ in them
        assert_sound(near)


def _cuts(exchanges: int, draw: random.Random) -> list[tuple[int, str]]:
    every = [(exchange, point) for exchange in range(exchanges) for point in POINTS]
    if sizes.FACTOR > 1:
        return every
    # The commit is the last exchange but for one that may notify others.
    commits = range(exchanges)[-2:] if exchanges > 2 else [0]
    return [(exchange, "before the answer") for exchange in commits] + draw.sample(every, SAMPLE)
