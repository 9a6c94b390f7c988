"""Watchers that write to GitHub and are killed, stopped or doubled: one comment, and nothing that is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from dibs.board import Board
from dibs.config import DEFAULTS
from dibs.github import out as outbound
from dibs.github.decide import OUT, external_of
from dibs.github.out_policy import Out
from dibs.github.policy import Policy
from dibs.github.presence import Presence, presence
from dibs.github.troubles import RETRY_SECONDS_MAX
from dibs.github.watch import Watcher
from dibs.model import Detail
from dibs.store.sqlite.store import SqliteStore
from tests.github.conftest import EVERYTHING, ISSUE, GitHub, claimed
from tests.github.fake_api import Refusal
from tests.github.fake_writes import WritableApi
from tests.github.writing import BASE, LABEL, TOKEN, Clock, look, watcher
from tests.kit.soak import in_a_soak

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
    assert "502" in look(github, api).wrote.problems[0]
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
    clock = Clock()
    slow, other = watcher(github, api), watcher(github, api, clock)

    def overtaken(detail: Detail) -> Presence:
        monkeypatch.setattr(outbound, "presence", presence)
        api.refused_writes["add_comment"] = (502, "away")
        assert "502" in other.look().wrote.problems[0]
        api.refused_writes.clear()
        return presence(detail)

    monkeypatch.setattr(outbound, "presence", overtaken)
    slow.look()
    assert api.bodies() == []
    clock.advance(RETRY_SECONDS_MAX)
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
    look(github, api)
    api.refusals.clear()
    lapse()
    look(github, api)
    ours, copied = api.comments.values()
    assert external_of(github.item())[OUT]["comment"] == ours["id"]
    assert copied["body"].startswith("Buy!")


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
