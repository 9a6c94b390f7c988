"""The commands of whoever does the work, as a script or an agent sees them: answers, exit codes, refusals."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e.conftest import Dibs
from tests.kit.waiting import PATIENCE_SECONDS, until

SOAK = bool(os.environ.get("DIBS_SOAK"))
FIGHTERS, ROUNDS = (64, 200) if SOAK else (12, 2)


@pytest.fixture
def item(dibs: Dibs) -> str:
    dibs.ok("add", "Fix login", "--id", "fix-login", "--type", "bug", "--priority", "high")
    return "fix-login"


def test_a_claim_answers_with_item_claim_and_previous(dibs: Dibs, item: str) -> None:
    answer = dibs.json("claim", item)
    assert set(answer) == {"item", "claim", "previous", "approval", "renewed"}
    assert answer["item"]["id"] == item
    assert answer["item"]["status"] == "in_progress"
    claim = answer["claim"]
    assert (claim["item"], claim["token"], claim["session"], claim["agent"]) == (item, 1, "s1", "coder")
    assert claim["claimed_at"] < claim["expires_at"]
    assert claim["claimed_at"].endswith("Z")
    assert answer["previous"] is None


def test_claiming_again_gives_the_same_token(dibs: Dibs, item: str) -> None:
    assert [dibs.json("claim", item)["claim"]["token"] for _ in range(2)] == [1, 1]


def test_the_next_holder_is_told_where_the_last_one_stopped(dibs: Dibs, other: Dibs, item: str) -> None:
    dibs.ok("claim", item)
    dibs.ok("progress", item, "the cause is in auth.py")
    dibs.ok("release", item, "--reason", "needs a designer")
    previous = other.json("claim", item)["previous"]
    assert previous["run"]["agent"] == "coder"
    assert previous["run"]["outcome"] == "released"
    assert previous["run"]["reason"] == "needs a designer"
    assert [note["note"] for note in previous["notes"]] == ["the cause is in auth.py"]
    assert "the cause is in auth.py" in other.ok("claim", item)


def test_a_claim_that_its_session_has_already_says_that_it_was_renewed(dibs: Dibs, item: str) -> None:
    assert dibs.json("claim", item)["renewed"] is False
    assert dibs.json("claim", item)["renewed"] is True
    assert dibs.ok("claim", item).startswith(f"already yours, renewed {item}  Fix login\n")
    dibs.ok("release", item)
    assert dibs.ok("claim", item).startswith(f"claimed {item}  Fix login\n")


def test_a_loser_exits_4_and_names_the_holder(dibs: Dibs, other: Dibs, item: str) -> None:
    dibs.ok("claim", item)
    code, error = other.refused("claim", item)
    assert code == 4
    assert error["code"] == "TASK_ALREADY_CLAIMED"
    assert error["holder"] == {"session": "s1", "agent": "coder", "token": 1}
    assert 0 < error["remaining_seconds"] <= 1800
    plain = other("claim", item)
    assert (plain.returncode, plain.stdout) == (4, "")
    assert plain.stderr.startswith("dibs: fix-login is already claimed by coder (session s1)")
    assert plain.stderr.count("\n") == 1


def test_of_many_at_once_one_wins_and_every_loser_exits_4(dibs: Dibs) -> None:
    for number in range(ROUNDS):
        dibs.ok("add", "Prize", "--id", f"prize-{number}")
        command = ("claim", f"prize-{number}", "--json", "--agent", "coder")
        fighters = [dibs.start(*command, "--session", f"fighter-{i}") for i in range(FIGHTERS)]
        answers = [(json.loads(fighter.communicate()[0]), fighter.returncode) for fighter in fighters]
        winners = [answer["claim"] for answer, code in answers if code == 0]
        losers = [answer["error"] for answer, code in answers if code == 4]
        assert (len(winners), len(losers)) == (1, FIGHTERS - 1)
        assert {loser["holder"]["session"] for loser in losers} == {winners[0]["session"]}


def test_next_answers_with_claims_best_first(dibs: Dibs, item: str) -> None:
    dibs.ok("add", "Write docs", "--id", "docs", "--priority", "low")
    answer = dibs.json("next", "-n", "5")
    assert set(answer) == {"claims"}
    assert [(grant["item"]["id"], grant["claim"]["token"]) for grant in answer["claims"]] == [(item, 1), ("docs", 1)]
    assert all(set(grant) == {"item", "claim", "previous", "approval", "renewed"} for grant in answer["claims"])


def test_next_keeps_to_types_and_projects(dibs: Dibs, item: str) -> None:
    dibs.ok("add", "Elsewhere", "--id", "elsewhere", "--project", "web", "--type", "docs")
    taken = dibs.json("next", "--project", "web", "--type", "docs", "--type", "bug", "-n", "5")["claims"]
    assert [grant["item"]["id"] for grant in taken] == ["elsewhere"]


def test_next_with_nothing_ready_exits_3(dibs: Dibs) -> None:
    done = dibs("next", "--json")
    assert (done.returncode, json.loads(done.stdout), done.stderr) == (3, {"claims": []}, "")
    plain = dibs("next")
    assert (plain.returncode, plain.stdout, plain.stderr) == (3, "", "dibs: nothing to claim right now\n")


def test_next_waits_for_what_comes(dibs: Dibs, other: Dibs, ended: Any) -> None:
    waiting: subprocess.Popen[str] = ended(dibs.start("next", "--wait", "20s", "--json"))
    until(lambda: dibs.json("sessions")["sessions"])
    other.ok("add", "Late", "--id", "late")
    answer = json.loads(waiting.communicate(timeout=PATIENCE_SECONDS)[0])
    assert (waiting.returncode, answer["claims"][0]["item"]["id"]) == (0, "late")


def test_next_stops_waiting_when_its_time_is_up(dibs: Dibs) -> None:
    done = dibs("next", "--wait", "200ms")
    assert (done.returncode, done.stderr) == (3, "dibs: nothing became claimable in time\n")


def test_done_ends_the_run_with_links_and_cost(dibs: Dibs, item: str) -> None:
    dibs.ok("claim", item)
    links = ("--link", "pr=https://example.org/7?a=b", "--link", "branch=fix")
    ended = dibs.json("done", item, "--note", "it was the cookie", *links, "--cost", '{"tokens": 12}')
    assert ended["item"]["status"] == "done"
    assert ended["run"]["links"] == {"pr": "https://example.org/7?a=b", "branch": "fix"}
    assert (ended["run"]["cost"], ended["run"]["reason"]) == ({"tokens": 12}, "it was the cookie")


@pytest.mark.parametrize(("verb", "status"), [("done", "done"), ("fail", "failed"), ("release", "ready")])
def test_a_verb_of_the_holder_acts_on_its_own_live_claim(dibs: Dibs, item: str, verb: str, status: str) -> None:
    dibs.ok("claim", item)
    assert dibs.json(verb, item)["item"]["status"] == status


@pytest.mark.parametrize("verb", ["done", "fail", "release", "heartbeat", "progress"])
def test_without_a_claim_a_verb_of_the_holder_exits_4(dibs: Dibs, other: Dibs, item: str, verb: str) -> None:
    words = (verb, item, "a note") if verb == "progress" else (verb, item)
    dibs.ok("session", "start", "--id", "s1")
    code, error = dibs.refused(*words)
    assert (code, error["code"], error["how"]) == (4, "TASK_NOT_CLAIMED", "never_claimed")
    other.ok("claim", item)
    code, error = dibs.refused(*words)
    assert (code, error["code"], error["holder"]["agent"]) == (4, "NOT_CLAIM_OWNER", "reviewer")


@pytest.mark.parametrize("verb", ["done", "fail", "release", "heartbeat", "progress"])
def test_a_token_comes_from_the_line_or_the_environment(dibs: Dibs, item: str, verb: str) -> None:
    words = (verb, item, "a note") if verb == "progress" else (verb, item)
    dibs.ok("claim", item)
    code, error = dibs.refused(*words, "--token", "7")
    assert (code, error["code"], error["latest_token"]) == (1, "INVALID", 1)
    assert dibs.refused(*words, environment={"DIBS_CLAIM_TOKEN": "7"})[1]["code"] == "INVALID"
    assert dibs.refused(*words, environment={"DIBS_CLAIM_TOKEN": "seven"})[0] == 2
    dibs.ok(*words, environment={"DIBS_CLAIM_TOKEN": "1"})


@pytest.mark.parametrize("verb", ["done", "fail", "release", "heartbeat", "progress"])
def test_a_token_that_was_recovered_is_taken_as_what_it_became(dibs: Dibs, item: str, verb: str) -> None:
    words = (verb, item, "a note") if verb == "progress" else (verb, item)
    dibs.ok("claim", item)
    file = dibs.folder / "tokens"
    named = {"DIBS_CLAIM_TOKEN": "7", "DIBS_CLAIM_FILE": str(file)}
    for written in (None, "", "1\n", "x 1\n", "7" * 5000):
        if written is not None:
            file.write_text(written)
        assert dibs.refused(*words, environment=named)[1]["code"] == "INVALID"
    file.write_text("7\n1\n")
    assert dibs.refused(*words, "--token", "7", environment=named)[1]["code"] == "INVALID"
    dibs.ok(*words, environment=named)


def test_what_a_command_recovers_is_written_down_for_what_it_calls_next(
    settings: Callable[..., None], dibs: Dibs, item: str
) -> None:
    settings(ttl_seconds=1, ttl_seconds_min=1)
    dibs.ok("claim", item)
    file = dibs.folder / "tokens"
    file.write_text("1\n")
    named = {"DIBS_CLAIM_TOKEN": "1", "DIBS_CLAIM_FILE": str(file)}
    until(lambda: dibs.json("show", item)["claim"] is None)
    assert "recovered under token 2" in dibs("progress", item, "half", environment=named).stderr
    assert file.read_text() == "1\n2\n"
    settings()
    dibs("progress", item, "more", environment=named)
    dibs.ok("done", item, environment=named)


def test_the_token_of_the_environment_is_for_verbs_that_name_an_item(dibs: Dibs, item: str) -> None:
    dibs.ok("claim", item)
    beat = dibs.json("heartbeat", environment={"DIBS_CLAIM_TOKEN": "7"})
    assert [renewal["item"] for renewal in beat["renewed"]] == [item]


def test_a_heartbeat_renews_everything_and_lets_go_what_is_forgotten(dibs: Dibs, item: str) -> None:
    dibs.ok("add", "Second", "--id", "second")
    dibs.ok("next", "-n", "2")
    assert len(dibs.json("heartbeat")["renewed"]) == 2
    beat = dibs.json("heartbeat", "--holding", f"{item}=1")
    assert ([one["item"] for one in beat["renewed"]], beat["forgotten"]) == ([item], ["second"])
    done = dibs("heartbeat", "--holding", f"{item},second")
    assert done.returncode == 4
    assert "lost second" in done.stdout


def test_progress_is_a_note_and_a_renewal(dibs: Dibs, item: str) -> None:
    dibs.ok("claim", item)
    renewal = dibs.json("progress", item, "half way", "--meta", '{"percent": 50}')
    assert (renewal["item"], renewal["token"]) == (item, 1)
    assert dibs.json("show", item)["notes"][0]["note"] == "half way"


@pytest.mark.parametrize("named", [True, False])
def test_a_claim_that_expired_is_recovered_and_that_is_said(dibs: Dibs, item: str, named: bool) -> None:
    dibs.ok("claim", item)
    dibs.lapse()
    done = dibs("done", item, "--json", *(("--token", "1") if named else ()))
    assert (done.returncode, json.loads(done.stdout)["run"]["token"]) == (0, 2)
    assert done.stderr.startswith("dibs: the claim of fix-login had expired; no one else had claimed it")
    assert "under token 2" in done.stderr


def test_a_recovered_end_asked_again_under_its_request_id_is_answered(dibs: Dibs, item: str) -> None:
    dibs.ok("claim", item)
    dibs.lapse()
    first, again = (dibs("done", item, "--token", "1", "--request-id", "r1", "--json") for _ in range(2))
    assert (first.returncode, json.loads(first.stdout)["run"]["token"]) == (0, 2)
    assert (again.stdout, again.stderr) == (first.stdout, "")


@pytest.mark.parametrize("verb", ["done", "fail", "release", "heartbeat", "progress"])
def test_a_late_holder_is_told_who_took_over(dibs: Dibs, other: Dibs, item: str, verb: str) -> None:
    dibs.ok("claim", item)
    dibs.lapse()
    other.ok("claim", item, "--ttl", "1m")
    code, error = dibs.refused(verb, item, *(("a note",) if verb == "progress" else ()))
    assert (code, error["code"]) == (4, "CLAIM_EXPIRED")
    assert error["taken_over_by"] == {"session": "s2", "agent": "reviewer", "token": 2}
    assert dibs.json("show", item)["claim"]["session"] == "s2"


def test_a_claim_that_is_live_is_not_called_recovered(dibs: Dibs, item: str) -> None:
    dibs.ok("claim", item)
    assert dibs("progress", item, "a note").stderr == ""
    assert dibs("done", item, "--token", "1").stderr == ""


@pytest.mark.parametrize("verb", ["claim", "release", "done", "fail", "next", "progress"])
def test_a_request_id_makes_asking_again_harmless(dibs: Dibs, item: str, verb: str) -> None:
    if verb not in ("claim", "next"):
        dibs.ok("claim", item)
    words = {"next": (verb,), "progress": (verb, item, "a note")}.get(verb, (verb, item))
    answers = [dibs.json(*words, "--request-id", "r1") for _ in range(2)]
    assert answers[0] == answers[1]


def test_what_ends_without_a_token_can_be_asked_again_too(dibs: Dibs, other: Dibs, item: str) -> None:
    other.ok("claim", item)
    dibs.ok("wait", item)
    dibs.ok("claim", item, "--soft")
    for words in (("leave", item), ("release", item, "--soft"), ("session", "end")):
        answers = [dibs.json(*words, "--request-id", f"r-{words[0]}") for _ in range(2)]
        assert answers[0] == answers[1], words


def test_an_agent_at_its_limit_exits_75(dibs: Dibs, item: str) -> None:
    dibs.ok("agent", "set", "coder", "--max-claims", "1")
    dibs.ok("add", "Second", "--id", "second")
    dibs.ok("claim", item)
    code, error = dibs.refused("claim", "second")
    assert (code, error["code"], error["max_claims"]) == (75, "AGENT_AT_CAPACITY", 1)
    assert dibs.refused("next")[0] == 75


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (("claim", "nowhere"), 5, "TASK_NOT_FOUND"),
        (("show", "nowhere"), 5, "TASK_NOT_FOUND"),
        (("log", "nowhere"), 5, "TASK_NOT_FOUND"),
        (("edit", "nowhere", "--title", "x"), 5, "TASK_NOT_FOUND"),
        (("cancel", "nowhere"), 5, "TASK_NOT_FOUND"),
        (("retry", "nowhere"), 5, "TASK_NOT_FOUND"),
        (("done", "nowhere"), 5, "TASK_NOT_FOUND"),
        (("force-release", "nowhere", "--reason", "x"), 5, "TASK_NOT_FOUND"),
        (("force-release", "fix-login", "--reason", "x"), 4, "TASK_NOT_CLAIMED"),
        (("retry", "fix-login"), 4, "TASK_NOT_CLAIMABLE"),
        (("session", "end", "nobody"), 5, "SESSION_NOT_FOUND"),
        (("heartbeat", "--session", "nobody"), 5, "SESSION_NOT_FOUND"),
        (("claim", "fix-login", "--agent", "thief"), 1, "INVALID"),
    ],
)
def test_a_refusal_has_its_exit_code(dibs: Dibs, item: str, words: tuple[str, ...], code: int, error: str) -> None:
    dibs.ok("session", "start", "--id", "s1")
    refusal = dibs.refused(*words)
    assert (refusal[0], refusal[1]["code"]) == (code, error)
    plain = dibs(*words)
    assert (plain.returncode, plain.stdout, plain.stderr.count("\n")) == (code, "", 1)
    # For people, what to type may follow.
    assert plain.stderr.startswith(f"dibs: {refusal[1]['message']}")


def test_force_release_takes_an_item_from_its_holder(dibs: Dibs, other: Dibs, item: str) -> None:
    dibs.ok("claim", item)
    assert other.refused("force-release", item, "--reason", "x", "--token", "9")[1]["code"] == "NOT_CLAIM_OWNER"
    ended = other.json("force-release", item, "--reason", "its machine is gone")
    assert (ended["item"]["status"], ended["run"]["outcome"]) == ("ready", "force_released")
    assert dibs.refused("done", item)[0] == 4
