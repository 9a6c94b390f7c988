"""What people and models guess, from gh, git, bd, kubectl and plain English: it works, or the hint is right."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from dibs.cli import words
from dibs.cli.commands import COMMANDS
from tests.e2e.conftest import Dibs

FILE = Path(__file__).with_name("guesses.txt")
GUESSES = re.findall(r"^(\w+) {2,}(\S.*?) {2,}(works|hint): (.+)$", FILE.read_text(), re.MULTILINE)
BOARD = """
add "Fix login" --id fix-login --type bug --priority high --label ui
add "Fix logout" --id fix-logout
add "Tell users" --id tell-users --needs fix-login
add "Mine" --id mine
add "Theirs" --id theirs
add "A draft" --id draft --needs-approval
add "Over" --id over
add "Parked" --id parked
agent set coder
claim over
done over
claim mine
claim theirs --session s2 --agent reviewer
park parked
"""


@pytest.fixture(scope="module")
def guessed(shared: Dibs) -> Dibs:
    for line in BOARD.strip().splitlines():
        shared.ok(*shlex.split(line))
    return shared


@pytest.mark.parametrize(("tool", "typed", "how", "wanted"), GUESSES, ids=[f"{one[0]} {one[1]}" for one in GUESSES])
def test_a_guess_works_or_its_hint_is_right(
    guessed: Dibs, dibs: Dibs, tool: str, typed: str, how: str, wanted: str
) -> None:
    shutil.copytree(guessed.folder, dibs.folder, dirs_exist_ok=True)
    done = dibs(*shlex.split(typed))
    if how == "works":
        assert done.returncode == 0, done.stderr
        assert wanted in done.stdout + done.stderr
    else:
        assert done.returncode != 0 or done.stdout == ""
        assert wanted in done.stderr
        assert done.stderr.count("dibs: ") <= 1


def test_there_are_a_hundred_guesses() -> None:
    lines = [line for line in FILE.read_text().splitlines() if line and not line.startswith("#")]
    assert len(lines) == len(GUESSES) >= 100, "each line can be read"
    assert {tool for tool, *_ in GUESSES} >= {"gh", "git", "bd", "kubectl"}


def test_no_alias_and_no_suggestion_leads_to_a_command_that_takes_something_away() -> None:
    assert COMMANDS.keys() >= words.DESTRUCTIVE
    for name, meant in words.ALIASES.items():
        assert name not in COMMANDS
        assert not any(meant.startswith(verb) for verb in words.DESTRUCTIVE), name
    for name, hint in words.HINTS.items():
        assert name not in COMMANDS | words.ALIASES
        for verb in words.DESTRUCTIVE - {"prune"}:
            assert f"try: dibs {verb}" not in hint
            assert f"dibs {verb}" not in hint.replace(f"see: dibs help {verb}", ""), name
        assert "dibs prune" not in hint or "--dry-run" in hint


def test_every_alias_and_hint_names_commands_and_options_that_exist(bare: Dibs) -> None:
    from dibs.cli.commands import split_command
    from dibs.cli.parser import build

    def check(line: list[str]) -> None:
        name, rest = split_command(line)
        if name is None:
            return
        parser = build(name, COMMANDS[name])[0]
        for word in rest:
            assert not word.startswith("--") or word in parser.options, line

    for meant in words.ALIASES.values():
        check(meant.split())
    for hint in (*words.HINTS.values(), *words.COMMAND_OPTION_HINTS.values()):
        for line in re.findall(r"dibs ([a-z][^,;()]*)", hint):
            if line.split()[0] != "help":
                check(line.split(" -- ")[0].replace("...", "").split())
    for command, _ in (*words.COMMAND_OPTIONS, *words.COMMAND_OPTION_HINTS):
        assert command in COMMANDS
