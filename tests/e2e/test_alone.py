"""`dibs` without a command: what the caller holds, what needs a person, and what is next."""

from __future__ import annotations

import json
from typing import Any

from tests.e2e.conftest import Dibs

LINES_MAX = 12


def test_it_says_what_i_hold_what_needs_me_and_what_is_next(worked: Dibs) -> None:
    lines = worked.ok().splitlines()
    assert lines[0] == "1 in progress, 1 ready, 1 blocked, 1 scheduled"
    held = next(line for line in lines if line.startswith("you hold"))
    assert held.split()[2] == "b"
    assert "1 waiter" in held
    assert held.endswith("dibs done b")
    assert [line.split()[1] for line in lines if line.startswith("next")] == ["d"]


def test_what_needs_a_person_comes_with_the_command_that_answers_it(dibs: Dibs, other: Dibs) -> None:
    dibs.ok("add", "Plan", "--id", "plan", "--needs-approval")
    dibs.ok("add", "Wanted", "--id", "wanted")
    dibs.ok("add", "Broken", "--id", "broken")
    dibs.ok("add", "After", "--id", "after", "--needs", "broken")
    other.ok("claim", "broken")
    other.ok("fail", "broken", "--reason", "tests red:\n  3 of 9")
    other.ok("claim", "wanted")
    dibs.ok("wait", "wanted")
    other.ok("release", "wanted")
    needs = dibs.json()["needs"]
    assert [(need["item"], need["command"]) for need in needs] == [
        ("wanted", "dibs claim wanted"),
        ("plan", "dibs approve plan"),
        ("after", "dibs show after"),
        ("broken", "dibs retry broken"),
    ]
    assert needs[3]["why"] == "failed: tests red: 3 of 9", "a reason of several lines is one"
    assert needs[2]["why"] == "needs broken, which is failed"
    assert not [need for need in other.json()["needs"] if need["item"] == "wanted"], "offered to somebody else"


def test_a_full_board_takes_at_most_twelve_lines(dibs: Dibs) -> None:
    items = [{"id": f"x{n}", "title": "t", "needs_approval": n % 2 == 0} for n in range(40)]
    dibs.ok("add", "--file", "-", input="".join(json.dumps(item) + "\n" for item in items))
    dibs.ok("next", "-n", "9")
    lines = dibs.ok().splitlines()
    assert len(lines) == LINES_MAX
    assert len([line for line in lines if line.split()[0] == "and"]) == 2
    assert max(map(len, dibs.terminal("dibs", columns=60, NO_COLOR="1").splitlines())) <= 60


def test_next_is_what_dibs_next_gives(dibs: Dibs, other: Dibs) -> None:
    items: list[dict[str, Any]] = [
        {"id": "held", "resources": ["src/a"], "type": "docs"},
        {"id": "forbidden", "action": "deploy", "priority": 10},
        {"id": "busy", "resources": ["src/a/b.py"], "action": "write", "type": "docs", "priority": 9},
        {"id": "other-type", "type": "bug", "action": "write", "priority": 8},
        {"id": "second", "type": "docs", "action": "write"},
        {"id": "first", "type": "docs", "action": "write", "priority": 7},
    ]
    dibs.ok("add", "--file", "-", input="".join(json.dumps({"title": "t", **item}) + "\n" for item in items))
    other.ok("claim", "held")
    dibs.ok("agent", "set", "coder", "--type", "docs", "--type", "task", "--allow", "write", "--max-claims", "1")
    # Before the session is known, and after; by the name of the agent, and by that of the session.
    assert [item["id"] for item in dibs.json()["next"]] == ["first", "second"]
    dibs.ok("session", "start", "--agent", "coder", "--id", "s3")
    unnamed = Dibs(dibs.folder, dibs.environment | {"DIBS_SESSION": "s3", "DIBS_AGENT": ""})
    assert [item["id"] for item in unnamed.json()["next"]] == ["first", "second"]
    assert unnamed.json("next")["claims"][0]["item"]["id"] == "first"
    assert unnamed.json()["next"] == [], "the agent has as many claims as it may"
    assert unnamed("next").returncode == 75


def test_an_empty_board_says_how_to_begin(dibs: Dibs) -> None:
    assert dibs.ok() == 'nothing to do; add an item with: dibs add "Fix login"\n'


def test_without_a_board_it_is_the_short_help(bare: Dibs) -> None:
    done = bare()
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("dibs: a work board for fleets of agents")
    code, error = bare.refused()
    assert (code, error["field"]) == (1, "store")


def test_a_board_that_is_named_and_missing_is_an_error_not_a_help(bare: Dibs) -> None:
    done = bare("--store", "missing.db")
    assert done.returncode == 1
    assert "missing.db" in done.stderr
    assert "usage" not in done.stderr
