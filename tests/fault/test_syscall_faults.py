"""System calls of a claim, a release and the ends of a run fail, or are the last: the script is done exactly once."""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path

import pytest

from dibs.testing.actors import Actor, Gone
from dibs.testing.sizes import FACTOR
from tests.fault.tracing import PASSING, Run, missing
from tests.kit import sqlite
from tests.kit.soak import NIGHTLY

pytestmark = pytest.mark.skipif(missing() is not None, reason=missing() or "")

#: (system call, what strace does to it, files it is about or all, how many calls are tried at night; a soak tries each)
FAULTS = [
    ("pwrite64", "error=EIO", (), 18),
    ("pwrite64", "error=ENOSPC", (), 18),
    ("pwrite64", "signal=KILL", (), 18),
    ("pwrite64", "error=EIO", ("board.db-lock",), 3),
    ("pwrite64", "error=ENOSPC", ("board.db-bell",), 3),
    ("openat", "error=EMFILE", ("board.db-lock", "board.db-bell"), 2),
    ("pread64", "error=EIO", (), 18),
    ("fdatasync", "error=EIO", (), 9),
    ("fdatasync", "signal=KILL", (), 9),
    ("fcntl", "signal=KILL", (), 10),
    ("fcntl", "error=ENOLCK", ("board.db-lock",), 4),
]

#: How many of these calls are tried at every commit, at the most.
FEW = 6
#: How many reads of the file an actor makes at least, until it has answered all.
READS = 90


def chosen(total: int, count: int) -> list[int]:
    """That many of the calls 1 to `total`, evenly, the first and the last among them."""
    if FACTOR > 1 or count >= total:
        return list(range(1, total + 1))
    return sorted({1 + round(position * (total - 1) / (count - 1)) for position in range(count)})


@pytest.mark.parametrize(
    ("syscall", "what", "only", "count"),
    FAULTS,
    ids=[f"{fault[0]}-{fault[1]}-{'-'.join(fault[2])}" for fault in FAULTS],
)
def test_a_failing_system_call_costs_nothing_but_a_retry(
    folder: Path, syscall: str, what: str, only: tuple[str, ...], count: int
) -> None:
    rehearsal = Run(folder / "rehearsal", None, syscall, only=only).perform()
    assert (rehearsal.refusals, rehearsal.died) == (0, False)
    # The last few calls may be made on the way out, after everything was said.
    total = rehearsal.count(syscall) - (2 if what == "signal=KILL" else 0)
    assert total > 0, f"the script never calls {syscall}"
    met: Counter[str] = Counter()
    wrong = []
    tried = chosen(total, count if NIGHTLY else min(count, FEW))
    for when in tried:
        run = Run(folder / str(when), f"{syscall}:{what}:when={when}", syscall, only=only)
        try:
            run.perform()
        except AssertionError as failure:
            wrong.append(str(failure))
        # On a busy machine the rehearsal may have made a few calls more.
        assert run.fired() or run.count(syscall) < when, f"{run.fault} never was"
        met["fired"] += run.fired()
        met["died"] += run.died
        met[PASSING] += run.refusals
        met["unknown"] += run.unknown
    print(f"{syscall} {what} {only}: {dict(met)} of {total} calls")
    assert met["fired"] > len(tried) / 2
    assert not wrong, f"{len(wrong)} of {met['fired']}:\n" + "\n".join(line[:1500] for line in wrong[:5])
    if (syscall, what) == ("fdatasync", "error=EIO"):
        assert met["unknown"] == met[PASSING] > 0, "a commit whose sync failed may be found in the log"
    assert met["died"] or not what.startswith("signal"), "nobody was killed"


def test_what_was_committed_without_a_sync_may_be_found_done(folder: Path) -> None:
    """Why its outcome is unknown: the log is complete, and the next process that opens it believes it."""
    with sqlite.harness(folder) as harness:
        board = harness.board()
        board.add("x", id="x")
        board.start_session("ann", id="s")
        board.close()
        prefix = ("strace", "-f", "-qq", "-o", str(folder / "strace.log"), "-e", "trace=fdatasync")
        # The board was closed, so its log begins anew: the first syncs are those of its header and of the folder.
        actor = Actor(harness.recipe(), harness.folder, prefix=(*prefix, "-e", "inject=fdatasync:error=EIO:when=3"))
        pid = actor.await_ready()
        answer = actor.ask("claim", "x", session="s", request_id="r")
        os.kill(pid, signal.SIGKILL)  # if it left, it would cut the log off at the last commit that it knows of
        actor.process.wait()
        assert answer.error is not None
        assert (answer.error["code"], answer.error["outcome"]) == ("STORE_UNAVAILABLE", "unknown")
        again = harness.board()
        assert again.get("x").item.status == "in_progress", "the log was not complete"
        assert again.claim("x", session="s", request_id="r").claim.token == 1
        assert [event.kind for event in again.log("x")].count("claimed") == 1


def test_one_failed_read_is_no_damage(folder: Path) -> None:
    """SQLite says "malformed" of a read that the system refused: to restore a backup then would lose all since."""
    with sqlite.harness(folder) as harness:
        board = harness.board()
        board.add_many({"title": f"{number}", "body": "x" * 3000} for number in range(50))
        board.close()
        place, said = str(folder / "board.db"), []
        for when in range(1, 1 + READS, 5):
            prefix = ("strace", "-f", "-qq", "-o", str(folder / "strace.log"), "-P", place, "-e", "trace=pread64")
            actor = Actor(
                harness.recipe(), harness.folder, prefix=(*prefix, "-e", f"inject=pread64:error=EIO:when={when}")
            )
            try:
                actor.await_ready()
                said += [actor.ask(verb).error for verb in ("list", "events", "list", "view")]
            except Gone:
                assert "STORE_UNAVAILABLE" in actor.errors() or "disk" in actor.errors(), "it could not be opened"
            actor.end()
        refusals = [error for error in said if error is not None]
        assert {error["code"] for error in refusals} == {"STORE_UNAVAILABLE"}, refusals
        assert any("no damage" in error["message"] for error in refusals)
        assert not any("restore" in error["message"] for error in refusals)
