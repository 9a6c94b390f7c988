"""Single clauses of the sources that are commands or requests here, each under the name it has in its document."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from dibs.model import AGENT
from tests.server.process import Serving, board_of, serving


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(tmp_path_factory.mktemp("clauses"), "--quiet") as found:
        yield found


def key_of(server: Serving, agent: str) -> str:
    with board_of(server) as board:
        secret: str = board.create_key(AGENT, agent=agent)[1]
        return secret


def test_run_synchronization_links_a_run_and_records_its_checks(server: Serving) -> None:
    """002: runs are linked to pull requests and get their CI result after they have ended."""
    with board_of(server) as board:
        board.add("Triage", id="triage", type="issue_triage")
    reviewer = {"DIBS_KEY": key_of(server, "code-reviewer"), "DIBS_SESSION": "r1", "DIBS_AGENT": "code-reviewer"}
    stranger = {"DIBS_KEY": key_of(server, "stranger"), "DIBS_SESSION": "s1", "DIBS_AGENT": "stranger"}
    for line in (("claim", "triage"), ("done", "triage"), ("session", "end", "r1")):
        assert server.dibs(*line, **reviewer).returncode == 0
    check = ("annotate", "triage", "--check", "ci=failed:https://example.org/runs/9")
    assert server.dibs("next", **stranger).returncode == 3
    refused = server.dibs(*check, "--json", **stranger)
    assert (refused.returncode, json.loads(refused.stdout)["error"]["code"]) == (4, "NOT_CLAIM_OWNER")
    by_nobody = server.dibs(*check, "--json", "--actor", "x", DIBS_KEY=stranger["DIBS_KEY"])
    assert (by_nobody.returncode, json.loads(by_nobody.stdout)["error"]["code"]) == (6, "FORBIDDEN")
    assert server.dibs(*check, **reviewer).stdout == "annotated triage  token 1\n"
    # The orchestration agent, which tends the board.
    linked = server.dibs("annotate", "triage", "--link", "pr=https://example.org/pull/7", "--json", "--actor", "github")
    run = json.loads(linked.stdout)["run"]
    assert (run["outcome"], run["links"]) == ("done", {"pr": "https://example.org/pull/7"})
    assert run["checks"] == {"ci": {"state": "failed", "url": "https://example.org/runs/9"}}
    shown = server.dibs("show", "triage").stdout
    results = "results of token 1\n    | pr: https://example.org/pull/7\n    | ci: failed https://example.org/runs/9\n"
    assert results in shown
    assert "code-reviewer  token 1  by github · pr: https://example.org/pull/7" in server.dibs("log", "triage").stdout
    wrong = server.dibs("annotate", "triage", "--check", "ci")
    assert (wrong.returncode, "NAME=STATE" in wrong.stderr) == (2, True)


def test_a_heartbeat_refreshes_a_claim_at_most_once_per_60s(server: Serving) -> None:
    """004: a hook after every tool call, many of them at once."""
    with board_of(server) as board:
        board.add("Fix login", id="iv-1")
    agent = {"DIBS_KEY": key_of(server, "3f2b8f0e"), "DIBS_SESSION": "3f2b8f0e-6a53", "DIBS_AGENT": "3f2b8f0e"}
    assert server.dibs("claim", "iv-1", **agent).returncode == 0
    for words in (("heartbeat",), ("heartbeat", "iv-1"), ("heartbeat", "--holding", "iv-1=1")):
        answer = json.loads(server.dibs(*words, "--at-most-every", "60s", "--json", **agent).stdout)
        (renewal,) = answer["renewed"] if "session" in answer else [answer]
        assert (renewal["renewed"], renewal["heartbeat_count"]) == (False, 0)
    assert server.dibs("heartbeat", "--at-most-every", "60s", **agent).stdout.startswith("renewed recently iv-1  ")
    assert "1 claim renewed" in server.dibs("heartbeat", "--at-most-every", "1ms", **agent).stdout
    assert server.dibs("heartbeat", "--at-most-every", "0s", **agent).returncode in (1, 2)


def test_eight_characters_of_a_session_id_name_an_agent_and_decide_no_claim(server: Serving) -> None:
    """004: BD_ACTOR is the prefix of a session's id, and two sessions may share it."""
    with board_of(server) as board:
        board.add("Search", id="iv-2")
    key = key_of(server, "9c0de1aa")
    first, second = ({"DIBS_KEY": key, "DIBS_SESSION": f"9c0de1aa-{n}", "DIBS_AGENT": "9c0de1aa"} for n in (1, 2))
    assert server.dibs("claim", "iv-2", **first).returncode == 0
    assert server.dibs("claim", "iv-2", **second).returncode == 4
    holdings = json.loads(server.dibs("who", "--json").stdout)["holdings"]
    (held,) = [one for one in holdings if one["item"]["id"] == "iv-2"]
    assert (held["claim"]["agent"], held["claim"]["session"]) == ("9c0de1aa", "9c0de1aa-1")
