"""The reference is complete: every command, option, setting, variable, exit code, error, event and route is in it."""

from __future__ import annotations

import inspect
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from dibs import config
from dibs.board import Board
from dibs.cli.claim_commands import NOTHING
from dibs.cli.commands import COMMANDS
from dibs.cli.main import INTERRUPTED
from dibs.cli.parser import UsageError
from dibs.errors import DibsError
from dibs.rules.event_kinds import BY_NAME
from dibs.verbs import VERBS
from manual import man, reference
from tests.docs.markdown import blocks, code, read, table
from tests.docs.shop import Shop

SETTINGS = read("docs/reference/settings.md")


def page(name: str) -> str:
    """A page of the reference as the site has it."""
    return reference.expand(read(f"docs/reference/{name}.md"))


def check_agents(text: str) -> None:
    """Everything that `[agents.NAME]` may say."""
    (said,) = re.findall(r"^`\[agents\.NAME\]`(.*?)^$", text, re.MULTILINE | re.DOTALL)
    told = {word for word in code(said) if "_" in word or word in ("types", "role")}
    assert told == set(inspect.signature(Board.set_agent).parameters) - {"self", "name"}


def check_settings(text: str) -> None:
    rows = table(text, "setting", "default")
    told = {code(name)[0]: tomllib.loads(f"value = {code(default)[0]}")["value"] for name, default, _ in rows}
    assert told == config.DEFAULTS.as_dict()
    assert list(told) == list(config.Settings._fields), "in the order of the code"


def check_environment(text: str) -> None:
    told = {code(name)[0] for name, _ in table(text, "variable", "meaning")}
    known = {value for name, value in vars(config).items() if name.startswith("ENV_")}
    assert told == known | {"NO_COLOR"}


def check_exit_codes(text: str) -> None:
    told = {int(number) for number, _ in table(text, "code", "meaning")}
    given = {0, NOTHING, INTERRUPTED, UsageError.exit_code, *(kind.exit_code for kind in kinds(DibsError))}
    assert told == given


def kinds(of: type[DibsError]) -> set[type[DibsError]]:
    """This kind of refusal and those below it, of the core."""
    below = {kind for child in of.__subclasses__() for kind in kinds(child)}
    return {kind for kind in {of, *below} if kind.__module__ == "dibs.errors"}


def test_every_setting_is_in_the_table_with_its_default() -> None:
    check_settings(SETTINGS)


def test_every_field_of_an_agent_is_named() -> None:
    check_agents(SETTINGS)


def test_the_configuration_is_accepted(tmp_path: Path) -> None:
    (example,) = blocks(SETTINGS, "toml")
    shop = Shop(tmp_path)
    (shop.folder / config.FILE_NAME).write_text(example)
    shop.type("dibs init")
    (agent,) = shop.answer("dibs agent list")["agents"]
    assert (agent["name"], agent["types"], agent["max_claims"]) == ("reviewer", ["review"], 2)
    shop.type('dibs add "Look at it" --id x')
    assert shop.answer("dibs claim x --session s --agent coder")["claim"]["ttl_seconds"] == 2700


def test_every_variable_of_the_environment_is_in_the_table() -> None:
    check_environment(read("docs/reference/environment.md"))


def test_every_exit_code_is_in_the_table() -> None:
    check_exit_codes(read("docs/reference/exit-codes.md"))


def test_every_command_is_there() -> None:
    assert set(re.findall(r"^### (.+)$", page("commands"), re.MULTILINE)) == set(COMMANDS)


def test_every_error_is_there() -> None:
    text = page("errors")
    told = set(re.findall(r"^## ([A-Z_]+)$", text, re.MULTILINE))
    assert told == {kind.code for kind in kinds(DibsError)} - {DibsError.code}


def test_every_kind_of_event_is_there() -> None:
    told = [code(row[0])[0] for row in table(page("events"), "kind")]
    assert told == list(BY_NAME)


def test_every_route_is_there() -> None:
    text = page("http")
    told = {(code(method)[0], code(path)[0]) for method, path, *_ in table(text, "method", "path")}
    assert {(verb.method, verb.path.replace(":path", "")) for verb in VERBS} <= told
    assert told == {(method, path) for method, path, *_ in reference.operations()}


def test_the_man_pages_are_right_for_groff(tmp_path: Path) -> None:
    if shutil.which("groff") is None:
        pytest.skip("groff is not installed here")
    for path in man.write(tmp_path):
        done = subprocess.run(
            ["groff", "-man", "-Tutf8", "-wall", "-z", str(path)], cwd=tmp_path, capture_output=True, text=True
        )
        assert (done.returncode, done.stderr) == (0, "")
