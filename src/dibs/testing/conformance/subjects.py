"""Subjects: one subject, one item, however many ask for it and whatever became of it."""

from __future__ import annotations

from dibs.errors import (
    AgentAtCapacity,
    Forbidden,
    Invalid,
    ItemAlreadyClaimed,
    ItemNotClaimable,
    SessionNotFound,
)
from dibs.model import ENDED
from dibs.testing import recording, sizes
from dibs.testing.conformance.asking import added, expire, kinds, refused, session, whole
from dibs.testing.conformance.racing import assert_explained, cast_of
from dibs.testing.harness import Harness
from dibs.testing.invariants import assert_sound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

ISSUE = "github:acme/shop#12"
#: So many processes, and so many subjects that do not exist.
CLAIMERS, ROUNDS = (64, 100) if sizes.FACTOR > 1 else (8, 5)
#: Of so many rounds, not all are won by one process.
RACED = 50


class TestSubjects:
    def test_the_first_claim_adds_the_item_and_the_next_is_refused_with_its_holder(self, harness: Harness) -> None:
        board = harness.board()
        mine, other = session(board, "coder"), session(board, "other")
        grant = board.claim_subject(
            ISSUE, session=mine, title="Fix login", type="bug", priority="high", project="shop", labels=["ui"]
        )
        item = grant.item
        assert (item.subject, item.title, item.type, item.project) == (ISSUE, "Fix login", "bug", "shop")
        assert (item.priority, item.labels, item.created_by, item.status) == (8, ("ui",), "coder", "in_progress")
        assert (grant.claim.session, grant.claim.token, grant.renewed, grant.previous) == (mine, 1, False, None)
        assert kinds(board, item.id) == ["added", "claimable", "claimed"]
        refusal = refused(ItemAlreadyClaimed, board.claim_subject, ISSUE, session=other, title="The login is broken")
        assert (refusal.facts["item"], refusal.facts["holder"]["session"]) == (item.id, mine)
        assert [one.id for one in board.list()] == [item.id]
        assert board.get(item.id).item.title == "Fix login"
        assert_sound(board)

    def test_its_own_session_gets_the_claim_that_it_has(self, harness: Harness) -> None:
        board = harness.board()
        me = session(board)
        first = board.claim_subject(ISSUE, session=me)
        again = board.claim_subject(ISSUE, session=me)
        assert (again.renewed, again.claim.token, again.item.id) == (True, first.claim.token, first.item.id)
        assert first.item.title == ISSUE, "without a title, the subject is the title"

    def test_an_item_that_was_added_with_the_subject_is_claimed_however_the_issue_is_written(
        self, harness: Harness
    ) -> None:
        board = harness.board()
        me = session(board)
        added(board, "twelve", subject="https://github.com/Acme/Shop/issues/12")
        for key in (f"  {ISSUE} ", "github:Acme/SHOP#12", "https://github.com/acme/shop/pull/12/files#diff-1"):
            assert board.claim_subject(key, session=me).item.id == "twelve"
            assert [item.subject for item in board.list(subject=key)] == [ISSUE]
        assert len(board.list()) == 1

    def test_the_item_of_an_ended_subject_is_named_and_nothing_is_added(self, harness: Harness) -> None:
        board = harness.board()
        me = session(board)
        ways: dict[str, Callable[[str], object]] = {
            "done": lambda item: board.done(item, session=me),
            "failed": lambda item: board.fail(item, session=me),
            "rejected": lambda item: board.reject(item, session=me, reason="no"),
            "cancelled": lambda item: board.cancel(item),
        }
        assert set(ways) == ENDED
        for status, end in ways.items():
            item = board.claim_subject(status, session=me).item.id
            end(item)
            before = whole(board, item)
            refusal = refused(ItemNotClaimable, board.claim_subject, status, session=me)
            by_id = refused(ItemNotClaimable, board.claim, item, session=me)
            assert (refusal.message, refusal.facts) == (by_id.message, by_id.facts)
            assert board.add("again", subject=status).existed
            assert whole(board, item) == before
        assert len(board.list()) == len(ways)

    def test_an_item_that_came_back_is_claimed_again_under_the_next_token(self, harness: Harness) -> None:
        board = harness.board()
        me, other = session(board), session(board, "other")
        first = board.claim_subject(ISSUE, session=me, ttl_seconds=600)
        expire(harness)
        second = board.claim_subject(ISSUE, session=other)
        assert (second.item.id, second.claim.token) == (first.item.id, 2)
        assert second.previous is not None
        assert second.previous.run.outcome == "expired"

    def test_a_new_item_that_cannot_be_claimed_is_not_added(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "first")
        board.set_agent("full", max_claims=1)
        board.set_agent("reader", allowed_actions=["read"])
        full, reader, free = session(board, "full"), session(board, "reader"), session(board, "free")
        board.claim("first", session=full)
        before = (board.list(), board.events(), board.activity())
        for kind, asked in (
            (AgentAtCapacity, {"session": full}),
            (Forbidden, {"session": reader, "type": "write"}),
            (ItemNotClaimable, {"session": free, "needs_approval": True}),
            (ItemNotClaimable, {"session": free, "depends_on": ["first"]}),
            (SessionNotFound, {"session": "nobody"}),
            (Invalid, {"session": free, "depends_on": ["missing"]}),
            (Invalid, {"session": free, "agent": "another"}),
            (Invalid, {"session": free, "ttl_seconds": 1e8}),
        ):
            refusal = refused(kind, board.claim_subject, ISSUE, **asked)
            assert kind is Invalid or refusal.facts.get("item") is None, "the refusal names an item that does not exist"
        assert (board.list(), board.events(), board.activity()) == before
        assert board.claim_subject(ISSUE, session=free).claim.token == 1

    def test_a_subject_is_one_line_of_500_characters(self, harness: Harness) -> None:
        board = harness.board()
        me = session(board)
        for wrong in ("", "  ", "two\nlines", "a\x1b[2J", "x" * 501, 12, None):
            assert refused(Invalid, board.claim_subject, wrong, session=me).facts["field"] == "subject"
        for wrong in ("two\nlines", "x" * 501, 12):
            assert refused(Invalid, board.add, "title", subject=wrong).facts["field"] == "subject"
        assert not board.list()
        longest = "https://example.org/?q=" + "ü" * 477
        assert board.claim_subject(longest, session=me).item.subject == longest
        assert [item.subject for item in board.list(subject=longest)] == [longest]

    def test_adding_a_subject_again_answers_its_item(self, harness: Harness) -> None:
        board = harness.board()
        first = board.add("Fix login", id="fix", subject=ISSUE)
        again = board.add("Another title", id="other", subject=ISSUE, priority=9)
        assert (first.existed, again.existed, again.id, again.title) == (False, True, "fix", "Fix login")
        one, two = board.add_many([{"title": "a", "subject": "b:1"}, {"title": "b", "subject": "b:1"}])
        assert (one.id, one.existed, two.existed) == (two.id, False, True)
        assert len(board.list()) == 2
        assert kinds(board, "fix") == ["added", "claimable"]

    def test_a_subject_can_be_given_taken_and_looked_for(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "a", "b")
        assert board.edit("a", subject=ISSUE).before == {"subject": None}
        assert [item.id for item in board.list(subject=ISSUE)] == ["a"]
        assert [item.id for item in board.list(subject="github:acme/shop#1")] == []
        refusal = refused(Invalid, board.edit, "b", subject=ISSUE)
        assert (refusal.facts["field"], refusal.facts["item"]) == ("subject", "a")
        assert board.get("b").item.revision == 2
        assert board.edit("a", subject=ISSUE, title="renamed").item.subject == ISSUE
        assert board.edit("a", subject=None).before == {"subject": ISSUE}
        assert board.edit("b", subject=ISSUE).item.subject == ISSUE
        assert board.claim_subject(ISSUE, session=session(board)).item.id == "b"
        assert_sound(board)

    def test_waiting_for_a_subject_is_waiting_for_its_item(self, harness: Harness) -> None:
        board = harness.board()
        holder, me = session(board, "holder"), session(board)
        item = board.claim_subject(ISSUE, session=holder).item.id

        def release(waiting: object) -> None:
            if board.get(item).claim is not None:
                board.release(item, session=holder)

        grant = board.claim_subject(ISSUE, session=me, wait_seconds=30, on_wait=release)
        assert (grant.item.id, grant.claim.session, grant.claim.token) == (item, me, 2)

    def test_a_repeated_request_adds_and_claims_nothing_more(self, harness: Harness) -> None:
        board = harness.board()
        me = session(board)
        first = board.claim_subject(ISSUE, session=me, title="Fix login", request_id="r1")
        board.release(first.item.id, session=me)
        assert board.claim_subject(ISSUE, session=me, title="Fix login", request_id="r1") == first
        assert board.get(first.item.id).claim is None
        refused(Invalid, board.claim_subject, ISSUE, session=me, title="Other", request_id="r1")


class TestSubjectsTogether:
    def test_of_many_processes_that_claim_a_new_subject_one_adds_it_and_one_holds_it(self, harness: Harness) -> None:
        board = harness.board()
        rounds = ROUNDS if sizes.FACTOR > 1 else harness.fewer(ROUNDS)
        claimers, gate = cast_of(harness, CLAIMERS), harness.gate()
        calls: list[recording.Call] = []
        for number in range(rounds):
            subject = f"github:acme/shop#{number}"
            for actor, me in claimers:
                actor.send("claim_subject", subject, session=me, title=f"by {me}", at=gate)
            gate.open()
            answers = [(me, actor.answer()) for actor, me in claimers]
            gate.close()
            winners = [answer.reply for _, answer in answers if answer.error is None]
            assert len(winners) == 1, f"{subject}: {len(winners)} winners"
            (item,) = board.list(subject=subject)
            assert winners[0]["item"]["id"] == item.id
            assert item.title == f"by {winners[0]['claim']['session']}", "who added it holds it, since it is one step"
            for me, answer in answers:
                calls.append(recording.heard(me, "claim_subject", item.id, None, answer))
                if answer.error is not None:
                    assert (answer.code, answer.error["item"]) == ("TASK_ALREADY_CLAIMED", item.id), answer
        assert len(board.list(limit=10 * rounds)) == rounds
        won = {call.session for call in calls if call.grants}
        print(f"{CLAIMERS} processes, {rounds} subjects: {len(won)} of them won at least once")
        assert len(won) > 1 or rounds < RACED, "the same process won every round: nobody raced"
        assert_explained(calls, board)

    def test_adders_and_claimers_of_one_subject_meet_at_one_item(self, harness: Harness) -> None:
        board = harness.board()
        cast, gate = cast_of(harness, 4), harness.gate()
        for number in range(sizes.times(4)):
            subject = f"https://example.org/{number}"
            for index, (actor, me) in enumerate(cast):
                if index % 2:
                    actor.send("claim_subject", subject, session=me, at=gate)
                else:
                    actor.send("add", f"added {index}", subject=subject, at=gate)
            gate.open()
            answers = [actor.answer() for actor, _ in cast]
            gate.close()
            (item,) = board.list(subject=subject)
            claimed = [answer.reply["claim"]["session"] for answer in answers[1::2] if answer.error is None]
            assert len(claimed) == 1
            assert {answer.reply["id"] for answer in answers[::2]} == {item.id}
        assert_sound(board)
