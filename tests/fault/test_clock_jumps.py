"""The store's clock jumps by an hour and a day, both ways, under load: no invariant minds."""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path

import pytest

from dibs.errors import ItemAlreadyClaimed
from dibs.testing import history, recording, sizes
from dibs.testing.conformance.asking import added, ids, refused, session
from dibs.testing.invariants import assert_sound
from dibs.testing.storm import ITEMS, ROLES
from tests.kit import sqlite

HOUR, DAY = 3600.0, 86400.0
JUMPS = (HOUR, -HOUR, DAY, -DAY)


@pytest.mark.parametrize("jump", JUMPS)
def test_one_jump_neither_doubles_nor_loses_a_claim(folder: Path, jump: float) -> None:
    with sqlite.harness(folder) as harness:
        board = harness.board()
        added(board, "x", "y")
        me, other = session(board, "ann"), session(board, "bob")
        first = board.claim("x", session=me, ttl_seconds=1800).claim
        harness.clock.advance(jump)
        if jump < 0:
            refused(ItemAlreadyClaimed, board.claim, "x", session=other)
            assert board.renew("x", session=me, token=1).remaining_seconds == 1800
            assert board.done("x", session=me, token=1).item.status == "done"
        else:
            assert board.get("x").claim is None
            assert board.claim("x", session=other).claim.token == first.token + 1
        assert ids(board.next(session=other)) == ["y"]
        assert_sound(board, f"after a jump of {jump:g} s:")


def test_requests_are_remembered_across_jumps(folder: Path) -> None:
    with sqlite.harness(folder) as harness:
        board = harness.board()
        added(board, "x", "y")
        me = session(board)
        first = board.next(session=me, request_id="r")
        for jump in (-DAY, HOUR, -HOUR, 3 * DAY, -DAY):
            harness.clock.advance(jump)
            board.sweep()
            assert board.next(session=me, request_id="r") == first


def test_jumps_under_load_break_no_invariant(folder: Path) -> None:
    seed = sizes.seed()
    draw = random.Random(seed)
    with sqlite.harness(folder) as harness:
        board = harness.board()
        added(board, *(f"item-{number:02}" for number in range(ITEMS)))
        workers = harness.actors(2 * len(ROLES))
        for number, worker in enumerate(workers):
            asked = {"folder": harness.folder, "seed": seed + number, "calls": sizes.times(150)}
            worker.play("dibs.testing.storm:toil", role=ROLES[number % len(ROLES)], **asked)
        jumps: Counter[float] = Counter()
        for _ in range(sizes.times(40)):
            jump = draw.choice(JUMPS)
            harness.clock.advance(jump)
            jumps[jump] += 1
            # The moment is what is random here; nothing is waited for.
            time.sleep(draw.random() * 0.03)
        for worker in workers:
            worker.result()
        calls = recording.read(harness.folder)
        codes = Counter(call.code for call in calls if call.code)
        print(f"seed {seed}: {dict(jumps)} jumps, {len(calls)} calls, {dict(codes)}")
        assert set(jumps) == set(JUMPS)
        assert codes["CLAIM_EXPIRED"] + codes["NOT_CLAIM_OWNER"] > 0, f"seed {seed}: no jump cost anybody a claim"
        found = history.check(calls, board)
        assert not found, f"seed {seed}: " + "\n".join(found[:20])
        assert_sound(board, f"seed {seed}:")
