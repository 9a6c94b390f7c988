"""The judge of recorded histories: what can be explained passes, and each kind of lie is found."""

from __future__ import annotations

from typing import Any

import pytest

from dibs.testing import history
from dibs.testing.recording import Call


def call(verb: str, session: str, start: int, end: int | None, **told: Any) -> Call:
    fields: dict[str, Any] = {"item": "x", "token": None, "request": None, **told}
    return Call(process=session, verb=verb, session=session, start_ns=start, end_ns=end, **fields)


def claim(session: str, token: int, start: int, end: int, item: str = "x") -> Call:
    return call("claim", session, start, end, grants=((item, token),))


def done(session: str, token: int, start: int, end: int) -> Call:
    return call("done", session, start, end, ended=("x", token, "done"))


def release(session: str, token: int, start: int, end: int) -> Call:
    return call("release", session, start, end, ended=("x", token, "released"))


def hand(session: str, token: int, to: str, start: int, end: int) -> Call:
    return call("hand", session, start, end, token=token, grants=(("x", token + 1),), holder=to)


def renew(session: str, token: int, start: int, end: int) -> Call:
    return call("renew", session, start, end, renewed=(("x", token),))


@pytest.mark.parametrize(
    "calls",
    [
        [],
        [claim("ann", 1, 0, 10), renew("ann", 1, 20, 30), done("ann", 1, 40, 50)],
        [claim("ann", 1, 0, 10), release("ann", 1, 20, 30), claim("bob", 2, 25, 40), done("bob", 2, 50, 60)],
        [claim("ann", 1, 0, 10), hand("ann", 1, "bob", 20, 30), renew("bob", 2, 25, 40), done("bob", 2, 50, 60)],
        # Two calls that overlap may have happened in either order.
        [claim("ann", 1, 0, 10), renew("ann", 1, 20, 60), claim("bob", 2, 30, 50)],
        [claim("bob", 2, 0, 50), claim("ann", 1, 10, 20), release("ann", 1, 21, 30)],
        # Its own session is told of the same claim again.
        [claim("ann", 1, 0, 10), claim("ann", 1, 20, 30), done("ann", 1, 40, 50)],
        # Nobody heard the answer: it may have been anything.
        [call("claim", "ann", 0, None), claim("bob", 2, 20, 30)],
        # A request asked twice ends a claim once.
        [
            claim("ann", 1, 0, 10),
            call("done", "ann", 20, 30, ended=("x", 1, "done"), request="r"),
            call("done", "ann", 40, 50, ended=("x", 1, "done"), request="r"),
        ],
        [claim("ann", 1, 0, 10, item="y"), claim("bob", 1, 0, 10), done("bob", 1, 20, 30)],
    ],
)
def test_what_can_be_explained_passes(calls: list[Call]) -> None:
    assert history.check(calls) == []


@pytest.mark.parametrize(
    ("calls", "said"),
    [
        (
            [claim("ann", 1, 0, 10), hand("ann", 1, "bob", 20, 30), renew("ann", 1, 35, 40)],
            "renew under token 1 was accepted after a later claim was given",
        ),
        (
            [claim("ann", 1, 0, 10), hand("ann", 1, "bob", 20, 30), hand("ann", 1, "bob", 25, 40)],
            "ended 2 times (hand, hand)",
        ),
        ([claim("ann", 1, 0, 10), claim("bob", 1, 5, 15)], "was given to ann and to bob"),
        ([claim("bob", 2, 0, 10), claim("ann", 1, 20, 30)], "token 2 was given before token 1"),
        ([claim("ann", 1, 0, 10), claim("bob", 2, 20, 30), renew("ann", 1, 40, 50)], "after a later claim"),
        ([claim("ann", 1, 0, 10), claim("bob", 2, 20, 30), done("ann", 1, 40, 50)], "after a later claim"),
        (
            [claim("ann", 1, 0, 9), claim("bob", 2, 10, 19), claim("cyd", 3, 20, 29), renew("ann", 1, 25, 40)],
            "after a later claim",
        ),
        ([claim("ann", 1, 0, 10), release("ann", 1, 20, 30), renew("ann", 1, 40, 50)], "after the claim's end"),
        ([claim("ann", 1, 0, 10), release("ann", 1, 20, 30), done("ann", 1, 25, 35)], "ended 2 times"),
        ([claim("ann", 1, 0, 10), done("ann", 1, 20, 30), claim("bob", 2, 40, 50)], "after the item was done"),
        (
            [claim("ann", 1, 0, 10), done("ann", 1, 20, 40), claim("bob", 2, 30, 35), done("bob", 2, 36, 39)],
            "done 2 times",
        ),
        ([claim("ann", 1, 0, 10), renew("bob", 1, 20, 30)], "by bob, held by ann"),
        ([renew("ann", 1, 0, 10), claim("ann", 1, 20, 30)], "before the claim was asked for"),
    ],
)
def test_what_cannot_be_explained_is_found(calls: list[Call], said: str) -> None:
    found = history.check(sorted(calls, key=lambda one: one.start_ns))
    assert any(said in line for line in found), found


def test_a_hundred_thousand_calls_are_judged_in_one_pass() -> None:
    calls = []
    for number in range(25_000):
        item, token, at = f"item-{number % 50}", number // 50 + 1, number * 100
        grants = {"item": item, "grants": ((item, token),)}
        calls.append(call("claim", "ann", at, at + 10, **grants))
        calls.append(call("renew", "ann", at + 20, at + 30, item=item, renewed=((item, token),)))
        calls.append(call("renew", "ann", at + 32, at + 38, item=item, renewed=((item, token),)))
        calls.append(call("release", "ann", at + 40, at + 50, item=item, ended=(item, token, "released")))
    assert history.check(calls) == []
    late = call("renew", "ann", 3_000_000, 3_000_001, item="item-0", renewed=(("item-0", 1),))
    assert len(history.check([*calls, late])) >= 1
