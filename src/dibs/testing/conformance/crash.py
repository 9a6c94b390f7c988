"""Crash: processes are killed with -9 at arbitrary moments, and then every invariant is looked at."""

from __future__ import annotations

import time
from collections import Counter

from dibs.testing import recording, sizes
from dibs.testing.conformance.asking import TTL_SECONDS, added, session
from dibs.testing.conformance.racing import assert_explained
from dibs.testing.harness import Harness
from dibs.testing.invariants import LIMIT, assert_sound
from dibs.testing.storm import CALM_SECONDS_MAX, ITEMS, ROLES, died

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.board import Board
    from dibs.testing.recording import Call

KILLS, GUST = sizes.rounds(120, 300), 60
#: Refusals that a storm cannot but meet; without them it was none.
MET = ("TASK_ALREADY_CLAIMED", "TASK_NOT_CLAIMED", "TASK_NOT_CLAIMABLE", "CLAIM_EXPIRED")
#: How many calmer gusts follow a storm that did not.
GUSTS_MAX = 10
CALMER_SECONDS = 0.3
ROUNDS_MAX = 10_000


def drained(board: Board) -> None:
    """Whatever is left on the board is done, by one who came after the storm."""
    me = session(board, "survivor")
    for _ in range(ROUNDS_MAX):
        grants = board.next(session=me, n=50)
        for grant in grants:
            board.done(grant.item.id, session=me, token=grant.claim.token)
        if not grants:
            return


def storm(harness: Harness, seed: int, kills: int, calm_seconds: float = 0.0) -> tuple[dict[str, int], list[Call]]:
    """Let it rage on this board, with at most so much calm between kills, or as much as a call needs: how many of each
    role were killed, and every call that anybody made."""
    board = harness.board()
    added(board, *(f"item-{number:02}" for number in range(ITEMS)))
    director = harness.actor()
    # On a slow machine hardly anybody would live to see the end of a call else.
    needed_seconds = max(3 * harness.step_seconds, min(0.1, 3 * _seconds_to_the_first_word(harness)))
    calm_seconds = max(CALM_SECONDS_MAX, needed_seconds, calm_seconds)
    asked = {"recipe": harness.recipe(), "folder": harness.folder, "seed": seed, "kills": kills}
    director.play("dibs.testing.storm:rage", calm_seconds=calm_seconds, **asked)
    for _ in range(kills // 10):
        director.read("killed")
        # Whoever holds something now has lost it, dead or alive.
        harness.clock.advance(board.settings.ttl_seconds + 1)
    killed = director.result()
    assert not died(harness.folder), f"seed {seed}: workers ended by themselves: {died(harness.folder)}"
    return killed, recording.read(harness.folder)


def _seconds_to_the_first_word(harness: Harness) -> float:
    """How long somebody new on this board takes over a call, on this machine as it is now."""
    began = time.monotonic()
    session(harness.board(), "newcomer")
    return time.monotonic() - began


class TestCrash:
    def test_what_was_acknowledged_survives_the_kill_that_follows(self, harness: Harness) -> None:
        board = harness.board()
        for round in range(sizes.times(3)):
            added(board, *(f"{verb}-{round}" for verb in ("claim", "release", "done", "fail", "progress")))
            actor = harness.actor()
            me = actor.ask("start_session", "ann").reply["id"]
            for verb in ("claim", "release", "done", "fail", "progress"):
                assert actor.ask("claim", f"{verb}-{round}", session=me, ttl_seconds=TTL_SECONDS).code is None
            for verb in ("release", "done", "fail"):
                assert actor.ask(verb, f"{verb}-{round}", session=me, token=1).code is None
            assert actor.ask("progress", f"progress-{round}", "half", session=me, token=1).code is None
            last = ("release", "done", "fail", "progress", "add")[round % 5]
            assert actor.ask("add", "the last word", id=f"{last}-last-{round}").code is None
            actor.kill()
            fresh = harness.board()
            statuses = {verb: fresh.get(f"{verb}-{round}").item.status for verb in ("claim", "release", "done", "fail")}
            assert statuses == {"claim": "in_progress", "release": "ready", "done": "done", "fail": "failed"}
            assert fresh.log(f"progress-{round}")[-1].kind == "progress"
            assert fresh.get(f"{last}-last-{round}").item.title == "the last word"
        assert_sound(board)

    def test_each_verb_acknowledged_as_the_last_survives(self, harness: Harness) -> None:
        board = harness.board()
        for verb, status in (("claim", "in_progress"), ("release", "ready"), ("done", "done"), ("fail", "failed")):
            added(board, verb)
            actor = harness.actor()
            me = actor.ask("start_session", "ann").reply["id"]
            assert actor.ask("claim", verb, session=me, ttl_seconds=TTL_SECONDS).code is None
            if verb != "claim":
                assert actor.ask(verb, verb, session=me, token=1).code is None
            actor.kill()
            assert harness.board().get(verb).item.status == status, f"an acknowledged {verb} was lost"

    def test_a_gust_of_kills_leaves_a_sound_board(self, harness: Harness) -> None:
        seed = sizes.seed()
        _, calls = storm(harness, seed, GUST)
        assert_explained(calls, harness.board(), f"seed {seed}:")

    def test_a_storm_of_kills_loses_nothing(self, harness: Harness) -> None:
        seed, kills = sizes.seed(), KILLS
        killed, calls = storm(harness, seed, kills)
        codes = Counter(call.code for call in calls if call.code)
        for number in range(GUSTS_MAX):
            if all(codes[code] for code in MET):
                break
            # On a busy machine few have lived long enough to meet anybody.
            _, calls = storm(harness, seed + number + 1, GUST, CALMER_SECONDS)
            codes = Counter(call.code for call in calls if call.code)
        cut_off = sum(call.end_ns is None for call in calls)
        print(f"seed {seed}: killed {killed}, {cut_off} in the middle of a call, of {len(calls)} calls; {dict(codes)}")
        assert sum(killed.values()) >= kills
        assert all(killed[role] > 0 for role in ROLES)
        assert cut_off >= kills // 10, f"seed {seed}: only {cut_off} kills hit a call"
        for code in MET:
            assert codes[code] > 0, f"seed {seed}: the storm never met {code}: {dict(codes)}"
        assert "STORE_UNAVAILABLE" not in codes, f"seed {seed}: somebody waited in vain: {dict(codes)}"
        assert_explained(calls, harness.board(), f"seed {seed}:")
        self.assert_service_goes_on(harness, seed)

    def assert_service_goes_on(self, harness: Harness, seed: int) -> None:
        """Everything comes back, and is done by whoever is left."""
        board = harness.board()
        harness.clock.advance(3 * 3600)
        while board.sweep().more:
            pass
        assert board.list(statuses=["in_progress"]) == (), f"seed {seed}: something never came back"
        for item in board.list(statuses=["failed"], limit=LIMIT):
            board.retry(item.id)
        drained(board)
        left = board.list(statuses=["ready", "in_progress", "failed"], limit=LIMIT)
        assert left == (), f"seed {seed}: {len(left)} items could not be finished"
        assert_sound(board, f"seed {seed}:")
