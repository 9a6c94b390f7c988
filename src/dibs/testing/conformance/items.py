"""Items: what is added is there, whole and once; what cannot be is refused, and then nothing has changed."""

from __future__ import annotations

from typing import Any

from dibs.errors import Forbidden, Invalid, ItemChanged, ItemNotFound
from dibs.testing.conformance.asking import TTL_SECONDS, added, expire, ids, kinds, latest, refused, session, whole
from dibs.testing.harness import Harness

EVERYTHING = {
    "id": "all-of-it",
    "title": "Grüße, 世界 🌍",
    "project": "web/front",
    "type": "bug",
    "action": "deploy",
    "phase": "build",
    "body": "# Markdown\n\n- with 'quotes', \"more\" and \\ and %s; DROP TABLE items;--\n\ttab",
    "payload": {"n": 1.5, "deep": {"list": [1, None, True, "é"]}, "empty": {}, "at": "2026-01-01", "big": 2**53},
    "labels": ["one", "two"],
    "priority": -7,
    "timeout_seconds": 90.5,
}


class TestItems:
    def test_an_item_comes_back_as_it_was_added(self, harness: Harness) -> None:
        item = harness.board().add_many([EVERYTHING], actor="ann")[0]
        for name, given in EVERYTHING.items():
            assert getattr(item, name) == (tuple(given) if isinstance(given, list) else given), name
        assert (item.status, item.created_by, item.attempts, item.strikes, item.revision) == ("ready", "ann", 0, 0, 2)
        assert harness.board().get("all-of-it").item == item.item

    def test_an_item_without_details_has_the_defaults(self, harness: Harness) -> None:
        item = harness.board().add("just this")
        assert (item.project, item.type, item.action, item.priority) == ("default", "task", "task", 5)
        assert (item.body, item.payload, item.labels, item.phase, item.timeout_seconds) == ("", {}, (), None, 28800)

    def test_a_caller_that_changes_an_answer_changes_nothing_else(self, harness: Harness) -> None:
        """Not what a later item, session or run has by default, in this process or in another."""
        board = harness.board()
        board.add("first", id="first").payload["changed"] = 1
        me = session(board)
        board.find_session(me).meta["changed"] = 1
        board.claim("first", session=me)
        board.done("first", session=me).run.links["changed"] = 1
        assert board.add("second", id="second").payload == {}
        other = session(board)
        board.claim("second", session=other)
        run = board.done("second", session=other).run
        assert (run.links, run.cost, run.checks) == ({}, {}, {})
        for each in (board, harness.board()):
            assert (each.get("second").item.payload, each.find_session(other).meta) == ({}, {})
            assert each.get("first").item.payload == {}
            assert each.runs(item="second")[0].links == {}

    def test_a_long_body_and_a_large_payload_come_back_whole(self, harness: Harness) -> None:
        board = harness.board()
        body, payload = "ä" * 500_000, {"text": "x" * 999_000}
        board.add("large", id="x", body=body, payload=payload)
        item = harness.board().get("x").item
        assert (item.body, item.payload) == (body, payload)
        assert board.log("x")[0].data["payload"] == payload

    def test_times_are_the_stores(self, harness: Harness) -> None:
        harness.clock.freeze()
        harness.clock.advance(-86400)
        item = harness.board().add("yesterday", id="x")
        assert item.created_at == item.updated_at == harness.clock.now()
        harness.clock.advance(10)
        edited = harness.board().edit("x", title="later")
        assert (edited.created_at, edited.updated_at) == (item.created_at, item.created_at + 10_000)

    def test_the_same_item_added_again_is_answered_and_not_added(self, harness: Harness) -> None:
        board = harness.board()
        first = board.add_many([EVERYTHING])[0]
        assert board.add_many([EVERYTHING], actor="somebody-else")[0].item == first.item
        assert kinds(board, "all-of-it") == ["added", "claimable"]

    def test_the_same_item_added_again_is_answered_as_it_is_now(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        me = session(board)
        board.claim("x", session=me)
        assert board.add("do x", id="x").status == "in_progress"

    def test_a_taken_id_with_other_content_is_refused_and_nothing_changes(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        before = whole(board, "x")
        for other in ({"title": "other"}, {"priority": 6}, {"payload": {"a": 1}}, {"labels": ["l"]}, {"project": "p"}):
            refusal = refused(Invalid, board.add_many, [{"id": "x", "title": "do x", **other}])
            assert refusal.facts["field"] == "id"
            assert refusal.facts["item"] == "x"
        assert whole(board, "x") == before

    def test_of_several_items_all_are_added_or_none(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "taken")
        new = [{"id": "a", "title": "a"}, {"id": "taken", "title": "other"}, {"id": "b", "title": "b"}]
        refused(Invalid, board.add_many, new)
        assert ids(board.list()) == ["taken"]
        assert {event.item for event in board.events()} == {"taken"}

    def test_two_items_with_one_id_and_other_content_in_one_call_are_refused(self, harness: Harness) -> None:
        board = harness.board()
        refused(Invalid, board.add_many, [{"id": "a", "title": "a"}, {"id": "a", "title": "b"}])
        assert board.list() == ()

    def test_a_thousand_items_in_one_call_keep_their_order(self, harness: Harness) -> None:
        board = harness.board()
        wanted = [f"item-{number:04}" for number in range(1000, 0, -1)]
        assert ids(board.add_many({"id": id, "title": id} for id in wanted)) == wanted
        assert ids(board.list()) == wanted
        refusal = refused(Invalid, board.add_many, [{"id": f"more-{number}", "title": "x"} for number in range(1001)])
        assert refusal.facts["field"] == "items"
        assert ids(board.list()) == wanted

    def test_an_unknown_item_is_not_found_by_any_verb(self, harness: Harness) -> None:
        board = harness.board()
        me = session(board)
        for verb, kwargs in (
            (board.get, {}),
            (board.log, {}),
            (board.edit, {"title": "t"}),
            (board.cancel, {}),
            (board.retry, {}),
            (board.claim, {"session": me}),
            (board.recover, {"session": me, "token": 1}),
            (board.renew, {"session": me}),
            (board.release, {"session": me}),
            (board.done, {"session": me}),
            (board.fail, {"session": me}),
            (board.force_release, {"reason": "r"}),
        ):
            refusal = refused(ItemNotFound, verb, "no-such-item", **kwargs)
            assert refusal.facts["item"] == "no-such-item", verb
        refused(ItemNotFound, board.progress, "no-such-item", "note", session=me)

    def test_editing_changes_what_is_named_and_tells_it(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", labels=["a"])
        before = board.get("x").item
        changes: dict[str, Any] = {
            "title": "new",
            "body": "b",
            "payload": {"k": [1]},
            "labels": ("c", "d"),
            "priority": 9,
        }
        more: dict[str, Any] = {"phase": "two", "project": "p", "type": "bug", "action": "act", "timeout_seconds": 60}
        after = board.edit("x", actor="ann", **changes, **more).item
        for name, value in {**changes, **more}.items():
            assert getattr(after, name) == value, name
        assert after.replace(**{name: getattr(before, name) for name in {**changes, **more}}) == before.replace(
            revision=3, updated_at=after.updated_at
        )
        event = board.log("x")[-1]
        assert (event.kind, event.actor, event.status) == ("edited", "ann", "ready")

    def test_an_edit_that_changes_nothing_writes_nothing(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", priority=3)
        before = whole(board, "x")
        assert board.edit("x", title="do x", priority=3).item == before["detail"].item
        assert whole(board, "x") == before

    def test_an_edit_does_not_overwrite_what_came_after_it_was_read(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        read = board.get("x").item.revision
        board.edit("x", title="bob's", revision=read, actor="bob")
        before = whole(board, "x")
        for wrong in (read, read + 2):
            facts = refused(ItemChanged, board.edit, "x", title="ann's", revision=wrong, actor="ann").facts
            assert (facts["revision"], facts["changed_by"], facts["change"]) == (read + 1, "bob", "edited")
        refused(ItemChanged, board.edit, "x", title="bob's", revision=read)
        refused(Invalid, board.edit, "x", title="ann's", revision=0)
        assert whole(board, "x") == before
        assert board.edit("x", title="ann's", revision=read + 1, actor="ann").title == "ann's"

    def test_who_may_not_relabel_changes_no_type_and_no_action(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", type="mail", action="send")
        added(board, "y", type="mail")
        before = whole(board, "x"), whole(board, "y")
        for item, change in (("x", {"action": "read"}), ("x", {"type": "t", "title": "t"}), ("y", {"type": "t"})):
            facts = refused(Forbidden, board.edit, item, relabel=False, **change).facts
            assert (facts["item"], facts["field"] in change) == (item, True)
        assert (whole(board, "x"), whole(board, "y")) == before
        assert board.edit("x", relabel=False, type="mail", action="send").before == {}
        assert board.edit("x", relabel=False, action="send", title="new").before == {"title": "do x"}
        assert board.edit("y", type="t").action == "t"
        over = {"external": {"over": "closed"}}
        assert refused(Forbidden, board.edit, "x", relabel=False, payload=over).facts["field"] == "payload"
        board.edit("x", payload=over)
        refused(Forbidden, board.edit, "x", relabel=False, payload={})
        assert board.edit("x", relabel=False, payload={**over, "to": "all"}).payload["to"] == "all"

    def test_a_repeated_request_is_answered_although_it_made_another_revision(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        read = board.get("x").item.revision
        first = board.edit("x", title="new", revision=read, request_id="once")
        assert board.edit("x", title="new", revision=read, request_id="once") == first
        refused(Invalid, board.edit, "x", title="new", revision=read + 1, request_id="once")

    def test_what_time_has_done_is_no_other_revision(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        board.claim("x", session=session(board), ttl_seconds=TTL_SECONDS)
        read = board.get("x").item
        expire(harness)
        seen = board.get("x").item
        assert (seen.status, seen.revision) == ("ready", read.revision)
        assert board.edit("x", title="new", revision=read.revision).title == "new"

    def test_a_claimed_item_can_be_edited_and_stays_claimed(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        me = session(board)
        grant = board.claim("x", session=me)
        board.edit("x", title="new", priority=10)
        detail = board.get("x")
        assert (detail.item.status, detail.item.title, detail.claim) == ("in_progress", "new", grant.claim)
        assert board.done("x", session=me, token=grant.claim.token).item.title == "new"

    def test_a_cancelled_item_says_why_and_by_whom(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        assert board.cancel("x", reason="no longer needed", actor="ann").status == "cancelled"
        event = board.log("x")[-1]
        assert (event.kind, event.actor, event.data["reason"]) == ("cancelled", "ann", "no longer needed")

    def test_cancelling_a_claimed_item_spends_its_token(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        me = session(board)
        token = board.claim("x", session=me).claim.token
        assert board.cancel("x", actor="ann").status == "cancelled"
        detail = board.get("x")
        assert detail.claim is None
        assert (detail.runs[0].outcome, detail.runs[0].session) == ("cancelled", me)
        event = board.log("x")[-1]
        assert (event.actor, event.session, event.token) == ("ann", me, token)

    def test_a_failed_item_tried_again_has_its_strikes_forgiven(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        for _ in range(board.settings.max_strikes):
            board.claim("x", session=session(board), ttl_seconds=600)
            expire(harness)
            board.sweep()
        assert (board.get("x").item.status, board.get("x").item.strikes) == ("failed", board.settings.max_strikes)
        again = board.retry("x", reason="fixed", actor="ann")
        assert (again.status, again.strikes, again.token) == ("ready", 0, board.settings.max_strikes)
        assert latest(board, "x").data["reason"] == "fixed"
