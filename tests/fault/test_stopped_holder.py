"""A process that is stopped while it holds the board's lock: others are told in time, and all goes on when it does."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from dibs.errors import StoreUnavailable
from dibs.testing import sqlite
from dibs.testing.actors import Actor
from dibs.testing.conformance.asking import added, refused, session
from dibs.testing.invariants import assert_sound
from tests.fault.tracing import missing

pytestmark = pytest.mark.skipif(missing() is not None, reason=missing() or "")

LOCK_WAIT_SECONDS = 0.5
STOPPED_MAX_SECONDS = 30.0


def await_stop(pid: int) -> None:
    """Bounded polling: the kernel tells only the parent, which is the tracer."""
    end = time.monotonic() + STOPPED_MAX_SECONDS
    while time.monotonic() < end:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        if state in ("t", "T"):
            return
        time.sleep(0.005)
    raise AssertionError(f"process {pid} was not stopped")


def test_a_stopped_process_holding_the_lock_delays_nobody_without_bound(folder: Path) -> None:
    with sqlite.harness(folder, lock_wait_seconds=LOCK_WAIT_SECONDS) as harness:
        board = harness.board()
        added(board, "x", "y")
        me, other = session(board, "ann"), session(board, "bob")
        # It stops on its way into the commit of its first verb, lock in hand.
        stop = ("-e", "trace=fdatasync", "-e", "inject=fdatasync:signal=STOP:when=1")
        holder = Actor(harness.recipe(), harness.folder, prefix=("strace", "-f", "-qq", "-o", "/dev/null", *stop))
        try:
            pid = holder.await_ready()
            holder.send("claim", "x", session=me)
            await_stop(pid)
            begun = time.monotonic()
            refusal = refused(StoreUnavailable, board.claim, "y", session=other)
            assert time.monotonic() - begun < 20 * LOCK_WAIT_SECONDS
            assert str(pid) in refusal.message, "the one to look for is not named"
            assert refusal.exit_code == 75
            assert board.get("x").item.status == "ready", "reading waits for nobody"
            os.kill(pid, signal.SIGCONT)
            assert holder.answer().code is None
            assert board.claim("y", session=other).claim.token == 1
            assert board.get("x").item.status == "in_progress"
            assert_sound(board)
        finally:
            holder.leave()


def test_the_death_of_the_stopped_holder_frees_the_board_at_once(folder: Path) -> None:
    with sqlite.harness(folder, lock_wait_seconds=LOCK_WAIT_SECONDS) as harness:
        board = harness.board()
        added(board, "x")
        me, other = session(board, "ann"), session(board, "bob")
        stop = ("-e", "trace=fdatasync", "-e", "inject=fdatasync:signal=STOP:when=1")
        holder = Actor(harness.recipe(), harness.folder, prefix=("strace", "-f", "-qq", "-o", "/dev/null", *stop))
        try:
            pid = holder.await_ready()
            holder.send("claim", "x", session=me)
            await_stop(pid)
            os.kill(pid, signal.SIGKILL)
            holder.process.wait(STOPPED_MAX_SECONDS)
            grant = board.claim("x", session=other)
            assert grant.claim.token == 1, "what was never acknowledged need not have been"
            assert_sound(board)
        finally:
            holder.leave()
