"""The view: a board at one instant, as a dashboard shows it, and the feed that continues it."""

from __future__ import annotations

from dibs.model import STATUSES
from dibs.testing.conformance.asking import TTL_SECONDS, added, expire, session
from dibs.testing.harness import Harness


class TestOverview:
    def test_a_view_has_what_has_not_ended_and_what_just_ended(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "ready", "held", "done", "parked", "gone", body="long", payload={"large": 1}, resources=["src"])
        added(board, "asked", needs_approval=True, resources=[])
        added(board, "blocked", depends_on=["held", "done"])
        added(board, "stuck", depends_on=["gone"])
        me = session(board)
        for item in ("held", "done"):
            board.claim(item, session=me)
        board.done("done", session=me)
        board.park("parked")
        board.cancel("gone")
        view = board.view()
        found = {item.id: item for item in view.items}
        assert {id: item.status for id, item in found.items()} == {
            **{"ready": "ready", "held": "in_progress", "done": "done", "parked": "parked", "gone": "cancelled"},
            **{"asked": "pending_approval", "blocked": "blocked", "stuck": "blocked"},
        }
        assert view.counts == {status: sum(item.status == status for item in board.list()) for status in STATUSES}
        assert view.left_off == 0
        assert list(found)[:3] == ["asked", "stuck", "held"], "what needs somebody comes first, then what is in flight"
        whole = board.get("blocked").item
        shown = found["blocked"].as_dict()
        assert shown == {**shown, **{name: value for name, value in whole.as_dict().items() if name in shown}}
        blockers = {id: [(one.item, one.status, one.will_move) for one in found[id].open_blockers] for id in found}
        assert blockers["blocked"] == [("held", "in_progress", True)]
        assert blockers["stuck"] == [("gone", "cancelled", False)]
        assert blockers["ready"] == []
        assert view.me == board.view().me is not None

    def test_a_claim_is_shown_with_its_note_and_its_queue(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", "y", "z")
        me, ann, bob = session(board, kind="autonomous"), session(board, "ann"), session(board, "bob")
        grant = board.claim("x", session=me)
        board.progress("x", session=me, note="first")
        board.progress("x", session=me, note="n" * 600)
        for waiter in (ann, bob):
            board.wait("x", session=waiter)
        board.wait("y", session=bob)
        (held,) = (view := board.view()).holdings
        assert (held.item, held.token, held.session, held.kind) == ("x", grant.claim.token, me, "autonomous")
        assert (held.health, held.heartbeat_count) == ("healthy", board.get("x").claim.heartbeat_count)  # type: ignore[union-attr]
        assert held.note is not None
        assert held.note.note == "n" * 500
        assert [(one.session, one.offered) for one in held.waiters] == [(ann, False), (bob, False)]
        assert {item.id: item.waiters for item in view.items} == {"x": 2, "y": 1, "z": 0}
        board.release("x", session=me)
        board.claim("z", session=me)
        view = board.view()
        assert [held.item for held in view.holdings] == ["z"]
        assert view.holdings[0].note is None

    def test_a_view_is_what_a_claim_would_find(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", "y")
        added(board, "later", not_before=harness.clock.now() + 1000)
        me, ann = session(board), session(board, "ann")
        board.claim("x", session=me, ttl_seconds=TTL_SECONDS)
        board.wait("x", session=ann, ttl_seconds=TTL_SECONDS * 2)
        expire(harness)
        view = board.view()
        items = {item.id: item for item in view.items}
        assert (items["x"].status, items["x"].offered_to, items["x"].strikes) == ("ready", ann, 1)
        assert items["later"].status == "ready"
        assert (view.counts["ready"], view.counts["in_progress"], view.counts["scheduled"]) == (3, 0, 0)
        assert view.holdings == ()
        seats = {seat.id: seat for seat in view.sessions}
        assert seats[me].holding == ()
        assert [(run.item, run.outcome) for run in seats[me].recent] == [("x", "expired")]
        assert seats[me].ended == {"expired": 1}

    def test_the_feed_continues_a_view(self, harness: Harness) -> None:
        board = harness.board()
        assert board.events(after=board.view().event) == ()
        added(board, "x")
        before = board.view()
        assert board.events(after=before.event) == ()
        me = session(board)
        board.claim("x", session=me)
        assert [event.kind for event in board.events(after=before.event)] == ["claimed"]
        board.done("x", session=me)
        harness.clock.advance(1)
        board.prune(older_than_seconds=0)
        assert board.events(after=board.view().event) == ()

    def test_a_session_is_scored_and_told_why(self, harness: Harness) -> None:
        harness.clock.freeze()
        board = harness.board()
        added(board, *"abcd", "long", "short")
        settings = board.settings
        me, idle = session(board, meta={"context_percent": 91, "large": "x" * 300}), session(board, "idle")
        person = session(board, "you", kind="person")
        for item in "abcd":
            board.claim(item, session=me)
            (board.fail if item == "a" else board.done)(item, session=me)
        board.claim("long", session=person)

        def seat(id: str) -> tuple[int, dict[str, int]]:
            (found,) = (one for one in board.view().sessions if one.id == id)
            return found.score, {reason.code: reason.points for reason in found.reasons}

        assert seat(idle) == (100, {})
        assert seat(me) == (80, {"failed": 5, "context": 15})
        board.claim("short", session=me, ttl_seconds=7200)
        harness.clock.advance(settings.stale_seconds + 1)
        assert seat(me) == (60, {"stale": 20, "failed": 5, "context": 15})
        harness.clock.advance(settings.orphan_seconds - settings.stale_seconds)
        assert seat(me) == (40, {"orphaned": 40, "failed": 5, "context": 15})
        board.heartbeat(session=me)
        harness.clock.advance(7200 - settings.warning_seconds)
        assert seat(me)[1] == {"orphaned": 40, "warning": 10, "failed": 5, "context": 15}
        harness.clock.advance(settings.warning_seconds - settings.expiring_seconds)
        assert seat(me)[1] == {"orphaned": 40, "expiring": 20, "failed": 5, "context": 15}
        assert seat(person) == (100, {})
        harness.clock.advance(settings.expiring_seconds + 1)
        assert seat(me) == (76, {"lost": 5, "failed": 4, "context": 15})
        (found,) = (one for one in board.view().sessions if one.id == me)
        assert found.meta == {"context_percent": 91}
        assert found.ended == {"done": 3, "expired": 1, "failed": 1}
