"""Who acts: named sessions, the terminal's own, and none at all."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest

from tests.e2e.conftest import Dibs

LINE_TO_TYPE = "export DIBS_SESSION=$(dibs session start --agent NAME)"
#: How `unshare` starts a process that sees no process of ours.
PID_NAMESPACE = ("--pid", "--fork", "--mount-proc")


@pytest.fixture
def board(bare: Dibs) -> Dibs:
    """A board with an item, and no session."""
    bare.ok("init")
    bare.ok("add", "Fix login", "--id", "x")
    return bare


@pytest.mark.parametrize(
    "words",
    [("claim", "x"), ("next",), ("done", "x"), ("release", "x"), ("heartbeat",), ("wait", "x")],
)
def test_off_a_terminal_without_a_session_it_exits_2_with_the_line_to_type(board: Dibs, words: tuple[str, ...]) -> None:
    done = board(*words)
    assert (done.returncode, done.stdout) == (2, "")
    stateless = "or add to every command: --session ID --agent NAME"
    assert done.stderr == f"dibs: no session is known here; start one with: {LINE_TO_TYPE}; {stateless}\n"
    code, error = board.refused(*words)
    assert (code, error["code"], error["field"]) == (2, "INVALID", "session")


def test_why_needs_no_session_and_starts_none(board: Dibs) -> None:
    for words in ((), ("--session", "new-here"), ("--agent", "coder")):
        (claimable, rank) = board.json("why", "x", *words)["reasons"]
        assert (claimable["code"], rank["code"]) == ("CLAIMABLE", "NEXT")
    board.ok("claim", "x", "--agent", "coder", "--session", "coder-1")
    (reason,) = board.json("why", "x")["reasons"]
    assert (reason["code"], "coder-1" in reason["text"]) == ("TASK_ALREADY_CLAIMED", True)
    sessions = board.json("sessions", "--all")["sessions"]
    assert [view["session"]["id"] for view in sessions] == ["coder-1"]


def test_the_line_to_type_works(board: Dibs) -> None:
    script = f"{LINE_TO_TYPE.replace('NAME', 'coder')} && dibs claim x && dibs done x"
    done = board.shell(script)
    assert done.returncode == 0, done.stderr


def test_a_session_that_is_new_needs_an_agent(board: Dibs) -> None:
    named = {"DIBS_SESSION": "s1"}
    done = board("claim", "x", environment=named)
    assert done.returncode == 2
    assert "--agent NAME" in done.stderr
    assert board.json("claim", "x", "--agent", "coder", environment=named)["claim"]["agent"] == "coder"
    assert board.json("claim", "x", environment=named)["claim"]["agent"] == "coder"


def test_the_environment_names_the_agent_of_a_new_session_only(board: Dibs) -> None:
    board.ok("session", "start", "--id", "s1", "--agent", "coder")
    claim = board.json("claim", "x", environment={"DIBS_SESSION": "s1", "DIBS_AGENT": "someone-else"})["claim"]
    assert claim["agent"] == "coder"


def test_one_session_spans_shells(board: Dibs) -> None:
    named = {"DIBS_SESSION": "s1", "DIBS_AGENT": "coder"}
    assert board.shell("dibs claim x", **named).returncode == 0
    assert board.shell("dibs done x; true", **named).stderr == ""
    assert board.json("show", "x")["item"]["status"] == "done"


def test_a_sweep_from_another_pid_namespace_takes_nothing_away(board: Dibs) -> None:
    unshare = shutil.which("unshare")
    if unshare is None or subprocess.run([unshare, *PID_NAMESPACE, "true"], capture_output=True).returncode:
        pytest.skip("a pid namespace cannot be made here: it needs unshare and the right to use it")
    named = {"DIBS_SESSION": "s1", "DIBS_AGENT": "coder"}
    assert board.shell("dibs claim x", **named).returncode == 0
    swept = board.shell(f"{unshare} {' '.join(PID_NAMESPACE)} dibs sweep --json")
    assert not any(json.loads(swept.stdout).values())
    assert board.shell("dibs done x; true", **named).stderr == ""
    assert board.json("show", "x")["item"]["status"] == "done"


def test_a_terminal_is_one_session_for_all_its_commands(board: Dibs) -> None:
    said = board.terminal("dibs claim x --json; sh -c 'dibs claim x --json'; (dibs claim x --json | cat)")
    claims = [json.loads(line)["claim"] for line in said.splitlines()]
    assert len({claim["session"] for claim in claims}) == 1
    assert claims[0]["session"].startswith("tty-")
    assert {claim["token"] for claim in claims} == {1}


def test_two_terminals_are_two_sessions(board: Dibs) -> None:
    first = json.loads(board.terminal("dibs claim x --json"))
    second = json.loads(board.terminal("dibs claim x --json"))
    assert second["error"]["holder"]["session"] == first["claim"]["session"]


def test_at_a_terminal_a_person_needs_no_name(board: Dibs) -> None:
    claim = json.loads(board.terminal("dibs claim x --json"))["claim"]
    assert (claim["agent"], claim["ttl_seconds"]) == ("alice", 8 * 3600)
    assert board.json("sessions")["sessions"][0]["session"]["kind"] == "person"


def test_a_terminals_session_that_ended_is_started_again(board: Dibs) -> None:
    said = board.terminal("dibs claim x && dibs session end && dibs claim x --json")
    claim = json.loads(said.splitlines()[-1])["claim"]
    assert (claim["token"], claim["agent"]) == (2, "alice")


def test_a_named_session_comes_before_the_terminals(board: Dibs) -> None:
    said = board.terminal("dibs claim x --json", DIBS_SESSION="s1", DIBS_AGENT="coder")
    assert json.loads(said)["claim"]["session"] == "s1"
    said = board.terminal("dibs claim x --session s2 --json", DIBS_SESSION="s1", DIBS_AGENT="coder")
    assert json.loads(said)["error"]["holder"]["session"] == "s1"


def test_a_command_never_owns_its_session(board: Dibs) -> None:
    board.terminal("dibs claim x")
    assert board.json("sessions")["sessions"][0]["session"]["owner"] is None


def test_session_start_prints_the_id_and_nothing_else(board: Dibs) -> None:
    printed = board.ok("session", "start", "--agent", "coder")
    assert printed.startswith("coder-")
    assert printed.count("\n") == 1
    meta = ("--kind", "autonomous", "--meta", '{"model": "m"}')
    session = board.json("session", "start", "--id", "mine", "--agent", "coder", *meta)["session"]
    assert (session["id"], session["kind"], session["meta"]) == ("mine", "autonomous", {"model": "m"})


def test_session_start_without_an_agent_exits_2_with_the_line_to_type(board: Dibs) -> None:
    done = board("session", "start")
    assert (done.returncode, done.stdout) == (2, "")
    assert LINE_TO_TYPE in done.stderr


def test_session_end_says_what_was_released(board: Dibs) -> None:
    named = {"DIBS_SESSION": "s1", "DIBS_AGENT": "coder"}
    board.ok("claim", "x", environment=named)
    assert board.ok("session", "end", environment=named) == "ended s1  released x\n"
    assert board.json("show", "x")["item"]["status"] == "ready"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="owner processes are recorded on Linux only")
def test_the_death_of_an_owner_frees_its_items(board: Dibs) -> None:
    owner = subprocess.Popen(["sleep", "60"])
    try:
        board.ok("session", "start", "--id", "s1", "--agent", "coder", "--owner-pid", str(owner.pid))
        board.ok("claim", "x", "--session", "s1")
        assert board.refused("claim", "x", "--session", "s2", "--agent", "other")[0] == 4
    finally:
        owner.kill()
        owner.wait()
    assert board.json("claim", "x", "--session", "s2", "--agent", "other")["previous"]["run"]["outcome"] == "owner_died"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="owner processes are recorded on Linux only")
def test_a_holder_whose_owner_died_finishes_if_nobody_took_over(board: Dibs) -> None:
    owner = subprocess.Popen(["sleep", "60"])
    try:
        board.ok("session", "start", "--id", "s1", "--agent", "coder", "--owner-pid", str(owner.pid))
        board.ok("claim", "x", "--session", "s1")
    finally:
        owner.kill()
        owner.wait()
    assert board.json("sweep")["owner_died"] == ["x"]
    done = board("done", "x", "--session", "s1", "--json")
    assert (done.returncode, json.loads(done.stdout)["run"]["token"]) == (0, 2)


def test_an_owner_that_is_not_there_is_refused(board: Dibs) -> None:
    code, error = board.refused("session", "start", "--agent", "coder", "--owner-pid", str(2**22 + os.getpid()))
    assert (code, error["field"]) == (1, "owner_pid")
