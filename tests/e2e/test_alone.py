"""`dibs` without a command: what the caller holds, what needs a person, and what is next."""

from __future__ import annotations

import json

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
    other.ok("fail", "broken")
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


def test_next_is_what_the_agent_would_be_given(dibs: Dibs) -> None:
    dibs.ok("add", "Urgent", "--id", "urgent", "--type", "bug", "--priority", "critical")
    dibs.ok("add", "Docs", "--id", "docs", "--type", "docs")
    dibs.ok("agent", "set", "coder", "--type", "docs")
    assert [item["id"] for item in dibs.json()["next"]] == ["docs"]


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
