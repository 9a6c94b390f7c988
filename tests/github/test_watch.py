"""`dibs github watch` and the client of the API, on a stand-in whose answers GitHub's own description allows."""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from dibs.errors import DibsError, Forbidden, Invalid, ItemNotFound, StoreUnavailable
from dibs.github import payload
from dibs.github.api import Api, find_token
from dibs.github.budget import Limited
from dibs.github.decide import remembered
from dibs.github.policy import Policy
from dibs.github.watch import Round, Watcher
from dibs.testing.invariants import assert_sound
from tests.github.conftest import BUILD, ISSUE, PULL, GitHub, claimed
from tests.github.examples import description, examples
from tests.github.fake_api import FakeApi, Refusal
from tests.github.payloads import OPENED_AT, at, issue, pull, run

TOKEN = "ghp_a_token_that_nobody_may_see"


@pytest.fixture
def api() -> Iterator[FakeApi]:
    with FakeApi(description()) as fake:
        yield fake
        assert fake.mistakes == []


def no_sleep(_: float) -> None:
    pass


def watcher(github: GitHub, fake: FakeApi, **options: Any) -> Watcher:
    return Watcher(github.board, Api(TOKEN, fake.url, **{"sleep": no_sleep, **options}), "acme/shop", github.policy)


def look(github: GitHub, fake: FakeApi) -> Round:
    """One look, as `--once`."""
    watching = watcher(github, fake)
    try:
        return watching.look()
    finally:
        watching.close()


def did(found: Round) -> dict[str, tuple[str, ...]]:
    return {one.subject: one.did for one in found.outcomes if one.did}


def test_what_is_open_becomes_items_and_what_changes_follows(github: GitHub, api: FakeApi) -> None:
    api.put_issue(12, labels=["bug"])
    api.put_issue(13, state="closed")
    api.put_pull(20)
    api.put_run(1, "failure")
    assert did(look(github, api)) == {ISSUE: ("add",), PULL: ("add",), BUILD: ("add",)}
    assert {item.type: item.priority for item in github.items()} == {
        "issue_triage": 8,
        "pr_review": 5,
        "build_failure": 8,
    }
    assert did(look(github, api)) == {}
    api.put_issue(12, labels=["critical"], updated_at=at(5))
    api.put_pull(20, state="closed", merged_at=at(6), updated_at=at(6))
    api.put_run(2, "success")
    assert did(look(github, api)) == {ISSUE: ("edit",), PULL: ("edit", "cancel"), BUILD: ("edit", "finish")}
    assert remembered(github.item(PULL))["state"] == "merged"
    api.put_issue(12, state="closed", updated_at=at(7))
    assert did(look(github, api)) == {ISSUE: ("edit", "cancel")}
    assert_sound(github.board)


def test_the_cursor_is_in_the_board_and_a_look_asks_for_what_is_newer(github: GitHub, api: FakeApi) -> None:
    api.put_issue(12, updated_at=at(30))
    look(github, api)
    look(github, api)
    asked = [one.query for one in api.asked if one.path.endswith("/issues")]
    assert [(one["per_page"], one["state"], one.get("since")) for one in asked] == [
        ("1", "all", None),  # where a watcher begins
        ("100", "open", None),
        ("100", "all", at(30)),
    ]
    session = github.board.find_session("github:acme/shop")
    assert (session.agent, session.meta["cursor"]["issues"]) == ("github", at(30))


def test_what_has_not_changed_costs_nothing_of_the_rate_limit(github: GitHub, api: FakeApi) -> None:
    api.put_issue(12)
    api.put_run(1, "failure")
    watching = watcher(github, api)
    watching.look()
    watching.look()
    api.asked.clear()
    assert watching.look().read == 0
    assert {one.status for one in api.asked} == {304}
    watching.close()


def test_a_list_that_was_not_dealt_with_is_asked_for_again(
    github: GitHub, api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.put_issue(12)
    watching = watcher(github, api)
    with monkeypatch.context() as broken:
        broken.setattr(github.board.store, "add", lambda *_, **__: (_ for _ in ()).throw(StoreUnavailable("away")))
        with pytest.raises(StoreUnavailable):
            watching.look()
    assert did(watching.look()) == {ISSUE: ("add",)}
    watching.close()


def test_many_pages_are_read_to_the_end(github: GitHub, api: FakeApi) -> None:
    api.page_size = 2
    for number in range(1, 8):
        api.put_issue(number, updated_at=at(number))
        api.put_pull(number + 20, updated_at=at(number))
    look(github, api)
    assert len(github.items()) == 14
    api.put_pull(21, title="changed", updated_at=at(50))
    api.asked.clear()
    assert did(look(github, api)) == {"github:acme/shop#21": ("edit",)}
    assert len([one for one in api.asked if one.path.endswith("/pulls")]) == 2, "of 4: it stops at what it knows"


def test_nothing_is_missed_that_moves_to_another_page_meanwhile(
    github: GitHub, api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.page_size = 2
    for number in range(1, 7):
        api.put_issue(number, updated_at=at(number))
    changes, answer = (
        [lambda: api.put_issue(1, updated_at=at(50)), lambda: api.put_issue(3, state="closed")],
        api.answer,
    )

    def answer_and_change(*given: Any) -> Any:
        answered = answer(*given)
        if "/issues" in given[0] and changes:
            changes.pop(0)()
        return answered

    monkeypatch.setattr(api, "answer", answer_and_change)
    look(github, api)
    assert changes == []
    assert {item.payload["issue_number"] for item in github.items()} >= {1, 2, 4, 5, 6}


def test_many_changes_of_one_second_are_read_to_the_end(github: GitHub, api: FakeApi) -> None:
    api.page_size = 2
    for number in range(1, 7):
        api.put_issue(number)
    look(github, api)
    assert len(github.items()) == 6


def test_a_webhook_and_a_watcher_together_change_nothing_twice(github: GitHub, api: FakeApi) -> None:
    github.tell(issue(labels=["bug"]))
    github.tell(pull())
    github.tell(run(1, "failure"))
    before = {item.id: item.revision for item in github.items()}
    api.put_issue(12, labels=["bug"])
    api.put_pull(20, title="Mend the login")
    api.put_run(1, "failure")
    assert did(look(github, api)) == {}
    api.put_issue(12, labels=["critical"], updated_at=at(5))
    assert did(look(github, api)) == {ISSUE: ("edit",)}
    github.tell(issue(labels=["critical"], updated_at=at(5)))
    assert {
        item.id: item.revision - before[item.id] for item in github.items() if item.revision != before[item.id]
    } == {github.item().id: 1}


def test_several_watchers_at_once_change_nothing_twice(github: GitHub, api: FakeApi) -> None:
    for number in range(1, 11):
        api.put_issue(number, labels=["bug"], updated_at=at(number))
    api.put_run(1, "failure")
    outcomes: list[Round] = []
    errors: list[BaseException] = []

    def watch() -> None:
        try:
            outcomes.append(look(github, api))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=watch) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(github.items()) == 11
    assert {event.kind for item in github.items() for event in github.board.log(item.id)} == {"added", "claimable"}


def test_what_was_closed_while_nobody_watched_is_found(github: GitHub, api: FakeApi) -> None:
    github.tell(issue())
    github.tell(pull())
    api.put_issue(12, state="closed", updated_at=at(5))
    api.put_pull(20, state="closed", updated_at=at(6))
    look(github, api)
    assert {item.status for item in github.items()} == {"cancelled"}


def test_githubs_examples_lead_to_the_same_items_as_through_the_webhook(github: GitHub, api: FakeApi) -> None:
    """Each issue, pull request and run of an example is a state of the repository that a watcher finds, in the order of
    their instants, whatever the example is about. The other examples have nothing that a watcher reads."""
    found = []
    for number, example in enumerate(examples(), start=1):
        is_gone = example.event in payload.EVENTS and example.payload["action"] in payload.GONE
        for event, name in zip(payload.EVENTS, ("issue", "pull_request", "workflow_run"), strict=True):
            told = example.payload.get(name)
            if isinstance(told, dict) and not is_gone:
                found.append((number, event, told))
                break
    for number, event, told in found:
        fields = {
            name: told[name] for name in ("title", "body", "state", "updated_at", "author_association") if name in told
        }
        fields["labels"] = [label["name"] for label in told.get("labels") or ()]
        if event == "workflow_run":
            api.put_run(number, told["conclusion"], status=told["status"], head_branch=f"b{number}")
        elif event == "issues":
            api.put_issue(number, **{"state": "open", **fields})
        else:
            api.put_pull(number, **fields, draft=told.get("draft", False), merged_at=told.get("merged_at"))
    look(github, api)
    items = {str(item.subject): (item.type, item.priority) for item in github.items()}
    for number, event, told in found:
        is_open = told.get("state", "open") == "open" and not told.get("draft")
        bug = 8 if any(label["name"] == "bug" for label in told.get("labels") or ()) else 5
        kind = "issue_triage" if event == "issues" else "pr_review"
        if event != "workflow_run":
            assert items.get(f"github:acme/shop#{number}") == ((kind, bug) if is_open else None)
    assert len(found) > 80
    assert did(look(github, api)) == {}


# A label that approves


def outsiders(api: FakeApi, **fields: Any) -> None:
    api.put_issue(12, **{"user": "mallory", "author_association": "NONE", "labels": ["dibs"], **fields})


@pytest.mark.parametrize(
    ("by", "kind", "labeled_at", "updated_at", "status"),
    [
        ("ann", "User", at(5), at(5), "ready"),
        ("mallory", "User", at(5), at(5), "pending_approval"),
        ("labeler", "Bot", at(5), at(5), "pending_approval"),
        ("ann", "User", at(5), at(6), "pending_approval"),
    ],
)
def test_a_members_label_approves_unless_something_changed_since(
    github: GitHub, api: FakeApi, by: str, kind: str, labeled_at: str, updated_at: str, status: str
) -> None:
    github.policy = Policy(approve_label="dibs")
    outsiders(api, updated_at=updated_at)
    api.put_label_event(12, "dibs", by, labeled_at, kind)
    look(github, api)
    assert github.item().status == status


# The client


def test_the_token_goes_to_the_api_alone(github: GitHub, api: FakeApi) -> None:
    with FakeApi() as elsewhere:
        for path, status in itertools.product(("/repos/acme/shop", "/repos/acme/shop/issues"), (301, 307)):
            api.refused = {path: Refusal(status, {"Location": f"{elsewhere.url}/repos/acme/shop/issues"})}
            with pytest.raises(Invalid, match="another address"):
                look(github, api)
        link = {"Link": f'<{elsewhere.url}/repos/x>; rel="next"'}
        api.refused = {"/repos/acme/shop/issues": Refusal(200, link, b"[]")}
        with pytest.raises(Invalid, match="another address"):
            look(github, api)
        assert elsewhere.asked == []
    assert {one.token for one in api.asked} == {f"Bearer {TOKEN}"}
    for url in ("http://api.example.org", "ftp://x", "https://user:pass@x.example.org", "api.github.com"):
        with pytest.raises(Invalid):
            Api(TOKEN, url)


def test_a_repository_with_another_name_is_refused_in_one_line(github: GitHub, api: FakeApi) -> None:
    """Before the first look, and while it is watched."""
    watching = watcher(github, api)
    watching.look()
    api.repository = "acme/store"
    for path in ("", "/issues", "/pulls", "/actions/runs"):
        there = f"{api.url}/repos/acme/store{path}"
        api.refused[f"/repos/acme/shop{path}"] = Refusal(301, {"Location": there})
    for one in (watching, watcher(github, api)):
        with pytest.raises(Invalid) as refusal:
            one.look()
        assert refusal.value.message == "acme/shop is acme/store now; type: dibs github watch acme/store"
        one.close()


def test_no_refusal_shows_the_token(github: GitHub, api: FakeApi) -> None:
    answers = {401: Forbidden, 403: Forbidden, 404: ItemNotFound, 422: Invalid, 500: StoreUnavailable, 200: DibsError}
    for status, kind in answers.items():
        api.refused["/repos/acme/shop/issues"] = Refusal(status, {}, b"not JSON")
        with pytest.raises(kind) as refusal:
            look(github, api)
        assert TOKEN not in f"{refusal.value} {json.dumps(refusal.value.facts)}"
    assert TOKEN not in repr(watcher(github, api).__dict__)


def test_a_rate_limit_is_waited_for_and_a_long_one_is_told(github: GitHub, api: FakeApi) -> None:
    api.put_issue(12)
    waits: list[float] = []
    soon = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(int(time.time()) - 5)}
    api.refusals += [Refusal(403, {"Retry-After": "3"}), Refusal(429, soon), Refusal(502, {})]
    watching = watcher(github, api, sleep=waits.append)
    assert did(watching.look()) == {ISSUE: ("add",)}
    assert waits[:2] == [3.0, 1.0]
    assert 0 < waits[2] <= 4.0
    # GitHub's clock counts: that of this machine may be off by years.
    off = {**soon, "X-RateLimit-Reset": "1000001800", "Date": "Sun, 09 Sep 2001 01:46:40 GMT"}
    secondary = b'{"message": "You have exceeded a secondary rate limit."}'
    for status, headers, body in (
        (429, {"Retry-After": "1800"}, b""),
        (429, {**soon, "X-RateLimit-Reset": str(int(time.time()) + 1800)}, b""),
        (403, off, b""),
        (403, {}, secondary),
        (429, {}, b""),
    ):
        api.refusals.append(Refusal(status, headers, body))
        with pytest.raises(Limited) as limited:
            watching.look()
        assert 50 <= limited.value.facts["retry_after_seconds"] <= 1800
    assert len(waits) == 3
    watching.close()


def test_a_token_that_no_header_can_have_is_refused_and_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    for token in (f"{TOKEN}\nX-Evil: 1", f"{TOKEN} x", f"{TOKEN}\u20ac"):
        monkeypatch.setenv("GITHUB_TOKEN", token)
        with pytest.raises(Invalid) as refusal:
            find_token()
        assert TOKEN not in str(refusal.value)


def test_an_old_cursor_leaves_nothing_behind(github: GitHub, api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dibs.github.api.ETAGS_MAX", 3)
    watching = watcher(github, api)
    for second in range(5):
        api.put_issue(12, updated_at=at(second))
        watching.look()
    assert len(watching._api.etags) <= 3
    watching.close()


def test_a_token_without_actions_reads_the_rest(github: GitHub, api: FakeApi) -> None:
    api.put_issue(12)
    api.refused["/repos/acme/shop/actions/runs"] = Refusal(403, {})
    found = look(github, api)
    assert (did(found), found.unreadable) == ({ISSUE: ("add",)}, ("runs",))


def test_a_connection_that_breaks_is_made_again(github: GitHub, api: FakeApi) -> None:
    api.put_issue(12, updated_at=OPENED_AT)
    watching = watcher(github, api)
    watching.look()
    assert watching._api._connection is not None
    watching._api._connection.sock.close()
    api.put_issue(12, title="changed", updated_at=at(9))
    assert did(watching.look()) == {ISSUE: ("edit",)}
    watching.close()


def awaiting(github: GitHub, **links: str) -> None:
    """The item `login` waits for the checks of its pull request."""
    github.policy = Policy(complete="checks")
    github.board.add("Fix login", id="login", review=True)
    session, token = claimed(github.board, "login")
    github.board.done("login", session=session, token=token, links=links)


def test_checks_of_the_pull_requests_of_waiting_items_are_read_and_decide(github: GitHub, api: FakeApi) -> None:
    awaiting(github)
    api.put_pull(20)
    api.put_run(1, "success", head_sha="a" * 40, head_branch="dibs/login")
    api.page_size = 2
    for number in range(5):
        api.put_status("a" * 40, f"part-{number}", "pending" if number == 4 else "success", at(1))
    look(github, api)
    assert github.board.get("login").item.status == "pending_approval", "the last page has one that is going on"
    api.put_status("a" * 40, "part-4", "success", at(2))
    found = did(look(github, api))
    assert "approve" in {verb for verbs in found.values() for verb in verbs}
    assert github.board.get("login").item.status == "done"
    api.asked.clear()
    look(github, api)
    assert not [one for one in api.asked if "/commits/" in one.path], "nothing waits any more"


def test_what_has_not_changed_about_checks_costs_nothing_of_the_rate_limit(github: GitHub, api: FakeApi) -> None:
    awaiting(github)
    api.put_pull(20)
    api.put_status("a" * 40, "slow", "pending", at(1))
    watching = watcher(github, api)
    watching.look()
    watching.look()
    api.asked.clear()
    known = github.board.get("login").item.revision
    assert watching.look().outcomes == ()
    assert ({one.status for one in api.asked}, github.board.get("login").item.revision) == ({304}, known)
    watching.close()


def test_the_trailer_of_the_head_links_a_pull_request_of_any_branch(github: GitHub, api: FakeApi) -> None:
    awaiting(github)
    own = {**api_head(api), "ref": "feature", "sha": "c" * 40}
    api.put_pull(20, head=own)
    api.messages["c" * 40] = "Mend it\n\nDibs-Claim: login/1\n"
    api.put_status("c" * 40, "lint", "failure", at(1))
    look(github, api)
    assert github.board.get("login").item.status == "ready"
    assert "https://ci.example/lint" in github.board.log("login")[-2].data["comment"]


def api_head(api: FakeApi) -> dict[str, Any]:
    api.put_pull(99)
    head: dict[str, Any] = api.pulls.pop(99)["head"]
    del api.issues[99]
    return head


def test_an_item_whose_checks_github_refuses_is_reported_once_and_stops_no_other(github: GitHub, api: FakeApi) -> None:
    """Whoever may add an item can write there of a pull request with any head."""
    gone = {"url": "", "branch": "x", "base": "main", "head": "e" * 40, "state": "open", "version": "", "after": 0}
    odd = [{**gone, "head": "../../../user"}, gone]
    for number, one in enumerate(odd):
        told = {"pull_requests": {"acme/shop#1": {**one, "tokens": []}}}
        github.board.add("Odd", id=f"odd-{number}", review=True, payload={"external": told})
        claimed(github.board, f"odd-{number}")
    awaiting(github)
    api.put_pull(20)
    api.put_run(1, "success", head_sha="a" * 40, head_branch="dibs/login")
    watching = watcher(github, api)
    (problem,) = watching.look().wrote.problems
    assert problem.startswith("odd-1: GitHub has no /repos/acme/shop/pulls/1")
    assert github.board.get("login").item.status == "done"
    assert watching.look().wrote.problems == (), "told once"
    watching.close()
    assert not [one for one in api.asked if ".." in one.path]


def test_a_watcher_with_another_policy_decides_nothing_about_other_repositories(github: GitHub, api: FakeApi) -> None:
    awaiting(github)
    api.put_pull(20)
    look(github, api)
    api.put_status("a" * 40, "ci", "success", at(1))
    github.policy = Policy(complete="merged")
    look(github, api)
    github.policy = Policy(complete="checks")
    with FakeApi(description(), "acme/blog") as blog:
        found = Watcher(github.board, Api(TOKEN, blog.url, sleep=no_sleep), "acme/blog", github.policy)
        found.look()
        found.close()
    assert github.board.get("login").item.status == "pending_approval", "it waits for a merge in acme/shop"
