"""`dibs github` and `dibs import --from github`, as processes."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Dibs
from tests.github.fake_api import FakeApi
from tests.github.payloads import HOSTILE_TITLES, at, issue, run

TOKEN = "ghp_a_token_that_nobody_may_see"


def listed(number: int, **fields: Any) -> dict[str, Any]:
    """An issue as `gh issue list --json` writes it."""
    return {
        "number": number,
        "title": f"issue {number}",
        "body": "",
        "labels": [{"name": "bug", "color": "red"}],
        "state": "OPEN",
        "author": {"login": "ann"},
        "url": f"https://github.com/acme/shop/issues/{number}",
        "updatedAt": at(number),
        **fields,
    }


def test_watch_once_tells_what_changed_and_not_the_token(dibs: Dibs) -> None:
    with FakeApi() as api:
        api.put_issue(12, labels=["bug"], title=HOSTILE_TITLES[0])
        dibs.environment = dibs.environment | {"GITHUB_API_URL": api.url, "GITHUB_TOKEN": TOKEN}
        first = dibs("github", "watch", "Acme/Shop", "--once")
        assert (first.returncode, first.stderr) == (0, "")
        assert "added" in first.stdout
        assert dibs.json("github", "watch", "acme/shop", "--once")["changed"] == []
        api.put_issue(12, state="closed", updated_at=at(5))
        (changed,) = dibs.json("github", "watch", "acme/shop", "--once")["changed"]
        assert (changed["subject"], changed["did"]) == ("github:acme/shop#12", ["edit", "cancel"])
        assert {one.token for one in api.asked} == {f"Bearer {TOKEN}"}
    assert TOKEN not in first.stdout + dibs.ok("export") + dibs.ok("events", "--after", "0", "--json")
    assert "\x1b" not in dibs.ok("show", changed["item"]) + dibs.ok("list", "--status", "cancelled")


def test_watch_goes_on_until_it_is_interrupted(dibs: Dibs) -> None:
    with FakeApi() as api:
        api.put_issue(12)
        dibs.environment = dibs.environment | {"GITHUB_API_URL": api.url, "GITHUB_TOKEN": TOKEN}
        with dibs.start("github", "watch", "acme/shop", "--every", "1s") as process:
            assert process.stdout is not None
            assert "#12" in process.stdout.readline()
            api.put_issue(13, updated_at=at(5))
            assert "#13" in process.stdout.readline()
            os.kill(process.pid, signal.SIGINT)
            _, stderr = process.communicate(timeout=30)
        assert (process.returncode, stderr) == (0, "")


def test_the_token_of_gh_is_used_and_without_one_it_is_said(dibs: Dibs, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    gh = tmp_path / "bin" / "gh"
    gh.write_text(f'#!/bin/sh\n[ "$*" = "auth token" ] && echo {TOKEN}\n')
    gh.chmod(0o755)
    with FakeApi() as api:
        variables = {"GITHUB_API_URL": api.url, "GITHUB_TOKEN": ""}
        with_gh = variables | {"PATH": f"{tmp_path / 'bin'}:{dibs.environment['PATH']}"}
        assert dibs("github", "watch", "acme/shop", "--once", environment=with_gh).stderr == ""
        with_token = len(api.asked)
        gh.write_text("#!/bin/sh\nexit 1\n")
        assert "no token" in dibs("github", "watch", "acme/shop", "--once", environment=with_gh).stderr
        assert {one.token for one in api.asked[:with_token]} == {f"Bearer {TOKEN}"}
        assert {one.token for one in api.asked[with_token:]} == {None}


@pytest.mark.parametrize("words", [("acme",), ("acme/shop", "--every", "0.1s"), ("https://github.com/acme/shop",)])
def test_a_wrong_repository_or_pause_is_refused(dibs: Dibs, words: tuple[str, ...]) -> None:
    code, error = dibs.refused("github", "watch", *words)
    assert (code, error["code"]) == (1, "INVALID")


def test_a_payload_is_tried_and_nothing_changes(dibs: Dibs) -> None:
    told = dibs.json("github", "test", "-", "--event", "issues", input=json.dumps(issue(labels=["bug"])))
    (step,) = told["steps"]
    assert (told["fact"]["subject"], step["verb"], step["arguments"]["priority"]) == ("github:acme/shop#12", "add", 8)
    text = dibs.ok("github", "test", "-", "--event", "workflow_run", input=json.dumps(run(1, "failure")))
    assert "would add build_failure with priority 8" in text
    text = dibs.ok("github", "test", "-", "--event", "workflow_run", input=json.dumps(run(1, "skipped")))
    assert "nothing to do" in text
    assert dibs.json("list")["items"] == []
    assert dibs.refused("github", "test", "-", "--event", "issue", input="{}")[0] == 2
    assert dibs.refused("github", "test", "-", "--event", "issues", input="{")[0] == 1
    (dibs.folder / "dibs.toml").write_text('[[github.rules]]\nevent = "issues"\ndo = "ignore"\n')
    text = dibs.ok("github", "test", "-", "--event", "issues", input=json.dumps(issue()))
    assert "the rule in line 1 ignores it" in text


def test_a_list_of_gh_is_imported_once(dibs: Dibs) -> None:
    issues = [listed(1), listed(2, state="CLOSED"), listed(3, title=HOSTILE_TITLES[1])]
    pulls = [listed(4, url="https://github.com/acme/shop/pull/4", isDraft=False, headRefName="x", baseRefName="main")]
    text = json.dumps(issues) + "\n" + json.dumps(pulls)
    planned = dibs.json("import", "--from", "github", "-", "--dry-run", input=text)
    assert dibs.json("list")["items"] == []
    done = dibs.json("import", "--from", "github", "-", input=text)
    assert done == {**planned, "dry_run": False}
    subjects = [f"github:acme/shop#{number}" for number in (1, 3, 4)]
    assert (done["added"], done["unchanged"]) == (subjects, 1)
    items = dibs.json("list", "--status", "pending_approval")["items"]
    assert sorted(item["subject"] for item in items) == subjects, "gh does not tell whether ann is a member"
    again = dibs.json("import", "--from", "github", "-", input=text)
    assert (again["added"], again["unchanged"]) == ([], 4)
    closed = json.dumps([listed(1, state="CLOSED", updatedAt=at(9))])
    assert dibs.json("import", "--from", "github", "-", input=closed)["cancelled"] == subjects[:1]


@pytest.mark.parametrize("text", ["", "{", '[{"number": 1}]', "[1]", '[{"url": "https://x/y"}]'])
def test_a_file_that_is_no_list_of_issues_is_refused_or_empty(dibs: Dibs, text: str) -> None:
    if not text:
        assert dibs.json("import", "--from", "github", "-", input=text)["added"] == []
        return
    good = json.dumps([listed(1)])
    code, error = dibs.refused("import", "--from", "github", "-", input=good + text)
    assert (code, error["code"]) == (1, "INVALID")
    assert "nothing was added" in error["message"]
    assert dibs.json("list")["items"] == []
