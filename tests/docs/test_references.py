"""What the documents refer to is there: links, files, layers, make targets; and words that never stand in them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import dibs
from dibs import config
from dibs.cli.commands import COMMANDS, FAMILIES
from dibs.cli.parser import build
from tests.docs.markdown import DOCUMENTS, ROOT, blocks, code, links, prose, read, section, slugs, table

PACKAGE = ROOT / "src" / "dibs"
#: Documents whose paths are those of the repository, or below its package.
ABOUT_CODE = ("ARCHITECTURE.md", "AGENTS.md", "CONTRIBUTING.md", "docs/guarantees.md")
#: Its folders hold code of others, which is not described.
FOREIGN = ROOT / "tests" / "sources"
#: Files of a user, not of the repository.
OF_USERS = {"dibs.toml"}
#: Variables of the environment that belong to users, and stand in the reference.
OF_A_USER = {value for name, value in vars(config).items() if name.startswith("ENV_")}
MODULE_LINES_MAX = 400
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


def check_numbers_at_line_starts(text: str) -> None:
    """A number that a line begins with is the next one of a list, and not a number of a sentence that was wrapped."""
    last = 0
    for number in map(int, re.findall(r"^ *(\d+)\. ", prose(text), re.MULTILINE)):
        assert number in (1, last + 1), f"a line begins with {number}."
        last = number


def path_of(word: str) -> Path:
    found = [root / word for root in (ROOT, PACKAGE) if (root / word).exists()]
    assert found, f"there is no {word}"
    return found[0]


def check_paths(text: str) -> None:
    for word in code(prose(text)):
        if re.fullmatch(r"[\w./-]+(\.(py|sql|md|toml)|/)", word) and word not in OF_USERS:
            path_of(word)


def defines(source: str, name: str) -> bool:
    """Whether a source defines every part of a name: a class and its method, a function, a constant."""
    return all(
        re.search(rf"(def|class) {part}\b|^ *{part}(:| =)|FUNCTION dibs\.{part}\(", source, re.MULTILINE)
        for part in name.split(".")
    )


def check_names(text: str) -> None:
    """What a document says to be in a file, as in `claim` in `rules/claiming.py`, is defined there; and every
    `Class.method` is defined somewhere."""
    text = prose(text)
    for names, file in re.findall(r"((?:`[\w.]+`(?:,| and)?\s+)+)in\s+`([\w./]+\.(?:py|sql))`", text):
        source = path_of(file).read_text(encoding="utf-8")
        for name in code(names):
            assert defines(source, name), f"there is no {name} in {file}"
    sources = [path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")]
    for name in code(text):
        if re.fullmatch(r"[A-Z]\w*[a-z]\w*\.\w+", name):
            kind = "class " + name.partition(".")[0]
            assert any(kind in source and defines(source, name) for source in sources), f"there is no {name}"


def check_rooms(text: str) -> None:
    """The tree names every package of the project, and nothing that does not exist."""
    (tree,) = blocks(section(text, "## The tree"), "text")
    above: list[str] = []
    named: set[Path] = set()
    for line in tree.splitlines():
        indent, names = re.findall(r"^((?:  )*)(\S+(?: \S+)*)", line)[0]
        del above[len(indent) // 2 :]
        for name in names.split(" "):
            path = ROOT.joinpath(*above, name)
            assert path.exists(), f"there is no {path}"
            named.add(path)
        above.append(name)
    rooms = {path.parent for root in (PACKAGE, ROOT / "tests") for path in root.rglob("__init__.py")}
    missing = {room for room in rooms - named if FOREIGN not in room.parents}
    assert not missing, f"the tree does not name {missing}"


def check_modules(text: str) -> None:
    """Dotted names, like `dibs.testing.conformance`, are modules of the package."""
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
    """Every command that is named can be typed, with the options that it is named with."""
    typed = [words for words in code(prose(text)) if words.startswith("dibs ")]
    for language in ("console", "sh", "shell", "text"):
        lines = "\n".join(blocks(text, language)).split("\n")
        typed += [line.removeprefix("$ ") for line in lines if line.startswith(("dibs ", "$ dibs "))]
    for words in typed:
        # What follows belongs to another command, and what is in quotes is a text.
        own = re.split(r" (?:--|[|#]|&&) |;", re.sub(r"\"[^\"]*\"|'[^']*'", "", words))[0]
        first, *rest = own.split()[1:] or ["--help"]
        name = f"{first} {rest[0]}" if first in FAMILIES else first
        assert name in COMMANDS or first.startswith("-") or first.isupper(), f"there is no command {words}"
        if name in COMMANDS:
            known = build(name, COMMANDS[name])[0].options
            assert set(re.findall(r"(?<=\s)--?[a-z][a-z-]*", own)) <= set(known), f"there is no such option: {words}"


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
    check_numbers_at_line_starts(text)
    check_make_targets(text)
    check_modules(text)
    check_commands_exist(text)
    if document in ABOUT_CODE:
        check_paths(text)
        check_names(text)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_some_words_never_stand_in_a_document(document: str) -> None:
    text = read(document).lower()
    assert not [words for words in NEVER if words in text]


def test_the_layers_are_those_that_are_kept() -> None:
    check_layers(read("ARCHITECTURE.md"))


def test_every_room_is_in_the_tree() -> None:
    check_rooms(read("ARCHITECTURE.md"))


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


@pytest.mark.parametrize("folder", ["src", "bench", "examples"])
def test_no_module_is_longer_than_the_limit(folder: str) -> None:
    lines = {path: len(path.read_text().splitlines()) for path in (ROOT / folder).rglob("*.py")}
    assert lines
    assert {path: count for path, count in lines.items() if count > MODULE_LINES_MAX} == {}
