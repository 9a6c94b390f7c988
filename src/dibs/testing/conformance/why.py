"""Why: everything that keeps an item from a session, or how it would be given to it; a look that changes nothing."""

from __future__ import annotations

from dibs.errors import ItemNotFound, SessionNotFound
from dibs.testing.conformance.asking import TTL_SECONDS, added, expire, ids, refused, session, whole
from dibs.testing.harness import Harness

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.board import Board


def codes(board: Board, item: str, me: str) -> list[str]:
    """The codes of `why`; a no is no to all, and each line is one that can be read."""
    before = whole(board, item)
    reasons = board.why(item, session=me)
    assert whole(board, item) == before, "asking why changed something"
    assert reasons, "there is always a reason"
    for reason in reasons:
        assert reason.text, reason
        assert "\n" not in reason.text, reason
    return [reason.code for reason in reasons]


def claimable(board: Board, item: str, me: str) -> bool:
    return any(reason.claimable for reason in board.why(item, session=me))


class TestWhy:
    def test_what_another_holds(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        ann, me = session(board, "ann"), session(board)
        board.claim("x", session=ann)
        assert codes(board, "x", me) == ["TASK_ALREADY_CLAIMED"]
        assert "ann" in board.why("x", session=me)[0].text
        assert not claimable(board, "x", me)
        assert board.activity() == ()

    def test_what_is_in_no_state_to_be_claimed(self, harness: Harness) -> None:
        harness.clock.freeze()  # the text has the time that is left
        board = harness.board()
        added(board, "done", "parent")
        added(board, "blocked", depends_on=["parent"])
        added(board, "scheduled", not_before=harness.clock.now() + 90_000)
        added(board, "asked", needs_approval=True)
        added(board, "aside", depends_on=["parent"])
        board.park("aside")
        me = session(board)
        board.claim("done", session=me)
        board.done("done", session=me)
        told = {
            "done": "done",
            "blocked": "parent",
            "scheduled": "it can be claimed in 1m",
            "asked": "approval",
            "aside": "parent",
        }
        for item, word in told.items():
            assert codes(board, item, me) == ["TASK_NOT_CLAIMABLE"], item
            assert word in board.why(item, session=me)[0].text, item
            assert not claimable(board, item, me)

    def test_what_is_offered_to_another_and_what_is_offered_to_me(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        first, me = session(board), session(board)
        board.wait("x", session=first)
        assert codes(board, "x", me) == ["TASK_NOT_CLAIMABLE"]
        assert first in board.why("x", session=me)[0].text
        assert codes(board, "x", first) == ["CLAIMABLE", "OFFERED"]
        assert claimable(board, "x", first)

    def test_what_the_agent_may_not_do_has_no_room_for_or_is_too_fast_for(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", "y", "z")
        board.set_agent("barred", allowed_actions=["other"])
        board.set_agent("full", max_claims=1)
        board.set_agent("fast", claims_per_minute=1)
        full, fast = session(board, "full"), session(board, "fast")
        board.claim("y", session=full)
        board.claim("z", session=fast)
        for agent, me, code in (
            ("barred", session(board, "barred"), "FORBIDDEN"),
            ("full", full, "AGENT_AT_CAPACITY"),
            ("fast", fast, "RATE_LIMITED"),
        ):
            assert codes(board, "x", me) == [code], agent
            assert not claimable(board, "x", me)

    def test_what_touches_something_in_use(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "held", "x", resources=["src"])
        board.claim("held", session=session(board, "ann"))
        me = session(board)
        assert codes(board, "x", me) == ["RESOURCE_BUSY"]
        assert "held" in board.why("x", session=me)[0].text

    def test_every_reason_is_told(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "held", resources=["docs"])
        added(board, "mine")
        added(board, "x", needs_approval=True, resources=["docs"])
        board.set_agent("poor", allowed_actions=["other"])
        me = session(board, "poor")
        board.claim("held", session=session(board))
        board.set_agent("poor")
        board.claim("mine", session=me)
        board.set_agent("poor", allowed_actions=["other"], max_claims=1)
        assert codes(board, "x", me) == ["TASK_NOT_CLAIMABLE", "FORBIDDEN", "AGENT_AT_CAPACITY", "RESOURCE_BUSY"]

    def test_what_this_session_holds(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        me = session(board)
        board.claim("x", session=me)
        assert codes(board, "x", me) == ["OWN"]
        assert claimable(board, "x", me)

    def test_what_next_would_choose(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        me = session(board)
        assert codes(board, "x", me) == ["CLAIMABLE", "NEXT"]
        assert ids(board.next(session=me)) == ["x"]

    def test_how_many_next_would_choose_before(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "older")
        added(board, "x")
        added(board, "better", priority=9)
        added(board, "newer")
        me = session(board)
        assert codes(board, "x", me) == ["CLAIMABLE", "BEHIND"]
        assert "2 others" in board.why("x", session=me)[1].text
        assert ids(board.next(session=me, n=3)) == ["better", "older", "x"]

    def test_what_next_would_not_choose_is_not_counted(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "held", resources=["src"])
        added(board, "busy", priority=9, resources=["src/api"])
        added(board, "offered", priority=9)
        added(board, "other-type", priority=9, type="other")
        added(board, "x")
        board.claim("held", session=session(board))
        board.wait("offered", session=session(board))
        board.set_agent("coder", types=["task"])
        me = session(board, "coder")
        assert codes(board, "x", me) == ["CLAIMABLE", "NEXT"]
        assert ids(board.next(session=me)) == ["x"]

    def test_what_is_parked_or_of_another_type_can_be_had_by_id(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "aside", "x")
        board.park("aside")
        board.set_agent("reviewer", types=["review"])
        me = session(board, "reviewer")
        assert codes(board, "aside", me) == ["CLAIMABLE", "PARKED"]
        assert codes(board, "x", me) == ["CLAIMABLE", "TYPE"]
        for item in ("aside", "x"):
            assert claimable(board, item, me)
            assert board.claim(item, session=me)

    def test_what_time_has_done_counts(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "expired", priority=9)
        added(board, "due", not_before=harness.clock.now() + 60_000, priority=8)
        added(board, "lesser", priority=1)
        board.claim("expired", session=session(board), ttl_seconds=TTL_SECONDS)
        expire(harness)
        me = session(board)
        assert codes(board, "expired", me) == ["CLAIMABLE", "NEXT"]
        assert codes(board, "due", me)[0] == "CLAIMABLE"
        assert ids(board.next(session=me, n=3)) == ["expired", "due", "lesser"]

    def test_only_who_is_known_is_told_of_what_is_known(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        refused(SessionNotFound, board.why, "x", session="nobody")
        refused(ItemNotFound, board.why, "nothing", session=session(board))
