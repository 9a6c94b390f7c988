"""What an item waits for: others that it needs, its time, resources in use; parked ones; and `why`, which tells."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from tests.e2e.conftest import Dibs
from tests.kit.waiting import until


def add(dibs: Dibs, id: str, *words: str) -> dict[str, object]:
    item: dict[str, object] = dibs.json("add", f"Item {id}", "--id", id, *words)["item"]
    return item


def status(dibs: Dibs, id: str) -> str:
    return str(dibs.json("show", id)["item"]["status"])


def seconds_from_now(text: object) -> float:
    return (datetime.fromisoformat(str(text)) - datetime.now(UTC)).total_seconds()


def test_an_item_is_blocked_until_all_it_needs_is_done(dibs: Dibs) -> None:
    add(dibs, "a"), add(dibs, "b")
    item = add(dibs, "c", "--needs", "a", "--needs", "b")
    assert (item["status"], item["depends_on"]) == ("blocked", ["a", "b"])
    code, error = dibs.refused("claim", "c")
    assert (code, error["code"], error["blocked_by"]) == (4, "TASK_NOT_CLAIMABLE", ["a", "b"])
    for id, after in (("a", "blocked"), ("b", "ready")):
        dibs.ok("claim", id)
        dibs.ok("done", id)
        assert status(dibs, "c") == after
    told = dibs.ok("log", "c").splitlines()
    assert "needs a, b" in told[1]
    assert told[2].split()[1:] == ["unblocked", "dibs", "all", "dependencies", "are", "done"]


def test_show_says_what_blocks_and_why_it_will_not_move(dibs: Dibs) -> None:
    for id in ("design", "api", "spec"):
        add(dibs, id)
    add(dibs, "c", "--needs", "design", "--needs", "api", "--needs", "spec")
    for id, end in (("design", "done"), ("spec", "fail")):
        dibs.ok("claim", id)
        dibs.ok(end, id)
    dibs.ok("claim", "api")
    told = dibs.ok("show", "c")
    assert "  blocked: needs design (done), api (in_progress), spec (failed)\n" in told
    assert "  it stays blocked, because spec is failed. To unblock it:\n    dibs retry spec\n" in told
    way_out = "dibs edit c --needs design --needs api"
    assert f"    {way_out}\n" in told
    assert [blocker["will_move"] for blocker in dibs.json("show", "c")["blockers"]] == [True, False]
    dibs.ok(*way_out.split()[1:])
    assert "stays blocked" not in dibs.ok("show", "c")


@pytest.mark.parametrize("end", ["cancel", "reject"])
def test_what_can_never_be_done_can_only_be_left_out(dibs: Dibs, end: str) -> None:
    add(dibs, "a", "--needs-approval"), add(dibs, "b", "--needs", "a")
    dibs.ok(end, "a", "--reason", "no")
    told = dibs.ok("show", "b")
    assert "dibs retry" not in told
    assert "    dibs edit b --no-needs\n" in told
    assert dibs.json("edit", "b", "--no-needs")["item"]["status"] == "ready"


def test_needs_that_make_no_sense_are_refused(dibs: Dibs) -> None:
    add(dibs, "a"), add(dibs, "b", "--needs", "a")
    for words in (("add", "t", "--needs", "nowhere"), ("edit", "a", "--needs", "b"), ("edit", "a", "--needs", "a")):
        code, error = dibs.refused(*words)
        assert (code, error["code"], error["field"]) == (1, "INVALID", "depends_on")
    assert dibs.refused("edit", "b", "--needs", "a", "--no-needs")[0] == 2


def test_a_file_may_say_all_of_it_in_any_order(dibs: Dibs) -> None:
    given = [
        {"id": "c", "title": "t", "depends_on": ["b", "a"], "resources": ["src/x/", "port:1"], "retries": 2},
        {"id": "a", "title": "t", "not_before": "2099-01-01T00:00:00Z"},
        {"id": "b", "title": "t", "needs_approval": True},
    ]
    dibs.ok("add", "--file", "-", input="".join(json.dumps(one) + "\n" for one in given))
    items = {item["id"]: item for item in dibs.json("list")["items"]}
    assert {id: item["status"] for id, item in items.items()} == {
        "a": "scheduled",
        "b": "pending_approval",
        "c": "blocked",
    }
    assert (items["c"]["resources"], items["c"]["retries"]) == (["src/x", "port:1"], 2)
    done = dibs("add", "--file", "-", "--json", input='{"id": "d", "title": "t", "depends_on": ["nowhere"]}')
    assert json.loads(done.stdout)["error"]["line"] == 1


def test_an_item_is_scheduled_until_its_time(dibs: Dibs) -> None:
    item = add(dibs, "later", "--not-before", "2h")
    assert item["status"] == "scheduled"
    assert 7190 < seconds_from_now(item["not_before"]) <= 7200
    assert "scheduled until" in dibs.ok("show", "later")
    code, error = dibs.refused("claim", "later")
    assert (code, error["code"]) == (4, "TASK_NOT_CLAIMABLE")
    assert 7100 < error["retry_after_seconds"] <= 7200
    item = add(dibs, "then", "--not-before", "2099-11-15T09:30:00+01:00")
    assert item["not_before"] == "2099-11-15T08:30:00.000Z"
    assert add(dibs, "past", "--not-before", "2001-01-01")["status"] == "ready"
    assert dibs.json("edit", "then", "--not-before", "now")["item"]["status"] == "ready"
    told = dibs.ok("add", "t", "--id", "soon", "--not-before", "30m")
    assert re.search(r"waits for .*, in (30m|29m)", told)


def test_a_time_without_an_offset_is_that_of_the_clock_by_which_times_are_shown(dibs: Dibs) -> None:
    """On the command line; a file of items is written by programs, which have to say what they mean."""
    berlin = {"TZ": "Europe/Berlin"}
    told = dibs.ok("add", "t", "--id", "x", "--not-before", "2099-07-15 09:30", environment=berlin)
    assert "waits for 2099-07-15 09:30," in told
    assert dibs.json("show", "x")["item"]["not_before"] == "2099-07-15T07:30:00.000Z"
    code, error = dibs.refused("add", "t", "--not-before", "2099-10-25 02:45", environment=berlin)
    assert (code, error["field"]) == (1, "not_before")
    assert "2099-10-25T02:45:00+02:00 or 2099-10-25T02:45:00+01:00" in error["message"]
    line = '{"title": "t", "not_before": "2099-07-15 09:30"}'
    code, error = dibs.refused("add", "--file", "-", input=line, environment=berlin)
    assert (code, error["field"], error["line"]) == (1, "not_before", 1)
    assert "write 2099-07-15T09:30:00Z for UTC" in error["message"]


@pytest.mark.parametrize("text", ["soon", "", "-2h", "20261115", "2026-13-01", "7200"])
def test_a_time_that_is_none_is_refused(dibs: Dibs, text: str) -> None:
    code, error = dibs.refused("add", "t", "--not-before", text)
    assert (code, error["field"]) == (1, "not_before")


def test_a_duration_does_not_go_with_a_request_id(dibs: Dibs) -> None:
    code, error = dibs.refused("add", "t", "--not-before", "2h", "--request-id", "r1")
    assert (code, error["field"]) == (2, "not_before")
    words = ("add", "t", "--not-before", "2099-01-01", "--request-id", "r1")
    assert dibs.json(*words) == dibs.json(*words)


def test_a_failed_item_is_tried_again_after_a_while(settings: Callable[..., None], dibs: Dibs) -> None:
    settings(retry_backoff_seconds=3600, retry_backoff_seconds_max=3600)
    add(dibs, "x", "--retries", "1")
    dibs.ok("claim", "x")
    said = dibs.ok("fail", "x", "--reason", "no network")
    assert said.startswith("failed x")
    assert "now scheduled" in said
    assert "to be retried at" in dibs.ok("log", "x").splitlines()[-1]
    assert "failed 1 time; 1 retry allowed" in dibs.ok("show", "x")
    dibs.ok("edit", "x", "--not-before", "now")
    dibs.ok("claim", "x")
    assert dibs.json("fail", "x")["item"]["status"] == "failed"
    assert "now ready" in dibs.ok("retry", "x")


def test_resources_in_use_keep_others_out(dibs: Dibs, other: Dibs) -> None:
    add(dibs, "a", "--resource", "src/api/", "--resource", "port:8080")
    add(dibs, "b", "--resource", "src/api/login.py")
    add(dibs, "c", "--resource", "src/apis")
    dibs.ok("claim", "a")
    code, error = other.refused("claim", "b")
    assert (code, error["code"], error["resource"], error["held_for"]) == (75, "RESOURCE_BUSY", "src/api", "a")
    assert error["holder"] == {"session": "s1", "agent": "coder"}
    assert other.json("next")["claims"][0]["item"]["id"] == "c"
    used = dibs.json("who", "--resources")["resources"]
    assert [(one["resource"], one["item"], one["agent"], one["session"]) for one in used] == [
        ("port:8080", "a", "coder", "s1"),
        ("src/api", "a", "coder", "s1"),
        ("src/apis", "c", "reviewer", "s2"),
    ]
    lines = dibs.ok("who", "--resources").splitlines()
    assert lines[0].split() == ["resource", "item", "agent", "session", "until"]
    assert lines[1].split()[:4] == ["port:8080", "a", "coder", "s1"]
    assert "uses src/api, port:8080" in dibs.ok("show", "a")
    dibs.ok("done", "a")
    other.ok("done", "c")
    assert dibs.ok("who", "--resources") == "no resource is in use\n"
    assert dibs.json("edit", "b", "--no-resources")["item"]["resources"] == []


def test_a_resource_that_leads_out_of_the_project_is_refused(dibs: Dibs) -> None:
    assert dibs.refused("add", "t", "--resource", "../x")[1]["field"] == "resources"


def test_why_tells_every_reason_against(dibs: Dibs, other: Dibs) -> None:
    dibs.ok("agent", "set", "reviewer", "--max-claims", "1")
    add(dibs, "a", "--resource", "src")
    add(dibs, "b", "--resource", "src/x")
    add(dibs, "c")
    dibs.ok("claim", "a")
    other.ok("claim", "c")
    reasons = other.json("why", "b")["reasons"]
    assert [reason["code"] for reason in reasons] == ["AGENT_AT_CAPACITY", "RESOURCE_BUSY"]
    assert not any(reason["claimable"] for reason in reasons)
    assert [line[0] for line in other.ok("why", "b").splitlines()] == ["✗", "✗"]


def test_why_tells_what_next_would_do(dibs: Dibs) -> None:
    for id in ("first", "second"):
        add(dibs, id)
    codes = {id: [one["code"] for one in dibs.json("why", id)["reasons"]] for id in ("first", "second")}
    assert codes == {"first": ["CLAIMABLE", "NEXT"], "second": ["CLAIMABLE", "BEHIND"]}
    assert all(line.startswith("✓") for line in dibs.ok("why", "first").splitlines())
    dibs.ok("park", "first")
    assert [line[0] for line in dibs.ok("why", "first").splitlines()] == ["✓", "·"]
    assert dibs.refused("why", "nowhere")[0] == 5


def test_a_parked_item_is_only_claimed_by_its_id(dibs: Dibs, other: Dibs) -> None:
    add(dibs, "x")
    assert dibs.json("park", "x", "--reason", "later", "--actor", "alice")["item"]["status"] == "parked"
    assert dibs("next").returncode == 3
    assert "by alice" not in dibs.ok("log", "x").splitlines()[-1]
    assert dibs.ok("log", "x").splitlines()[-1].split()[1:] == ["parked", "alice", "later"]
    assert "now ready" in dibs.ok("unpark", "x")
    dibs.ok("claim", "x")
    assert "now parked" in dibs.ok("release", "x", "--park")
    assert dibs.refused("unpark", "nowhere")[0] == 5
    other.ok("claim", "x")
    code, error = dibs.refused("park", "x")
    assert (code, error["code"]) == (4, "TASK_NOT_CLAIMABLE")


def test_list_hints_at_what_items_wait_for(dibs: Dibs) -> None:
    (
        add(dibs, "a"),
        add(dibs, "b", "--needs", "a"),
        add(dibs, "c", "--not-before", "2h"),
        add(dibs, "d", "--needs-approval"),
    )
    lines = {line.split()[0]: line for line in dibs.ok("list").splitlines()}
    assert "waits for" in lines["id"]
    assert re.search(r"blocked .* Item b  a  ", lines["b"])
    assert re.search(r"scheduled .* in (2h|1h 59m)", lines["c"])
    assert re.search(r"pending_approval .* approval ", lines["d"])
    narrow = dibs.terminal("dibs list --no-color", columns=50).splitlines()
    assert "changed" not in narrow[0]
    assert "waits for" in narrow[0]
    assert dibs.json("list", "--status", "blocked", "--status", "scheduled")["items"][0]["id"] == "b"


def test_sweep_moves_on_what_fell_due(dibs: Dibs) -> None:
    add(dibs, "x", "--not-before", "300ms")
    until(lambda: "dibs sweep" in dibs("doctor").stdout)
    assert dibs.ok("sweep").split() == ["due", "x"]
    assert status(dibs, "x") == "ready"
