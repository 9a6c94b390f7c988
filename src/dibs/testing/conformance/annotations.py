"""Annotations: what is learned of a run, mostly once it has ended. It is added to that run by an event, by its agent or
by whoever tends the board, and changes neither the outcome nor anything else. Until the run ends, its holder adds it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dibs.errors import (
    Invalid,
    ItemChanged,
    ItemNotClaimable,
    ItemNotClaimed,
    ItemNotFound,
    NotClaimOwner,
    SessionNotFound,
)
from dibs.testing.conformance.asking import TTL_SECONDS, added, expire, latest, refused, session, whole
from dibs.testing.harness import Harness
from dibs.testing.invariants import assert_sound

BRANCH = {"branch": "fix-x"}
PULL_REQUEST = {"pr": "https://example.org/pull/7"}
CI = {"ci": {"state": "failed", "url": "https://example.org/runs/9"}}


class TestAnnotations:
    def test_an_annotation_adds_to_a_run_and_never_changes_its_outcome(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", "waits")
        board.edit("waits", depends_on=["x"])
        me = session(board)
        board.claim("x", session=me)
        done = board.done("x", session=me, note="fixed", links={"branch": "fix-x"}, cost={"usd": 1}).run
        before = board.get("x").item
        annotated = board.annotate("x", links=PULL_REQUEST, checks=CI, cost={"tokens": 12}, actor="ann")
        run = done.replace(links={"branch": "fix-x", **PULL_REQUEST}, checks=CI, cost={"usd": 1, "tokens": 12})
        event = latest(board, "x")
        assert annotated.run == run
        assert board.get("x").runs == (run,)
        assert annotated.item == before.replace(updated_at=event.at, revision=before.revision + 1)
        assert (event.kind, event.actor, event.status, event.session) == ("annotated", "ann", "done", me)
        assert event.data == {"run": 1, "links": PULL_REQUEST, "checks": CI, "cost": {"tokens": 12}}
        assert board.get("waits").item.status == "ready"
        assert_sound(board)

    def test_a_name_that_is_there_gets_the_new_value_and_the_same_again_is_no_event(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        me = session(board)
        board.claim("x", session=me)
        board.fail("x", session=me)
        board.annotate("x", checks={"ci": "pending", "lint": "passed"})
        again = board.annotate("x", checks={"ci": "passed", "lint": {"state": "passed"}}, session=me)
        assert again.run.checks == {"ci": {"state": "passed"}, "lint": {"state": "passed"}}
        assert (latest(board, "x").data["checks"], latest(board, "x").actor) == ({"ci": {"state": "passed"}}, "coder")
        before = whole(board, "x")
        assert board.annotate("x", checks={"ci": "passed"}).run == again.run
        assert whole(board, "x") == before
        assert again.run.outcome == "failed"

    def test_values_of_other_types_are_other_values(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        me = session(board)
        board.claim("x", session=me)
        board.done("x", session=me, cost={"calls": 1, "by": {"a": 1, "b": 2}})
        for value in (True, 1.0, 1):
            assert repr(board.annotate("x", cost={"calls": value}).run.cost["calls"]) == repr(value)
        before = whole(board, "x")
        board.annotate("x", cost={"by": {"b": 2, "a": 1}})
        assert whole(board, "x") == before

    def test_what_was_approved_is_what_the_next_holder_is_shown(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        ann, bob = session(board, "ann"), session(board, "bob")
        board.claim("x", session=ann)
        read = board.submit("x", session=ann, draft="pay it", links={"invoice": "good"}).item
        board.annotate("x", checks=CI, session=ann)
        refused(ItemChanged, board.approve, "x", revision=read.revision, actor="boss")
        board.approve("x", actor="boss")
        waiting = whole(board, "x")
        refused(ItemNotClaimable, board.annotate, "x", links={"invoice": "evil"}, session=ann)
        refused(ItemNotClaimable, board.annotate, "x", links={"invoice": "evil"}, actor="boss")
        assert whole(board, "x") == waiting
        approval = board.claim("x", session=bob).approval
        assert approval is not None
        assert approval.run is not None
        assert (approval.run.links, approval.run.checks) == ({"invoice": "good"}, CI)
        held = whole(board, "x")
        said = refused(ItemNotClaimable, board.annotate, "x", token=1, links={"invoice": "evil"}, session=ann)
        assert (said.facts["status"], said.facts["why"]) == ("in_progress", "the draft of run 1 was approved")
        assert whole(board, "x") == held
        # What failed can be tried again, under the same approval.
        board.fail("x", session=bob)
        refused(ItemNotClaimable, board.annotate, "x", token=1, links={"invoice": "evil"}, session=ann)
        assert board.annotate("x", token=2, checks=CI).run.checks == CI
        board.retry("x")
        board.claim("x", session=bob)
        board.done("x", session=bob)
        assert board.annotate("x", token=1, links=PULL_REQUEST, session=ann).run.links["pr"]
        assert_sound(board)

    def test_an_earlier_run_is_annotated_while_another_session_holds_the_item(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        me, other = session(board, "ann"), session(board, "bob")
        board.claim("x", session=me)
        board.release("x", session=me)
        held = board.claim("x", session=other).claim
        board.annotate("x", token=1, links=PULL_REQUEST, session=me)
        detail = board.get("x")
        assert (detail.claim, detail.item.status, detail.item.token) == (held, "in_progress", 2)
        assert [(run.token, run.links) for run in detail.runs] == [(2, {}), (1, PULL_REQUEST)]
        assert board.done("x", session=other, token=2).item.status == "done"
        assert_sound(board)

    def test_what_a_holder_annotates_outlives_a_run_that_it_cannot_end(self, harness: Harness) -> None:
        """The holder is killed, and has left more notes than the next holder is given."""
        board = harness.board()
        added(board, "x")
        me, other = session(board, "ann"), session(board, "bob")
        claim = board.claim("x", session=me, ttl_seconds=TTL_SECONDS).claim
        run = board.annotate("x", token=1, links=BRANCH, session=me).run
        assert (run.outcome, run.links) == (None, BRANCH)
        event = latest(board, "x")
        assert (event.kind, event.actor, event.data) == ("annotated", "ann", {"run": 1, "links": BRANCH})
        assert (board.get("x").claim, board.get("x").runs) == (claim, (run,)), "an annotation renews nothing"
        for number in range(25):
            board.progress("x", f"note {number}", session=me)
        expire(harness)
        previous = board.claim("x", session=other).previous
        assert previous is not None
        assert (previous.run.outcome, previous.run.links) == ("expired", BRANCH)
        assert_sound(board)

    def test_every_end_adds_to_what_the_holder_annotated(self, harness: Harness) -> None:
        board = harness.board()
        me = session(board)
        given: dict[str, Any] = {"links": {"branch": None, "log": [1, {"a": "b"}]}, "cost": {"tokens": 9}}
        ends: dict[str, Callable[[str], object]] = {
            "done": lambda item: board.done(item, session=me, **given),
            "done_many": lambda item: board.done_many({item: 1}, session=me),
            "next": lambda item: board.next(session=me, types=["none"], done={item: 1}),
            "fail": lambda item: board.fail(item, session=me, **given),
            "submit": lambda item: board.submit(item, session=me, draft="a draft", **given),
            "release": lambda item: board.release(item, session=me),
            "reject": lambda item: board.reject(item, session=me, token=1, reason="no"),
            "force_release": lambda item: board.force_release(item, reason="gone"),
            "cancel": lambda item: board.cancel(item, reason="no"),
            "forgotten": lambda item: board.heartbeat(session=me, holding={}),
        }
        added(board, *ends)
        for item, end in ends.items():
            board.claim(item, session=me)
            board.annotate(item, links={**BRANCH, "base": "main"}, cost={"usd": 1}, checks=CI, session=me)
            end(item)
            (run,) = board.get(item).runs
            more = given if item in ("done", "fail", "submit") else {"links": {}, "cost": {}}
            assert run.outcome is not None, item
            assert run.links == {**BRANCH, "base": "main", **more["links"]}, item
            assert list(run.links)[:2] == ["branch", "base"], item
            assert (run.cost, run.checks) == ({"usd": 1, **more["cost"]}, CI), item
        assert_sound(board)

    def test_a_run_that_has_not_ended_is_annotated_by_its_session_alone(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        me, mate, other = session(board, "ann"), session(board, "ann"), session(board, "bob")
        board.claim("x", session=me)
        before = whole(board, "x")
        for asked in ({"session": mate}, {"actor": "boss"}, {"agent": "ann"}, {"session": mate, "token": 1}):
            said = refused(ItemNotClaimable, board.annotate, "x", links=BRANCH, **asked)
            assert (said.facts["status"], said.facts["why"]) == ("in_progress", "run 1 has not ended")
        refused(NotClaimOwner, board.annotate, "x", links=BRANCH, session=other)
        assert whole(board, "x") == before

    def test_a_run_is_annotated_by_its_own_agent_only(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", "new")
        me, mate, other = session(board, "ann"), session(board, "ann"), session(board, "bob")
        board.claim("x", session=me)
        board.release("x", session=me)
        board.claim("x", session=me)
        before = whole(board, "x")
        for asked in ({}, {"token": 2}, {"token": 1}):
            theirs = refused(NotClaimOwner, board.annotate, "x", links=PULL_REQUEST, session=other, **asked)
            assert theirs.facts["holder"]["agent"] == "ann"
        assert refused(Invalid, board.annotate, "x", token=3, links=PULL_REQUEST).facts["latest_token"] == 2
        assert refused(ItemNotClaimed, board.annotate, "new", links=PULL_REQUEST).facts["how"] == "never_claimed"
        refused(ItemNotFound, board.annotate, "no-such-item", links=PULL_REQUEST)
        refused(SessionNotFound, board.annotate, "x", token=1, links=PULL_REQUEST, session="nobody-1")
        assert whole(board, "x") == before
        # Another session of the same agent may: the one that held the item is over by then, as a rule.
        assert board.annotate("x", token=1, links=PULL_REQUEST, session=mate).run.links == PULL_REQUEST

    def test_a_claim_that_has_lapsed_is_a_run_that_has_ended(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        me = session(board)
        board.claim("x", session=me, ttl_seconds=TTL_SECONDS)
        expire(harness)
        annotated = board.annotate("x", cost={"usd": 3}, session=me)
        assert (annotated.run.outcome, annotated.run.cost, annotated.item.strikes) == ("expired", {"usd": 3}, 1)
        assert_sound(board)

    def test_what_is_wrong_is_refused_with_its_field_and_changes_nothing(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        me = session(board)
        board.claim("x", session=me)
        board.done("x", session=me)
        before = whole(board, "x")
        large = "x" * 64_000
        for field, asked in (
            ("links", {}),
            ("links", {"links": {"log": large}}),
            ("cost", {"cost": {"log": large}}),
            ("checks", {"checks": {"ci": large}}),
            ("checks", {"checks": {"ci": 1}}),
            ("checks", {"checks": {"ci": {"url": "https://example.org"}}}),
            ("checks", {"checks": {"ci": {"state": "passed", "more": "x"}}}),
            ("checks", {"checks": {"two\nlines": "passed"}}),
            ("token", {"cost": {"usd": 1}, "token": 0}),
        ):
            assert refused(Invalid, board.annotate, "x", **asked).facts["field"] == field
        assert whole(board, "x") == before
        for number in range(15):
            board.annotate("x", links={f"log-{number}": large[:63_900]})
        assert refused(Invalid, board.annotate, "x", links={"log-15": large[:63_900]}).facts["field"] == "links"
        assert len(board.get("x").runs[0].links) == 15

    def test_an_annotation_survives_an_export_and_is_made_once_under_its_request(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        me = session(board)
        board.claim("x", session=me)
        board.submit("x", session=me, draft="a draft")
        first = board.annotate("x", checks=CI, session=me, request_id="r1")
        board.annotate("x", checks={"ci": "passed"})
        assert board.annotate("x", checks=CI, session=me, request_id="r1") == first
        assert board.get("x").runs[0].checks == {"ci": {"state": "passed"}}
        runs = [data for kind, data in board.export() if kind == "run"]
        assert [data["checks"] for data in runs] == [{"ci": {"state": "passed"}}]
