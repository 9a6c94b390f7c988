"""`--brief`: short JSON on every command, with the same names and numbers as `--json`."""

from __future__ import annotations

import json
import re

import pytest

from dibs.cli.commands import COMMANDS
from dibs.cli.help import overview
from dibs.cli.parser import build
from tests.e2e.conftest import Dibs

#: Commands that read, on a board with something of everything.
READS = ("list --all", "show a", "show b", "who", "why c", "log a", "events", "runs", "stats", "sessions", "agent list")


@pytest.fixture(scope="module")
def answers(template: Dibs) -> dict[str, tuple[str, str]]:
    """What each of them prints with `--brief` and with `--json`."""
    return {words: (template.ok(*words.split(), "--brief"), template.ok(*words.split(), "--json")) for words in READS}


def test_every_command_takes_it() -> None:
    for name, command in COMMANDS.items():
        assert "--brief" in build(name, command)[0].options


@pytest.mark.parametrize("words", READS)
def test_it_is_shorter_json_on_one_line(answers: dict[str, tuple[str, str]], words: str) -> None:
    brief, full = answers[words]
    assert json.loads(brief)
    assert brief.isascii()
    assert brief.count("\n") == 1
    assert len(brief) < len(full)
    assert "null" not in brief


@pytest.mark.parametrize("words", READS)
def test_a_whole_number_has_no_fraction(answers: dict[str, tuple[str, str]], words: str) -> None:
    for text in answers[words]:
        assert not re.search(r": ?-?\d+\.0\b", text)


def test_a_claim_is_short_whatever_the_last_holder_left(dibs: Dibs, other: Dibs) -> None:
    dibs.ok("add", "Fix login", "--id", "x")
    dibs.ok("claim", "x")
    dibs.ok("annotate", "x", "--link", f"log={'l' * 60_000}", "--link", "branch=dibs/x")
    for number in range(3):
        dibs.ok("progress", "x", f"first {number} {'n' * 9_000} last {number}")
    dibs.ok("release", "x", "--reason", f"{'r' * 9_000} what to do next")
    answer = other.ok("claim", "x", "--brief")
    assert len(answer) < 18_000
    previous = json.loads(answer)["data"]["previous"]
    assert (previous["links"], previous["more_links"]) == ({"branch": "dibs/x"}, 1)
    assert previous["reason"].endswith("r what to do next")
    assert "characters left out" in previous["reason"]
    assert [(note[:7], note[-6:]) for note in previous["notes"]] == [(f"first {n}", f"last {n}") for n in range(3)]


def test_a_claim_has_what_the_next_step_needs(dibs: Dibs, other: Dibs) -> None:
    dibs.ok("add", "Fix login", "--id", "x", "--type", "bug", "--body", "It fails.", "--priority", "0")
    claimed = json.loads(dibs.ok("next", "--brief"))["claims"]
    data = {"title": "Fix login", "body": "It fails."}
    expected = {"claimed": "x", "token": 1, "remaining_seconds": 1800, "type": "bug", "priority": 0, "data": data}
    assert claimed == [expected]
    refused = other("claim", "x", "--brief")
    assert (refused.returncode, refused.stderr) == (4, "")
    error = json.loads(refused.stdout)
    assert error["error"] == "TASK_ALREADY_CLAIMED"
    assert error["do"] == "next gives other work; wait queues for this item"
    assert json.loads(dibs.ok("done", "x", "--brief")) == {"item": "x", "outcome": "done", "status": "done"}
    nothing = dibs("next", "--brief")
    assert (nothing.returncode, json.loads(nothing.stdout)) == (3, {"claims": []})
    # Before a command, and after `--`, where it is text.
    assert json.loads(dibs.ok("--brief", "add", "t", "--id", "y"))["item"]["id"] == "y"
    assert json.loads(dibs.ok("add", "--brief", "--id", "z", "--", "--brief"))["item"]["title"] == "--brief"


def test_help_names_sessions_exit_codes_and_the_stateless_form() -> None:
    said = " ".join(overview().split())
    for words in ("DIBS_SESSION", "dibs next --session ID --agent NAME", "Exit codes: 0 done", "75 try again later"):
        assert words in said


def test_prime_is_what_a_model_must_know(dibs: Dibs) -> None:
    said = dibs.ok("prime")
    assert len(said) <= 1200
    for command in set(re.findall(r"dibs ([a-z]+)", said)):
        assert command in COMMANDS or command in ("session", "board"), command
    assert dibs.json("prime")["prime"] == said
