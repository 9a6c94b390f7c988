"""The whole story, with a real server, a real worker and real git: an issue becomes an item, a worker's branch a pull
request, red checks send the item back with their link, and the merge ends it. By webhooks, and by watching."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dibs.board import connect
from dibs.model import Detail
from dibs.testing.invariants import assert_sound
from tests.github.examples import description
from tests.github.fake_api import FakeApi
from tests.github.payloads import at, issue, pull, run
from tests.github.test_watch import api_head
from tests.github.test_webhook import NEW, Hook, configured
from tests.kit.waiting import until
from tests.server.process import Serving
from tests.worktrees.conftest import Project, command_server, environment, project

__all__ = ["command_server", "environment", "project"]

SETTINGS = '[github]\ncomplete = "merged"\nchecks = ["ci.yml"]\nsecrets_file = "secrets"\n'
#: What the agent does: it appends what it was told about the last run, commits and pushes.
AGENT = 'cat "$DIBS_PREVIOUS_FILE" >>work.txt 2>&1; echo more >>work.txt; git add work.txt; git commit -qm work; '
AGENT += 'git push -q origin "HEAD:$DIBS_BRANCH"'

STORY = ("submitted", "sent back", "ci.yml: failure", "https://github.com/acme/shop/actions/runs/1", "merged into main")

#: Tells dibs about a fact: the event, the payload of a delivery.
Tell = Callable[[str, Any], None]


@contextmanager
def by_webhook(project: Project) -> Iterator[Tell]:
    store = project.folder / ".git" / "dibs" / "board.db"
    with Serving(project.folder, "--quiet", store=str(store)) as server, connect(str(store)) as board:
        hook = Hook(server.url, board, NEW)

        def tell(event: str, told: Any) -> None:
            answer, _ = hook.send(told, event)
            assert answer == 200

        yield tell


@contextmanager
def by_watching(project: Project) -> Iterator[Tell]:
    with FakeApi(description()) as api:
        project.environment = project.environment | {"GITHUB_API_URL": api.url, "GITHUB_TOKEN": "ghp_token_of_nobody"}

        def tell(event: str, told: Any) -> None:
            found = told["issue" if event == "issues" else event]
            if event == "issues":
                api.put_issue(found["number"], labels=["bug"])
            elif event == "workflow_run":
                fields = ("head_branch", "head_sha", "html_url", "created_at", "updated_at")
                api.put_run(
                    found["run_number"],
                    found["conclusion"],
                    event="pull_request",
                    **{name: found[name] for name in fields},
                )
            else:
                head = {"head": {**api_head(api), **{name: found["head"][name] for name in ("ref", "sha")}}}
                state = {name: found.get(name) for name in ("state", "updated_at", "merged_at")}
                api.put_pull(20, **state, **head)
            project.ok("github", "watch", "acme/shop", "--once")

        yield tell
        assert api.mistakes == []


@pytest.mark.parametrize("way", [by_webhook, by_watching])
def test_an_issue_is_done_when_the_pull_request_of_its_second_run_is_merged(project: Project, way: Any) -> None:
    project.add_remote()
    configured(project.folder, SETTINGS, NEW)
    with way(project) as tell:
        tell("issues", issue(12, labels=["bug"]))
        (item,) = project.json("list", "--subject", "github:acme/shop#12")["items"]
        assert (item["priority"], item["review"], item["status"]) == (8, True, "ready")
        id = item["id"]

        first = work(project, id)
        tell("pull_request", pull_of(id, first, 1))
        tell("workflow_run", run(1, "failure", branch=f"dibs/{id}", head_sha=first))
        log = "https://github.com/acme/shop/actions/runs/1"
        sent_back = shown(project, id)
        assert (sent_back.item.status, sent_back.runs[0].links["failed_log"]) == ("ready", log)

        second = work(project, id)
        assert second != first
        assert log in project.git("show", f"{second}:work.txt"), "the second run was told why"
        tell("pull_request", pull_of(id, second, 5, action="synchronize"))
        tell("workflow_run", run(2, "success", branch=f"dibs/{id}", head_sha=second))
        assert shown(project, id).item.status == "pending_approval"
        tell("pull_request", pull_of(id, second, 9, state="closed", merged=True, merged_at=at(9), action="closed"))
        # The server, too, may be the one that decides, as soon as it sees the result.
        until(lambda: shown(project, id).item.status == "done")

    story = project.ok("log", id)
    told = [word for word in STORY if word in story]
    assert told == [*STORY], story
    assert "payload" not in story, "what changed is said in a few words"
    with connect(str(project.folder / ".git" / "dibs" / "board.db")) as board:
        assert_sound(board)
        kinds = [event.kind for event in board.log(id)]
    assert [kind for kind in kinds if kind in ("added", "claimed", "submitted", "sent_back", "approved")] == [
        *("added", "claimed", "submitted", "sent_back"),
        *("claimed", "submitted", "approved"),
    ]


def work(project: Project, id: str) -> str:
    """A worker takes the item and says that it is done; the commit that it pushed."""
    done: subprocess.CompletedProcess[str] = project("work", "--once", "--worktree", "--", "sh", "-c", AGENT)
    assert done.returncode == 0, done
    assert shown(project, id).item.status == "pending_approval", done
    return project.git("rev-parse", f"dibs/{id}", folder=Path(project.git("remote", "get-url", "origin")))


def pull_of(id: str, sha: str, second: int, **fields: Any) -> Any:
    own = {"repo": {"full_name": "acme/shop"}}
    return pull(20, head={"ref": f"dibs/{id}", "sha": sha, **own}, updated_at=at(second), **fields)


def shown(project: Project, id: str) -> Detail:
    with connect(str(project.folder / ".git" / "dibs" / "board.db")) as board:
        return board.get(id)


def test_a_payload_is_shown_with_the_item_that_it_follows(project: Project) -> None:
    configured(project.folder, SETTINGS, NEW)
    project.ok("add", "Login", "--id", "login", "--review", "yes")
    sha = "a" * 40
    for event, told in (
        ("pull_request", pull()),
        ("workflow_run", run(1, "failure", branch="dibs/login", head_sha=sha)),
    ):
        text = project.ok("github", "test", "-", "--event", event, input=json.dumps(told))
        assert "login, which is done when its pull request is merged" in text
    other = project.json("github", "test", "-", "--event", "status", input=json.dumps({"repository": {}}))
    assert (other["fact"], other["steps"]) == (None, [])
