"""Following: what time and death do to a board is told to whoever follows it, though nobody asks for anything.

Nobody but the follower uses the board once something is due. How long it took is printed; that it was told at all is
asserted, since a busy machine makes it late.
"""

from __future__ import annotations

import subprocess
import time

from dibs.testing.conformance.asking import TTL_SECONDS, added, expire, session
from dibs.testing.harness import Harness

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

    from dibs.model import Event

#: Without news for so long, a follower gives up: far beyond the second that it should take.
PATIENCE_SECONDS = 60.0


class Follower:
    """Follows the board from its end, as a client of it would."""

    def __init__(self, harness: Harness) -> None:
        self._harness = harness.as_in_use()
        board = self._harness.board()
        latest = board.events(newest=True, limit=1)
        self._feed: Iterator[Event] = board.follow(after=latest[-1].id, wait_seconds=PATIENCE_SECONDS)
        added(board, "news")
        self.begin()
        self.hears("added", "claimable")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._harness.close()

    def begin(self) -> None:
        """From now on it is counted how long news takes."""
        self._since = time.monotonic()

    def hears(self, *kinds: str) -> list[Event]:
        """The next events, which have to be of these kinds."""
        heard = []
        for kind in kinds:
            event = next(self._feed, None)
            assert event is not None, f"nobody told that something was {kind}"
            assert event.kind == kind, f"{event.kind} where {kind} was due"
            heard.append(event)
        print(f"{', '.join(kinds)}: heard after {time.monotonic() - self._since:.2f} s")
        return heard


class TestFollowing:
    def test_an_expired_claim_reaches_a_follower(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        board.claim("x", session=session(board), ttl_seconds=TTL_SECONDS)
        with Follower(harness) as follower:
            expire(harness)
            follower.begin()
            follower.hears("expired", "claimable")

    def test_a_schedule_that_falls_due_reaches_a_follower(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", not_before=harness.clock.now() + 60_000)
        with Follower(harness) as follower:
            harness.clock.advance(60)
            follower.begin()
            follower.hears("due", "claimable")

    def test_a_lapsed_offer_reaches_a_follower(self, harness: Harness) -> None:
        board = harness.board()
        holder, first, second = session(board), session(board), session(board)
        added(board, "x")
        board.claim("x", session=holder)
        for waiting in (first, second):
            board.wait("x", session=waiting, ttl_seconds=TTL_SECONDS)
        board.release("x", session=holder)
        with Follower(harness) as follower:
            harness.clock.advance(board.settings.accept_seconds + 1)
            follower.begin()
            _, offered = follower.hears("offer_lapsed", "offered")
            assert offered.session == second

    def test_the_death_of_an_owner_reaches_a_follower(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as owner:
            board.claim("x", session=session(board, owner_pid=owner.pid))
            with Follower(harness) as follower:
                owner.kill()
                owner.wait()
                follower.begin()
                follower.hears("owner_died", "claimable")

    def test_what_falls_due_while_it_is_followed_is_told_soon_after(self, harness: Harness) -> None:
        """By a clock that runs, and of an item that comes when the follower waits already."""
        board, actor = harness.board(), harness.actor()
        added(board, "first")
        with Follower(harness) as follower:
            due_at = harness.clock.now() + 1000
            actor.send("add", "x", id="x", not_before=due_at)
            _, due, _ = follower.hears("added", "due", "claimable")
            assert actor.answer().code is None
            print(f"recorded {due.at - due_at} ms after its instant")
            assert due.at >= due_at
