"""Pull requests and checks annotate the runs of their items, and decide about results; whatever is tried against it."""

from __future__ import annotations

import itertools
import random
import threading
from typing import Any

import pytest

from dibs.board import Board
from dibs.github import checks, follow, policy, pull_memory
from dibs.github.decide import remembered
from dibs.github.policy import Policy
from dibs.github.verdict import verdict
from dibs.testing.invariants import assert_sound
from tests.github.conftest import PULL, GitHub, claimed
from tests.github.payloads import REPOSITORY, at, issue, pull, run, statuses

A, B = "a" * 40, "b" * 40


@pytest.fixture
def shop(github: GitHub) -> GitHub:
    """An item whose result waits for its pull request to be merged."""
    github.policy = Policy(complete=policy.ON_MERGE)
    github.board.add("Fix login", id="login", review=True)
    return github


def submitted(board: Board, item: str = "login", **links: str) -> int:
    session, token = claimed(board, item)
    board.done(item, session=session, token=token, links=links)
    return token


def opened(second: int = 0, sha: str = A, **fields: Any) -> Any:
    own = {"repo": {"full_name": "acme/shop"}}
    head = {"ref": fields.pop("ref", "dibs/login"), "sha": sha, **fields.pop("of", own)}
    return pull(updated_at=at(second), head=head, **fields)


def merged(second: int = 9, sha: str = A, **fields: Any) -> Any:
    return opened(second, sha, state="closed", merged=True, merged_at=at(second), action="closed", **fields)


def build(number: int, conclusion: str, sha: str = A, **fields: Any) -> Any:
    return run(number, conclusion, branch="dibs/login", head_sha=sha, **fields)


def status(github: GitHub) -> str:
    return github.board.get("login").item.status


def last_comment(github: GitHub) -> str:
    return str(next(event for event in reversed(github.board.log("login")) if "comment" in event.data).data["comment"])


def test_a_merged_pull_request_completes_the_result(shop: GitHub) -> None:
    token = submitted(shop.board, branch="dibs/login")
    assert shop.tell(opened()).did == ("edit", "annotate")
    assert status(shop) == "pending_approval"
    assert shop.tell(merged()).did == ("edit", "annotate", "approve")
    approved = shop.board.log("login")[-1]
    assert (status(shop), approved.actor, approved.data["draft_token"]) == ("done", "github:acme/shop", token)
    found = shop.board.get("login").runs[0]
    assert found.checks["acme/shop#20"] == {"state": "merged", "url": "https://github.com/acme/shop/pull/20"}
    assert found.links["head"] == A
    assert_sound(shop.board)


def test_a_red_check_sends_back_with_the_link_to_its_log_and_the_next_run_is_told(shop: GitHub) -> None:
    submitted(shop.board, branch="dibs/login")
    shop.tell(opened())
    assert shop.tell(build(1, "failure")).did == ("edit", "annotate", "send_back")
    log = "https://github.com/acme/shop/actions/runs/1"
    assert (status(shop), f"ci.yml: failure {log}" in last_comment(shop)) == ("ready", True)
    session = shop.board.start_session("coder").id
    previous = shop.board.claim("login", session=session).previous
    assert previous is not None
    assert log in (previous.comment or "")
    assert (previous.run.links["failed_log"], previous.run.checks["ci.yml"]["state"]) == (log, "failure")


def test_what_was_decided_before_the_run_ended_counts_when_it_ends(shop: GitHub) -> None:
    session, token = claimed(shop.board, "login")
    shop.tell(opened())
    shop.tell(build(1, "success"))
    shop.tell(merged())
    shop.board.done("login", session=session, token=token)
    assert status(shop) == "pending_approval", "nobody has looked yet"
    assert follow.settle_changed(shop.board, shop.policy, None) > 0
    assert status(shop) == "done"


def test_what_was_said_of_an_earlier_run_does_not_decide_about_a_later_one(shop: GitHub) -> None:
    """The second run has pushed, and GitHub has not told of it yet: the red head that is known was judged already."""
    submitted(shop.board)
    shop.tell(opened())
    shop.tell(build(1, "failure"))
    submitted(shop.board)
    follow.settle(shop.board, "login", shop.policy)
    assert status(shop) == "pending_approval"
    shop.tell(opened(1, B, action="synchronize"))
    shop.tell(build(2, "failure", B))
    assert status(shop) == "ready"


def test_a_run_that_names_its_commit_waits_until_that_is_the_head(shop: GitHub) -> None:
    shop.policy = Policy(complete=policy.ON_CHECKS)
    shop.tell(opened())
    shop.tell(build(1, "success"))
    submitted(shop.board, branch="dibs/login", commit=B)
    follow.settle(shop.board, "login", shop.policy)
    assert status(shop) == "pending_approval", "the green head is not what the run left"
    shop.tell(opened(1, B, action="synchronize"))
    shop.tell(build(2, "success", B))
    assert status(shop) == "done"


def test_only_checks_of_the_exact_head_count(shop: GitHub) -> None:
    """After a push, and a forced one, what the old commit's checks say is of the past."""
    shop.policy = Policy(complete=policy.ON_CHECKS)
    submitted(shop.board)
    shop.tell(opened())
    shop.tell(opened(1, B, action="synchronize"))
    shop.tell(build(1, "failure", A))
    shop.tell(build(2, "success", A))
    assert status(shop) == "pending_approval"
    shop.tell(build(3, "success", B))
    assert status(shop) == "done"
    assert f"green at {B[:7]}" in last_comment(shop)


def test_all_named_checks_have_to_be_green(shop: GitHub) -> None:
    shop.policy = Policy(complete=policy.ON_CHECKS, checks=("ci.yml", "deploy/*"))
    submitted(shop.board)
    shop.tell(opened())
    shop.tell(build(1, "success"))
    shop.tell(statuses("lint", "failure", A, "dibs/login"))
    assert status(shop) == "pending_approval", "a status is missing; that of another name does not count"
    shop.tell(statuses("deploy/preview", "pending", A, "dibs/login"))
    assert status(shop) == "pending_approval"
    shop.tell(statuses("deploy/preview", "success", A, "dibs/login", second=5))
    assert status(shop) == "done"


@pytest.mark.parametrize("seed", range(6))
def test_every_order_and_number_of_deliveries_leads_to_the_same_end(shop: GitHub, seed: int) -> None:
    shop.policy = Policy(complete=policy.ON_CHECKS, checks=("ci.yml", "lint"))
    submitted(shop.board)
    story = [
        *(opened(), opened(1, B, action="synchronize"), build(1, "failure", A), build(2, "success", B)),
        *(build(2, "", B, status="in_progress"), statuses("lint", "pending", B, "dibs/login")),
        statuses("lint", "success", B, "dibs/login", second=2),
    ]
    told = story * 2
    # The first head may be judged before the second is known, if it comes first: its result would be sent back.
    random.Random(seed).shuffle(told)
    told.insert(0, story[1])
    for one in told:
        shop.tell(one)
    assert status(shop) == "done"
    known = shop.board.get("login").item.revision
    for one in told:
        shop.tell(one)
    assert shop.board.get("login").item.revision == known, "replays write nothing"
    assert_sound(shop.board)


def test_a_strangers_fork_with_the_branch_of_an_item_follows_and_decides_nothing(shop: GitHub) -> None:
    submitted(shop.board)
    fork = {"repo": {"full_name": "eve/shop"}}
    for ref, body in (("dibs/login", ""), ("main", "Dibs-Claim: login/1\nDibs-Item: login")):
        shop.tell(merged(of=fork, author_association="CONTRIBUTOR", user={"login": "eve"}, ref=ref, body=body))
    gone = {"repo": None}
    shop.tell(merged(of=gone, author_association="NONE"))
    shop.tell(run(1, "failure", branch="dibs/login", repository="eve/shop", head_sha=A))
    assert status(shop) == "pending_approval"
    assert remembered(shop.board.get("login").item) == {}
    assert shop.tell(merged(of=fork, author_association="MEMBER", body="Dibs-Item: login")).did[-1] == "approve"


def test_another_repository_and_another_project_decide_nothing(shop: GitHub) -> None:
    shop.policy = Policy(complete=policy.ON_MERGE, projects=(("acme/*", "acme"),))
    submitted(shop.board)
    shop.tell(merged())
    assert status(shop) == "pending_approval", "the item is in the project default"
    elsewhere = {**merged(), "repository": {"full_name": "eve/shop"}}
    elsewhere["pull_request"]["head"]["repo"] = {"full_name": "eve/shop"}
    shop.policy = Policy(complete=policy.ON_MERGE, projects=(("eve/*", "eve"),))
    shop.tell(elsewhere)
    assert status(shop) == "pending_approval"


def test_a_repository_that_shares_the_default_project_decides_nothing_about_anothers_issue(github: GitHub) -> None:
    github.policy = Policy(complete=policy.ON_MERGE)
    github.tell(issue())
    item = github.item().id
    submitted(github.board, item)
    told = merged(ref=f"dibs/{item}", of={"repo": {"full_name": "acme/blog"}})
    elsewhere = {**told, "repository": {"full_name": "acme/blog"}}
    github.tell(elsewhere)
    assert github.board.get(item).item.status == "pending_approval"
    github.policy = Policy(complete=policy.ON_MERGE, projects=(("acme/*", "default"),))
    github.tell(elsewhere)
    assert github.board.get(item).item.status == "done"


def test_of_many_deliveries_at_once_one_decides(shop: GitHub) -> None:
    submitted(shop.board)
    ready = threading.Barrier(8)
    failures: list[BaseException] = []

    def tell(number: int) -> None:
        ready.wait()
        try:
            for one in (opened(), build(number, "success"), merged()):
                shop.tell(one, delivery=f"{number}-{one.get('action')}")
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=tell, args=(number,)) for number in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    kinds = [event.kind for event in shop.board.log("login")]
    assert (kinds.count("approved"), kinds.count("sent_back"), status(shop)) == (1, 0, "done")
    assert_sound(shop.board)


def test_the_pull_request_of_a_lost_claim_decides_nothing(shop: GitHub) -> None:
    """Run 1 lost its claim. Its own pull request names its token; run 2 works on another one."""
    claimed(shop.board, "login")
    shop.board.force_release("login", reason="lost")
    shop.tell(opened(ref="old", body="Dibs-Claim: login/1"))
    assert submitted(shop.board) == 2
    shop.tell(merged(ref="old", body="Dibs-Claim: login/1"))
    assert status(shop) == "pending_approval"
    shop.tell(merged(10, number=21, ref="new", body="Dibs-Claim: login/2"))
    assert status(shop) == "done"


def test_of_two_pull_requests_the_newer_decides_and_a_closed_one_only_alone(shop: GitHub) -> None:
    submitted(shop.board)
    shop.tell(opened())
    shop.tell(opened(1, B, number=21, body="Dibs-Item: login"))
    shop.tell(build(1, "failure"))
    assert status(shop) == "pending_approval", "the newer one has another head"
    shop.tell(opened(3, B, number=21, body="Dibs-Item: login", state="closed", action="closed"))
    assert "acme/shop#20 fails" in last_comment(shop)
    submitted(shop.board, commit=A)
    shop.tell(opened(4, state="closed", action="closed"))
    assert status(shop) == "ready"


def test_a_decision_is_about_the_result_that_was_read(shop: GitHub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look at the red checks and the decision, a person sends the item back, and another run ends."""
    submitted(shop.board)
    shop.tell(opened())
    decide = verdict

    def decide_late(*given: Any) -> Any:
        monkeypatch.setattr(follow, "verdict", decide)
        found = decide(*given)
        shop.board.send_back("login", comment="not like this", actor="boss")
        submitted(shop.board, commit=B)
        return found

    monkeypatch.setattr(follow, "verdict", decide_late)
    shop.tell(build(1, "failure"))
    assert (status(shop), last_comment(shop)) == ("pending_approval", "not like this")


@pytest.mark.parametrize("end", ["cancel", "claimed anew", "edited"])
def test_what_happened_meanwhile_stays(shop: GitHub, end: str) -> None:
    submitted(shop.board)
    if end == "cancel":
        shop.board.cancel("login")
    elif end == "claimed anew":
        shop.board.send_back("login", comment="no", actor="boss")
        claimed(shop.board, "login")
    else:
        shop.board.edit("login", review=False)
    before = status(shop)
    shop.tell(opened())
    shop.tell(merged())
    assert status(shop) == before


def test_without_a_contract_a_person_decides_and_the_run_is_annotated(shop: GitHub) -> None:
    shop.policy = Policy()
    submitted(shop.board)
    shop.tell(opened())
    shop.tell(merged())
    assert (status(shop), "acme/shop#20" in shop.board.get("login").runs[0].checks) == ("pending_approval", True)


def test_many_checks_are_kept_within_bounds_and_a_forgotten_one_is_not_green(
    shop: GitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pull_memory, "CHECKS_MAX", 10)
    shop.policy = Policy(complete=policy.ON_CHECKS)
    submitted(shop.board)
    shop.tell(opened())
    for number in range(pull_memory.CHECKS_MAX + 5):
        shop.tell(statuses(f"check {number}", "pending", A, "dibs/login"))
    known = remembered(shop.board.get("login").item)["checks"][A]
    assert len(known) <= pull_memory.CHECKS_MAX + 1
    for number in range(pull_memory.CHECKS_MAX):
        shop.tell(statuses(f"check {number}", "success", A, "dibs/login", second=1))
    assert status(shop) == "pending_approval", "5 checks were never green"


def test_the_pull_request_of_an_item_is_no_item_unless_a_rule_says_so(shop: GitHub) -> None:
    shop.tell(opened())
    assert [item.id for item in shop.items()] == ["login"]
    shop.tell(build(1, "failure"))
    assert [item.id for item in shop.items()] == ["login"], "nor is its build"
    rule = policy.Rule(do="make", event=("pull_request",), linked=True, type="pr_review")
    shop.policy = Policy(rules=(rule, *policy.DEFAULT_RULES))
    shop.tell(opened(1, B))
    assert shop.item(PULL).type == "pr_review"


def test_an_issue_made_under_a_contract_asks_for_review_and_keeps_what_is_known(github: GitHub) -> None:
    github.policy = Policy(complete=policy.ON_MERGE)
    github.tell(issue(labels=["bug"]))
    item = github.item()
    assert (item.review, item.priority) == (True, 8)
    github.tell(opened(ref=f"dibs/{item.id}"))
    github.tell(issue(labels=["critical"], updated_at=at(2)))
    assert "acme/shop#20" in remembered(github.item())["pull_requests"]
    assert github.item().priority == 10


def test_hostile_payloads_are_no_checks() -> None:
    odd: list[Any] = [None, 7, "x", [], {}, {"sha": 1}, {"name": "\x00"}, {"pull_requests": [None, 3, {}]}]
    for event, value in itertools.product(("check_run", "workflow_run"), odd):
        assert checks.from_webhook(event, {"repository": REPOSITORY, event: value}) is None
    odd_status = {"repository": REPOSITORY, "sha": A, "branches": "dibs/login", "state": []}
    assert checks.from_webhook("status", odd_status) is None
