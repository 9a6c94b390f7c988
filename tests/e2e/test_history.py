"""Seeing what is going on and what was: who, log, events, runs, sessions, agents, stats, sweep."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e.conftest import Dibs
from tests.e2e.terminal import Terminal
from tests.kit.waiting import PATIENCE_SECONDS


@pytest.fixture
def worked(dibs: Dibs, other: Dibs) -> Dibs:
    """A board with some history: a is done, b is held by both in turn, c waits."""
    for id in ("a", "b", "c"):
        dibs.ok("add", f"Item {id}", "--id", id)
    dibs.ok("claim", "a")
    dibs.ok("progress", "a", "half way")
    dibs.ok("done", "a", "--note", "all of it", "--link", "pr=https://example.org/1")
    dibs.ok("claim", "b")
    other("claim", "b")
    dibs.ok("release", "b", "--reason", "not mine")
    other.ok("claim", "b")
    return dibs


def test_log_tells_the_history_of_an_item(worked: Dibs) -> None:
    events = worked.json("log", "a")["events"]
    assert [event["kind"] for event in events] == ["added", "claimable", "claimed", "progress", "done"]
    assert [event["number"] for event in events] == [1, 2, 3, 4, 5]
    told = worked.ok("log", "a").splitlines()
    assert told[0] == "a  Item a  done"
    assert [line.split()[1] for line in told[1:]] == ["added", "claimable", "claimed", "progress", "done"]
    assert "half way" in told[4]
    assert "all of it" in told[5]


def test_who_groups_claims_by_agent_with_age_health_and_time_left(worked: Dibs) -> None:
    worked.ok("claim", "c")
    (first, second) = worked.json("who")["holdings"]
    assert (first["claim"]["agent"], first["health"], first["item"]["id"]) == ("coder", "healthy", "c")
    assert second["claim"]["agent"] == "reviewer"
    assert 0 < first["remaining_seconds"] <= 1800
    lines = worked.ok("who").splitlines()
    assert lines[0] == "coder  1 claim"
    assert lines[1].split() == ["c", "Item", "c", "s1", "healthy", lines[1].split()[5], "30m", "left"]
    assert lines[3] == "reviewer  1 claim"


def test_what_has_expired_is_nobodys_before_a_sweep_says_so(dibs: Dibs) -> None:
    assert dibs.ok("who") == "no live claims\n"
    dibs.ok("add", "t", "--id", "x")
    dibs.ok("claim", "x")
    dibs.lapse()
    assert dibs.ok("who") == "no live claims\n"
    assert dibs.json("show", "x")["item"]["status"] == "ready"
    assert dibs.json("runs", "--item", "x")["runs"][0]["outcome"] == "expired"
    assert "dibs sweep" in dibs.ok("doctor"), "what is only overdue is told, and no fault"
    assert dibs.ok("sweep").split() == ["expired", "x"]
    assert dibs.ok("sweep") == "nothing to sweep\n"
    assert dibs("doctor").returncode == 0


def test_who_watch_redraws_on_change_and_leaves_on_an_interrupt(dibs: Dibs) -> None:
    dibs.ok("add", "A very good title", "--id", "x")
    with Terminal("trap : INT; dibs who --watch; echo left with $?", dibs.folder, dibs.environment) as terminal:
        terminal.read_until("no live claims")
        dibs.ok("claim", "x")
        terminal.read_until("A very good title")
        terminal.type("\x03")
        said = terminal.read_until("left with 0")
    assert "\x1b[?1049h" in said
    assert said.index("\x1b[?1049l") < said.index("left with")
    assert "Traceback" not in said


def test_who_watch_off_a_terminal_tells_every_change(dibs: Dibs, ended: Any) -> None:
    dibs.ok("add", "t", "--id", "x")
    watching: subprocess.Popen[str] = ended(dibs.start("who", "--watch", "--json"))
    assert watching.stdout is not None
    assert json.loads(watching.stdout.readline()) == {"holdings": []}
    dibs.ok("claim", "x")
    while not (shown := json.loads(watching.stdout.readline()))["holdings"]:
        pass
    assert shown["holdings"][0]["item"]["id"] == "x"
    watching.send_signal(signal.SIGINT)
    assert watching.wait(timeout=PATIENCE_SECONDS) == 0


def test_events_shows_the_latest_or_what_came_after(worked: Dibs) -> None:
    every = worked.json("events", "--after", "0", "--limit", "1000")["events"]
    assert [event["id"] for event in every] == sorted({event["id"] for event in every})
    assert worked.json("events", "--limit", "3")["events"] == every[-3:]
    cursor = every[4]["id"]
    assert worked.json("events", "--after", str(cursor), "--limit", "2")["events"] == every[5:7]
    assert worked.json("events", "--after", str(every[-1]["id"]))["events"] == []
    assert len(worked.ok("events").splitlines()) == len(every)


def test_events_of_an_empty_board_are_none(dibs: Dibs) -> None:
    assert dibs.json("events") == {"events": []}
    assert dibs("events").returncode == 0


def test_events_follow_tells_what_comes(worked: Dibs, ended: Any) -> None:
    following: subprocess.Popen[str] = ended(worked.start("events", "--follow", "--limit", "1", "--json"))
    assert following.stdout is not None
    assert json.loads(following.stdout.readline())["kind"] == "claimed"
    worked.ok("edit", "c", "--title", "Other")
    assert json.loads(following.stdout.readline())["kind"] == "edited"
    following.send_signal(signal.SIGINT)
    assert following.wait(timeout=PATIENCE_SECONDS) == 0


def test_events_keep_to_kinds(worked: Dibs) -> None:
    kinds = [event["kind"] for event in worked.json("events", "--limit", "100")["events"]]
    claims = worked.json("events", "--kind", "claimed", "--limit", "2")["events"]
    assert [event["item"] for event in claims] == ["b", "b"]
    both = worked.json("events", "--kind", "done", "--kind", "claimable", "--limit", "100")["events"]
    assert [event["kind"] for event in both] == [kind for kind in kinds if kind in ("done", "claimable")]
    after = worked.json("events", "--after", "0", "--kind", "done", "--limit", "1")["events"]
    assert [event["item"] for event in after] == ["a"]
    code, error = worked.refused("events", "--kind", "claimabel")
    assert (code, error["field"]) == (2, "kind")


def test_anyone_can_be_notified_of_what_becomes_claimable(worked: Dibs, ended: Any) -> None:
    words = ("events", "--follow", "--kind", "claimable", "--limit", "1", "--json")
    following: subprocess.Popen[str] = ended(worked.start(*words))
    assert following.stdout is not None
    assert json.loads(following.stdout.readline())["kind"] == "claimable"
    worked.ok("claim", "c")
    worked.ok("progress", "c", "this is not what they wait for")
    worked.ok("release", "c")
    event = json.loads(following.stdout.readline())
    assert (event["kind"], event["item"]) == ("claimable", "c")


def test_who_follows_is_told_what_time_alone_does(settings: Callable[..., None], dibs: Dibs, ended: Any) -> None:
    settings(ttl_seconds=1, ttl_seconds_min=1)
    dibs.ok("add", "t", "--id", "x")
    dibs.ok("claim", "x")
    dibs.ok("add", "t", "--id", "y", "--not-before", "1500ms")
    following: subprocess.Popen[str] = ended(dibs.start("events", "--follow", "--kind", "claimable", "--json"))
    watching: subprocess.Popen[str] = ended(dibs.start("who", "--watch", "--json"))
    assert following.stdout is not None
    assert watching.stdout is not None
    told = [json.loads(following.stdout.readline())["item"] for _ in range(3)]
    assert (told[0], sorted(told[1:])) == ("x", ["x", "y"])
    shown = [json.loads(watching.stdout.readline())["holdings"]]
    while shown[-1]:
        shown.append(json.loads(watching.stdout.readline())["holdings"])


def test_runs_keep_to_their_filters(worked: Dibs) -> None:
    runs = worked.json("runs")["runs"]
    assert [(run["item"], run["token"], run["outcome"]) for run in runs] == [
        ("b", 2, None),
        ("b", 1, "released"),
        ("a", 1, "done"),
    ]
    assert [run["token"] for run in worked.json("runs", "--item", "b")["runs"]] == [2, 1]
    assert len(worked.json("runs", "--agent", "coder")["runs"]) == 2
    assert len(worked.json("runs", "--session", "s2")["runs"]) == 1
    assert len(worked.json("runs", "--limit", "1")["runs"]) == 1
    assert "not mine" in worked.ok("runs")


def test_children_are_shown_below_their_parents_and_end_with_them(dibs: Dibs) -> None:
    for id, parent in (("main", None), ("sub", "main"), ("subsub", "sub"), ("other", None)):
        of = ["--parent", parent] if parent else []
        assert dibs.ok("session", "start", "--id", id, *of) == f"{id}\n"
    dibs.ok("add", "Fix login", "--id", "fix-login")
    dibs.ok("claim", "fix-login", "--session", "subsub")
    lines = dibs.ok("sessions").splitlines()
    starts = {line.split()[1]: line.index(line.split()[1]) for line in lines[1:]}
    assert [*starts][[*starts].index("main") :][:3] == ["main", "sub", "subsub"]
    first = starts["main"]
    assert starts == {"main": first, "sub": first + 2, "subsub": first + 4, "other": first}
    assert "subsub (child of sub)" in dibs.ok("who")
    (holding,) = dibs.json("who")["holdings"]
    assert holding["parent"] == "sub"
    code, error = dibs.refused("session", "start", "--id", "late", "--parent", "nobody")
    assert (code, error["code"]) == (5, "SESSION_NOT_FOUND")
    code, error = dibs.refused("session", "start", "--id", "sub", "--parent", "other")
    assert (code, error["code"], error["field"]) == (1, "INVALID", "parent")
    assert "released fix-login" in dibs.ok("session", "end", "main")
    assert [view["session"]["id"] for view in dibs.json("sessions")["sessions"]] == ["other"]


def test_what_a_heartbeat_says_of_its_session_is_shown(dibs: Dibs) -> None:
    dibs.ok("session", "start", "--id", "s1", "--meta", '{"model": "small"}')
    dibs.ok("heartbeat", "--meta", '{"context_percent": 40, "model": null, "odd": "a\\u001b[31m"}')
    (view,) = dibs.json("sessions")["sessions"]
    assert view["session"]["meta"] == {"context_percent": 40, "odd": "a\x1b[31m"}
    assert "context_percent=40" in dibs.ok("sessions")
    assert "\x1b" not in dibs.ok("sessions")
    dibs.ok("heartbeat", "--at-most-every", "60s", "--meta", '{"context_percent": 41}')
    (view,) = dibs.json("sessions")["sessions"]
    assert view["session"]["meta"]["context_percent"] == 40
    for wrong in ("7", "[]", "{", '{"a": "%s"}' % ("x" * 16_000)):
        code, error = dibs.refused("heartbeat", "--meta", wrong)
        assert (code, error["code"], error["field"]) == (1, "INVALID", "meta")
    assert dibs.refused("heartbeat", "x", "--meta", "{}")[0] == 2


def test_sessions_show_who_is_there(worked: Dibs) -> None:
    views = {view["session"]["id"]: view for view in worked.json("sessions")["sessions"]}
    assert {id: view["claims"] for id, view in views.items()} == {"s1": 0, "s2": 1}
    worked.ok("session", "end")
    assert len(worked.json("sessions")["sessions"]) == 1
    assert len(worked.json("sessions", "--all")["sessions"]) == 2
    assert "ended" in worked.ok("sessions", "--all")


def test_agents_are_set_and_listed(dibs: Dibs) -> None:
    assert "no agents yet" in dibs("agent", "list").stderr
    agent = dibs.json("agent", "set", "coder", "--type", "bug", "--type", "docs", "--max-claims", "2")["agent"]
    assert (agent["types"], agent["max_claims"]) == (["bug", "docs"], 2)
    dibs.ok("add", "t", "--id", "x", "--type", "feature")
    assert dibs("next").returncode == 3
    assert dibs.ok("agent", "set", "coder", "--role", "local").startswith("coder takes bug, docs; at most 2 a session")
    reset = "coder takes every type\n  types: bug, docs removed\n"
    assert dibs.ok("agent", "set", "coder", "--reset") == reset
    assert dibs.ok("next").startswith("claimed x")


def test_stats_tell_the_board_in_figures(worked: Dibs) -> None:
    figures = worked.json("stats")
    assert figures["items"] == {"ready": 1, "in_progress": 1, "done": 1} | {
        status: count for status, count in figures["items"].items() if count == 0
    }
    assert (figures["active_claims"], figures["total_claims"], figures["conflicts_avoided"]) == (1, 3, 1)
    told = worked.ok("stats")
    assert "conflicts avoided" in told
    assert worked.json("stats", "--agent", "coder")["total_claims"] == 2
    assert worked.json("stats", "--agent", "nobody")["total_claims"] == 0
    assert worked.ok("stats", environment={"LANG": "C", "PYTHONIOENCODING": "ascii"})
