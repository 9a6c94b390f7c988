"""Answers say what happened: in words, and with `--json`."""

from __future__ import annotations

import json

import pytest

from tests.e2e.conftest import Dibs


@pytest.fixture
def hopeless(dibs: Dibs) -> Dibs:
    """A board on which `a` is cancelled, `b` failed, and `c` is ready."""
    for item in "abc":
        dibs.ok("add", "t", "--id", item)
    dibs.ok("cancel", "a")
    dibs.ok("claim", "b")
    dibs.ok("fail", "b")
    return dibs


def test_an_item_that_was_there_is_not_said_to_be_added(dibs: Dibs) -> None:
    assert dibs.ok("add", "t", "--id", "x").startswith("added x")
    assert dibs.ok("add", "t", "--id", "x") == "x exists already, unchanged  now ready\n"
    assert dibs.json("add", "t", "--id", "x")["existed"] is True
    dibs.ok("edit", "x", "--title", "u")
    assert dibs.ok("add", "t", "--id", "x") == "x exists already, and was edited since  now ready\n"
    assert dibs.ok("add", "u", "--id", "x", "--priority", "medium").startswith("x exists already, unchanged")
    assert dibs.json("add", "t", "--id", "y")["existed"] is False


def test_a_taken_id_says_what_differs(dibs: Dibs) -> None:
    dibs.ok("add", "t", "--id", "x", "--label", "a")
    code, error = dibs.refused("add", "u", "--id", "x", "--priority", "9")
    assert (code, error["differs"]) == (1, ["title", "labels", "priority"])
    assert error["message"].startswith("x exists already and differs in title, labels, priority; ")


def test_a_file_that_was_added_before_adds_nothing(dibs: Dibs) -> None:
    text = "\n".join(json.dumps({"id": item, "title": "t"}) for item in ("x", "y"))
    assert dibs.ok("add", "--file", "-", input=text) == "added 2 items\n"
    assert dibs.ok("add", "--file", "-", input=text) == "added 0 items, 2 existed already\n"
    more = f'{text}\n{{"id": "z", "title": "t", "depends_on": ["x"]}}'
    told = {"added": 1, "ids": ["x", "y", "z"], "existed": ["x", "y"], "will_not_move": []}
    assert dibs.json("add", "--file", "-", input=more) == told
    error = json.loads(dibs("add", "--file", "-", "--json", input=f"{more}\nno").stdout)["error"]
    assert (error["added"], error["line"]) == (0, 4)
    assert error["message"].endswith("added before that line: 0 items, 3 existed already")


def test_an_item_that_can_never_move_is_said_to_and_what_helps(hopeless: Dibs) -> None:
    told = hopeless.ok("add", "t", "--id", "x", "--needs", "a", "--needs", "b", "--needs", "c").splitlines()[1:]
    assert told == [
        "  it stays blocked, because a is cancelled, b is failed. To unblock it:",
        "    dibs retry b",
        "    dibs edit x --needs c",
    ]
    assert hopeless.ok("edit", "c", "--needs", "a").splitlines()[-1] == "    dibs edit c --no-needs"
    assert hopeless.json("add", "t", "--needs", "a")["blockers"] == [
        {"item": "a", "status": "cancelled", "will_move": False}
    ]
    line = json.dumps({"id": "y", "title": "t", "depends_on": ["a"]})
    assert "will stay blocked: y" in hopeless.ok("add", "--file", "-", input=line)
    assert hopeless.json("add", "--file", "-", input=line)["will_not_move"] == ["y"]


def test_what_a_new_item_waits_for_is_what_is_not_done(dibs: Dibs) -> None:
    for item in ("done", "open"):
        dibs.ok("add", "t", "--id", item)
    dibs.ok("claim", "done")
    dibs.ok("done", "done")
    told = dibs.ok("add", "t", "--id", "x", "--needs", "done", "--needs", "open")
    assert told.rstrip().endswith("  waits for open")


def test_an_edit_says_which_lists_it_replaced(dibs: Dibs) -> None:
    dibs.ok("add", "t", "--id", "a")
    dibs.ok("add", "t", "--id", "x", "--label", "one", "--label", "two", "--resource", "src", "--needs", "a")
    assert dibs.ok("edit", "x", "--label", "three").splitlines()[1:] == ["  labels: one, two replaced by three"]
    assert dibs.ok("edit", "x", "--no-resources").splitlines()[1:] == ["  resources: src removed"]
    told = dibs.ok("edit", "x", "--no-needs")
    assert "now ready" in told
    assert told.splitlines()[1:] == ["  needs: a removed"]
    assert len(dibs.ok("edit", "x", "--resource", "docs").splitlines()) == 1, "nothing was replaced"
    assert dibs.json("edit", "x", "--label", "four")["before"] == {"labels": ["three"]}


def test_an_edit_that_changes_nothing_says_so(dibs: Dibs) -> None:
    dibs.ok("add", "t", "--id", "x")
    assert dibs.ok("edit", "x", "--title", "t") == "x is unchanged: it has these values already\n"
    assert dibs.json("edit", "x", "--title", "t")["before"] == {}


def test_an_edit_that_withdraws_the_approval_says_so(dibs: Dibs) -> None:
    dibs.ok("add", "t", "--id", "x", "--needs-approval")
    dibs.ok("approve", "x", "--actor", "alice")
    first, second = dibs.ok("edit", "x", "--title", "u").splitlines()
    assert first.endswith("now pending_approval")
    assert second == "  its approval is withdrawn, because what was approved has changed"
    dibs.ok("approve", "x", "--actor", "alice")
    before = dibs.json("edit", "x", "--title", "v")["before"]
    assert before == {"title": "u", "needs_approval": False, "approved": True, "status": "ready"}


def test_a_log_says_for_how_long_a_claim_was_given(dibs: Dibs) -> None:
    dibs.ok("add", "t", "--id", "x", "--timeout", "10m")
    assert "10m until" in dibs.ok("claim", "x")
    assert dibs.ok("log", "x").splitlines()[-1].endswith("for 10m")


def test_a_log_speaks_of_a_draft_only_where_there_was_one(dibs: Dibs) -> None:
    dibs.ok("add", "t", "--id", "x", "--needs-approval")
    dibs.ok("approve", "x", "--done", "--actor", "alice")
    assert dibs.ok("log", "x").splitlines()[-1].endswith("now done")


def test_who_takes_an_item_away_is_told_where_it_went(dibs: Dibs) -> None:
    dibs.ok("add", "t", "--id", "x")
    dibs.ok("claim", "x")
    told = dibs.ok("force-release", "x", "--reason", "stuck")
    assert told.startswith("released x  from coder (session ")
    assert told.endswith("now ready\n")


def test_whoever_cancels_is_told_from_whom_it_was_taken(dibs: Dibs, other: Dibs) -> None:
    dibs.ok("add", "t", "--id", "x")
    dibs.ok("add", "t", "--id", "y")
    other.ok("claim", "x")
    assert dibs.ok("cancel", "x") == "cancelled x  t  taken from reviewer (session s2)\n"
    assert dibs.ok("cancel", "y") == "cancelled y  t\n"


def test_what_is_said_of_an_agent_anew_is_told_from_what_was_said(dibs: Dibs) -> None:
    assert dibs.ok("agent", "set", "a", "--type", "bug", "--role", "cloud") == "a takes bug; role cloud\n"
    assert dibs.ok("agent", "set", "a", "--type", "bug") == "a takes bug; role cloud\n  unchanged\n"
    told = dibs.ok("agent", "set", "a", "--type", "docs", "--allow", "send")
    assert told == "a takes docs; may send; role cloud\n  types: bug replaced by docs\n"
    assert dibs.ok("agent", "set", "a", "--reset").splitlines()[1:] == [
        "  types: docs removed",
        "  allowed actions: send removed",
    ]


def test_a_live_session_that_stays_as_it_is_says_so(dibs: Dibs) -> None:
    dibs.ok("session", "start", "--id", "s7", "--kind", "cli")
    again = dibs("session", "start", "--id", "s7", "--kind", "autonomous")
    assert again.stdout == "s7\n"
    assert "session s7 is live already and keeps its kind cli" in again.stderr
