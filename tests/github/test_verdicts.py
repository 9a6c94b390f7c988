"""What completes an item is what GitHub says at that instant: checks that change in place, lists of many pages, and
merges that nobody waits for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from dibs.github import follow, policy, pull_memory
from dibs.github.policy import Policy
from dibs.github.watch import Watcher
from dibs.testing.invariants import assert_sound
from tests.github.conftest import GitHub, claimed
from tests.github.examples import description
from tests.github.fake_api import FakeApi, Refusal
from tests.github.payloads import REPOSITORY, at, statuses
from tests.github.test_following import build, merged, opened, status, submitted
from tests.github.writing import Clock, watcher

A = "a" * 40


@pytest.fixture
def api() -> Iterator[FakeApi]:
    with FakeApi(description()) as fake:
        fake.put_pull(20)
        yield fake
        assert fake.mistakes == []


@pytest.fixture
def shop(github: GitHub) -> GitHub:
    github.policy = Policy(complete=policy.ON_CHECKS)
    github.board.add("Fix login", id="login", review=True)
    return github


@pytest.fixture
def watching(shop: GitHub, api: FakeApi) -> Iterator[Watcher]:
    found = Watcher(shop.board, watcher(shop, api)._api, "acme/shop", shop.policy, every=60.0, clock=Clock())
    yield found
    found.close()


def check_run(api: FakeApi, id: int, name: str, conclusion: str | None, second: int = 0) -> Any:
    """The check as it is from now on, and its delivery."""
    run = api.put_check_run(A, id, name, conclusion, completed_at=at(second) if conclusion else None)
    action = "completed" if conclusion else "created"
    return {"action": action, "check_run": {**run, "pull_requests": [{"number": 20}]}, "repository": REPOSITORY}


@pytest.mark.parametrize("then", ["failure", None])
def test_a_green_check_that_an_app_changes_in_place_completes_nothing(
    shop: GitHub, api: FakeApi, watching: Watcher, then: str | None
) -> None:
    """Its id and its start stay. It has failed since, or is going on again; the others end green meanwhile."""
    check_run(api, 5, "cover", "success", 5)
    check_run(api, 6, "lint", None)
    submitted(shop.board)
    watching.look()
    check_run(api, 5, "cover", then, 20)
    check_run(api, 6, "lint", "success", 21)
    watching.look()
    assert status(shop) == ("ready" if then else "pending_approval")


def test_a_red_check_that_an_app_sets_to_green_completes(shop: GitHub, api: FakeApi, watching: Watcher) -> None:
    check_run(api, 5, "cover", "failure", 5)
    submitted(shop.board)
    watching.look()
    assert status(shop) == "ready"
    submitted(shop.board)
    watching.look()
    assert status(shop) == "pending_approval", "the same reason at the same commit"
    check_run(api, 5, "cover", "success", 20)
    watching.look()
    assert status(shop) == "done"
    assert_sound(shop.board)


def test_a_delivery_of_a_check_that_changed_in_place_counts(shop: GitHub, api: FakeApi) -> None:
    """Without a watcher, a server decides on what it was told."""
    submitted(shop.board)
    shop.tell(opened())
    shop.tell(check_run(api, 6, "lint", None))
    shop.tell(check_run(api, 5, "cover", "success", 5))
    shop.tell(check_run(api, 5, "cover", "failure", 20))
    assert status(shop) == "ready"


def test_deliveries_leave_the_verdict_on_checks_to_a_watcher(shop: GitHub, api: FakeApi, watching: Watcher) -> None:
    """The check is going on again, which GitHub tells nobody, when the delivery of its success comes."""
    late = check_run(api, 5, "cover", "success", 5)
    check_run(api, 5, "cover", None)
    submitted(shop.board)
    watching.look()
    shop.tell(late)
    follow.settle_changed(shop.board, shop.policy, None)
    assert status(shop) == "pending_approval"
    watching.look()
    assert status(shop) == "pending_approval", "what was told since is read again, although nothing has changed"
    check_run(api, 5, "cover", "success", 30)
    watching.look()
    assert status(shop) == "done"


def test_checks_beyond_the_first_page_are_read_again(shop: GitHub, api: FakeApi, watching: Watcher) -> None:
    for number in range(100):
        check_run(api, number + 1, f"job {number}", "success")
    check_run(api, 200, "cover", None)
    submitted(shop.board)
    watching.look()
    assert status(shop) == "pending_approval"
    check_run(api, 200, "cover", "success", 9)
    watching.look()
    assert status(shop) == "done"


def test_of_more_checks_than_an_item_keeps_those_that_count_are_there(
    shop: GitHub, api: FakeApi, watching: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pull_memory, "CHECKS_MAX", 10)
    watching._pulls_of_items._checks._policy = watching._pulls_of_items._policy = Policy(
        complete=policy.ON_CHECKS, checks=("cover", "job *")
    )
    for number in range(15):
        check_run(api, number + 10, f"job {number}", "success")
    check_run(api, 5, "cover", "success")
    submitted(shop.board)
    watching.look()
    assert status(shop) == "done"


def test_a_status_does_not_hide_the_check_of_the_same_name(shop: GitHub, api: FakeApi, watching: Watcher) -> None:
    check_run(api, 5, "lint", "action_required", 5)
    api.put_status(A, "lint", "success", at(9))
    submitted(shop.board)
    watching.look()
    assert status(shop) == "pending_approval"
    check_run(api, 5, "lint", "success", 10)
    watching.look()
    assert status(shop) == "done"


def test_a_list_of_checks_that_the_token_may_not_read_may_decide(shop: GitHub, api: FakeApi, watching: Watcher) -> None:
    """Unless the policy names what counts: then each of it has to be there."""
    api.put_status(A, "lint", "success", at(1))
    api.refused[f"/repos/acme/shop/commits/{A}/check-runs"] = Refusal(403, {})
    submitted(shop.board)
    (problem,) = watching.look().wrote.problems
    assert problem.startswith("login waits: the token may not read")
    assert status(shop) == "pending_approval"
    watching._pulls_of_items._checks._policy = watching._pulls_of_items._policy = Policy(
        complete=policy.ON_CHECKS, checks=("lint",)
    )
    watching._api.forget("")
    watching.look()
    assert status(shop) == "done"


def test_a_new_green_check_is_no_new_reason_to_send_back(shop: GitHub) -> None:
    submitted(shop.board, commit=A)
    shop.tell(opened())
    shop.tell(build(1, "failure"))
    submitted(shop.board, commit=A)
    follow.settle_changed(shop.board, shop.policy, None)
    shop.tell(statuses("lint", "success", A, "dibs/login", second=3))
    assert status(shop) == "pending_approval"


# Merges


def test_a_merge_after_the_result_was_sent_back_is_done(shop: GitHub) -> None:
    """Closed, opened again and merged by a person, before anybody has claimed it again."""
    submitted(shop.board)
    shop.tell(opened())
    shop.tell(opened(3, state="closed", action="closed"))
    assert status(shop) == "ready"
    shop.tell(merged())
    assert (status(shop), shop.board.log("login")[-1].actor) == ("done", "github:acme/shop")
    assert_sound(shop.board)


def test_a_merge_is_noticed_when_the_next_holder_lets_go(shop: GitHub) -> None:
    submitted(shop.board)
    shop.tell(opened())
    shop.tell(opened(3, state="closed", action="closed"))
    session, token = claimed(shop.board, "login")
    shop.tell(merged())
    assert status(shop) == "in_progress", "its holder decides"
    after = shop.board.events(newest=True, limit=1)[-1].id
    shop.board.release("login", session=session, token=token)
    follow.settle_changed(shop.board, shop.policy, after)
    assert status(shop) == "done"


def test_who_sends_back_what_is_merged_wants_more(shop: GitHub) -> None:
    submitted(shop.board)
    shop.tell(merged())
    assert status(shop) == "done"
    shop.board.reopen("login", reason="not enough")
    follow.settle(shop.board, "login", shop.policy)
    shop.tell(merged(10))
    assert status(shop) == "ready"


def test_a_merge_of_what_an_earlier_run_left_completes_nothing(shop: GitHub) -> None:
    """The second run has left another commit, which is on no pull request."""
    submitted(shop.board, commit=A)
    shop.tell(opened())
    shop.tell(build(1, "failure"))
    session, token = claimed(shop.board, "login")
    shop.tell(merged())
    shop.board.done("login", session=session, token=token, links={"commit": "b" * 40})
    follow.settle(shop.board, "login", shop.policy)
    assert status(shop) == "pending_approval"


def test_a_pull_request_that_was_merged_before_the_first_look_is_found(
    shop: GitHub, api: FakeApi, watching: Watcher
) -> None:
    submitted(shop.board)
    api.put_pull(20, state="closed", merged_at=at(3), updated_at=at(3))
    watching.look()
    assert status(shop) == "done"


def test_the_first_pull_request_of_a_repository_may_end_between_two_looks(
    shop: GitHub, api: FakeApi, watching: Watcher
) -> None:
    api.pulls.clear()
    api.issues.clear()
    watching.look()
    head = {**api_head(api), "ref": "of-another-name"}
    api.put_pull(20, head=head, body="Dibs-Item: login", state="closed", merged_at=at(3), updated_at=at(3))
    submitted(shop.board)
    watching.look()
    assert status(shop) == "done"


def api_head(api: FakeApi) -> dict[str, Any]:
    api.put_pull(20)
    head: dict[str, Any] = api.pulls[20]["head"]
    return head


def test_a_late_close_of_what_was_opened_again_is_read_again(shop: GitHub, api: FakeApi, watching: Watcher) -> None:
    submitted(shop.board)
    watching.look()
    api.put_pull(20, updated_at=at(4))
    shop.tell(opened(4, action="reopened"))
    shop.tell(opened(3, state="closed", action="closed"))
    api.put_status(A, "lint", "success", at(5))
    watching.look()
    watching.look()
    assert status(shop) == "done"
