"""Policies of agents: which actions an agent is given, which it may finish, and which end in a draft."""

from __future__ import annotations

from dibs.errors import Forbidden
from dibs.testing.conformance.asking import added, ids, refused, session, whole
from dibs.testing.harness import Harness

TYPE_CHECKING = False
if TYPE_CHECKING:
    pass


class TestPolicy:
    def test_an_agent_is_handed_only_the_actions_of_its_policy(self, harness: Harness) -> None:
        board = harness.board()
        board.set_agent("cloud", allowed_actions=["draft"], sensitive_actions=["send"])
        added(board, "pay", priority=10, action="pay")
        added(board, "send", priority=9, action="send")
        added(board, "draft", priority=8, action="draft")
        added(board, "by-type", priority=7, type="draft")
        me = session(board, "cloud")
        assert ids(board.next(session=me, n=10)) == ["send", "draft", "by-type"]
        before = whole(board, "pay")
        facts = refused(Forbidden, board.claim, "pay", session=me).facts
        assert (facts["agent"], facts["action"]) == ("cloud", "pay")
        assert whole(board, "pay") == before
        assert board.claim("pay", session=session(board, "anyone"))

    def test_without_a_policy_everything_is_handed_out(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", action="pay")
        me = session(board, "local")
        board.next(session=me)
        assert board.done("x", session=me).item.status == "done"

    def test_a_sensitive_action_ends_in_a_draft_and_not_in_done(self, harness: Harness) -> None:
        board = harness.board()
        board.set_agent("cloud", allowed_actions=["draft"], sensitive_actions=["send"])
        added(board, "x", action="send")
        added(board, "y", action="draft")
        me = session(board, "cloud")
        board.next(session=me, n=2)
        before = whole(board, "x")
        facts = refused(Forbidden, board.done, "x", session=me).facts
        assert facts["action"] == "send"
        assert whole(board, "x") == before
        assert board.submit("x", session=me, draft="Dear all,").item.status == "pending_approval"
        assert board.done("y", session=me).item.status == "done"

    def test_a_sensitive_action_can_still_be_let_go(self, harness: Harness) -> None:
        board = harness.board()
        board.set_agent("cloud", sensitive_actions=["send"])
        added(board, "x", "y", "z", action="send")
        me = session(board, "cloud")
        board.next(session=me, n=3)
        assert board.release("x", session=me).item.status == "ready"
        assert board.fail("y", session=me).item.status == "failed"
        assert board.reject("z", session=me, reason="spam").status == "rejected"

    def test_what_is_approved_goes_only_to_agents_allowed_the_action(self, harness: Harness) -> None:
        board = harness.board()
        board.set_agent("cloud", allowed_actions=["draft"], sensitive_actions=["send"])
        board.set_agent("local", allowed_actions=["send"])
        added(board, "x", action="send")
        cloud, local = session(board, "cloud"), session(board, "local")
        board.claim("x", session=cloud)
        board.submit("x", session=cloud, draft="Dear all,")
        board.approve("x", actor="boss")
        assert board.next(session=cloud) == ()
        refused(Forbidden, board.claim, "x", session=cloud)
        assert ids(board.next(session=local)) == ["x"]
        assert board.done("x", session=local).item.status == "done"

    def test_an_action_that_is_both_is_done_once_it_is_approved_and_not_before(self, harness: Harness) -> None:
        board = harness.board()
        board.set_agent("cloud", sensitive_actions=["send"])
        board.set_agent("local", allowed_actions=["send"], sensitive_actions=["send"])
        added(board, "x", action="send")
        cloud, local = session(board, "cloud"), session(board, "local")
        before = whole(board, "x")
        assert board.next(session=local) == ()
        assert "only once it is approved" in refused(Forbidden, board.claim, "x", session=local).message
        assert whole(board, "x") == before
        board.claim("x", session=cloud)
        board.submit("x", session=cloud, draft="Dear all,")
        board.approve("x", actor="boss")
        assert board.next(session=cloud) == ()
        assert ids(board.next(session=local)) == ["x"]
        assert board.done("x", session=local).item.status == "done"

    def test_who_may_do_it_only_once_it_is_approved_does_not_finish_it_before(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", "y", action="send")
        me = session(board, "local")
        board.next(session=me, n=2)
        board.set_agent("local", allowed_actions=["send"], sensitive_actions=["send"])
        before = whole(board, "x")
        refused(Forbidden, board.done, "x", session=me)
        assert [lost.code for lost in board.done_many({"x": None, "y": 1}, session=me).lost] == [
            "FORBIDDEN",
            "FORBIDDEN",
        ]
        assert whole(board, "x") == before

    def test_what_is_sent_back_goes_to_who_drafts(self, harness: Harness) -> None:
        board = harness.board()
        board.set_agent("cloud", sensitive_actions=["send"])
        added(board, "x", action="send")
        cloud = session(board, "cloud")
        board.claim("x", session=cloud)
        board.submit("x", session=cloud, draft="Dear all,")
        board.send_back("x", comment="again", actor="boss")
        assert ids(board.next(session=cloud)) == ["x"]

    def test_a_changed_policy_counts_from_then_on(self, harness: Harness) -> None:
        board = harness.board()
        board.set_agent("cloud", allowed_actions=["send"])
        added(board, "x", "y", action="send")
        me = session(board, "cloud")
        board.claim("x", session=me)
        board.set_agent("cloud", sensitive_actions=["send"])
        refused(Forbidden, board.done, "x", session=me)
        board.set_agent("cloud", allowed_actions=["draft"])
        assert board.next(session=me) == ()
        refused(Forbidden, board.claim, "y", session=me)
