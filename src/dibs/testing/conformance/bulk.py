"""One verb on many items: each is decided for itself, and nothing changes that the caller did not mean."""

from __future__ import annotations

from dibs.errors import Invalid
from dibs.testing.conformance.asking import TTL_SECONDS, added, expire, kinds, latest, refused, session
from dibs.testing.harness import Harness


class TestBulk:
    def test_each_item_is_decided_for_itself(self, harness: Harness) -> None:
        board = harness.board()
        added(board, *"abcde")
        me = session(board)
        board.claim("b", session=me)
        board.claim("d", session=me, ttl_seconds=TTL_SECONDS)
        expire(harness)
        board.claim("b", session=me)
        given = [{"id": id} for id in ("e", "b", "missing", "a", "d")]
        answer = board.bulk("park", args={"reason": "later"}, items=given, actor="boss")
        assert answer.done == ("e", "a", "d")
        assert [(one.item, one.code) for one in answer.refused] == [
            ("b", "TASK_NOT_CLAIMABLE"),
            ("missing", "TASK_NOT_FOUND"),
        ]
        assert all(one.item in one.detail for one in answer.refused)
        assert {item.id: item.status for item in board.list()} == {
            **{"a": "parked", "b": "in_progress", "c": "ready", "d": "parked", "e": "parked"}
        }
        assert (latest(board, "a").actor, latest(board, "a").data["reason"]) == ("boss", "later")
        assert kinds(board, "d")[-2:] == ["claimable", "parked"], "what time changed is recorded before"

    def test_what_changed_meanwhile_is_left_alone(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "a", "b")
        seen = {item.id: item.revision for item in board.view().items}
        board.edit("a", title="changed")
        items = [{"id": id, "revision": revision} for id, revision in seen.items()]
        answer = board.bulk("cancel", items=items)
        assert answer.done == ("b",)
        assert [(one.item, one.code) for one in answer.refused] == [("a", "TASK_CHANGED")]
        grant = board.claim("a", session=session(board))
        wrong = [{"id": "a", "token": grant.claim.token + 1}]
        assert board.bulk("force_release", args={"reason": "stuck"}, items=wrong).done == ()
        right = [{"id": "a", "token": grant.claim.token}]
        assert board.bulk("force_release", args={"reason": "stuck"}, items=right).done == ("a",)

    def test_a_filter_changes_what_matches_if_that_is_what_was_expected(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "a", "b", type="bug")
        added(board, "c", type="docs")
        wanted = {"status": ["ready"], "type": ["bug"]}
        refusal = refused(Invalid, board.bulk, "park", filter=wanted, expect=3)
        assert (refusal.facts["field"], refusal.facts["matches"]) == ("expect", 2)
        assert {item.status for item in board.list()} == {"ready"}
        assert set(board.bulk("park", filter=wanted, expect=2).done) == {"a", "b"}
        assert {item.id for item in board.list(statuses=["parked"])} == {"a", "b"}

    def test_a_repeated_request_changes_nothing_more(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "a", "b")
        wanted = {"status": ["ready"]}
        answer = board.bulk("park", filter=wanted, expect=2, request_id="r-1")
        board.unpark("a")
        assert harness.board().bulk("park", filter=wanted, expect=2, request_id="r-1") == answer
        assert board.get("a").item.status == "ready"
        refused(Invalid, board.bulk, "park", filter=wanted, expect=1, request_id="r-1")

    def test_what_makes_no_sense_is_refused_and_changes_nothing(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "a")
        one = [{"id": "a"}]
        for field, verb, asked in (
            ("verb", "claim", {"items": one}),
            ("verb", "bulk", {"items": one}),
            ("args", "park", {"items": one, "args": {"session": "x"}}),
            ("reason", "reject", {"items": one}),
            ("comment", "send_back", {"items": one, "args": {"comment": " "}}),
            ("done", "approve", {"items": one, "args": {"done": "yes"}}),
            ("items", "park", {}),
            ("items", "park", {"items": one * 2}),
            ("items", "park", {"items": [{"id": "a", "title": "x"}]}),
            ("items", "park", {"items": [{"id": "../a"}]}),
            ("items", "park", {"items": [{"id": "a", "token": 1}]}),
            ("revision", "park", {"items": [{"id": "a", "revision": 0}]}),
            ("items", "park", {"items": [{"id": f"i{n}"} for n in range(1001)]}),
            ("filter", "park", {"items": one, "filter": {}, "expect": 1}),
            ("filter", "park", {"filter": {"owner": "me"}, "expect": 1}),
            ("status", "park", {"filter": {"status": ["open"]}, "expect": 1}),
            ("expect", "park", {"filter": {}}),
            ("expect", "park", {"filter": {}, "expect": 1001}),
            ("expect", "park", {"items": one, "expect": 1}),
        ):
            assert refused(Invalid, board.bulk, verb, **asked).facts["field"] == field, (verb, asked)
        assert kinds(board, "a") == ["added", "claimable"]
