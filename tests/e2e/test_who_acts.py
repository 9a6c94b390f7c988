"""Who acts, with real processes under real pseudo-terminals: a person, coding agents that were started from the
person's terminal, and agents that make a pseudo-terminal of their own."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from dibs.board import Board
from dibs.cli.identity import CLIENTS, MARKERS
from dibs.cli.main import main
from dibs.testing.sizes import rounds
from tests.e2e.conftest import Dibs

ROUNDS = rounds(10, 20)
PERSON_TTL_SECONDS = 8 * 3600
TTL_SECONDS = 1800
#: What the shells of real clients have in their environment, and the session and the agent that this makes.
SHELLS = {
    "claude": (
        {
            "CLAUDECODE": "1",
            "CLAUDE_CODE_SESSION_ID": "70227d14-fb7f-4ce1-b536-61dd949a35f2",
            "CLAUDE_CODE_ENTRYPOINT": "cli",
            "CLAUDE_PID": "32616",
            "AI_AGENT": "claude-code_2-1-325_harness",
        },
        "70227d14-fb7f-4ce1-b536-61dd949a35f2",
    ),
    "codex": (
        {
            "CODEX_SESSION_ID": "01a1e24e-9dbb-7da1-84bd-3b53f6d85bf6",
            "CODEX_THREAD_ID": "01a1e24e-a798-74b0-be13-6adcb6999414",
            "CODEX_CI": "1",
            "CODEX_SANDBOX_NETWORK_DISABLED": "1",
        },
        "01a1e24e-a798-74b0-be13-6adcb6999414",
    ),
    "copilot": (
        {"COPILOT_CLI": "1", "COPILOT_AGENT_SESSION_ID": "98305b16-ae82-4065-ad75-023da56d76be"},
        "98305b16-ae82-4065-ad75-023da56d76be",
    ),
}
#: How a command's streams lie when a coding agent under a person's terminal runs it. The terminal is within reach in
#: both cases: `/dev/tty` can be opened.
STREAMS = {"pipes": "{ %s; } </dev/null 2>&1 | cat", "the terminal": "%s"}

#: Runs dibs with all its streams at a new pseudo-terminal, and prints what it said there.
IN_ANOTHER_TERMINAL = (
    "import os, subprocess, sys; near, far = os.openpty(); "
    'done = subprocess.run(["dibs", *sys.argv[1:]], stdin=far, stdout=far, stderr=far); '
    "print(os.read(near, 65536).decode()); sys.exit(done.returncode)"
)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]) -> Path:
    """A folder with a board on which there are two items."""
    board = Dibs(tmp_path_factory.mktemp("prepared"), environment)
    board.ok("init")
    add(board, "x", "y")
    return board.folder


@pytest.fixture
def board(bare: Dibs, prepared: Path) -> Dibs:
    """A copy of it, and an environment without a session."""
    shutil.copytree(prepared, bare.folder, dirs_exist_ok=True)
    return bare


def add(board: Dibs, *ids: str) -> None:
    board.ok("add", "--file", "-", input="".join(json.dumps({"id": id, "title": id}) + "\n" for id in ids))


def at_terminal(board: Dibs, script: str, variables: dict[str, str]) -> str:
    """What a script prints into a terminal of its own, with these variables in its environment."""
    return Dibs(board.folder, board.environment | variables).terminal(script, columns=200)


def answers(printed: str) -> list[Any]:
    """What commands printed with `--json`, a line each."""
    return [json.loads(line) for line in printed.splitlines() if line.startswith("{")]


def exports(variables: dict[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in variables.items())


# A person


@pytest.mark.parametrize(
    "line",
    [
        "dibs claim x --json",
        "dibs claim x --json | cat",
        "echo x | while read id; do dibs claim $id --json; done",
        "while read id; do dibs claim $id --json; done <ids",
        "dibs claim x --json >out; cat out",
        "dibs claim x --json 2>err",
        "cat ids | dibs claim x --json",
        'printf "%s\\n" "$(dibs claim x --json)"',
        "dibs claim x --json </dev/null & wait",
    ],
)
def test_a_person_acts_as_the_terminal_whose_stdin_or_stderr_is_left(board: Dibs, line: str) -> None:
    (board.folder / "ids").write_text("x\n")
    (answer,) = answers(board.terminal(line))
    assert answer["claim"]["session"].startswith("tty-")
    assert (answer["claim"]["agent"], answer["claim"]["ttl_seconds"]) == ("alice", PERSON_TTL_SECONDS)
    (view,) = board.json("sessions")["sessions"]
    assert view["session"]["kind"] == "person"


def test_without_stdin_and_stderr_a_terminal_within_reach_is_nobodys(board: Dibs) -> None:
    """So does a coding agent run its commands that leaves no trace in the environment."""
    said = board.terminal("dibs claim x </dev/null >out 2>&1; echo left with $?; dibs done x </dev/null >>out 2>&1")
    assert "left with 2" in said
    assert (board.folder / "out").read_text().count("no session is known here") == 2
    assert board.json("sessions")["sessions"] == []


def test_another_terminal_than_the_controlling_one_is_nobodys(board: Dibs) -> None:
    """An agent may run a command in a pseudo-terminal of its own that is not the command's controlling terminal."""
    said = board.terminal(f"{sys.executable} -c '{IN_ANOTHER_TERMINAL}' claim x; echo left with $?")
    assert said.endswith("left with 2\n")
    assert "no session is known here" in said
    assert board.json("sessions")["sessions"] == []


# Coding agents in the person's terminal


@pytest.mark.parametrize("streams", STREAMS)
@pytest.mark.parametrize("client", SHELLS)
def test_a_clients_shell_in_the_persons_terminal_is_the_clients_session(board: Dibs, client: str, streams: str) -> None:
    variables, session = SHELLS[client]
    shell = STREAMS[streams] % f"{exports(variables)} sh -c '%s'"
    first, again, refused, mine = answers(
        board.terminal(
            "dibs claim x --json; "
            + "; ".join(shell % f"dibs claim {item} --json" for item in ("y", "y", "x"))
            + "; dibs claim x --json"
        )
    )[1:]
    assert (first["claim"]["session"], first["claim"]["agent"]) == (session, client)
    assert (first["claim"]["ttl_seconds"], first["renewed"]) == (TTL_SECONDS, False)
    assert (again["claim"]["token"], again["renewed"]) == (1, True), "two shells of one client are one session"
    assert refused["error"]["holder"]["session"].startswith("tty-")
    assert mine["renewed"], "the person holds x as before"
    kinds = {view["session"]["id"]: view["session"]["kind"] for view in board.json("sessions")["sessions"]}
    assert kinds.pop(session) == "cli"
    assert list(kinds.values()) == ["person"]


def test_the_environment_names_the_agent_of_a_clients_session(board: Dibs) -> None:
    variables, session = SHELLS["claude"]
    named = variables | {"DIBS_AGENT": "coder"}
    claim = board.json("claim", "x", environment=named)["claim"]
    assert (claim["session"], claim["agent"]) == (session, "coder")
    # The session is coder's from now on, whatever a later shell says or does not say.
    board.ok("session", "end", environment=variables)
    claim = board.json("claim", "x", environment=variables)["claim"]
    assert (claim["session"], claim["agent"], claim["token"]) == (session, "coder", 2)
    assert board.refused("claim", "y", "--agent", "someone", environment=variables)[1]["field"] == "agent"


def test_a_named_session_comes_before_a_clients(board: Dibs) -> None:
    variables = SHELLS["claude"][0] | {"DIBS_SESSION": "s1"}
    claim = board.json("claim", "x", environment=variables)["claim"]
    assert (claim["session"], claim["agent"]) == ("s1", "claude")
    claim = board.json("claim", "y", "--session", "s2", "--agent", "coder", environment=variables)["claim"]
    assert (claim["session"], claim["agent"]) == ("s2", "coder")


@pytest.mark.parametrize("given", ["two words", "x" * 129, "-x", "a\tb"])
def test_a_clients_id_that_cannot_be_a_session_is_refused_by_its_variable(board: Dibs, given: str) -> None:
    for variables in ({"CODEX_THREAD_ID": given}, {"CODEX_THREAD_ID": given, "DIBS_AGENT": "coder"}):
        done = board("claim", "x", environment=variables)
        assert (done.returncode, done.stdout) == (2, "")
        assert "CODEX_THREAD_ID" in done.stderr
        assert "export DIBS_SESSION=" in done.stderr
        assert done.stderr.count("\n") == 1
        assert len(done.stderr) < 400
    # What needs no session is not held up by it.
    assert board.json("add", "t", environment={"CODEX_THREAD_ID": given})["item"]["created_by"] == "codex"


def test_a_client_inside_another_has_to_say_which_session_acts(board: Dibs) -> None:
    """Two Codex threads in one Claude session are two agents, and nothing tells which variable is the inner one's."""
    variables = SHELLS["claude"][0] | SHELLS["codex"][0]
    code, error = board.refused("claim", "x", environment=variables)
    assert (code, error["field"]) == (2, "session")
    assert "CLAUDE_CODE_SESSION_ID and CODEX_THREAD_ID" in error["message"]
    assert board.json("claim", "x", environment=variables | {"DIBS_SESSION": "s1", "DIBS_AGENT": "coder"})["claim"]


# Agents that say of themselves that they are some


@pytest.mark.parametrize("marker", ["GEMINI_CLI", "CLAUDECODE", "AI_AGENT"])
def test_a_pseudo_terminal_made_by_an_agent_is_no_persons(board: Dibs, marker: str) -> None:
    """Gemini CLI runs its commands in a pseudo-terminal of its own, and says so with a variable and nothing else."""
    said = at_terminal(board, "dibs claim x; echo left with $?", {marker: "1"})
    assert said.endswith("left with 2\n")
    assert said.count("\n") == 2, said
    assert f"export DIBS_SESSION=$(dibs session start --agent {MARKERS[marker]})" in said.replace("\n", "")
    assert f"unset {marker}" in said
    assert board.json("sessions")["sessions"] == []


def test_what_an_agent_is_told_to_type_works(board: Dibs) -> None:
    line = "export DIBS_SESSION=$(dibs session start --agent gemini)"
    assert line in board("claim", "x", environment={"GEMINI_CLI": "1"}).stderr
    (answer,) = answers(board.terminal(f"{line}; dibs claim x --json", GEMINI_CLI="1"))
    assert (answer["claim"]["agent"], answer["claim"]["ttl_seconds"]) == ("gemini", TTL_SECONDS)
    # Whoever is a person after all goes on as one.
    (answer,) = answers(board.terminal("unset GEMINI_CLI; dibs claim y --json", GEMINI_CLI="1"))
    assert answer["claim"]["agent"] == "alice"


def test_an_empty_variable_says_nothing(board: Dibs) -> None:
    nothing = dict.fromkeys([*MARKERS, *CLIENTS, "DIBS_SESSION", "DIBS_AGENT"], "")
    (answer,) = answers(at_terminal(board, "dibs claim x --json", nothing))
    assert answer["claim"]["agent"] == "alice"


@pytest.mark.parametrize("variables", [{"DIBS_AGENT": "coder"}, {"DIBS_AGENT": "coder", "GEMINI_CLI": "1"}])
def test_a_named_agent_without_a_session_is_told_what_to_type(board: Dibs, variables: dict[str, str]) -> None:
    line = "export DIBS_SESSION=$(dibs session start --agent coder)"
    line += "; or add to every command: --session ID --agent coder"
    for command in ("claim x", "next", "done x", "session end"):
        said = at_terminal(board, f"dibs {command}; echo left with $?", variables)
        assert said == f"dibs: agent coder has no session here; start one with: {line}\nleft with 2\n"
    said = board.terminal("dibs claim x --agent coder; echo left with $?", columns=200)
    assert said == f"dibs: agent coder has no session here; start one with: {line}\nleft with 2\n"


# All of them at one terminal


def test_agents_at_one_terminal_exclude_each_other(board: Dibs) -> None:
    """What T1 of the findings tried: the item was given to three agents, each taken for the person."""
    each = "for i in 1 2 3; do (%s dibs claim %s --json >/dev/null; echo %s: $?) & done; wait"
    raced = [f"raced-{number}" for number in range(ROUNDS)]
    free = [f"free-{number}" for number in range(ROUNDS)]
    own = []
    for number in range(ROUNDS):
        ids = [f"first-{number}", f"second-{number}"]
        add(board, raced[number], free[number], *ids)
        (board.folder / "ids").write_text("\n".join(ids) + "\n")
        with_a_session = each % ("DIBS_AGENT=ag$i DIBS_SESSION=s$i", raced[number], "named")
        without_one = each % ("DIBS_AGENT=ag$i", free[number], "without")
        said = board.terminal(f"{with_a_session}; {without_one}; while read id; do dibs claim $id --json; done <ids")
        exits = sorted(line for line in said.splitlines() if re.fullmatch(r"\w+: \d+", line))
        assert exits == ["named: 0", "named: 4", "named: 4", "without: 2", "without: 2", "without: 2"]
        own += answers(said)[-2:]
        assert [answer["item"]["id"] for answer in own[-2:]] == ids
    assert {answer["claim"]["agent"] for answer in own} == {"alice"}
    holders = {line["item"]["id"]: line["claim"]["session"] for line in board.json("who")["holdings"]}
    assert {holders[id] for id in raced} <= {"s1", "s2", "s3"}
    assert not holders.keys() & set(free)


# The name in the history


@pytest.mark.parametrize(
    ("variables", "name"),
    [
        ({}, "alice"),
        ({"DIBS_AGENT": "coder"}, "coder"),
        ({"DIBS_SESSION": "started"}, "starter"),
        ({"DIBS_SESSION": "new"}, "alice"),
        ({"DIBS_SESSION": "started", "DIBS_AGENT": "coder"}, "coder"),
        (SHELLS["claude"][0], "claude"),
        (SHELLS["claude"][0] | {"DIBS_SESSION": "started"}, "starter"),
        (SHELLS["codex"][0], "codex"),
        (SHELLS["copilot"][0], "copilot"),
        ({"GEMINI_CLI": "1"}, "gemini"),
        ({"AI_AGENT": "some_agent@2"}, "agent"),
    ],
    ids=str,
)
def test_what_an_agent_does_without_a_session_is_not_recorded_as_the_persons(
    board: Dibs, variables: dict[str, str], name: str
) -> None:
    board.ok("session", "start", "--id", "started", "--agent", "starter")
    (added,) = answers(at_terminal(board, "dibs add New --id new --json", variables))
    assert added["item"]["created_by"] == name
    (added,) = answers(at_terminal(board, "dibs add Other --id other --actor bob --json", variables))
    assert added["item"]["created_by"] == "bob"


def test_a_clients_session_keeps_the_agent_it_was_started_for(board: Dibs) -> None:
    variables, session = SHELLS["claude"]
    board.ok("session", "start", "--id", session, "--agent", "reviewer")
    assert board.json("add", "t", environment=variables)["item"]["created_by"] == "reviewer"
    assert board.json("claim", "x", environment=variables)["claim"]["agent"] == "reviewer"


@pytest.mark.parametrize(
    "variables", [SHELLS["claude"][0], {"DIBS_SESSION": "s1"}, {"DIBS_SESSION": "s1", "GEMINI_CLI": "1"}], ids=str
)
def test_no_agent_approves_its_own_draft_as_the_person(board: Dibs, variables: dict[str, str]) -> None:
    if "DIBS_SESSION" in variables:
        board.ok("session", "start", "--id", "s1", "--agent", "coder")
    said = at_terminal(board, "dibs claim x && dibs submit x --draft d && dibs approve x; echo left with $?", variables)
    assert said.endswith("left with 6\n")
    assert "drafted x and cannot approve it" in said
    (approved,) = answers(board.terminal("dibs approve x --json"))
    assert approved["item"]["approved"]
    assert board.json("events", "--kind", "approved")["events"][0]["actor"] == "alice"


def test_an_agents_session_and_command_need_no_name_of_the_person(board: Dibs) -> None:
    variables, _ = SHELLS["claude"]
    session = board.json("session", "start", environment=variables)["session"]
    assert (session["agent"], session["kind"]) == ("claude", "cli")
    board.ok("exec", "x", "--", "true", environment={"GEMINI_CLI": "1"})
    assert board.json("runs", "--item", "x")["runs"][0]["agent"] == "gemini"
    (started,) = answers(board.terminal("dibs session start --json"))
    assert (started["session"]["agent"], started["session"]["kind"]) == ("alice", "person")
    assert "left with 2" in board.terminal("dibs exec y -- true </dev/null 2>/dev/null; echo left with $?")


@pytest.mark.parametrize("variables", [{"GEMINI_CLI": "1"}, {"DIBS_AGENT": "coder"}, SHELLS["codex"][0]], ids=str)
def test_an_agent_is_not_asked_what_only_a_person_can_answer(board: Dibs, variables: dict[str, str]) -> None:
    said = at_terminal(board, "dibs prune --older-than 0s; echo left with $?", variables)
    assert said == "dibs: this cannot be undone; to confirm, add --yes\nleft with 2\n"


# C4


def test_an_ended_session_is_found_without_listing_them_all(
    board: Dibs, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    board.ok("claim", "x", "--session", "s1", "--agent", "coder")
    board.ok("session", "end", "--session", "s1")

    def listed(*_: object, **__: object) -> None:
        raise AssertionError("all sessions were listed to find one")

    monkeypatch.setattr(Board, "sessions", listed)
    monkeypatch.chdir(board.folder)
    for name in [*CLIENTS, *MARKERS, "DIBS_AGENT", "DIBS_STORE"]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DIBS_SESSION", "s1")
    assert main(["heartbeat"]) == 0, "it was not started again"
    assert main(["session", "end"]) == 0
    assert main(["claim", "x", "--json"]) == 0
    *_, line = capsys.readouterr().out.splitlines()
    assert json.loads(line)["claim"]["agent"] == "coder"
