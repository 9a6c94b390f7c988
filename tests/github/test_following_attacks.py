"""What must not decide about a result, and what must not keep GitHub from deciding."""

from __future__ import annotations

from typing import Any

import pytest

from dibs.github import follow, policy
from dibs.github.policy import Policy
from tests.github.conftest import ISSUE, GitHub
from tests.github.payloads import at, issue, run, statuses
from tests.github.test_following import A, build, last_comment, merged, opened, shop, status, submitted

__all__ = ["shop"]

PULL = {"url": "", "branch": "", "base": "", "head": A, "state": "open", "version": "", "tokens": [], "after": 0}


@pytest.fixture
def checked(shop: GitHub) -> GitHub:
    """An item that is done when the checks of its pull request are green."""
    shop.policy = Policy(complete=policy.ON_CHECKS)
    return shop


def test_the_status_that_dibs_writes_itself_completes_nothing(checked: GitHub) -> None:
    submitted(checked.board)
    checked.tell(opened())
    checked.tell(statuses("dibs/claim", "success", A, "dibs/login"))
    assert status(checked) == "pending_approval", "no check of the code has begun"
    checked.policy = Policy(complete=policy.ON_CHECKS, checks=("dibs/*",))
    checked.tell(opened(1, draft=True))
    assert status(checked) == "done", "unless the policy names it"


def test_a_run_of_a_workflow_for_a_strangers_fork_at_the_same_commit_decides_nothing(checked: GitHub) -> None:
    submitted(checked.board)
    checked.tell(opened())
    for number, conclusion in enumerate(("success", "failure"), start=1):
        checked.tell(run(number, conclusion, branch="main", repository="eve/shop", head_sha=A))
        assert status(checked) == "pending_approval"
    ours = opened(1, number=21, of={"repo": {"full_name": "ann/shop"}}, body="Dibs-Item: login", ref="mine")
    checked.tell(ours)
    checked.tell(run(3, "success", branch="mine", repository="ann/shop", head_sha=A))
    assert status(checked) == "done", "that of a member's fork does, if it is the fork of the pull request"


def test_a_workflow_that_a_push_and_a_pull_request_started_has_to_be_green_twice(checked: GitHub) -> None:
    checked.policy = Policy(complete=policy.ON_CHECKS, checks=("ci.yml",))
    submitted(checked.board)
    checked.tell(opened())
    checked.tell(build(1, "", status="in_progress", event="push"))
    checked.tell(build(2, "success", event="pull_request"))
    assert status(checked) == "pending_approval"
    checked.tell(build(1, "failure", event="push"))
    assert (status(checked), "ci.yml on push: failure" in last_comment(checked)) == ("ready", True)


def test_a_status_cannot_take_the_place_of_a_workflow(checked: GitHub) -> None:
    """An agent that can push can set a status of any name."""
    checked.policy = Policy(complete=policy.ON_CHECKS, checks=("ci.yml",))
    submitted(checked.board)
    checked.tell(opened())
    checked.tell(build(1, "", status="in_progress"))
    for context in ("ci.yml", "CI.yml on push"):
        checked.tell(statuses(context, "success", A, "dibs/login", second=3))
    assert status(checked) == "pending_approval"
    checked.tell(build(1, "success"))
    assert status(checked) == "done"


def test_a_result_is_not_sent_back_again_and_again_for_one_failure(checked: GitHub) -> None:
    """The second run has found the check to fail at random, and has changed nothing."""
    submitted(checked.board, commit=A)
    checked.tell(opened())
    checked.tell(build(1, "failure"))
    assert status(checked) == "ready"
    submitted(checked.board, commit=A)
    follow.settle_changed(checked.board, checked.policy, None)
    assert status(checked) == "pending_approval"
    checked.tell(build(1, "success", run_attempt=2))
    assert status(checked) == "done"


def test_a_failed_result_about_an_issue_that_is_closed_is_not_worked_on_again(github: GitHub) -> None:
    github.policy = Policy(complete=policy.ON_MERGE)
    github.tell(issue())
    item = github.item().id
    submitted(github.board, item)
    github.tell(opened(ref=f"dibs/{item}"))
    github.tell(issue(action="closed", state="closed", updated_at=at(5)))
    assert github.item().status == "pending_approval", "its pull request may be merged yet"
    assert github.tell(run(1, "failure", branch=f"dibs/{item}", head_sha=A)).did[-1] == "cancel"
    cancelled = github.board.log(item)[-1]
    assert (github.item().status, cancelled.actor) == ("cancelled", "github:acme/shop")
    assert "closed on GitHub" in cancelled.data["reason"]


@pytest.mark.parametrize(
    "link",
    ["#20", "acme/shop#20", "https://github.com/Acme/Shop/pull/20", "https://github.com/acme/shop/pull/20/files?w=1"],
)
def test_a_run_names_its_pull_request_as_people_do(shop: GitHub, link: str) -> None:
    submitted(shop.board, pr=link)
    shop.tell(merged(8, number=200))
    shop.tell(merged(8, number=2))
    assert status(shop) == "pending_approval"
    shop.tell(merged())
    assert status(shop) == "done"


@pytest.mark.parametrize(
    "external",
    [
        *(3, ["over"], {"version": 3}, {"labels": 3}, {"version": "x", "repository": "acme/shop", "event": "issues"}),
        *({"pull_requests": [1]}, {"pull_requests": {"acme/shop#1": 1}}, {"pull_requests": {"acme/shop#1": {}}}),
        *({"pull_requests": {"acme/shop": PULL}}, {"pull_requests": {"acme/shop#1": {**PULL, "tokens": ["x"]}}}),
        *({"checks": 3}, {"checks": {A: 3}}, {"checks": {A: {"ci.yml": 3}}}, {"checks": {A: {"ci.yml": {"state": 1}}}}),
    ],
)
def test_an_item_that_was_added_with_odd_facts_stops_nothing(github: GitHub, external: Any) -> None:
    """Whoever may add an item can write anything there."""
    github.policy = Policy(complete=policy.ON_MERGE)
    github.board.add("Fix login", id="login", review=True, subject=ISSUE, payload={"external": external})
    github.tell(issue(labels=["bug"]))
    submitted(github.board)
    github.tell(opened())
    github.tell(build(1, "success"))
    assert follow.waiting(github.board)
    assert follow.open_heads(github.item(), "acme/shop") == (A,)
    github.tell(merged())
    assert status(github) == "done"


def test_a_failure_about_one_result_does_not_keep_others_from_being_decided(
    shop: GitHub,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shop.board.add("Broken", id="broken", review=True)
    before = shop.board.events(newest=True, limit=1)[-1].id
    for item in ("broken", "login"):
        submitted(shop.board, item)
    settle = follow.settle

    def fail_once(board: Any, item: str, rules: Policy, **options: Any) -> Any:
        if item == "broken":
            raise ValueError("broken")
        return settle(board, item, rules, **options)

    monkeypatch.setattr(follow, "verdict", lambda *given: None)
    shop.tell(merged())
    monkeypatch.undo()
    monkeypatch.setattr(follow, "settle", fail_once)
    with pytest.raises(ValueError, match="broken"):
        follow.settle_changed(shop.board, shop.policy, before)
    assert status(shop) == "done"


def test_a_subject_that_was_claimed_before_github_told_of_it_is_under_the_contract_too(github: GitHub) -> None:
    github.policy = Policy(complete=policy.ON_MERGE, projects=(("acme/*", "acme"),))
    session = github.board.start_session("coder").id
    grant = github.board.claim_subject(ISSUE, session=session, title="Login")
    github.tell(issue())
    github.board.done(grant.item.id, session=session, token=grant.claim.token)
    assert github.item().status == "pending_approval"
    github.board.edit(grant.item.id, review=False)
    github.tell(issue(labels=["bug"], updated_at=at(3)))
    assert not github.item().review, "what a person changed stays"
    github.board.edit(grant.item.id, review=True)
    github.tell(merged(ref=f"dibs/{grant.item.id}"))
    assert github.item().status == "done", "also in another project than that of the repository"
