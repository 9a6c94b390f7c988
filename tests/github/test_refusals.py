"""What GitHub refuses to write, what was written before, and what somebody else changes: nothing is done twice, and
nothing of others is taken away."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dibs.errors import Invalid
from dibs.github.api import find_token
from dibs.github.decide import OUT, external_of, remembered
from dibs.github.policy import Policy
from dibs.github.troubles import RETRY_SECONDS_MAX
from tests.github.conftest import GitHub, claimed
from tests.github.fake_writes import WritableApi
from tests.github.payloads import at
from tests.github.test_following import merged, opened, submitted
from tests.github.writing import BASE, LABEL, Clock, look, watcher

LOCKED = "Unable to create comment because issue is locked."
MINUTES = 20


def test_a_locked_issue_lacks_no_permission_and_has_one_comment_when_it_is_unlocked(
    github: GitHub, api: WritableApi, item: str
) -> None:
    claimed(github.board, item)
    api.refused_writes["add_comment"] = (403, LOCKED)
    clock = Clock()
    watching = watcher(github, api, clock)
    (problem,) = watching.look().wrote.problems
    assert LOCKED in problem
    assert "permission" not in problem
    del api.refused_writes["add_comment"]
    clock.advance(RETRY_SECONDS_MAX)
    watching.look()
    assert len(api.bodies()) == 1
    watching.close()


@pytest.mark.parametrize("status", [403, 422, 502])
def test_what_is_refused_is_not_asked_again_with_every_note_of_progress(
    github: GitHub, api: WritableApi, item: str, status: int
) -> None:
    session, token = claimed(github.board, item)
    for kind in ("add_comment", "add_labels", "assign"):
        api.refused_writes[kind] = (status, "no")
    clock = Clock()
    watching = watcher(github, api, clock)
    watching.look()
    before = len(api.asked)
    for _ in range(MINUTES * 6):
        clock.advance(10)
        github.board.progress(item, "on it", session=session, token=token)
        watching.show()
    assert len(api.asked) - before <= MINUTES
    watching.close()


@pytest.mark.parametrize("status", [403, 422])
def test_what_a_person_adds_after_a_refusal_stays(github: GitHub, api: WritableApi, item: str, status: int) -> None:
    session, token = claimed(github.board, item)
    api.refused_writes = dict.fromkeys(("add_labels", "assign"), (status, "no"))
    look(github, api)
    api.refused_writes.clear()
    assert external_of(github.item())[OUT].keys().isdisjoint({"label", "assigned"})
    api.add_labels("12", [LABEL])
    api.assign("12", ["octocat"])
    github.board.release(item, session=session, token=token)
    look(github, api)
    assert (api.labels(), api.assignees()) == ([LABEL], ["octocat"])


def test_the_comment_of_the_slower_watcher_is_deleted_at_last(github: GitHub, api: WritableApi, item: str) -> None:
    """Another watcher's comment is recorded between its list and its comment, and GitHub does not delete at first."""
    claimed(github.board, item)
    clock = Clock()
    watching = watcher(github, api, clock)

    def overtake(kind: str, when: str) -> None:
        if (kind, when) == ("add_comment", "before"):
            api.at_write = lambda *_: None
            found = github.item()
            out = external_of(found)[OUT]
            other = api.add_comment("12", f"other\n\n<!-- dibs:{out['mark']} -->")["id"]
            external = {**external_of(found), OUT: {**out, "comment": other}}
            github.board.edit(item, payload={**found.payload, "external": external})
            api.refused_writes["delete_comment"] = (502, "away")

    api.at_write = overtake
    watching.look()
    assert len(api.bodies()) == 2
    clock.advance(RETRY_SECONDS_MAX)
    del api.refused_writes["delete_comment"]
    watching.look()
    (comment,) = api.comments.values()
    known = external_of(github.item())[OUT]
    assert (known["comment"], "extra" in known) == (comment["id"], False)
    watching.close()


def test_an_edit_of_the_payload_makes_no_second_comment_and_leaves_no_label(
    github: GitHub, api: WritableApi, item: str
) -> None:
    """What GitHub says, and what was written there, is not the holder's to forget."""
    session, token = claimed(github.board, item)
    look(github, api)
    known = external_of(github.item())[OUT]
    for number in range(2):
        github.board.edit(item, payload={"x": number})
        look(github, api)
        assert len(api.bodies()) == 1
    assert (github.item().payload["x"], external_of(github.item())[OUT]) == (1, known)
    github.board.release(item, session=session, token=token)
    look(github, api)
    assert (len(api.bodies()), api.labels(), api.assignees()) == (1, [], [])


def test_an_edit_of_the_payload_forgets_no_pull_request(github: GitHub) -> None:
    github.policy = Policy(complete="merged")
    github.board.add("Fix login", id="login", review=True)
    github.tell(opened())
    github.board.edit("login", payload={"x": 1})
    token = submitted(github.board)
    github.board.edit("login", payload={"x": 2})
    github.tell(merged(at_second := 9))
    found = github.board.get("login").item
    assert (found.status, found.token, found.payload["x"]) == ("done", token, 2)
    assert remembered(found)["pull_requests"]["acme/shop#20"]["version"].startswith(at(at_second))


@pytest.mark.parametrize("told", ["ghp_SECRET\nA new release of gh is available\n", "not a token ghp_SECRET\n"])
def test_what_gh_prints_besides_the_token_is_in_no_header(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: str
) -> None:
    program = tmp_path / "gh"
    program.write_text(f"#!/bin/sh\nprintf '%s' '{told}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("GITHUB_TOKEN", raising=False)
    if told.startswith("ghp"):
        assert find_token() == "ghp_SECRET"
        return
    with pytest.raises(Invalid) as refusal:
        find_token()
    assert "SECRET" not in str(refusal.value)


def test_one_failing_route_does_not_keep_what_works_from_being_shown(
    github: GitHub, api: WritableApi, item: str
) -> None:
    session, token = claimed(github.board, item)
    api.refused_writes["add_comment"] = (403, LOCKED)
    watching = watcher(github, api)
    watching.look()
    assert api.labels() == [LABEL]
    github.board.release(item, session=session, token=token)
    watching.show()
    assert api.labels() == [], "at once"
    assert [one for one in api.writes() if one == f"POST {BASE}/comments"] == [f"POST {BASE}/comments"]
    watching.close()
