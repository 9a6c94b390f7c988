"""Reviewed results: `done` of an item with `review` is recorded as submitted, and ends the item once it is approved."""

from __future__ import annotations

from dibs.errors import Forbidden, ItemNotClaimable
from dibs.testing.conformance.asking import added, kinds, refused, session, whole
from dibs.testing.harness import Harness
from dibs.testing.invariants import assert_sound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.board import Board


def finished(board: Board, item: str = "x", agent: str = "coder") -> str:
    """The session that claimed this item and said that it is done."""
    me = session(board, agent)
    board.claim(item, session=me)
    board.done(item, session=me, note="see the branch", links={"branch": "b"}, cost={"usd": 1})
    return me


class TestReviews:
    def test_done_of_a_reviewed_item_is_recorded_as_submitted(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", review=True)
        added(board, "after", depends_on=["x"])
        finished(board)
        detail = board.get("x")
        assert (detail.item.status, detail.item.review, detail.claim) == ("pending_approval", True, None)
        (run,) = detail.runs
        assert (run.outcome, run.reason, run.draft) == ("submitted", "see the branch", None)
        assert (run.links, run.cost) == ({"branch": "b"}, {"usd": 1})
        assert board.get("after").item.status == "blocked"
        refused(ItemNotClaimable, board.claim, "x", session=session(board))
        assert_sound(board)

    def test_an_approved_result_ends_the_item(self, harness: Harness) -> None:
        """Also without `done`: unlike a draft, a result is not carried out by another run."""
        board = harness.board()
        added(board, "x", "y", review=True)
        added(board, "after", depends_on=["x", "y"])
        finished(board)
        finished(board, "y")
        assert board.approve("x", actor="boss", token=1).status == "done"
        assert board.approve("y", actor="boss", done=True).status == "done"
        assert board.get("after").item.status == "ready"
        assert_sound(board)

    def test_the_agent_of_a_result_does_not_approve_it(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", review=True)
        finished(board)
        refused(Forbidden, board.approve, "x", actor="coder")
        refused(ItemNotClaimable, board.approve, "x", actor="boss", token=2)

    def test_a_result_that_is_sent_back_is_worked_on_again_with_the_comment(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", review=True)
        finished(board)
        assert board.send_back("x", comment="the tests are red", actor="boss").status == "ready"
        grant = board.claim("x", session=session(board))
        assert grant.previous is not None
        assert (grant.previous.comment, grant.previous.run.links) == ("the tests are red", {"branch": "b"})
        assert kinds(board, "x")[-2:] == ["claimable", "claimed"]

    def test_a_result_leaves_the_approval_of_the_work(self, harness: Harness) -> None:
        """A result that is sent back must not open the item for edits that nobody approves."""
        board = harness.board()
        added(board, "x", review=True, needs_approval=True)
        board.approve("x", actor="boss")
        finished(board)
        assert board.get("x").item.approved
        assert board.send_back("x", comment="again", actor="boss").approved
        assert board.edit("x", title="otherwise").status == "pending_approval"
        assert_sound(board)

    def test_a_draft_of_a_reviewed_item_is_a_draft(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", review=True)
        me = session(board)
        board.claim("x", session=me)
        board.submit("x", session=me, draft="I would do this")
        assert board.approve("x", actor="boss").status == "ready"
        finished(board)
        assert board.approve("x", actor="boss").status == "done"

    def test_done_of_many_and_done_with_next_submit_what_is_reviewed(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "a", "c", "e", review=True)
        added(board, "b", "d")
        me = session(board)
        tokens = {item: board.claim(item, session=me).claim.token for item in "abcde"}
        ended = board.done_many({item: tokens[item] for item in "abc"}, session=me).ended
        assert [(one.item.id, one.item.status) for one in ended] == [
            ("a", "pending_approval"),
            ("b", "done"),
            ("c", "pending_approval"),
        ]
        for _ in range(2):  # the second time, the answer was lost
            assert board.next(session=me, done={item: tokens[item] for item in "de"}) == ()
        assert [board.get(item).item.status for item in "de"] == ["done", "pending_approval"]
        assert_sound(board)

    def test_only_an_admin_writes_what_another_system_says(self, harness: Harness) -> None:
        """It may end the item: an agent that could write it would approve its own result."""
        board = harness.board()
        said = {"to": "all", "external": {"state": "open"}}
        added(board, "x", payload=said)
        for forged in ({**said, "external": {"state": "merged"}}, {"to": "all"}):
            assert refused(Forbidden, board.edit, "x", payload=forged, relabel=False).facts["field"] == "payload"
        assert board.get("x").item.payload == said
        assert board.edit("x", payload={**said, "to": "some"}, relabel=False).payload["to"] == "some"

    def test_only_an_admin_takes_an_item_off_the_subject_that_it_follows(self, harness: Harness) -> None:
        """An item that another system says nothing about is anybody's to name."""
        board = harness.board()
        added(board, "x", subject="github:acme/shop#12", payload={"external": {"state": "open"}})
        added(board, "y", subject="github:acme/shop#13")
        before = whole(board, "x")
        for other in (None, "github:acme/shop#14"):
            assert refused(Forbidden, board.edit, "x", subject=other, relabel=False).facts["field"] == "subject"
        assert board.edit("x", subject="github:acme/shop#12", relabel=False).before == {}
        assert whole(board, "x") == before
        assert board.edit("y", subject=None, relabel=False).subject is None
        assert board.edit("x", subject=None).subject is None

    def test_only_an_admin_takes_the_review_away(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", review=True)
        before = whole(board, "x")
        refused(Forbidden, board.edit, "x", review=False, relabel=False)
        assert whole(board, "x") == before
        me = session(board)
        board.claim("x", session=me)
        assert not board.edit("x", review=False).review
        assert board.done("x", session=me).item.status == "done"
