"""What GitHub says becomes the state of items: the defaults, and every order and number of deliveries."""

from __future__ import annotations

import itertools
import json
import random
from typing import Any

import pytest

from dibs.board import Board
from dibs.check import META_BYTES_MAX
from dibs.github import apply, ends
from dibs.github.decide import remembered
from dibs.github.ends import NOTES_MAX
from dibs.github.policy import Policy, Rule
from dibs.testing.invariants import assert_sound
from tests.github.conftest import BUILD, ISSUE, PULL, GitHub, claimed
from tests.github.payloads import HOSTILE_TITLES, at, issue, pull, run


def kinds(board: Board, item: str) -> list[str]:
    return [event.kind for event in board.log(item)]


@pytest.mark.parametrize(
    ("labels", "priority"),
    [
        (["critical"], 10),
        (["security"], 9),
        (["bug"], 8),
        (["feature"], 5),
        (["enhancement"], 5),
        (["documentation"], 3),
        (["refactoring"], 1),
        (["refactoring", "Security", "bug"], 9),
        (["kind/bug"], 8),
        (["type: documentation"], 3),
        (["good first issue"], 5),
        ([], 5),
    ],
)
def test_an_issue_becomes_triage_with_the_priority_of_its_highest_label(
    github: GitHub, labels: list[str], priority: int
) -> None:
    assert github.tell(issue(labels=labels)).did == ("add",)
    item = github.item()
    assert (item.type, item.priority, item.status, item.project) == ("issue_triage", priority, "ready", "default")
    assert (item.title, item.body, item.created_by) == ("Login fails", "It does.", "github")


def test_the_payload_has_the_words_of_the_contract(github: GitHub) -> None:
    github.tell(issue(42, action="labeled", labels=["bug"], title="Application crashes on startup"))
    payload = github.items()[0].payload
    contract = {"event_type": "issues.labeled", "issue_number": 42, "label": "bug"}
    assert {name: payload[name] for name in (*contract, "title")} == {
        **contract,
        "title": "Application crashes on startup",
    }


def test_a_label_that_comes_later_changes_the_priority(github: GitHub) -> None:
    github.tell(issue())
    assert github.tell(issue(action="labeled", labels=["bug"], updated_at=at(1))).did == ("edit",)
    assert (github.item().priority, github.item().labels) == (8, ("bug",))
    github.tell(issue(action="unlabeled", updated_at=at(2)))
    assert (github.item().priority, github.item().labels) == (5, ())


def test_what_a_person_has_changed_on_the_board_stays(github: GitHub) -> None:
    github.tell(issue(labels=["bug"]))
    board, item = github.board, github.item().id
    board.edit(item, priority=2, title="Login fails for admins", labels=["bug", "mine"])
    github.tell(issue(labels=["critical"], title="LOGIN!", body="Now.", updated_at=at(1)))
    found = github.item()
    assert (found.priority, found.title, found.labels) == (2, "Login fails for admins", ("mine", "critical"))
    assert found.body == "Now."


def test_a_closed_issue_cancels_its_unclaimed_item(github: GitHub) -> None:
    github.tell(issue())
    assert github.tell(issue(action="closed", state="closed", updated_at=at(1))).did == ("edit", "cancel")
    item = github.item()
    assert item.status == "cancelled"
    assert "closed on GitHub" in github.board.log(item.id)[-1].data["reason"]


def test_a_closed_issue_leaves_a_note_on_a_claimed_item_and_its_holder_decides(github: GitHub) -> None:
    github.tell(issue())
    board, item = github.board, github.item().id
    session, token = claimed(board, item)
    assert github.tell(issue(action="closed", state="closed", updated_at=at(1))).did == ("edit",)
    found = github.item()
    assert (found.status, remembered(found)["state"]) == ("in_progress", "closed")
    assert "its holder decides" in remembered(found)["note"]
    board.done(item, session=session, token=token)
    assert github.tell(issue(action="closed", state="closed", updated_at=at(1))).did == ("edit",), "no note any more"
    assert "note" not in remembered(github.item())


def test_a_success_frees_what_waits_for_a_held_build(github: GitHub) -> None:
    github.tell(run(1, "failure"))
    board, build = github.board, github.item(BUILD).id
    board.add("release", id="release", depends_on=[build])
    session, token = claimed(board, build)
    assert github.tell(run(2, "success")).did == ("edit", "edit")
    assert board.get("release").item.status == "ready"
    assert board.release(build, session=session, token=token).item.status == "cancelled"


def test_a_claim_that_comes_before_the_cancel_is_not_ended(github: GitHub, monkeypatch: pytest.MonkeyPatch) -> None:
    github.tell(issue())
    board, item = github.board, github.item().id
    claims: list[tuple[str, int]] = []
    call = apply._call

    def call_late(on: Board, step: Any, request_id: str | None) -> bool:
        if step.verb == "cancel" and not claims:
            claims.append(claimed(board, item))
        return call(on, step, request_id)

    monkeypatch.setattr(apply, "_call", call_late)
    github.tell(issue(state="closed", updated_at=at(1)), delivery="d-1")
    assert claims
    assert github.item().status == "in_progress"
    assert "its holder decides" in remembered(github.item())["note"]
    board.done(item, session=claims[0][0], token=claims[0][1])


def test_a_reopened_issue_is_work_again_and_has_one_item(github: GitHub) -> None:
    github.tell(issue())
    first = github.item().id
    github.tell(issue(state="closed", updated_at=at(1)))
    assert github.tell(issue(action="reopened", updated_at=at(2))).did == ("edit", "add")
    assert github.item().id != first
    assert github.item().status == "ready"
    assert github.board.get(first).item.subject == f"{ISSUE}@{at(1)}"


def test_an_item_that_is_done_stays_done_while_its_issue_stays_open(github: GitHub) -> None:
    github.tell(issue())
    item = github.item().id
    session, token = claimed(github.board, item)
    github.board.done(item, session=session, token=token)
    github.tell(issue(labels=["bug"], updated_at=at(1)))
    assert [one.id for one in github.items()] == [item]
    github.tell(issue(state="closed", updated_at=at(2)))
    github.tell(issue(updated_at=at(3)))
    assert len(github.items()) == 2, "it was closed in between"


def test_a_deleted_issue_is_over(github: GitHub) -> None:
    github.tell(issue())
    github.tell(issue(action="deleted", updated_at=at(1)))
    assert github.item().status == "cancelled"


def test_a_pull_request_is_reviewed_once_it_is_no_draft_and_until_it_is_merged(github: GitHub) -> None:
    assert github.tell(pull(draft=True)).did == ()
    github.tell(pull(updated_at=at(1)))
    item = github.item(PULL)
    assert (item.type, item.payload["branch"], item.payload["base"]) == ("pr_review", "dibs/login", "main")
    github.tell(pull(action="closed", state="closed", merged=True, updated_at=at(2)))
    assert (github.item(PULL).status, remembered(github.item(PULL))["state"]) == ("cancelled", "merged")


def test_a_failed_workflow_is_one_item_until_it_succeeds(github: GitHub) -> None:
    github.tell(run(1, "failure"))
    github.tell(run(2, "timed_out"))
    (item,) = github.items()
    assert (item.subject, item.type, item.priority, item.title) == (BUILD, "build_failure", 8, "ci.yml fails on main")
    assert remembered(item)["url"].endswith("/2")
    assert github.tell(run(3, "success")).did == ("edit", "finish")
    assert github.item(BUILD).status == "done"
    assert github.tell(run(2, "failure", run_attempt=2)).did == (), "an older run, tried again"
    github.tell(run(5, "failure"))
    assert [one.status for one in github.items()].count("ready") == 1


def test_a_fix_frees_what_waited_for_it(github: GitHub) -> None:
    github.tell(run(1, "failure"))
    board = github.board
    board.add("release", id="release", depends_on=[github.item(BUILD).id])
    github.tell(run(2, "success"))
    assert board.get("release").item.status == "ready"


def test_a_build_that_was_said_to_be_mended_and_fails_again_is_new_work(github: GitHub) -> None:
    github.tell(run(1, "failure"))
    item = github.item(BUILD).id
    session, token = claimed(github.board, item)
    assert github.tell(run(2, "success")).did == ("edit",), "its holder decides"
    github.board.done(item, session=session, token=token)
    github.tell(run(3, "failure"))
    assert github.item(BUILD).status == "ready"


def test_the_branch_of_a_fork_is_not_ours(github: GitHub) -> None:
    github.tell(run(1, "failure", repository="mallory/shop"))
    (item,) = github.items()
    assert (item.subject, item.status) == (BUILD.replace("@main", "@mallory:main"), "pending_approval")
    assert not Rule(do="ignore", branch=("main",)).matches(_fact(run(1, "failure", repository="mallory/shop")))


def _fact(told: Any) -> Any:
    from dibs.github import payload

    return payload.from_webhook("workflow_run", told)


# Rules


def test_a_rule_reprioritises_once(github: GitHub) -> None:
    github.policy = Policy(rules=(Rule(do="reprioritise", labels=("urgent",), priority=10), *Policy().rules))
    github.tell(issue())
    github.tell(issue(labels=["urgent"], updated_at=at(1)))
    assert github.item().priority == 10
    github.board.edit(github.item().id, priority=4)
    github.tell(issue(labels=["urgent"], updated_at=at(2)))
    assert github.item().priority == 4


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_what_a_rule_reprioritises_or_unblocks_is_made_and_followed_all_the_same(
    github: GitHub, order: tuple[int, int]
) -> None:
    rules = (
        Rule(do="reprioritise", labels=("urgent",), priority=10),
        Rule(do="reprioritise", labels=("bug",), priority=9),
        Rule(do="unblock", labels=("urgent",)),
    )
    github.policy = Policy(rules=(*rules, *Policy().rules))
    told = [issue(), issue(labels=["urgent", "bug"], title="Nobody can log in", updated_at=at(1))]
    for number in order:
        github.tell(told[number])
    item = github.item()
    assert (item.priority, item.title, item.labels, item.type) == (
        10,
        "Nobody can log in",
        ("bug", "urgent"),
        "issue_triage",
    )
    github.board.add("deploy", id="deploy", depends_on=[item.id])
    github.tell(issue(labels=["urgent"], updated_at=at(2)))
    assert github.board.get("deploy").item.status == "ready"
    assert github.item().labels == ("urgent",)
    revision = github.item().revision
    github.tell(issue(labels=["urgent"], updated_at=at(2)))
    assert github.item().revision == revision
    github.tell(issue(updated_at=at(3)))
    assert github.item().priority == 5, "the label was taken off"
    github.tell(issue(labels=["urgent"], state="closed", updated_at=at(4)))
    assert github.item().status == "cancelled"


def test_a_rule_ends_what_is_still_open(github: GitHub) -> None:
    github.policy = Policy(rules=(Rule(do="cancel", labels=("wontfix",), line=3), *Policy().rules))
    github.tell(issue())
    first = github.item().id
    github.tell(issue(labels=["wontfix"], updated_at=at(1)))
    assert github.item().status == "cancelled"
    assert "the rule in line 3" in github.board.log(first)[-1].data["reason"]
    github.tell(issue(labels=["wontfix"], body="Please.", updated_at=at(2)))
    assert github.item().id == first
    github.tell(issue(updated_at=at(3)))
    assert (github.item().id != first, github.item().status) == (True, "ready"), "the label was taken off"
    claimed(github.board, github.item().id)
    github.tell(issue(labels=["wontfix"], updated_at=at(4)))
    assert "its holder decides" in remembered(github.item())["note"]


def test_of_many_labels_every_one_counts(github: GitHub) -> None:
    github.tell(issue(labels=[*(f"area-{number:02d}" for number in range(99)), "security"]))
    assert (github.item().priority, len(github.item().labels)) == (9, 64)


def test_a_rule_unblocks_what_waits_for_the_item(github: GitHub) -> None:
    github.policy = Policy(rules=(Rule(do="unblock", event=("pull_request",), action=("merged",)), *Policy().rules))
    github.tell(pull())
    board, review = github.board, github.item(PULL).id
    board.add("other", id="other")
    for number in range(3):
        board.add("deploy", id=f"deploy-{number}", depends_on=[review, *(["other"] if number == 2 else [])])
    github.tell(pull(state="closed", merged=True, updated_at=at(1)))
    assert [board.get(f"deploy-{number}").item.status for number in range(3)] == ["ready", "ready", "blocked"]
    assert github.item(PULL).status == "cancelled"


def test_rules_choose_type_project_and_labels(github: GitHub) -> None:
    made = Rule(do="make", event=("issues",), labels=("bug*",), type="fix", priority=7, add_labels=("from-github",))
    github.policy = Policy(rules=(made, *Policy().rules), projects=(("acme/*", "acme"),))
    github.tell(issue(labels=["bug report"]))
    item = github.item()
    assert (item.type, item.priority, item.project) == ("fix", 7, "acme")
    assert item.labels == ("from-github", "bug-report")


def test_an_item_that_somebody_else_added_for_the_subject_is_not_taken_over(github: GitHub) -> None:
    github.board.add("mine", subject=ISSUE, priority=1, body="my notes")
    github.tell(issue(labels=["bug"]))
    item = github.item()
    assert (item.title, item.body, item.priority, item.type) == ("mine", "my notes", 1, "task")
    github.tell(issue(state="closed", updated_at=at(1)))
    assert github.item().status == "cancelled"


# Order and number


STORY = (
    issue(updated_at=at(0)),
    issue(updated_at=at(1), labels=["bug"], action="labeled"),
    issue(updated_at=at(1), labels=["bug", "critical"], action="labeled"),
    issue(updated_at=at(2), labels=["critical"], title="Login fails badly", action="edited"),
    issue(updated_at=at(3), labels=["critical"], title="Login fails", body="Steps: none.", action="edited"),
)


def test_deliveries_converge_in_every_order(github: GitHub) -> None:
    expected = None
    orders = list(itertools.permutations(STORY))
    for number, order in enumerate(random.Random(7).sample(orders, 20)):
        for told in order:
            github.tell({**told, "issue": {**told["issue"], "number": number + 1}})
        (found,) = (item for item in github.items() if item.subject == f"github:acme/shop#{number + 1}")
        content = (found.title, found.body, found.priority, found.labels, remembered(found)["version"], found.status)
        expected = expected or content
        assert content == expected, order
    assert expected is not None
    assert expected[:3] == ("Login fails", "Steps: none.", 10)
    assert_sound(github.board)


def test_states_of_one_second_end_the_same_whatever_their_order(github: GitHub) -> None:
    states = [issue(updated_at=at(1), labels=labels) for labels in (["bug"], ["bug", "critical"], ["feature"])]
    found = set()
    for number, order in enumerate(itertools.permutations(states), start=1):
        for told in order:
            github.tell({**told, "issue": {**told["issue"], "number": number}})
        item = github.item(f"github:acme/shop#{number}")
        found.add((item.priority, tuple(sorted(item.labels))))
    assert found == {(10, ("bug", "critical"))}


def test_a_replay_changes_nothing(github: GitHub) -> None:
    for number, told in enumerate(STORY):
        github.tell(told, delivery=f"d-{number}")
    board, item = github.board, github.item().id
    before = board.get(item).item, kinds(board, item)
    for number, told in enumerate(STORY * 3):
        github.tell(told, delivery=f"d-{number % len(STORY)}" if number < 8 else f"again-{number}")
    assert (board.get(item).item, kinds(board, item)) == before


def test_ends_without_an_item_are_kept_for_a_while(github: GitHub, monkeypatch: pytest.MonkeyPatch) -> None:
    longest = {f"run:{number:012x}": f"succeeded {at(1)}~1064{12 * 'f'}" for number in range(2 * NOTES_MAX)}
    assert len(json.dumps(longest)) < META_BYTES_MAX
    monkeypatch.setattr(ends, "NOTES_MAX", 5)
    for number in range(1, 9):
        github.tell(issue(number, state="closed", updated_at=at(number)))
        github.tell(run(number, "success", branch=f"b{number}"))
    notes = github.board.find_session("github-ends:acme/shop").meta
    assert len(notes) == 10, "five of each kind, the latest"
    github.tell(issue(8))
    assert github.items() == ()
    github.tell(issue(1))
    assert [one.subject for one in github.items()] == ["github:acme/shop#1"], "it is long forgotten"


@pytest.mark.parametrize("between", ["add", "note"])
def test_an_end_beside_the_delivery_that_it_overtook_ends_the_item(
    github: GitHub, monkeypatch: pytest.MonkeyPatch, between: str
) -> None:
    opened, closed = issue(), issue(state="closed", updated_at=at(1))
    call, note, rest = apply._call, ends.note, [closed if between == "add" else opened]

    def call_late(on: Board, step: Any, request_id: str | None) -> bool:
        if step.verb == "add" and between == "add" and rest:
            github.tell(rest.pop())
        return call(on, step, request_id)

    def note_late(*given: Any) -> None:
        if between == "note" and rest:
            github.tell(rest.pop())
        note(*given)

    monkeypatch.setattr(apply, "_call", call_late)
    monkeypatch.setattr(ends, "note", note_late)
    github.tell(opened if between == "add" else closed)
    assert (rest, github.item().status) == ([], "cancelled")


def test_the_delivery_is_kept_with_its_effect(github: GitHub) -> None:
    github.tell(issue(), delivery="72d3162e-cc78-11e3-81ab-4c9367dc0958")
    kept = [record for kind, record in github.board.export() if kind == "request"]
    assert [(one["actor"], one["id"].split(":")[1]) for one in kept] == [
        ("github", "72d3162e-cc78-11e3-81ab-4c9367dc0958")
    ]


@pytest.mark.parametrize("crash_at", range(3))
def test_a_crash_between_two_verbs_is_completed_by_the_same_delivery(
    github: GitHub, monkeypatch: pytest.MonkeyPatch, crash_at: int
) -> None:
    class Crash(BaseException):
        pass

    github.tell(issue())
    github.tell(issue(state="closed", updated_at=at(1)))
    call, calls = apply._call, itertools.count()

    def crashing(*given: Any) -> bool:
        if next(calls) == crash_at:
            raise Crash
        return call(*given)

    told = [issue(updated_at=at(2)), issue(state="closed", updated_at=at(3)), issue(updated_at=at(4))]
    monkeypatch.setattr(apply, "_call", crashing)
    for one in told:
        try:
            github.tell(one, delivery=one["issue"]["updated_at"].replace(":", ""))
        except Crash:
            github.tell(one, delivery=one["issue"]["updated_at"].replace(":", ""))
    assert [item.status for item in github.items()].count("ready") == 1
    assert github.item().status == "ready"
    assert next(calls) > crash_at


def test_hostile_titles_become_titles(github: GitHub) -> None:
    for number, title in enumerate(HOSTILE_TITLES, start=1):
        github.tell(issue(number, title=title, body=title * 2, labels=[title]), delivery=f"hostile-{number}")
    items = github.items()
    assert len(items) == len(HOSTILE_TITLES)
    assert all(item.title.isprintable() and 0 < len(item.title) <= 500 for item in items)
    assert_sound(github.board)
