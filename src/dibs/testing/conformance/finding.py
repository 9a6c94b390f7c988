"""Finding items: by the beginning of an id, by labels, and what `next` would give."""

from __future__ import annotations

from dibs.errors import AgentAtCapacity, Invalid, ItemNotFound, SessionNotFound
from dibs.testing.conformance.asking import TTL_SECONDS, added, expire, ids, refused, session
from dibs.testing.harness import Harness
from dibs.testing.invariants import assert_sound


class TestFinding:
    def test_ids_are_found_by_their_beginning(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "fix-login", "fix-logout", "fix-login-2", "Fix-other", "fi", "g", "fix_a", "fix.b")
        assert board.ids("fix-log") == ("fix-login", "fix-login-2", "fix-logout")
        assert board.ids("fix-login") == ("fix-login", "fix-login-2"), "itself first"
        assert board.ids("fix-log", limit=2) == ("fix-login", "fix-login-2")
        assert board.ids("fix") == ("fix-login", "fix-login-2", "fix-logout", "fix.b", "fix_a"), "by their bytes"
        assert board.ids("F") == ("Fix-other",)
        assert board.ids("zzz") == ()
        assert len(board.ids("")) == 8
        board.cancel("g")
        assert board.ids("g") == ("g",), "also one that has ended"
        assert refused(Invalid, board.ids, "fix*").facts["field"] == "prefix"
        assert refused(Invalid, board.ids, "fix", limit=0).facts["field"] == "limit"

    def test_next_gives_only_items_with_all_of_the_labels(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "plain", priority=9)
        added(board, "ui", labels=["ui"], priority=8)
        added(board, "api", labels=["api"])
        added(board, "both", labels=["api", "ui"])
        added(board, "other", labels=["api", "ui"], type="review", priority=7)
        me = session(board)
        assert ids(board.next(session=me, labels=["ui", "api"], types=["task"])) == ["both"]
        assert board.next(session=me, labels=["nosuch"]) == ()
        assert ids(board.next(session=me, labels=["api"], n=5)) == ["other", "api"]
        # What the labels passed over is found by the next call without them, at its place.
        assert ids(board.next(session=me, n=5)) == ["plain", "ui"]
        assert refused(Invalid, board.next, session=me, labels=["no spaces"]).facts["field"] == "labels"
        assert_sound(board)

    def test_a_preview_is_what_next_would_give_and_changes_nothing(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "low", priority=1)
        added(board, "ui", labels=["ui"])
        added(board, "elsewhere", project="other")
        added(board, "review", type="review", priority=9)
        added(board, "blocked", depends_on=["low"], priority=10)
        added(board, "first", resources=["src"])
        added(board, "same", resources=["src/api"], priority=8)
        ann, bob = session(board, "ann"), session(board, "bob")
        board.claim("first", session=ann)
        before = board.events()
        for asked in ({}, {"n": 9}, {"types": ["review"]}, {"projects": ["other"]}, {"labels": ["ui"], "n": 3}):
            expected = ids(board.preview(session=bob, **asked))
            assert board.events() == before
            assert ids(board.preview(session=bob, **asked)) == expected
            grants = board.next(session=bob, **asked)
            assert ids(grants) == expected, asked
            for grant in grants:
                board.release(grant.item.id, session=bob)
            before = board.events()
        assert ids(board.preview(n=9)) == ["review", "ui", "elsewhere", "low"], "for a new session of any agent"
        assert board.preview(types=["nosuch"]) == ()

    def test_a_preview_knows_time_and_limits(self, harness: Harness) -> None:
        harness.clock.freeze()
        board = harness.board()
        board.set_agent("ann", max_claims=1, types=["task"])
        added(board, "x", priority=9)
        added(board, "later", priority=8, not_before=harness.clock.now() + 60_000)
        added(board, "y", "z")
        added(board, "review", type="review", priority=10)
        ann, bob = session(board, "ann"), session(board, "bob")
        assert ids(board.preview(session=ann, n=3)) == ["x"], "as many as it may hold"
        board.claim("x", session=ann, ttl_seconds=TTL_SECONDS)
        refused(AgentAtCapacity, board.preview, session=ann)
        assert ids(board.preview(agent="ann", n=3)) == ["y"], "a new session has room"
        board.wait("z", session=bob)
        assert ids(board.preview(n=5)) == ["review", "y"], "an item that is offered to somebody is not free"
        harness.clock.advance(61)
        expire(harness)
        assert ids(board.preview(n=3)) == ["review", "x", "later"]
        assert ids(board.next(session=bob, n=3)) == ["review", "x", "later"]
        refused(SessionNotFound, board.preview, session="nobody")

    def test_the_runs_of_an_unknown_item_are_refused(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        assert board.runs(item="x") == ()
        assert refused(ItemNotFound, board.runs, item="nosuch").facts["item"] == "nosuch"
