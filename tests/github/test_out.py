"""Who is on an issue, written to GitHub: a comment, a label, an assignee; and what GitHub refuses."""

from __future__ import annotations

import pytest

from dibs.github.budget import Limited
from dibs.github.decide import OUT, external_of
from dibs.github.out_policy import Out
from dibs.github.policy import Policy
from dibs.github.presence import name as presence_name
from dibs.github.troubles import RETRY_SECONDS_MAX
from dibs.testing.invariants import assert_sound
from tests.github.conftest import EVERYTHING, ISSUE, GitHub, claimed
from tests.github.fake_api import Refusal
from tests.github.fake_writes import WritableApi
from tests.github.payloads import HOSTILE_TITLES, at
from tests.github.writing import BASE, LABEL, Clock, look, watcher


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


@pytest.mark.parametrize(
    "hostile", [*HOSTILE_TITLES, "@everybody", "[x](//evil.example) ![](//evil.example)", "`` ` -->"]
)
def test_a_name_stays_in_its_code_span(hostile: str) -> None:
    shown = presence_name(hostile)
    assert (shown[0], shown[-1], shown.count("`"), len(shown.splitlines())) == ("`", "`", 2, 1)
    assert len(shown) <= 102


def test_titles_notes_and_reasons_stay_on_the_board(github: GitHub, api: WritableApi, item: str) -> None:
    github.board.edit(item, title="@everybody <img src=x>")
    session, token = claimed(github.board, item)
    github.board.progress(item, "@everybody", session=session, token=token)
    look(github, api)
    github.board.fail(item, session=session, token=token, reason="![](//evil.example) @everybody")
    look(github, api)
    assert [part for part in ("@", "<img", "](") if part in api.bodies()[0]] == []


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
    api.put_issue(13, state="closed", updated_at=at(5))
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


# Refused


@pytest.mark.parametrize("status", [403, 404, 410, 422])
def test_what_github_refuses_is_reported_once_and_the_rest_goes_on(
    github: GitHub, api: WritableApi, item: str, status: int
) -> None:
    session, token = claimed(github.board, item)
    message = "Resource not accessible by personal access token" if status == 403 else "a reason"
    api.refused_writes["add_comment"] = (status, message)
    clock = Clock()
    watching = watcher(github, api, clock)
    (problem,) = watching.look().wrote.problems
    assert problem.startswith("comment: ")
    assert (message in problem) == (status in (403, 422))
    assert ("the permission Issues: read and write" in problem) == (status == 403)
    assert (api.bodies(), api.labels(), api.assignees()) == ([], [LABEL], ["octocat"])
    github.board.progress(item, "on it", session=session, token=token)
    assert watching.look().wrote.problems == ()
    del api.refused_writes["add_comment"]
    clock.advance(RETRY_SECONDS_MAX)
    watching.show()
    assert len(api.bodies()) == 1
    watching.close()


@pytest.mark.parametrize(
    "refusal",
    [
        Refusal(403, {"Retry-After": "1800"}),
        Refusal(403, {}, b'{"message": "You have exceeded a secondary rate limit."}'),
        Refusal(429, {}),
    ],
)
def test_while_github_is_away_nothing_is_lost(github: GitHub, api: WritableApi, item: str, refusal: Refusal) -> None:
    claimed(github.board, item)
    watching = watcher(github, api)
    api.refused[f"{BASE}/comments"] = refusal
    with pytest.raises(Limited):
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
    clock = Clock()
    watching = watcher(github, api, clock)
    (problem,) = watching.look().wrote.problems
    assert "does not answer about /repos/acme/shop/issues/12/comments" in problem
    assert len(api.bodies()) == 1
    clock.advance(RETRY_SECONDS_MAX)
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


def test_an_address_elsewhere_does_not_get_the_token(github: GitHub, api: WritableApi, item: str) -> None:
    watching = watcher(github, api)
    claimed(github.board, item)
    with WritableApi() as elsewhere:
        elsewhere.put_issue(12)
        api.refused[f"{BASE}/comments"] = Refusal(301, {"Location": f"{elsewhere.url}{BASE}/comments"})
        assert "another address" in watching.look().wrote.problems[0]
        assert elsewhere.asked == []
    watching.close()
