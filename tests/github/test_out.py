"""Who is on an issue, written to GitHub: a comment, a label, an assignee; by watchers that are killed or refused."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dibs.board import Board
from dibs.config import DEFAULTS
from dibs.errors import StoreUnavailable
from dibs.github import out as outbound
from dibs.github.api import Api, Limited
from dibs.github.decide import OUT, external_of
from dibs.github.out_policy import Out
from dibs.github.policy import Policy
from dibs.github.presence import Presence, presence
from dibs.github.watch import Round, Watcher
from dibs.model import Detail
from dibs.store.sqlite.store import SqliteStore
from dibs.testing.clock import FileClock
from dibs.testing.invariants import assert_sound
from tests.github.conftest import ISSUE, GitHub, claimed
from tests.github.examples import description
from tests.github.fake_api import FakeApi, Refusal
from tests.github.fake_writes import WritableApi
from tests.github.payloads import at, issue
from tests.kit.soak import in_a_soak

TOKEN = "ghp_a_token_that_nobody_may_see"
LABEL = "dibs: in progress"
EVERYTHING = Out(comment=True, label=LABEL, assign=(("coder", "octocat"),))
BASE = "/repos/acme/shop/issues/12"


@pytest.fixture
def api() -> Iterator[WritableApi]:
    with WritableApi(description()) as fake:
        fake.put_issue(12)
        yield fake
        assert fake.mistakes == []


@pytest.fixture
def item(github: GitHub, api: WritableApi) -> str:
    """The item of an issue, on a board whose policy is to write everything."""
    github.policy = Policy(out=EVERYTHING)
    github.tell(issue())
    return github.item().id


@pytest.fixture
def lapse(tmp_path: Path) -> Callable[[], None]:
    """The lease of whoever is making a comment ends."""
    return lambda: FileClock(tmp_path / "clock").advance(outbound.LEASE_SECONDS + 1)


def no_sleep(_: float) -> None:
    pass


def watcher(github: GitHub, api: FakeApi) -> Watcher:
    return Watcher(github.board, Api(TOKEN, api.url, sleep=no_sleep), "acme/shop", github.policy)


def look(github: GitHub, api: FakeApi) -> Round:
    """One look of a watcher that starts and ends."""
    watching = watcher(github, api)
    try:
        return watching.look()
    finally:
        watching.close()


def test_an_issue_shows_who_is_on_it_and_how_that_ended(github: GitHub, api: WritableApi, item: str) -> None:
    look(github, api)
    assert api.writes() == []
    session, token = claimed(github.board, item)
    assert look(github, api).wrote.written == tuple(
        f"{one} github:acme/shop#12" for one in ("comment", "label", "assign")
    )
    (comment,) = api.bodies()
    assert comment.startswith("`coder` has been working on this since 20")
    assert (api.labels(), api.assignees()) == ([LABEL], ["octocat"])
    github.board.release(item, session=session, token=token, reason="a secret reason")
    look(github, api)
    (comment,) = api.bodies()
    assert "`coder` stopped working on this on" in comment
    assert "Nobody is working on it now." in comment
    assert "secret" not in comment
    assert (api.labels(), api.assignees()) == ([], [])
    session, token = claimed(github.board, item)
    look(github, api)
    github.board.done(item, session=session, token=token)
    look(github, api)
    (comment,) = api.bodies()
    assert "`coder` finished this on" in comment
    assert (api.labels(), api.assignees()) == ([], [])
    before = len(api.writes())
    look(github, api)
    assert len(api.writes()) == before
    assert_sound(github.board)


def test_nothing_is_written_unless_the_policy_says_so(github: GitHub, api: WritableApi, item: str) -> None:
    claimed(github.board, item)
    for out in (Out(), EVERYTHING.replace(repositories=("acme/other*",))):
        github.policy = Policy(out=out)
        look(github, api)
    assert api.writes() == []


@pytest.mark.parametrize("theirs", ["label", "assignee"])
def test_what_others_put_there_stays(github: GitHub, api: WritableApi, item: str, theirs: str) -> None:
    if theirs == "label":
        api.add_labels("12", [LABEL])
    else:
        api.assign("12", ["octocat"])
    before = (api.labels(), api.assignees())
    session, token = claimed(github.board, item)
    look(github, api)
    assert (len(api.labels()), len(api.assignees())) == (1, 1)
    github.board.release(item, session=session, token=token)
    look(github, api)
    assert (api.labels(), api.assignees()) == before


def test_a_memory_that_somebody_invented_harms_nothing(github: GitHub, api: WritableApi, item: str) -> None:
    """Whoever edits the item could name the comment of a person, a label or an assignee."""
    persons = api.add_comment("12", "What a person wrote.", by="ann")["id"]
    api.add_labels("12", ["bug"])
    api.assign("12", ["ann"])
    for mark in ("0123456789abcdef", "-->", "a person", 5):
        found = github.item()
        invented = {"comment": persons, "mark": mark, "writer": "x", "label": "bug", "assigned": ["ann"]}
        payload = {**found.payload, "external": {**found.payload["external"], OUT: invented}}
        github.board.edit(item, payload=payload)
        look(github, api)
    session, token = claimed(github.board, item)
    github.board.release(item, session=session, token=token)
    look(github, api)
    assert api.bodies() == ["What a person wrote."]
    assert (api.labels(), api.assignees()) == (["bug"], ["ann"])


def test_a_note_of_progress_asks_github_nothing(github: GitHub, api: WritableApi, item: str) -> None:
    session, token = claimed(github.board, item)
    watching = watcher(github, api)
    watching.look()
    watching.show()
    before = len(api.asked)
    github.board.progress(item, "@everybody <img src=x>", session=session, token=token)
    watching.show()
    assert len(api.asked) == before
    watching.close()


def test_events_while_no_watcher_ran_are_found(github: GitHub, api: WritableApi, item: str) -> None:
    session, token = claimed(github.board, item)
    look(github, api)
    assert github.board.find_session("github:acme/shop").meta["events"] > 0
    github.board.done(item, session=session, token=token)
    look(github, api)
    assert "finished" in api.bodies()[0]


def test_a_cursor_whose_events_were_pruned_begins_anew(github: GitHub, api: WritableApi, item: str) -> None:
    other = github.board.add("other").item.id
    look(github, api)
    session, token = claimed(github.board, item)
    github.board.cancel(other)
    github.board.prune(older_than_seconds=0)
    look(github, api)
    assert len(api.bodies()) == 1
    github.board.release(item, session=session, token=token)
    look(github, api)
    assert api.labels() == []


def test_the_label_of_dibs_is_not_one_of_the_item_and_facts_keep_what_was_written(
    github: GitHub, api: WritableApi, item: str
) -> None:
    claimed(github.board, item)
    look(github, api)
    known = external_of(github.item())[OUT]
    api.put_issue(12, labels=[LABEL, "bug"], title="Another title", updated_at=at(30))
    look(github, api)
    assert github.item().labels == ("bug",)
    assert external_of(github.item())[OUT] == known
    assert len(api.bodies()) == 1


def test_an_item_that_agents_added_under_the_subject_is_done_once(github: GitHub, api: WritableApi) -> None:
    """Its payload knows nothing of GitHub but what was written there."""
    github.policy = Policy(out=EVERYTHING)
    api.put_issue(12, state="closed")
    session = github.board.start_session("coder").id
    grant = github.board.claim_subject(ISSUE, session=session, title="Mend it")
    look(github, api)
    github.board.done(grant.item.id, session=session, token=grant.claim.token)
    look(github, api)
    assert external_of(github.item()).keys() == {OUT}
    api.put_issue(12, state="open", updated_at=at(50))
    look(github, api)
    assert [one.status for one in github.items()] == ["done"]
    assert "finished" in api.bodies()[0]


# Killed, doubled

CHILD = """
import sys
from dibs.github.api import Api
from dibs.github.out_policy import Out
from dibs.github.policy import Policy
from dibs.github.watch import Watcher
from tests.kit.sqlite import open_board
board = open_board(path=sys.argv[1] + "/board.db", clock=sys.argv[1] + "/clock")
policy = Policy(out=Out(comment=True, label=sys.argv[3], assign=(("coder", "octocat"),), status=True))
Watcher(board, Api("t", sys.argv[2], sleep=lambda _: None), "acme/shop", policy).look()
"""
POINTS = [("add_comment", "before"), ("add_comment", "after")]
POINTS += [(kind, when) for kind in ("add_labels", "assign", "add_status") for when in ("before", "after")]


@pytest.mark.parametrize("point", [*POINTS[:2], *in_a_soak(*POINTS[2:])])
def test_a_watcher_killed_at_any_point_leaves_no_second_comment(
    github: GitHub, api: WritableApi, item: str, tmp_path: Path, lapse: Callable[[], None], point: tuple[str, str]
) -> None:
    session, token = claimed(github.board, item)
    head = api.push(f"dibs/{item}", "a", f"Work\n\nDibs-Claim: {item}/{token}")
    killed = threading.Event()

    def kill(kind: str, when: str) -> None:
        if (kind, when) == point and not killed.is_set():
            killed.set()
            os.kill(child.pid, signal.SIGKILL)
            child.wait()

    api.at_write = kill
    child = subprocess.Popen([sys.executable, "-c", CHILD, str(tmp_path), api.url, LABEL])
    assert killed.wait(60)
    assert child.wait() == -signal.SIGKILL
    lapse()
    github.policy = Policy(out=EVERYTHING.replace(status=True))
    look(github, api)
    assert len(api.bodies()) == 1
    assert (api.labels(), api.assignees(), api.state(head)) == ([LABEL], ["octocat"], "success")
    github.board.release(item, session=session, token=token)
    look(github, api)
    assert len(api.bodies()) == 1
    assert (api.labels(), api.assignees()) == ([], [])


def test_until_the_lease_ends_nobody_else_makes_the_comment(
    github: GitHub, api: WritableApi, item: str, lapse: Callable[[], None]
) -> None:
    github.policy = Policy(out=Out(comment=True))
    claimed(github.board, item)
    api.refused_writes["add_comment"] = (502, "away")
    with pytest.raises(StoreUnavailable):
        look(github, api)
    del api.refused_writes["add_comment"]
    look(github, api)
    assert api.bodies() == []
    lapse()
    look(github, api)
    assert len(api.bodies()) == 1


def test_watchers_at_once_make_one_comment(github: GitHub, api: WritableApi, item: str) -> None:
    claimed(github.board, item)
    watching = [watcher(github, api) for _ in range(4)]
    errors: list[BaseException] = []

    def watch(one: Watcher) -> None:
        try:
            one.look()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=watch, args=(one,)) for one in watching]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for one in watching:
        one.show()
        one.close()
    assert errors == []
    assert [one for one in api.writes() if one.endswith("/comments")] == [f"POST {BASE}/comments"]
    assert (api.labels(), api.assignees()) == ([LABEL], ["octocat"])


def test_a_watcher_that_read_the_item_before_another_began_makes_no_comment(
    github: GitHub, api: WritableApi, item: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    claimed(github.board, item)
    slow, other = watcher(github, api), watcher(github, api)

    def overtaken(detail: Detail) -> Presence:
        monkeypatch.setattr(outbound, "presence", presence)
        api.refused_writes["add_comment"] = (502, "away")
        with pytest.raises(StoreUnavailable):
            other.look()
        api.refused_writes.clear()
        return presence(detail)

    monkeypatch.setattr(outbound, "presence", overtaken)
    slow.look()
    assert api.bodies() == []
    other.show()
    assert len(api.bodies()) == 1
    slow.close()
    other.close()


def test_a_watcher_that_was_stopped_for_too_long_takes_its_comment_back(
    github: GitHub, api: WritableApi, item: str, lapse: Callable[[], None]
) -> None:
    claimed(github.board, item)
    slow, fast = watcher(github, api), watcher(github, api)
    is_first = True

    def overtake(kind: str, when: str) -> None:
        nonlocal is_first
        if (kind, when, is_first) == ("add_comment", "before", True):
            is_first = False
            lapse()
            fast.look()
            assert len(api.bodies()) == 1

    api.at_write = overtake
    slow.look()
    (comment,) = api.comments.values()
    assert external_of(github.item())[OUT]["comment"] == comment["id"]
    slow.close()
    fast.close()


def test_a_copy_of_the_mark_is_not_taken_for_the_comment(
    github: GitHub, api: WritableApi, item: str, lapse: Callable[[], None]
) -> None:
    """A stranger copies our comment before its id is remembered."""
    claimed(github.board, item)

    def lose(kind: str, when: str) -> None:
        if (kind, when) == ("add_comment", "after"):
            api.at_write = lambda *_: None
            api.add_comment("12", f"Buy! {api.bodies()[0]}", by="mallory")
            api.refusals.append(Refusal(502, {}))
            raise ConnectionError

    api.at_write = lose
    with pytest.raises(StoreUnavailable):
        look(github, api)
    api.refusals.clear()
    lapse()
    look(github, api)
    ours, copied = api.comments.values()
    assert external_of(github.item())[OUT]["comment"] == ours["id"]
    assert copied["body"].startswith("Buy!")


# Refused


@pytest.mark.parametrize("status", [403, 404, 410, 422])
def test_what_github_refuses_is_reported_once_and_the_rest_goes_on(
    github: GitHub, api: WritableApi, item: str, status: int
) -> None:
    session, token = claimed(github.board, item)
    message = "Unable to create comment because issue is locked." if status == 403 else "a reason"
    api.refused_writes["add_comment"] = (status, message)
    watching = watcher(github, api)
    (problem,) = watching.look().wrote.problems
    assert problem.startswith("comment: ")
    assert (message in problem) == (status in (403, 422))
    assert ("the permission Issues: read and write" in problem) == (status == 403)
    assert (api.bodies(), api.labels(), api.assignees()) == ([], [LABEL], ["octocat"])
    github.board.progress(item, "on it", session=session, token=token)
    assert watching.look().wrote.problems == ()
    del api.refused_writes["add_comment"]
    github.board.progress(item, "still", session=session, token=token)
    watching.show()
    assert len(api.bodies()) == 1
    watching.close()


@pytest.mark.parametrize(
    "refusal",
    [
        Refusal(403, {"Retry-After": "1800"}),
        Refusal(403, {}, b'{"message": "You have exceeded a secondary rate limit."}'),
        Refusal(429, {}),
        Refusal(502, {}),
    ],
)
def test_while_github_is_away_nothing_is_lost(github: GitHub, api: WritableApi, item: str, refusal: Refusal) -> None:
    claimed(github.board, item)
    watching = watcher(github, api)
    api.refused[f"{BASE}/comments"] = refusal
    with pytest.raises(Limited if refusal.status != 502 else StoreUnavailable):
        watching.look()
    del api.refused[f"{BASE}/comments"]
    watching.show()
    assert len(api.bodies()) == 1
    assert api.labels() == [LABEL]
    watching.close()


def test_a_lost_answer_of_a_post_is_not_sent_again(github: GitHub, api: WritableApi, item: str) -> None:
    claimed(github.board, item)

    def lose(kind: str, when: str) -> None:
        if (kind, when) == ("add_comment", "after"):
            raise ConnectionError

    api.at_write = lose
    watching = watcher(github, api)
    with pytest.raises(StoreUnavailable):
        watching.look()
    assert len(api.bodies()) == 1
    watching.show()
    assert len(api.bodies()) == 1
    assert "comment" in external_of(github.item())[OUT]
    watching.close()


def test_a_comment_that_somebody_deleted_is_not_made_again(github: GitHub, api: WritableApi, item: str) -> None:
    session, token = claimed(github.board, item)
    look(github, api)
    api.comments.clear()
    github.board.release(item, session=session, token=token)
    look(github, api)
    claimed(github.board, item)
    look(github, api)
    assert api.bodies() == []


def test_an_assignee_without_access_is_reported_and_not_remembered(github: GitHub, api: WritableApi, item: str) -> None:
    api.assignable.clear()
    claimed(github.board, item)
    (problem,) = look(github, api).wrote.problems
    assert "does not assign octocat" in problem
    assert "assigned" not in external_of(github.item())[OUT]


def test_a_renamed_repository_is_written_to_and_the_token_stays_at_the_api(
    github: GitHub, api: WritableApi, item: str
) -> None:
    watching = watcher(github, api)
    claimed(github.board, item)
    with WritableApi() as elsewhere:
        elsewhere.put_issue(12)
        api.refused[f"{BASE}/comments"] = Refusal(301, {"Location": f"{elsewhere.url}{BASE}/comments"})
        assert "another address" in watching.look().wrote.problems[0]
        assert elsewhere.asked == []
    api.repository = "acme/store"
    for path in (BASE, f"{BASE}/comments"):
        api.refused[path] = Refusal(301, {"Location": api.url + path.replace("shop", "store")})
    github.board.edit(item, priority=3)
    watching.show()
    assert len(api.bodies()) == 1
    watching.close()


# The command


def test_the_command_writes_as_soon_as_the_board_changes(api: WritableApi, tmp_path: Path) -> None:
    (tmp_path / "dibs.toml").write_text("[github.out]\ncomment = true\n")
    path = tmp_path / "board.db"
    environment = {**os.environ, "GITHUB_API_URL": api.url, "GITHUB_TOKEN": TOKEN, "DIBS_STORE": str(path)}
    command = [sys.executable, "-m", "dibs.cli.main", "github", "watch", "acme/shop", "--every", "10m"]
    with Board(SqliteStore(str(path), DEFAULTS, create=True), DEFAULTS) as board:
        session = board.start_session("coder").id
        with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) as watching:
            try:
                assert watching.stdout is not None
                assert watching.stdout.readline().startswith("added")
                board.claim_subject(ISSUE, session=session)
                assert watching.stdout.readline() == f"wrote comment {ISSUE}\n"
            finally:
                watching.send_signal(signal.SIGINT)
        assert watching.returncode == 0
    assert len(api.bodies()) == 1
