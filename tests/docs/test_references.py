"""What the documents refer to is there: links, files, layers, make targets; and words that never stand in them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import dibs
from dibs import config
from dibs.cli.commands import COMMANDS, FAMILIES
from tests.docs.markdown import DOCUMENTS, ROOT, blocks, code, links, prose, read, section, slugs, table

#: Documents whose paths are those of the repository, or below its package.
ABOUT_CODE = ("ARCHITECTURE.md", "AGENTS.md", "CONTRIBUTING.md")
#: Files of a user, not of the repository.
OF_USERS = {"dibs.toml"}
#: Variables of the environment that belong to users, and stand in the README.
OF_A_USER = {value for name, value in vars(config).items() if name.startswith("ENV_")}
NEVER = ("exactly once", "exactly-once", "uvx dibs", "img.shields")


def check_links(text: str, folder: Path) -> None:
    for link in links(text):
        if link.startswith(("https://", "http://")):
            continue
        path, _, anchor = link.partition("#")
        target = (folder / path).resolve() if path else None
        assert target is None or target.exists(), f"{link} leads nowhere"
        if anchor:
            there = text if target is None else target.read_text(encoding="utf-8")
            assert anchor in slugs(there), f"{link}: there is no such heading"


def check_paths(text: str) -> None:
    for word in code(prose(text)):
        if re.fullmatch(r"[\w./-]+(\.(py|sql|md|toml)|/)", word) and word not in OF_USERS:
            assert any((root / word).exists() for root in (ROOT, ROOT / "src" / "dibs")), f"there is no {word}"


def check_modules(text: str) -> None:
    """Dotted names, like `tests.kit.broken`, are modules of the package."""
    for word in code(prose(text)):
        if re.fullmatch(r"dibs(\.[a-z_]+)+", word) and word not in OF_USERS:
            path = ROOT / "src" / word.replace(".", "/")
            assert path.is_dir() or path.with_suffix(".py").is_file(), f"there is no {word}"


def check_make_targets(text: str) -> None:
    targets = set(re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE))
    said = [word for block in blocks(text, "shell") for word in re.findall(r"^make ([a-z-]+)", block, re.MULTILINE)]
    said += [words.removeprefix("make ") for words in code(text) if re.fullmatch(r"make [a-z-]+", words)]
    assert set(said) <= targets


def check_commands_exist(text: str) -> None:
    """Every command that is named can be typed."""
    typed = [words for words in code(prose(text)) if words.startswith("dibs ")]
    typed += [
        line.removeprefix("$ ") for block in blocks(text, "console") for line in block.split("\n") if line[:2] == "$ "
    ]
    for words in typed:
        first, *rest = words.split()[1:]
        name = f"{first} {rest[0]}" if first in FAMILIES else first
        assert name in COMMANDS or first.startswith("-") or first.isupper(), f"there is no command {words}"


def check_layers(text: str) -> None:
    told = [set(code(modules)) for modules, _ in table(text, "layer", "what it is")]
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = [
        contract["layers"] for contract in contracts if contract["type"] == "layers" and "containers" not in contract
    ]
    assert told == [set(re.split(r" [|:] ", layer)) for layer in layers]
    for contract in contracts:
        if contract["type"] == "forbidden":
            words = section(text, "## Imports point down only").replace("dibs.store", "store")
            for module in (*contract["source_modules"], *contract["forbidden_modules"]):
                assert module.replace("dibs.store", "store") in words, f"{contract['name']}: {module} is not told"


@pytest.mark.parametrize("document", DOCUMENTS)
def test_what_a_document_refers_to_is_there(document: str) -> None:
    text = read(document)
    check_links(text, (ROOT / document).parent)
    check_make_targets(text)
    check_modules(text)
    check_commands_exist(text)
    if document in ABOUT_CODE:
        check_paths(text)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_some_words_never_stand_in_a_document(document: str) -> None:
    text = read(document).lower()
    assert not [words for words in NEVER if words in text]


def test_the_layers_are_those_that_are_kept() -> None:
    check_layers(read("ARCHITECTURE.md"))


def test_every_module_is_told_where_it_belongs() -> None:
    """A file of the package, but for what the tests are made of, has its place in AGENTS.md."""
    told = set(code(read("AGENTS.md")))
    package = ROOT / "src" / "dibs"
    for path in package.rglob("*.py"):
        name = path.relative_to(package).as_posix()
        assert path.name in ("__init__.py", "rows.py", "queries.py") or name.startswith("testing/") or name in told, (
            f"{name} has no place in AGENTS.md"
        )


def test_every_command_is_documented() -> None:
    text = read("README.md") + read("docs/protocol.md")
    for name in COMMANDS:
        assert re.search(rf"`(dibs )?{re.escape(name)}\b", text), name


def test_the_changelog_knows_this_version() -> None:
    assert re.search(rf"^## {re.escape(dibs.__version__)}\b", read("CHANGELOG.md"), re.MULTILINE)


def check_test_variables(text: str) -> None:
    """Every variable of the environment that tests and their tools ask for."""
    told = {code(name)[0] for name, _ in table(text, "variable", "meaning")}
    files = [*(ROOT / "tests").rglob("*.py"), *(ROOT / "src" / "dibs" / "testing").rglob("*.py")]
    asked = re.compile(r"environ(?:\.get\(|\[)\s*\"(DIBS_\w+)\"")
    assert told == {name for path in files for name in asked.findall(path.read_text(encoding="utf-8"))} - OF_A_USER


def test_every_variable_for_tests_is_told() -> None:
    check_test_variables(read("CONTRIBUTING.md"))


def test_agents_are_sent_to_one_place() -> None:
    assert links(read("CLAUDE.md")) == ["AGENTS.md"]
