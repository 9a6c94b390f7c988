"""History: every transition is one event, told with its actor, numbered without gaps, and folding to the state; the
feed gives each of them once, in order, from any cursor.
"""

from __future__ import annotations

from dibs.testing.conformance.asking import TTL_SECONDS, added, expire, kinds, session
from dibs.testing.harness import Harness
from dibs.testing.history import read_feed
from dibs.testing.invariants import assert_sound, told

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.board import Board


def eventful(harness: Harness) -> Board:
    """A board on which everything that can be told has happened."""
    board = harness.board()
    added(board, *(f"item-{number}" for number in range(9)))
    ann, bob = session(board, "ann"), session(board, "bob")
    for number in range(9):
        board.claim(f"item-{number}", session=ann, ttl_seconds=TTL_SECONDS)
    board.edit("item-0", actor="pat", title="Other", labels=["x"], payload={"a": [1]})
    board.progress("item-0", "note", session=ann)
    board.done("item-0", session=ann, links={"pr": 1}, cost={"usd": 2})
    board.fail("item-1", session=ann, reason="red")
    board.retry("item-1", actor="pat", reason="again")
    board.release("item-2", session=ann, reason="busy")
    board.force_release("item-3", actor="pat", reason="stuck")
    board.cancel("item-4", actor="pat", reason="dropped")
    board.heartbeat(session=ann, holding={f"item-{number}": 1 for number in (6, 7, 8)})
    expire(harness)
    board.claim("item-6", session=bob)
    board.sweep()
    board.claim("item-7", session=bob)
    board.recover("item-8", session=ann, token=1)
    board.end_session(ann)
    return board


class TestHistory:
    def test_each_transition_is_one_event_with_its_status_and_actor(self, harness: Harness) -> None:
        board = eventful(harness)
        events = [event for number in range(9) for event in board.log(f"item-{number}")]
        told_so = {(event.kind, event.status, event.actor) for event in events}
        for kind, status, actor in (
            ("added", "ready", board.actor),
            ("claimable", "ready", "dibs"),
            ("claimed", "in_progress", "ann"),
            ("claimed", "in_progress", "bob"),
            ("edited", "in_progress", "pat"),
            ("progress", "in_progress", "ann"),
            ("done", "done", "ann"),
            ("failed", "failed", "ann"),
            ("retried", "ready", "pat"),
            ("released", "ready", "ann"),
            ("force_released", "ready", "pat"),
            ("cancelled", "cancelled", "pat"),
            ("forgotten", "ready", "ann"),
        ):
            assert (kind, status, actor) in told_so, kind
        assert {event.kind for event in events} >= {"expired"}

    def test_the_end_of_a_claim_names_who_held_it(self, harness: Harness) -> None:
        board = eventful(harness)
        ends = ("done", "failed", "released", "force_released", "cancelled", "forgotten", "expired")
        for event in read_feed(board):
            if event.kind in ends:
                assert event.session, event
                assert event.agent in ("ann", "bob"), event

    def test_events_are_numbered_without_gaps_and_fold_to_the_state(self, harness: Harness) -> None:
        board = eventful(harness)
        for item in board.list():
            log = board.log(item.id)
            assert [event.number for event in log] == list(range(1, item.revision + 1))
        for id, story in told(read_feed(board)).items():
            assert story.oddities == []
            assert story.differences(board.get(id).item) == []
        assert_sound(board)

    def test_what_changes_nothing_is_no_event(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        me = session(board)
        board.claim("x", session=me)
        before = kinds(board, "x")
        board.claim("x", session=me)
        board.renew("x", session=me)
        board.heartbeat(session=me)
        board.heartbeat(session=me, holding={"x": 1})
        board.sweep()
        board.get("x")
        assert kinds(board, "x") == before

    def test_the_feed_has_every_event_once_in_order(self, harness: Harness) -> None:
        board = eventful(harness)
        feed = board.events(limit=1000)
        assert [event.id for event in feed] == sorted({event.id for event in feed})
        by_log = sorted((event for item in board.list() for event in board.log(item.id)), key=lambda event: event.id)
        assert list(feed) == by_log
        for id in ("item-0", "item-6"):
            numbers = [event.number for event in feed if event.item == id]
            assert numbers == list(range(1, len(numbers) + 1))

    def test_a_cursor_goes_on_where_it_stopped_and_skips_nothing(self, harness: Harness) -> None:
        board = eventful(harness)
        feed = board.events(limit=1000)
        for page in (1, 2, 7):
            seen: list[int] = []
            for _ in range(len(feed) + 1):
                with harness.board() as fresh:
                    found = fresh.events(after=seen[-1] if seen else 0, limit=page)
                assert len(found) <= page
                seen.extend(event.id for event in found)
            assert seen == [event.id for event in feed], f"pages of {page}"
        for position in range(len(feed)):
            assert board.events(after=feed[position].id, limit=1000) == feed[position + 1 :]

    def test_the_feed_of_one_item_has_only_its_events(self, harness: Harness) -> None:
        board = eventful(harness)
        assert board.events(item="item-0") == board.log("item-0")
        second = board.log("item-0")[1]
        assert board.events(item="item-0", after=second.id) == board.log("item-0")[2:]

    def test_new_events_come_after_every_cursor_already_given(self, harness: Harness) -> None:
        board, other = harness.board(), harness.board()
        after = 0
        for number in range(10):
            (board if number % 2 else other).add(f"item {number}")
            added, claimable = harness.board().events(after=after)
            assert (added.kind, claimable.kind) == ("added", "claimable")
            assert after < added.id < claimable.id
            after = claimable.id

    def test_a_follower_is_told_what_happens_in_another_process(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        actor = harness.actor()
        feed = board.follow(wait_seconds=30)
        assert [next(feed).kind, next(feed).kind] == ["added", "claimable"]
        me = actor.ask("start_session", "ann").reply["id"]
        actor.send("claim", "x", session=me)
        assert next(feed).kind == "claimed"
        assert actor.answer().code is None
        actor.send("done", "x", session=me)
        assert next(feed).kind == "done"
        assert actor.answer().code is None
