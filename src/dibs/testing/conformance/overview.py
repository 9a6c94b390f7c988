"""What a dashboard reads: the board at one instant, the feed that continues it, and pages of items."""

from __future__ import annotations

from typing import Any

from dibs.errors import Invalid
from dibs.model import STATUSES
from dibs.testing.conformance.asking import TTL_SECONDS, added, expire, refused, session
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

    def test_a_failed_item_is_shown_with_its_reason(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "red", "silent", "struck", "again")
        me = session(board)
        for item, reason in (("red", "r" * 600), ("silent", None), ("again", "before")):
            board.claim(item, session=me)
            board.fail(item, session=me, reason=reason)
        board.retry("again")
        for _ in range(board.settings.max_strikes):
            board.claim("struck", session=me, ttl_seconds=TTL_SECONDS)
            expire(harness)
        for items in (board.view().items, board.page().items):
            found = {item.id: (item.status, item.reason) for item in items}
            assert found.pop("struck") == ("failed", board.runs(item="struck")[0].reason)
            assert found == {"red": ("failed", "r" * 500), "silent": ("failed", None), "again": ("ready", None)}

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

    def test_a_score_is_about_the_runs_that_are_shown(self, harness: Harness) -> None:
        board = harness.board()
        me = session(board)
        added(board, *"abcdefghijk")

        def failed() -> list[int]:
            (seat,) = board.view().sessions
            return [reason.points for reason in seat.reasons if reason.code == "failed"]

        for count, item in enumerate("abcdefghijk"):
            board.claim(item, session=me)
            if item == "a":
                board.fail(item, session=me)
            elif item != "k":
                board.done(item, session=me)
            if count == 7:
                assert failed() == [3], "2.5 of 20 points"
            elif item == "j":
                assert failed() == [2]
        assert failed() == [], "with the live run, ten are newer than the failed one"


class TestPaging:
    def test_a_page_has_what_matches_and_counts_that_obey_the_filter(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "a1", "a2", type="bug", project="web", labels=["ui", "p1"])
        added(board, "b1", type="docs", project="web", labels=["ui"])
        added(board, "c1", type="bug", project="api")
        board.add("Äpfel und Birnen", id="fruit", type="docs", project="api", labels=["Obst"])
        me = session(board, "ann")
        for item in ("a2", "c1"):
            board.claim(item, session=me)
        board.fail("c1", session=me)

        def shown(**asked: Any) -> list[str]:
            found = board.page(**asked)
            assert found.total == len(found.items)
            assert (found.next, found.left_off) == (None, 0)
            return [item.id for item in found.items]

        assert shown() == ["a1", "a2", "b1", "c1", "fruit"]
        assert shown(project=["web"], type=["bug"]) == ["a1", "a2"]
        assert shown(label=["ui", "p1"]) == ["a1", "a2"]
        assert shown(status=["ready"], project=["api"]) == ["fruit"]
        assert shown(status=["failed", "in_progress"]) == ["a2", "c1"]
        assert shown(agent="ann") == ["a2", "c1"]
        assert shown(agent="bob") == []
        assert shown(q="DO a") == ["a1", "a2"]
        assert shown(q="äPFEL obst") == ["fruit"]
        assert shown(q="  ") == shown()
        assert shown(q="ärö") == shown(q="%") == shown(q="[") == shown(q='"') == shown(q="ui,") == []
        assert shown(q="UI 1") == ["a1", "a2", "b1"]
        assert shown(q="ui UI ui") == shown(q="ui")
        counts = board.page(status=["ready"], type=["bug"], project=["web", "api"]).counts
        assert {name: n for name, n in counts["status"].items() if n} == {"ready": 1, "in_progress": 1, "failed": 1}
        assert set(counts["status"]) == set(STATUSES)
        assert counts["type"] == {"bug": 1, "docs": 2}

    def test_pages_follow_each_other_in_every_order(self, harness: Harness) -> None:
        board = harness.board()
        for id, priority in (("a", 1), ("b", 9), ("c", 5), ("d", 9), ("e", -3)):
            harness.clock.advance(1)
            board.add(id, id=id, priority=priority)
        harness.clock.advance(1)
        board.edit("c", title="changed")

        def walked(**asked: Any) -> list[str]:
            found, cursor = list[str](), None
            for _ in range(4):
                page = board.page(limit=2, cursor=cursor, **asked)
                assert page.total == 5
                found += [item.id for item in page.items]
                cursor = page.next
                if cursor is None:
                    break
            return found

        assert walked() == ["b", "d", "c", "a", "e"]
        assert walked(sort="created") == ["e", "d", "c", "b", "a"]
        assert walked(sort="updated") == ["c", "e", "d", "b", "a"]
        other_order = board.page(limit=1, sort="updated").next
        for wrong, field in (
            ({"cursor": other_order, "sort": "next"}, "cursor"),
            ({"cursor": "next.-999999999999999999999.7"}, "cursor"),
            ({"cursor": "next.1"}, "cursor"),
            ({"q": "a b c d e f g h i j k"}, "q"),
            ({"sort": "title"}, "sort"),
            ({"cursor": "nowhere"}, "cursor"),
            ({"cursor": "1.2.3"}, "cursor"),
            ({"limit": 501}, "limit"),
            ({"limit": 0}, "limit"),
            ({"status": ["open"]}, "status"),
            ({"q": "x" * 201}, "q"),
        ):
            assert refused(Invalid, board.page, **wrong).facts["field"] == field

    def test_a_page_is_what_a_claim_would_find(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", "y")
        added(board, "later", not_before=harness.clock.now() + 1000)
        board.claim("x", session=session(board), ttl_seconds=TTL_SECONDS)
        expire(harness)
        page = board.page(status=["ready"])
        assert [item.id for item in page.items] == ["x", "y", "later"]
        assert {item.status for item in page.items} == {"ready"}
        assert page.items[0].strikes == 1
        assert (page.counts["status"]["ready"], page.counts["status"]["in_progress"]) == (3, 0)
