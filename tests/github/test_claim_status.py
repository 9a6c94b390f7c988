"""The commit status `dibs/claim`: it fails for the head of a branch with commits of a lost claim."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dibs.github.api import Api
from dibs.github.claim_status import DESCRIPTION_LENGTH_MAX
from dibs.github.out_policy import CLAIM_STATUS, Out
from dibs.github.policy import Policy
from dibs.github.troubles import RETRY_SECONDS_MAX
from dibs.github.watch import Watcher
from dibs.testing.clock import FileClock
from tests.github.conftest import GitHub, claimed
from tests.github.examples import description
from tests.github.fake_api import Refusal, _repository
from tests.github.fake_writes import WritableApi
from tests.github.writing import Clock

SHOP = "/repos/acme/shop"


@pytest.fixture
def api() -> Iterator[WritableApi]:
    with WritableApi(description()) as fake:
        yield fake
        assert fake.mistakes == []


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def watching(github: GitHub, api: WritableApi, clock: Clock) -> Iterator[Watcher]:
    github.policy = Policy(out=Out(status=True))
    found = watcher(github, api, clock)
    yield found
    found.close()


@pytest.fixture
def item(github: GitHub) -> str:
    return github.board.add("Mend the login", id="login").item.id


def watcher(github: GitHub, api: WritableApi, clock: Clock | None = None) -> Watcher:
    made = Api("token", api.url, sleep=lambda _: None)
    return Watcher(github.board, made, "acme/shop", github.policy, clock=clock or Clock())


def trailer(item: str, token: int) -> str:
    return f"Work\n\nDibs-Claim: {item}/{token}\n"


def put_pull(api: WritableApi, number: int, head: str, branch: str, repository: str = "acme/shop") -> None:
    api.put_pull(number)
    sides = {"head": (head, branch, repository), "base": (api.branches["main"], "main", "acme/shop")}
    for side, (sha, ref, of) in sides.items():
        api.pulls[number][side] = {**api.pulls[number][side], "sha": sha, "ref": ref, "repo": _repository(of)}


def test_the_status_fails_when_the_claim_is_lost_and_a_later_run_mends_it(
    github: GitHub, api: WritableApi, watching: Watcher, item: str
) -> None:
    _, first = claimed(github.board, item)
    head = api.push("dibs/login", "a", trailer(item, first))
    watching.look()
    assert api.state(head) == "success"
    assert api.statuses[head][0]["context"] == CLAIM_STATUS == "dibs/claim"
    github.board.force_release(item, reason="a secret reason")
    watching.show()
    assert api.state(head) == "failure"
    told = api.statuses[head][0]["description"]
    assert told == f"claim {first} of login was lost: force-released (commit {head[:12]})"
    session, second = claimed(github.board, item)
    watching.show()
    assert api.state(head) == "failure"
    newer = api.push("dibs/login", "b", trailer(item, second))
    watching.look()
    assert (api.state(head), api.state(newer)) == ("failure", "success")
    put_pull(api, 20, newer, "dibs/login")
    github.board.done(item, session=session, token=second)
    watching.look()
    assert api.state(newer) == "success"
    assert len(api.statuses[newer]) == 1


def test_a_claim_that_expired_is_lost_when_another_session_takes_over(
    github: GitHub, api: WritableApi, watching: Watcher, item: str, tmp_path: Path
) -> None:
    _, token = claimed(github.board, item)
    head = api.push("dibs/login", "a", trailer(item, token))
    FileClock(tmp_path / "clock").advance(4 * 3600)
    watching.look()
    # Its session can still recover it.
    assert api.state(head) == "success"
    session, token = claimed(github.board, item)
    watching.show()
    assert api.state(head) == "failure"
    assert "coder took over" in api.statuses[head][0]["description"]
    newer = api.push("dibs/login", "b", trailer(item, token))
    github.board.release(item, session=session, token=token)
    watching.look()
    assert (api.state(head), api.state(newer)) == ("failure", "success")
    claimed(github.board, item)
    github.board.cancel(item)
    last = api.push("dibs/login", "c", trailer(item, token + 1))
    put_pull(api, 20, last, "dibs/login")
    watching.look()
    assert api.state(last) == "failure"
    assert "cancelled" in api.statuses[last][0]["description"]


def test_every_open_pull_request_has_a_status_so_that_it_can_be_required(
    github: GitHub, api: WritableApi, watching: Watcher, item: str
) -> None:
    """Commits of people name no claim. A fork may call its branch whatever it likes, and name the claims of others."""
    _, token = claimed(github.board, item)
    github.board.force_release(item, reason="x")
    persons = api.push("tidy", "a", "Tidy up")
    forged = api.push("fork", "b", "A branch of this name")
    named = api.push("named", "c", trailer(item, token))
    stranger = api.push("unknown", "d", trailer("of-another-board", 7))
    put_pull(api, 20, persons, "tidy")
    put_pull(api, 21, forged, "dibs/login", "mallory/shop")
    put_pull(api, 22, named, "named")
    put_pull(api, 23, stranger, "unknown")
    for branch in ("tidy", "fork", "named", "unknown"):
        del api.branches[branch]
    watching.look()
    states = [api.state(sha) for sha in (persons, forged, named, stranger)]
    assert states == ["success", "success", "failure", "success"]


def test_a_head_that_one_of_two_bases_lacks_is_refused(
    github: GitHub, api: WritableApi, watching: Watcher, item: str
) -> None:
    _, token = claimed(github.board, item)
    github.board.force_release(item, reason="x")
    lost = api.push("release", "a", trailer(item, token))
    head = api.push("work", "b", "On top", parent=lost)
    for number in (20, 21, 22):
        put_pull(api, number, head, "work")
    api.pulls[20]["base"]["sha"] = lost
    api.pulls[22]["base"]["sha"] = api.push("release", "c", "Released")
    watching.look()
    assert api.state(head) == "failure"


def test_after_github_was_away_a_new_head_and_a_lost_one_have_their_status(
    github: GitHub, api: WritableApi, watching: Watcher, item: str, clock: Clock
) -> None:
    _, token = claimed(github.board, item)
    head = api.push("dibs/login", "a", trailer(item, token))
    for lose in (lambda: None, lambda: github.board.force_release(item, reason="x")):
        lose()
        api.refused_writes["add_status"] = (502, "away")
        watching.look()
        before = api.state(head)
        del api.refused_writes["add_status"]
        clock.advance(RETRY_SECONDS_MAX)
        watching.show()
        assert api.state(head) != before
    assert api.state(head) == "failure"


def test_old_branches_are_not_judged(github: GitHub, api: WritableApi, watching: Watcher, item: str) -> None:
    session, token = claimed(github.board, item)
    github.board.done(item, session=session, token=token)
    old, unknown = api.push("dibs/login", "a", trailer(item, token)), api.push("dibs/no-such-item", "b", "x")
    watching.look()
    assert (api.state(old), api.state(unknown)) == (None, None)


def test_a_branch_without_trailers_stands_or_falls_with_the_latest_run_of_its_item(
    github: GitHub, api: WritableApi, watching: Watcher, item: str
) -> None:
    head = api.push("dibs/login", "a", "Work without a trailer")
    watching.look()
    assert api.state(head) == "success"
    claimed(github.board, item)
    watching.show()
    assert api.state(head) == "success"
    github.board.force_release(item, reason="x")
    watching.show()
    assert api.state(head) == "failure"
    claimed(github.board, item)
    watching.show()
    assert api.state(head) == "failure", "the run that comes after has pushed nothing"
    newer = api.push("dibs/login", "b", "More of it")
    watching.look()
    assert (api.state(head), api.state(newer)) == ("failure", "success")


def test_all_pages_of_a_comparison_are_judged(
    github: GitHub,
    api: WritableApi,
    watching: Watcher,
    item: str,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, token = claimed(github.board, item)
    github.board.force_release(item, reason="x")
    api.page_size = 2
    api.push("dibs/other", "a", "one")
    api.push("dibs/other", "b", "two")
    api.push("dibs/other", "c", trailer(item, token))
    head = api.push("dibs/other", "d", "four")
    github.board.add("other", id="other")
    api.refused[f"{SHOP}/compare/main...{head}"] = Refusal(502, {})
    assert "502" in watching.look().wrote.problems[0]
    api.refused.clear()
    clock.advance(RETRY_SECONDS_MAX)
    watching.show()
    assert api.state(head) == "failure"
    monkeypatch.setattr("dibs.github.claim_status.COMMITS_MAX", 4)
    other = watcher(github, api)
    other.look()
    other.close()
    assert api.state(head) == "error"


def test_a_status_that_a_late_watcher_wrote_is_replaced(
    github: GitHub, api: WritableApi, watching: Watcher, item: str
) -> None:
    _, token = claimed(github.board, item)
    head = api.push("dibs/login", "a", trailer(item, token))
    watching.look()
    github.board.force_release(item, reason="x")
    watching.show()
    api.add_status(head, "success", "late", CLAIM_STATUS)
    watching.look()
    assert api.state(head) == "failure"
    before = len(api.writes())
    watching.look()
    again = watcher(github, api)
    again.look()
    again.close()
    assert len(api.writes()) == before


def test_a_token_that_may_not_write_statuses_is_told_once_and_a_long_name_is_cut(
    github: GitHub, api: WritableApi, watching: Watcher, clock: Clock
) -> None:
    name = "x" * 128
    item = github.board.add("long", id=name).item.id
    _, token = claimed(github.board, item)
    github.board.force_release(item, reason="x")
    head = api.push("work", "a", trailer(item, token))
    put_pull(api, 20, head, "work")
    api.refused_writes["add_status"] = (403, "Resource not accessible by personal access token")
    (problem,) = watching.look().wrote.problems
    assert "the permission Commit statuses: read and write" in problem
    github.board.edit(item, priority=2)
    assert watching.look().wrote.problems == ()
    del api.refused_writes["add_status"]
    clock.advance(RETRY_SECONDS_MAX)
    watching.show()
    assert api.state(head) == "failure"
    assert len(api.statuses[head][0]["description"]) == DESCRIPTION_LENGTH_MAX


@pytest.mark.parametrize("name", ["nosuch/0", "login/0", "-x/1", "../0"])
def test_a_strangers_odd_trailer_does_not_stop_the_watcher(
    github: GitHub, api: WritableApi, watching: Watcher, item: str, name: str
) -> None:
    head = api.push("odd", "a", f"Work\n\nDibs-Claim: {name}\n")
    put_pull(api, 20, head, "odd", "eve/shop")
    _, token = claimed(github.board, item)
    ours = api.push("dibs/login", "b", trailer(item, token))
    watching.look()
    assert (api.state(head), api.state(ours)) == ("success", "success")
    assert "names a claim" in api.statuses[head][0]["description"], "0 is the token of no run"


@pytest.mark.parametrize("branch", ["dibs/-x", "dibs/_wip", "dibs/%2E%2E"])
def test_a_branch_that_is_named_after_no_item_does_not_stop_the_watcher(
    github: GitHub, api: WritableApi, watching: Watcher, item: str, branch: str
) -> None:
    head = api.push(branch, "a", "Work")
    put_pull(api, 20, head, branch)
    watching.look()
    assert api.state(head) == "success"


def test_a_commit_without_a_name_on_top_of_a_lost_one_does_not_mend_it(
    github: GitHub, api: WritableApi, watching: Watcher, item: str
) -> None:
    """Who has lost the claim pushes once more, without the hooks, when another run has begun."""
    _, token = claimed(github.board, item)
    lost = api.push("dibs/login", "a", trailer(item, token))
    watching.look()
    github.board.force_release(item, reason="x")
    claimed(github.board, item)
    head = api.push("dibs/login", "b", "More", parent=lost)
    watching.look()
    assert (api.state(lost), api.state(head)) == ("failure", "failure")


@pytest.mark.parametrize("is_signed", [True, False])
def test_a_lost_commit_is_refused_wherever_it_is(
    github: GitHub, api: WritableApi, watching: Watcher, item: str, is_signed: bool
) -> None:
    """It has had a success, and no branch is at it when the claim is lost; another branch brings it back, under a
    commit of somebody else, with another pull request."""
    _, token = claimed(github.board, item)
    head = api.push("dibs/login", "a", trailer(item, token) if is_signed else "Work")
    watching.look()
    assert api.state(head) == "success"
    del api.branches["dibs/login"]
    watching.look()
    github.board.force_release(item, reason="x")
    watching.show()
    assert api.state(head) == "failure", "before anybody brings it back"
    watching.close()
    api.branches["feature"] = head
    put_pull(api, 20, head, "feature", "eve/shop")
    above = api.push("above", "b", "On top", parent=head)
    put_pull(api, 21, above, "above")
    again = watcher(github, api)
    again.look()
    again.close()
    assert (api.state(head), api.state(above)) == ("failure", "failure")


def test_a_pull_request_from_another_branch_does_not_free_the_commit_of_a_branch(
    github: GitHub, api: WritableApi, watching: Watcher, item: str
) -> None:
    claimed(github.board, item)
    github.board.force_release(item, reason="x")
    head = api.push("dibs/login", "a", "Work")
    put_pull(api, 20, head, "feature", "eve/shop")
    watching.look()
    assert api.state(head) == "failure"
