"""Waiting for one item: told where one stands, woken and served in turn, and gone without a trace when one leaves."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e.conftest import Dibs
from tests.e2e.terminal import Terminal
from tests.kit.waiting import PATIENCE_SECONDS, until

ACCEPT_SECONDS = 1


@pytest.fixture
def held(settings: Callable[..., None], dibs: Dibs) -> Dibs:
    """A board whose one item is held by s1, and whose offers are short."""
    settings(accept_seconds=ACCEPT_SECONDS)
    dibs.ok("add", "Fix login", "--id", "x")
    dibs.ok("claim", "x")
    return dibs


@pytest.fixture
def queue(held: Dibs, ended: Any) -> Callable[..., subprocess.Popen[str]]:
    """Starts a `claim --wait` as another session, and is back once that stands in the queue."""

    def join(session: str, *words: str) -> subprocess.Popen[str]:
        before = len(waiters(held))
        line = ("claim", "x", "--wait", "20s", "--session", session, "--agent", "reviewer", *words)
        process: subprocess.Popen[str] = ended(held.start(*line))
        until(lambda: len(waiters(held)) > before)
        return process

    return join


def waiters(dibs: Dibs) -> list[str]:
    return [ticket["session"] for ticket in dibs.json("show", "x")["waiters"]]


def as_other(dibs: Dibs, script: str, **options: Any) -> Terminal:
    """A terminal in which s2 of reviewer types."""
    environment = dibs.environment | {"DIBS_SESSION": "s2", "DIBS_AGENT": "reviewer"}
    return Terminal(script, dibs.folder, environment, **options)


def test_what_is_free_is_claimed_without_waiting(dibs: Dibs) -> None:
    dibs.ok("add", "t", "--id", "x")
    done = dibs("claim", "x", "--wait", "20s", "--json")
    assert (done.returncode, done.stderr, json.loads(done.stdout)["claim"]["token"]) == (0, "", 1)


def test_on_a_terminal_a_line_tells_place_and_holder_until_it_is_ones_turn(held: Dibs) -> None:
    with as_other(held, "dibs claim x --wait 20s; echo left with $?") as terminal:
        terminal.read_until("waiting for x: 1st in line; coder (session s1) holds it until ")
        held.ok("release", "x")
        said = terminal.read_until("left with 0")
    assert "claimed" in said
    assert said.count("waiting for x") == 1
    assert said.index("\r\x1b[K", said.index("waiting for x")) < said.index("claimed")  # erased when it was over
    assert held.json("show", "x")["claim"]["session"] == "s2"


def test_the_line_is_redrawn_in_place_and_fits(held: Dibs, queue: Callable[..., subprocess.Popen[str]]) -> None:
    first = queue("s3")
    with as_other(held, "dibs claim x --wait 20s; echo left with $?", columns=40) as terminal:
        terminal.read_until("2nd in line")
        first.terminate()
        terminal.read_until("1st in line")
        held.ok("release", "x")
        said = terminal.read_until("left with 0")
    drawn = re.split(r"\r\x1b\[K", said[: said.index("claimed")])
    assert [re.findall(r"\d\w\w in line", line) for line in drawn] == [[], ["2nd in line"], ["1st in line"], []]
    assert "\n" not in "".join(drawn[1:3])
    assert max(map(len, drawn)) < 40


def test_off_a_terminal_a_line_tells_every_change_of_place(
    held: Dibs, queue: Callable[..., subprocess.Popen[str]]
) -> None:
    first, second = queue("s2", "--json"), queue("s3", "--json")
    held.ok("edit", "x", "--priority", "high")  # a change that is none of theirs
    held.ok("release", "x")
    answer = json.loads(first.communicate(timeout=PATIENCE_SECONDS)[0])
    assert (answer["claim"]["session"], answer["claim"]["token"]) == ("s2", 2)
    held.ok("done", "x", "--session", "s2")
    stdout, stderr = second.communicate(timeout=PATIENCE_SECONDS)
    assert second.returncode == 4
    assert json.loads(stdout)["error"]["status"] == "done"
    places = [line.split(";")[0] for line in stderr.splitlines()]
    assert places == ["dibs: waiting for x: 2nd in line", "dibs: waiting for x: 1st in line"]


def test_waiters_are_served_in_order(held: Dibs, queue: Callable[..., subprocess.Popen[str]]) -> None:
    sessions = ["s2", "s3", "s4"]
    processes = [queue(session) for session in sessions]
    holder = "s1"
    for session, process in zip(sessions, processes, strict=True):
        held.ok("release", "x", "--session", holder)
        assert process.wait(timeout=PATIENCE_SECONDS) == 0
        holder = held.json("show", "x")["claim"]["session"]
        assert holder == session


def test_when_the_time_is_up_it_exits_4_with_the_last_refusal(held: Dibs, other: Dibs) -> None:
    done = other("claim", "x", "--wait", "300ms", "--json")
    error = json.loads(done.stdout)["error"]
    assert (done.returncode, error["code"], error["holder"]["session"]) == (4, "TASK_ALREADY_CLAIMED", "s1")
    assert waiters(held) == []


def test_an_interrupt_leaves_the_queue(held: Dibs) -> None:
    with as_other(held, "trap : INT; dibs claim x --wait 20s; echo left with $?") as terminal:
        terminal.read_until("1st in line")
        terminal.type("\x03")
        said = terminal.read_until("left with 130")
    assert "Traceback" not in said
    assert waiters(held) == []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_leaves_the_queue(
    held: Dibs, queue: Callable[..., subprocess.Popen[str]], number: signal.Signals, code: int
) -> None:
    process = queue("s2")
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, stdout, stderr.count("\n")) == (code, "", 1)
    assert waiters(held) == []


def test_a_terminal_that_is_closed_leaves_the_queue(held: Dibs) -> None:
    with as_other(held, "dibs claim x --wait 20s") as terminal:
        terminal.read_until("1st in line")
        terminal.hang_up()
        until(lambda: waiters(held) == [])


def test_a_waiter_killed_at_its_turn_costs_the_next_one_no_more_than_its_offer(
    held: Dibs, queue: Callable[..., subprocess.Popen[str]]
) -> None:
    first, second = queue("s2"), queue("s3")
    first.send_signal(signal.SIGSTOP)  # so that it cannot accept in the instant before it is killed
    held.ok("release", "x")
    assert held.json("show", "x")["item"]["offered_to"] == "s2"
    first.kill()
    assert second.wait(timeout=PATIENCE_SECONDS) == 0
    kinds = [event["kind"] for event in held.json("log", "x")["events"]]
    assert kinds[-5:] == ["released", "offered", "offer_lapsed", "offered", "claimed"]


def test_a_waiter_killed_in_the_queue_is_passed_over(held: Dibs, queue: Callable[..., subprocess.Popen[str]]) -> None:
    first, second = queue("s2"), queue("s3")
    first.kill()
    first.wait()
    held.ok("release", "x")
    assert second.wait(timeout=PATIENCE_SECONDS) == 0


def test_a_waiter_takes_over_from_a_holder_that_expired(settings: Callable[..., None], dibs: Dibs, other: Dibs) -> None:
    settings(ttl_seconds=1, ttl_seconds_min=1)
    dibs.ok("add", "t", "--id", "x")
    dibs.ok("claim", "x")
    answer = json.loads(other("claim", "x", "--wait", "20s", "--ttl", "1m", "--json").stdout)
    assert answer["previous"]["run"]["outcome"] == "expired"


def test_a_queue_that_is_closed_says_why(held: Dibs, queue: Callable[..., subprocess.Popen[str]]) -> None:
    process = queue("s2")
    held.ok("cancel", "x")
    _, stderr = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 4
    assert stderr.endswith("dibs: the queue for x is closed: the item is cancelled\n")


def test_wait_takes_a_ticket_and_says_the_place(held: Dibs, other: Dibs) -> None:
    first = other.json("wait", "x", "--ttl", "5m")
    assert (first["position"], first["offered"], first["status"]) == (1, False, "in_progress")
    assert (first["ticket"]["session"], first["ticket"]["ttl_seconds"]) == ("s2", 300)
    assert first["claim"]["session"] == "s1"
    third = ("--session", "s3", "--agent", "reviewer")
    assert held.json("wait", "x", *third)["position"] == 2
    assert "2nd in line; coder (session s1) holds it until " in held.ok("wait", "x", *third)
    assert other.json("wait", "x")["ticket"]["id"] == first["ticket"]["id"]
    left = other.json("leave", "x")
    assert left["ticket"]["reason"] == "it was given up"
    assert held.json("wait", "x", *third)["position"] == 1
    assert other.refused("leave", "x")[1]["how"] == "not_waiting"
    held.ok("release", "x")
    assert "now: dibs claim x" in held.ok("wait", "x", *third)
    held.ok("claim", "x", *third)


def test_wait_for_what_has_ended_is_refused(held: Dibs, other: Dibs) -> None:
    held.ok("done", "x")
    code, error = other.refused("wait", "x")
    assert (code, error["code"], error["status"]) == (4, "TASK_NOT_CLAIMABLE", "done")
    assert other.refused("claim", "x", "--wait", "20s")[0] == 4


def test_show_and_who_tell_who_waits(held: Dibs, other: Dibs) -> None:
    other.ok("wait", "x")
    held.ok("wait", "x", "--session", "s3", "--agent", "builder")
    (holding,) = held.json("who")["holdings"]
    assert holding["waiters"] == 2
    assert held.ok("who").splitlines()[1].endswith("2 waiting")
    told = held.ok("show", "x")
    assert "  2 waiting for it\n" in told
    assert [line.split()[:4] for line in told.splitlines() if "since" in line and "." in line] == [
        ["1.", "reviewer", "session", "s2"],
        ["2.", "builder", "session", "s3"],
    ]
    assert held.json("stats")["waiters"] == 2


def test_an_offer_is_for_one_session_only(settings: Callable[..., None], dibs: Dibs, other: Dibs) -> None:
    settings(accept_seconds=60)
    dibs.ok("add", "t", "--id", "x")
    dibs.ok("claim", "x")
    other.ok("wait", "x")
    assert "now offered to session s2" in dibs.ok("release", "x")
    assert re.search(r"offered to session s2 for (60|5\d)s", dibs.ok("show", "x").replace("1m", "60s"))
    code, error = dibs.refused("claim", "x")
    assert (code, error["offered_to"]) == (4, "s2")
    assert dibs("next").returncode == 3
    assert "session s2" in dibs.ok("list")
    told = dibs.ok("log", "x").splitlines()[-1]
    assert told.split()[1:3] == ["offered", "reviewer"]
    other.ok("claim", "x")


def test_a_soft_claim_is_shown_and_keeps_nobody_out(dibs: Dibs, other: Dibs) -> None:
    dibs.ok("add", "t", "--id", "x")
    soft = dibs.json("claim", "x", "--soft", "--ttl", "5m")["soft_claim"]
    assert (soft["item"], soft["session"], soft["ttl_seconds"]) == ("x", "s1", 300)
    other.ok("claim", "x")
    hard, shown = dibs.json("who")["holdings"]
    assert (hard["claim"]["session"], hard["soft"]) == ("s2", None)
    assert (shown["soft"]["session"], shown["health"], shown["claim"]) == ("s1", "soft", None)
    lines = dibs.ok("who").splitlines()
    assert (lines[0], lines[3]) == ("reviewer  1 claim", "coder  1 soft claim")
    assert lines[4].split()[:4] == ["x", "t", "s1", "soft"]
    assert dibs.json("release", "x", "--soft")["soft_claim"]["session"] == "s1"
    assert len(dibs.json("who")["holdings"]) == 1
    assert dibs.refused("release", "x", "--soft")[0] == 4
    assert "claimed" not in [event["kind"] for event in dibs.json("log", "x")["events"] if event["session"] == "s1"]


@pytest.mark.parametrize(
    "words",
    [
        ("claim", "x", "--soft", "--wait", "5s"),
        ("release", "x", "--soft", "--park"),
        ("release", "x", "--soft", "--token", "1"),
    ],
    ids=" ".join,
)
def test_a_soft_claim_takes_nothing_of_a_hard_one(dibs: Dibs, words: tuple[str, ...]) -> None:
    code, error = dibs.refused(*words)
    assert (code, error["field"]) == (2, "soft")
