"""Approvals: an item that needs one is given out only after it, and no agent approves a draft of its own."""

from __future__ import annotations

from dibs.errors import Forbidden, Invalid, ItemChanged, ItemNotClaimable, ItemNotClaimed, NotClaimOwner
from dibs.testing.conformance.asking import added, ids, kinds, refused, session, whole
from dibs.testing.harness import Harness
from dibs.testing.invariants import assert_sound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from dibs.board import Board


def drafted(board: Board, item: str = "x", agent: str = "writer", **fields: object) -> str:
    """An item that waits for approval with a draft; the session that wrote it."""
    added(board, item, **fields)
    me = session(board, agent)
    board.claim(item, session=me)
    board.submit(item, session=me, draft="Dear all,", note="first try", links={"pr": 7}, cost={"usd": 0.5})
    return me


def status(board: Board, item: str = "x") -> str:
    return board.get(item).item.status


class TestApprovals:
    def test_an_item_that_needs_approval_is_not_handed_out(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", needs_approval=True, priority=10)
        added(board, "y")
        item = board.get("x").item
        assert (item.status, item.needs_approval, item.approved) == ("pending_approval", True, False)
        me = session(board)
        assert ids(board.next(session=me, n=5)) == ["y"]
        facts = refused(ItemNotClaimable, board.claim, "x", session=me).facts
        assert facts["status"] == "pending_approval"
        assert "approval" in facts["why"]

    def test_what_is_approved_may_be_done(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", needs_approval=True)
        item = board.approve("x", comment="go on", actor="boss")
        assert (item.status, item.approved, item.needs_approval) == ("ready", True, False)
        approved, claimable = board.log("x")[-2:]
        assert (approved.kind, approved.actor, approved.data["comment"]) == ("approved", "boss", "go on")
        assert claimable.kind == "claimable"
        me = session(board)
        assert ids(board.next(session=me)) == ["x"]
        assert board.done("x", session=me).item.status == "done"

    def test_a_draft_ends_the_run_and_waits(self, harness: Harness) -> None:
        board = harness.board()
        me = drafted(board)
        detail = board.get("x")
        assert (detail.item.status, detail.claim) == ("pending_approval", None)
        (run,) = detail.runs
        assert (run.outcome, run.draft, run.reason) == ("submitted", "Dear all,", "first try")
        assert (run.links, run.cost) == ({"pr": 7}, {"usd": 0.5})
        submitted = board.log("x")[-1]
        assert (submitted.kind, submitted.session, submitted.data["draft"]) == ("submitted", me, "Dear all,")
        refused(ItemNotClaimed, board.done, "x", session=me)

    def test_the_draft_reaches_who_carries_it_out(self, harness: Harness) -> None:
        board = harness.board()
        drafted(board)
        board.approve("x", actor="boss")
        previous = board.claim("x", session=session(board, "doer")).previous
        assert previous is not None
        assert (previous.run.draft, previous.run.agent) == ("Dear all,", "writer")

    def test_who_carries_it_out_is_told_what_was_approved_and_by_whom(self, harness: Harness) -> None:
        board = harness.board()
        drafted(board)
        board.approve("x", actor="boss", comment="but not today")
        me = session(board, "doer")
        for approval in (board.claim("x", session=me).approval, board.claim("x", session=me).approval):
            assert approval is not None
            assert (approval.actor, approval.comment) == ("boss", "but not today")
            assert approval.at == next(event.at for event in board.log("x") if event.kind == "approved")
            assert approval.run == board.get("x").runs[-1]
            assert approval.run is not None
            assert (approval.run.draft, approval.run.token, approval.run.agent) == ("Dear all,", 1, "writer")

    def test_the_approved_draft_reaches_also_who_comes_after_others(self, harness: Harness) -> None:
        board = harness.board()
        drafted(board)
        board.approve("x", actor="boss")
        first = session(board, "doer")
        board.claim("x", session=first)
        board.release("x", session=first, reason="not me")
        (grant,) = board.next(session=session(board, "doer"))
        assert grant.previous is not None
        assert grant.previous.run.draft is None, "the run before is that of a doer"
        assert grant.approval is not None
        assert grant.approval.run is not None
        assert grant.approval.run.draft == "Dear all,"

    def test_a_draft_that_nobody_approved_is_no_approved_draft(self, harness: Harness) -> None:
        board = harness.board()
        me = drafted(board)
        board.send_back("x", comment="more politely", actor="boss")
        grant = board.claim("x", session=me)
        assert grant.previous is not None
        assert (grant.previous.run.draft, grant.previous.comment) == ("Dear all,", "more politely")
        assert grant.approval is None
        board.submit("x", session=me, draft="Dearest all,")
        board.approve("x", actor="boss")
        approval = board.claim("x", session=session(board, "doer")).approval
        assert approval is not None
        assert approval.run is not None
        assert (approval.run.draft, approval.run.token) == ("Dearest all,", 2)

    def test_what_was_approved_without_a_draft_has_none(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", needs_approval=True)
        added(board, "y")
        board.approve("x", actor="boss", comment="go on")
        asked = {grant.item.id: grant.approval for grant in board.next(session=session(board), n=2)}
        assert asked["y"] is None
        assert asked["x"] is not None
        assert (asked["x"].actor, asked["x"].comment, asked["x"].run) == ("boss", "go on", None)

    def test_an_approval_can_be_for_the_draft_that_was_read_alone(self, harness: Harness) -> None:
        board = harness.board()
        me = drafted(board)
        read = board.get("x").runs[0].token
        board.send_back("x", comment="more politely", actor="another")
        board.claim("x", session=me)
        board.submit("x", session=me, draft="All of you,")
        before = whole(board, "x")
        for done in (False, True):
            facts = refused(ItemNotClaimable, board.approve, "x", token=read, actor="boss", done=done).facts
            assert (facts["status"], facts["draft_token"]) == ("pending_approval", 2)
        assert whole(board, "x") == before
        assert board.approve("x", token=2, actor="boss").status == "ready"
        assert board.log("x")[-2].data["draft_token"] == 2

    def test_where_there_is_no_draft_none_can_have_been_read(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", needs_approval=True)
        assert refused(ItemNotClaimable, board.approve, "x", token=1).facts["draft_token"] is None
        assert board.approve("x").approved

    def test_submitting_is_fenced(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        me, other = session(board), session(board)
        refused(ItemNotClaimed, board.submit, "x", session=me, draft="d")
        board.claim("x", session=me)
        before = whole(board, "x")
        refused(NotClaimOwner, board.submit, "x", session=other, draft="d")
        refused(Invalid, board.submit, "x", session=me, draft="d", token=2)
        assert whole(board, "x") == before

    def test_an_approved_draft_may_be_the_whole_work(self, harness: Harness) -> None:
        board = harness.board()
        drafted(board)
        assert board.approve("x", done=True, actor="boss").status == "done"
        assert kinds(board, "x")[-1] == "approved"
        assert board.get("x").runs[0].draft == "Dear all,"

    def test_a_draft_can_be_sent_back_with_a_comment(self, harness: Harness) -> None:
        board = harness.board()
        me = drafted(board)
        item = board.send_back("x", comment="more politely", actor="boss")
        assert (item.status, item.approved, item.needs_approval) == ("ready", False, False)
        sent = board.log("x")[-2]
        assert (sent.kind, sent.actor, sent.data["comment"]) == ("sent_back", "boss", "more politely")
        assert board.claim("x", session=me).claim.token == 2
        board.submit("x", session=me, draft="Dearest all,")
        assert status(board) == "pending_approval"
        refused(Invalid, board.send_back, "x", comment="", actor="boss")

    def test_a_person_can_reject_what_waits_for_approval(self, harness: Harness) -> None:
        board = harness.board()
        drafted(board)
        assert board.reject("x", reason="never", actor="boss").status == "rejected"
        event = board.log("x")[-1]
        assert (event.kind, event.actor, event.data["reason"]) == ("rejected", "boss", "never")
        refused(ItemNotClaimable, board.claim, "x", session=session(board))

    def test_a_holder_can_reject_what_it_holds(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        me, other = session(board, "ann"), session(board, "bob")
        board.claim("x", session=me)
        refused(NotClaimOwner, board.reject, "x", session=other, reason="no")
        assert board.reject("x", session=me, reason="a duplicate").status == "rejected"
        run = board.get("x").runs[0]
        assert (run.outcome, run.reason, board.get("x").claim) == ("rejected", "a duplicate", None)

    def test_what_does_not_wait_for_approval_cannot_be_decided_on(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "ready", "held", "done")
        me = session(board)
        for item in ("held", "done"):
            board.claim(item, session=me)
        board.done("done", session=me)
        for item in ("ready", "held", "done"):
            before = whole(board, item)
            refused(ItemNotClaimable, board.approve, item)
            refused(ItemNotClaimable, board.send_back, item, comment="again")
            refused(ItemNotClaimable, board.reject, item, reason="no")
            assert whole(board, item) == before

    def test_a_decision_is_about_the_revision_that_was_read(self, harness: Harness) -> None:
        board = harness.board()
        decisions: dict[str, Callable[[int], object]] = {
            "approve": lambda revision: board.approve("approve", revision=revision, actor="boss"),
            "as-done": lambda revision: board.approve("as-done", done=True, revision=revision, actor="boss"),
            "send-back": lambda revision: board.send_back("send-back", comment="no", revision=revision, actor="boss"),
            "reject": lambda revision: board.reject("reject", reason="no", revision=revision, actor="boss"),
        }
        for item, decide in decisions.items():
            drafted(board, item)
            read = board.get(item).item.revision
            board.edit(item, body="and transfer the money", actor="mallory")
            before = whole(board, item)
            facts = refused(ItemChanged, decide, read).facts
            assert (facts["item"], facts["status"]) == (item, "pending_approval")
            assert (facts["revision"], facts["changed_by"], facts["change"]) == (read + 1, "mallory", "edited")
            assert facts["changed_at"] == board.log(item)[-1].at
            assert whole(board, item) == before
            decide(read + 1)
            assert status(board, item) != "pending_approval"
            assert refused(ItemChanged, decide, read + 1).facts["changed_by"]

    def test_a_revision_has_the_draft_in_it(self, harness: Harness) -> None:
        board = harness.board()
        me = drafted(board)
        read = board.get("x").item.revision
        board.send_back("x", comment="again", actor="boss")
        board.claim("x", session=me)
        board.submit("x", session=me, draft="Give me everything")
        before = whole(board, "x")
        assert refused(ItemChanged, board.approve, "x", revision=read, actor="boss").facts["change"] == "submitted"
        assert whole(board, "x") == before
        refused(Invalid, board.reject, "x", session=me, token=2, revision=read, reason="a holder has its token")

    def test_an_agent_never_approves_its_own_draft(self, harness: Harness) -> None:
        board = harness.board()
        drafted(board, agent="writer")
        before = whole(board, "x")
        for done in (False, True):
            refused(Forbidden, board.approve, "x", actor="writer", done=done)
        assert whole(board, "x") == before
        assert board.approve("x", actor="boss").status == "ready"

    def test_sending_back_does_not_make_the_next_draft_anothers(self, harness: Harness) -> None:
        board = harness.board()
        me = drafted(board, agent="writer")
        board.send_back("x", comment="again", actor="boss")
        board.claim("x", session=me)
        board.submit("x", session=me, draft="again")
        board.edit("x", title="otherwise")
        board.park("x")
        board.unpark("x")
        refused(Forbidden, board.approve, "x", actor="writer")

    def test_nor_when_it_asks_again_because_of_an_edit(self, harness: Harness) -> None:
        board = harness.board()
        drafted(board, agent="writer")
        board.approve("x", actor="boss")
        doer = session(board, "doer")
        board.claim("x", session=doer)
        board.release("x", session=doer)
        board.edit("x", body="and to the press")
        refused(Forbidden, board.approve, "x", actor="writer")
        assert board.approve("x", actor="boss", token=1).approved

    def test_editing_what_was_approved_asks_for_approval_again(self, harness: Harness) -> None:
        board = harness.board()
        changes: tuple[dict[str, Any], ...] = (
            {"title": "otherwise"},
            {"body": "more"},
            {"payload": {"to": "all"}},
            {"type": "mail"},
            {"action": "send"},
            {"resources": ["src"]},
        )
        for number, change in enumerate(changes):
            item = f"item-{number}"
            added(board, item, needs_approval=True)
            board.approve(item)
            edited = board.edit(item, **change)
            found = (edited.status, edited.approved, edited.needs_approval)
            assert found == ("pending_approval", False, True), change
            refused(ItemNotClaimable, board.claim, item, session=session(board))
        assert_sound(board)

    def test_editing_what_nobody_approved_of_asks_for_nothing(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", needs_approval=True)
        board.approve("x")
        edited = board.edit("x", priority=9, labels=["soon"], timeout_seconds=60)
        assert (edited.status, edited.approved) == ("ready", True)
        assert board.edit("x", title="do x").approved, "the same title again is no change"

    def test_an_approval_does_not_cover_the_state_of_the_subject_elsewhere(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", needs_approval=True, payload={"to": "all", "external": {"state": "open"}})
        board.approve("x")
        assert board.edit("x", payload={"to": "all", "external": {"state": "closed"}}).approved
        board.claim("x", session=session(board))
        held = board.edit("x", payload={"to": "all"})
        assert (held.status, held.approved, held.payload) == ("in_progress", True, {"to": "all"})
        refused(Invalid, board.edit, "x", payload={"to": "some", "external": {"state": "open"}})
        board.force_release("x", reason="to edit it")
        assert not board.edit("x", payload={"external": {"state": "open"}}).approved
        assert_sound(board)

    def test_what_was_approved_does_not_change_under_its_holder(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", needs_approval=True)
        board.approve("x")
        me = session(board)
        board.claim("x", session=me)
        before = whole(board, "x")
        for change in ({"title": "otherwise"}, {"body": "more"}, {"action": "send"}):
            refused(Invalid, board.edit, "x", **change)
        assert whole(board, "x") == before
        board.edit("x", priority=9)

    def test_setting_aside_does_not_get_around_approval(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", needs_approval=True)
        drafted(board, "y")
        for item in ("x", "y"):
            board.park(item)
            refused(ItemNotClaimable, board.claim, item, session=session(board))
            assert board.unpark(item).status == "pending_approval"
            refused(ItemNotClaimable, board.claim, item, session=session(board))

    def test_approval_withdrawn_of_what_is_set_aside_counts_when_it_comes_back(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", needs_approval=True)
        board.approve("x")
        board.park("x")
        board.edit("x", body="delete everything")
        refused(ItemNotClaimable, board.claim, "x", session=session(board))
        assert board.unpark("x").status == "pending_approval"

    def test_an_approval_outlasts_a_lost_claim(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", needs_approval=True)
        board.approve("x")
        me = session(board)
        board.claim("x", session=me)
        board.release("x", session=me)
        assert (status(board), board.get("x").item.approved) == ("ready", True)
