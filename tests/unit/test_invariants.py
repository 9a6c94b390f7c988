"""The invariant checker: a sound board passes, and each kind of damage, done behind the store's back, is found."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from dibs.board import Board
from dibs.testing.conditions import blocked_as_they_should
from dibs.testing.conformance.asking import TTL_SECONDS, added, expire, session
from dibs.testing.invariants import violations
from tests.kit import sqlite


@pytest.fixture
def board(tmp_path: Path) -> Iterator[Board]:
    """A board on which a bit of everything has happened."""
    with sqlite.harness(tmp_path) as harness:
        board = harness.board()
        added(board, "pruned")
        me, bob, cyd = session(board, "ann"), session(board, "bob"), session(board, "cyd")
        board.cancel("pruned")
        harness.clock.advance(10)
        assert board.prune(older_than_seconds=5).items == 1
        added(board, "free", "held", "done", "back", "lapsed")
        for id in ("held", "done", "back", "lapsed"):
            board.claim(id, session=me, ttl_seconds=TTL_SECONDS if id == "lapsed" else 7200)
        board.done("done", session=me)
        board.release("back", session=me)
        board.edit("free", title="other")
        rest(board, me)
        expire(harness)
        hold_and_queue(board, me, bob, cyd)
        assert violations(board) == []
        yield board


def rest(board: Board, me: str) -> None:
    """Items that wait for another, for a person, for their time, for nothing."""
    added(board, "child", depends_on=["free"])
    added(board, "grandchild", depends_on=["done", "child"])
    added(board, "freed", depends_on=["done"])
    added(board, "aside", "drafted", "again", retries=1)
    for id in ("drafted", "again"):
        board.claim(id, session=me)
    board.park("aside")
    board.submit("drafted", session=me, draft="so")
    board.fail("again", session=me)


def hold_and_queue(board: Board, me: str, bob: str, cyd: str) -> None:
    """Live claims of two sessions side by side, a queue behind one of them, and an offer."""
    for id, resource, holder in (("left", "src/api", me), ("right", "src/apis", bob)):
        added(board, id, resources=[resource], project="web")
        board.claim(id, session=holder)
    added(board, "kept", "over")
    board.wait("left", session=bob)
    board.wait("left", session=cyd)
    board.wait("kept", session=bob)
    board.claim("over", session=me)
    board.wait("over", session=cyd)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("DELETE FROM items WHERE id = 'back'", "back was added and is gone"),
        ("UPDATE items SET status = 'lost' WHERE id = 'free'", "free was added and is gone"),
        ("UPDATE items SET status = 'ready' WHERE id = 'done'", "status is 'ready'"),
        ("UPDATE items SET token = token + 1 WHERE id = 'back'", "token is 2"),
        ("UPDATE items SET token = token - 1 WHERE id = 'back'", "token is 0"),
        ("UPDATE items SET strikes = 3 WHERE id = 'back'", "strikes is 3"),
        ("UPDATE items SET attempts = 9 WHERE id = 'held'", "attempts is 9"),
        ("UPDATE items SET title = 'untold' WHERE id = 'held'", "title is 'untold'"),
        ("DELETE FROM events WHERE item = 'back' AND number = 2", "event 3 stands where 2 belongs"),
        ("DELETE FROM events WHERE item = 'done' AND number = 4", "its history says"),
        ("DELETE FROM events WHERE item = 'free'", "free is there and has no history"),
        ("UPDATE events SET actor = '' WHERE item = 'back' AND number = 4", "names no actor"),
        ("UPDATE events SET session = NULL WHERE item = 'back' AND number = 4", "does not name its holder"),
        ("UPDATE events SET token = 5 WHERE item = 'held' AND number = 3", "token 5 follows token 0"),
        ("UPDATE events SET status = 'done' WHERE item = 'free' AND number = 3", "leads to done"),
        ("UPDATE events SET kind = 'vanished' WHERE item = 'free' AND number = 3", "unknown kind"),
        ("DELETE FROM runs WHERE item = 'back'", "run ('back', 1) is missing"),
        ("UPDATE runs SET outcome = 'done' WHERE item = 'back'", "outcome is 'done'"),
        ("UPDATE runs SET outcome = 'released' WHERE item = 'held'", "outcome is 'released'"),
        ("UPDATE runs SET session = 'somebody' WHERE item = 'done'", "session is 'somebody'"),
        ("UPDATE claims SET token = 7 WHERE item = 'held'", "claimed under token 7"),
        ("UPDATE claims SET session = 'somebody' WHERE item = 'held'", "its claim says somebody"),
        ("UPDATE claims SET expires_at = deadline_at + 1 WHERE item = 'held'", "after its deadline"),
        ("DELETE FROM claims WHERE item = 'held'", "held is in progress and nobody ever let go of it"),
        ("UPDATE claims SET item = 'free' WHERE item = 'held'", "free is ready and claimed"),
        ("DELETE FROM events WHERE item = 'back' AND number = 5", "nobody was told that it can be claimed"),
        ("UPDATE events SET kind = 'offered' WHERE item = 'free' AND number = 2", "does not say to whom"),
        ("UPDATE events SET kind = 'due' WHERE item = 'freed' AND number = 2", "is due while ready"),
        ("UPDATE events SET kind = 'claimable' WHERE item = 'free' AND number = 3", "says again"),
        ("UPDATE events SET at = at + 1 WHERE item = 'freed' AND number = 2", "stands where it is told"),
        ("UPDATE items SET status = 'blocked' WHERE id = 'freed'", "freed is blocked and waits for []"),
        ("UPDATE items SET status = 'ready' WHERE id = 'child'", "child is ready and waits for ['free']"),
        ("UPDATE items SET status = 'scheduled' WHERE id = 'grandchild'", "grandchild is scheduled and waits for"),
        ("UPDATE events SET status = 'ready' WHERE item = 'child' AND number = 1", "leads to ready, open are ['free']"),
        ("UPDATE events SET status = 'blocked' WHERE item = 'free' AND number = 1", "leads to blocked"),
        ("UPDATE items SET depends_on = '[\"grandchild\"]' WHERE id = 'free'", "in a circle"),
        ("UPDATE items SET needs_approval = 0 WHERE id = 'drafted'", "its need of approval is False"),
        ("UPDATE items SET needs_approval = 1 WHERE id = 'free'", "its need of approval is True"),
        ("UPDATE items SET approved = 1 WHERE id = 'drafted'", "approved is True"),
        ("UPDATE items SET failures = 0 WHERE id = 'again'", "failures is 0"),
        ("UPDATE items SET not_before = not_before + 1 WHERE id = 'again'", "its history says"),
        ("UPDATE runs SET draft = 'other' WHERE item = 'drafted'", "draft is 'other'"),
        ("UPDATE items SET status = 'ready' WHERE id = 'aside'", "aside: status is 'ready', its history says 'parked'"),
        ("UPDATE items SET offered_to = NULL WHERE id = 'kept'", "kept is offered to None until"),
        ("UPDATE items SET offered_to = 'cyd' WHERE id = 'kept'", "does not wait for kept"),
        ("UPDATE tickets SET closed_at = since_at WHERE item = 'kept'", "whose ticket is closed"),
        ("UPDATE tickets SET item = 'free' WHERE item = 'kept'", "kept is offered to"),
        ("UPDATE tickets SET item = 'free' WHERE item = 'over'", "is free and"),
        ("UPDATE tickets SET item = 'done' WHERE item = 'over'", "done is done and"),
        ("UPDATE items SET resources = '[\"src/api\"]' WHERE id = 'right'", "left and right both hold src/api"),
        ("UPDATE items SET resources = '[\".\"]' WHERE id = 'right'", "left and right both hold"),
        ("UPDATE items SET resources = '[\"src/api/a/b\"]' WHERE id = 'right'", "left and right both hold"),
        ("UPDATE events SET token = 9 WHERE item = 'kept' AND number = 1", "begins at token 9, above the floor"),
        ("UPDATE sessions SET parent = 'gone' WHERE agent = 'bob'", "lives and its parent gone does not"),
    ],
)
def test_damage_is_found(board: Board, tmp_path: Path, damage: str, said: str) -> None:
    raw = apsw.Connection(str(tmp_path / "board.db"))
    raw.execute(damage)
    assert raw.changes() == 1 or "events" in damage
    raw.close()
    found = violations(board)
    assert any(said in line for line in found), found


@pytest.mark.parametrize("is_unblocked", [True, False])
def test_an_edit_may_miss_the_end_of_a_dependency_only_if_that_end_unblocks_its_item(
    tmp_path: Path, is_unblocked: bool
) -> None:
    """Where an edit and an end run at once, the edit can be numbered between the end and what that sets free."""
    with sqlite.harness(tmp_path) as harness:
        board, me = harness.board(), session(harness.board(), "ann")
        added(board, "first")
        board.add("then", id="then", depends_on=["first"])
        board.edit("then", title="other")
        board.claim("first", session=me)
        board.done("first", session=me)
        events = {(event.item, event.kind): event for event in board.events()}
    edit, end = events.pop(("then", "edited")), events.pop(("first", "done"))
    freed = [events.pop(("then", kind)) for kind in ("unblocked", "claimable")]
    found = blocked_as_they_should([*events.values(), end, edit, *(freed if is_unblocked else ())])
    assert bool(found) is not is_unblocked
