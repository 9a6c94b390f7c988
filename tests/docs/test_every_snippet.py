"""Every snippet has a test that runs it, or a reason why none does: `snippets.LEDGER` has one entry for each."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.markdown import DOCUMENTS, ROOT, read
from tests.docs.snippets import LANGUAGES, LEDGER, NotRun

FENCE = re.compile(r"^ *```(\w*)[^\n]*\n(?:.*?\n)?? *```$", re.MULTILINE | re.DOTALL)


def languages(text: str) -> list[str]:
    """The languages of the snippets in a document, in order."""
    return [language for language in FENCE.findall(text) if language in LANGUAGES]


def check_ledger(document: str, text: str) -> None:
    told = [language for language, _ in LEDGER.get(document, ())]
    assert languages(text) == told, f"{document}: write into tests/docs/snippets.py how each snippet is tested"


def source(test: str) -> tuple[Path, str]:
    """The file of a test as the ledger names it, and the name of its function (empty: the whole file)."""
    module, _, name = test.rpartition(".")
    if name == "py":
        return ROOT / test, ""
    return ROOT / (f"{module}.py" if "/" in module else f"tests/docs/{module}.py"), name


@pytest.mark.parametrize("document", sorted({*DOCUMENTS, *LEDGER}))
def test_every_snippet_is_in_the_ledger(document: str) -> None:
    check_ledger(document, read(document))


def test_the_ledger_names_tests_that_read_the_page() -> None:
    for document, entries in LEDGER.items():
        for _, how in entries:
            if isinstance(how, NotRun):
                continue
            path, name = source(how.test)
            text = path.read_text(encoding="utf-8")
            assert not name or f"def {name}(" in text, f"there is no {how.test}"
            if how.test != "test_references.check_make_targets":
                assert document in text, f"{how.test} does not read {document}"


def test_a_new_snippet_and_a_missing_one_are_found() -> None:
    text = read("docs/install.md")
    with pytest.raises(AssertionError):
        check_ledger("docs/install.md", text + "\n```sh\ndibs init\n```\n")
    with pytest.raises(AssertionError):
        check_ledger("docs/install.md", text.replace("```shell", "```text", 1))
    with pytest.raises(AssertionError):
        check_ledger("docs/new.md", "```toml\n[board]\n```\n")
