"""docs/guides/commands.md: what is typed there works, its tables are true."""

from __future__ import annotations

from pathlib import Path

from dibs import config
from dibs.worker import command, process_group, verdict
from tests.docs.markdown import blocks, code, read, section, table
from tests.docs.shop import Shop

GUIDE = read("docs/guides/commands.md")


def test_what_the_guide_types_works(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    typed = shop.type(f"set -e\n{blocks(GUIDE, 'sh')[0]}")
    assert typed.returncode == 0, typed.stdout
    assert "fix-login | fixing fix-login" in typed.stdout
    assert "fix-logout | Fix logout" in typed.stdout
    assert {run["outcome"] for run in shop.answer("dibs runs")["runs"]} == {"done"}


def test_every_variable_that_a_command_is_given_is_told() -> None:
    told = {variable for names, _ in table(GUIDE, "variable", "holds") for variable in code(names)}
    given = {value for name, value in vars(command).items() if name.startswith("ENV_")}
    ours = {config.ENV_TOKEN, config.ENV_CLAIM_FILE, config.ENV_SESSION, config.ENV_AGENT, config.ENV_STORE}
    assert told == given | ours


def test_the_exit_codes_are_those_that_are_judged_by() -> None:
    told = {number: code(outcome)[0] for number, outcome, _ in table(GUIDE, "exit code", "the run ends as")}
    another = told.pop("another, or a signal")
    assert another == "failed"
    assert told == {
        str(verdict.DONE): "done",
        str(verdict.SUBMIT): "submitted",
        str(verdict.RELEASE): "released",
    }
    exits = section(GUIDE, "## What its exit means")
    for number in (verdict.TIMED_OUT, verdict.NOT_FOUND, verdict.BY_SIGNAL):
        assert str(number) in exits
    assert process_group.GRACE_SECONDS == 3
