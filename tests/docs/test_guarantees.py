"""docs/guarantees.md: each promise says what it does not mean, how it is kept, and names tests that exist."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from tests.docs.markdown import DOCUMENTS, ROOT, read, section

GUARANTEES = read("docs/guarantees.md")
PROMISES = {*(f"S{number}" for number in range(1, 13)), *(f"L{number}" for number in range(1, 5))}
NAME = re.compile(r"\btest_[a-z0-9_]+\b(?!\.py)")


def check_promises(text: str) -> None:
    headings = re.findall(r"^### ((?:S|L)\d+) .+$", text, re.MULTILINE)
    assert sorted(headings) == sorted(PROMISES)
    for line in re.findall(r"^### (?:S|L)\d+ .+$", text, re.MULTILINE):
        said = section(text, line)
        assert "**" in said, f"{line}: what is promised"
        assert "\n- Not meant" in said, f"{line}: what is not"
        assert "\n- How: " in said, line
        assert NAME.search(said.partition("\n- Shown by:")[2]), f"{line} names no test"


def check_named_tests(text: str, folder: Path) -> None:
    """Every test that is named exists; where a file is linked before it, in that file."""
    for name in NAME.findall(text):
        assert any(name in found for found in defined().values()), f"there is no {name}"
    for shown in re.findall(r"\[[^\]]+\]\(([^)]+\.py)\):((?:\s+`test_\w+`,?)+)", text):
        path, names = (folder / shown[0]).resolve(), set(NAME.findall(shown[1]))
        assert names <= defined()[path], f"not in {path.name}: {names - defined()[path]}"


@cache
def defined() -> dict[Path, frozenset[str]]:
    """The tests of every file that may hold some."""
    files = [*(ROOT / "tests").rglob("*.py"), *(ROOT / "src" / "dibs" / "testing").rglob("*.py")]
    return {
        path: frozenset(re.findall(r"^\s*def (test_\w+)\(", path.read_text(encoding="utf-8"), re.M)) for path in files
    }


def test_every_promise_has_all_its_parts() -> None:
    check_promises(GUARANTEES)


def test_every_named_test_exists() -> None:
    for document in DOCUMENTS:
        check_named_tests(read(document), (ROOT / document).parent)


def test_most_names_stand_behind_the_file_they_are_in() -> None:
    """The check by file sees what it should: a changed layout of the document would blind it."""
    by_file = re.findall(r"\[[^\]]+\]\(([^)]+\.py)\):((?:\s+`test_\w+`,?)+)", GUARANTEES)
    assert sum(len(NAME.findall(names)) for _, names in by_file) == len(NAME.findall(GUARANTEES))


def test_no_promise_waits_for_the_night() -> None:
    """A test that a promise names runs in `make test`, at least for one store."""
    later = re.compile(r"^@pytest\.mark\.nightly\n(?:@.*\n)*(?:async )?def (test_\w+)", re.MULTILINE)
    left_out = {name for path in defined() for name in later.findall(path.read_text(encoding="utf-8"))}
    assert left_out
    assert left_out.isdisjoint(NAME.findall(GUARANTEES))
