"""What the README says is so: its transcript, its snippets, its tables."""

from __future__ import annotations

import inspect
import re
import sys
import tomllib
from pathlib import Path

from dibs import config
from dibs.board import Board
from dibs.cli.claim_commands import NOTHING
from dibs.cli.main import INTERRUPTED
from dibs.cli.parser import UsageError
from dibs.errors import DibsError
from tests.docs.markdown import ROOT, blocks, code, prose, read, table
from tests.docs.shop import Shop, steps

README = read("README.md")


def check_transcript(text: str, shop: Shop) -> None:
    """What is typed in the whole document, one after the other on one board."""
    first, *others = blocks(text, "console")
    told = [step for transcript in (first, *others) for step in steps(transcript)]
    for command, output in told:
        assert shop.normal(shop.type(command).stdout) == shop.normal(output), f"$ {command}"
    for needed in ("dibs init", "dibs add", "dibs claim", "dibs done", "dibs log"):
        assert needed in first
    for needed in ("dibs wait", " --needs ", " --not-before ", " --resource ", "dibs submit", "dibs approve"):
        assert needed in " ".join(others)


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


def test_the_transcript_is_what_happens(tmp_path: Path) -> None:
    check_transcript(README, Shop(tmp_path))


def test_the_agents_lines_work_as_they_stand(tmp_path: Path) -> None:
    (lines,) = blocks(README, "sh")
    shop = Shop(tmp_path)
    shop.type('dibs init && dibs add "Fix login" --id fix-login')
    done = shop.type(f"set -e\n{lines}")
    assert done.returncode == 0, done.stdout
    shown = shop.answer("dibs show fix-login")
    assert shown["item"]["status"] == "done"
    assert shown["runs"][0]["links"] == {"pr": "https://example.org/pull/7"}
    assert [note["note"] for note in shown["notes"]] == ["the cause is in auth.py"]
    assert shop.answer("dibs sessions")["sessions"] == []


def test_the_python_snippet_runs(tmp_path: Path) -> None:
    (snippet,) = blocks(README, "python")
    shop = Shop(tmp_path)
    shop.type('dibs init && dibs add "Fix login" && dibs add "Fix logout"')
    (shop.folder / "snippet.py").write_text(snippet)
    done = shop.type(f"{sys.executable} -W error snippet.py")
    assert (done.returncode, done.stdout) == (0, "")
    assert [item["status"] for item in shop.answer("dibs list --all")["items"]] == ["done", "done"]


def test_the_configuration_is_accepted(tmp_path: Path) -> None:
    (example,) = blocks(README, "toml")
    shop = Shop(tmp_path)
    (shop.folder / config.FILE_NAME).write_text(example)
    shop.type("dibs init")
    (agent,) = shop.answer("dibs agent list")["agents"]
    assert (agent["name"], agent["types"], agent["max_claims"]) == ("reviewer", ["review"], 2)
    shop.type('dibs add "Look at it" --id x')
    assert shop.answer("dibs claim x --session s --agent coder")["claim"]["ttl_seconds"] == 2700


def test_every_setting_is_in_the_table_with_its_default() -> None:
    check_settings(README)


def test_every_field_of_an_agent_is_named() -> None:
    check_agents(README)


def test_every_variable_of_the_environment_is_in_the_table() -> None:
    check_environment(README)


def test_every_exit_code_is_in_the_table() -> None:
    check_exit_codes(README)


def test_the_first_screen_has_what_it_should() -> None:
    first = README[: README.index("\n## ")]
    assert first.count("](docs/guarantees.md#") >= 6, "each promise with its proof"
    assert "make run" in first
    assert "make test" in first
    assert len(first.split("\n")) <= 60


def test_the_command_is_installed_under_both_names() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert f"pip install {project['name']}" in README
    for name in project["scripts"]:
        assert re.search(rf"`{name}`", prose(README))
