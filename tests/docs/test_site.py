"""The site builds without a warning, needs nothing from elsewhere, and has every document."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from manual import site
from tests.docs.markdown import DOCUMENTS, ROOT, read


def build(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_it_builds_without_a_warning_and_is_complete(tmp_path: Path) -> None:
    """One test, because the site takes seconds to build."""
    build(tmp_path)
    check_every_document_is_a_page(tmp_path)
    check_nothing_is_loaded_from_elsewhere(tmp_path)
    check_markers_are_expanded(tmp_path)
    check_a_copied_transcript_is_what_is_typed(tmp_path)
    check_lists_are_lists(tmp_path)


def check_every_document_is_a_page(built: Path) -> None:
    for name in DOCUMENTS:
        if name.startswith("docs/"):
            place = name.removeprefix("docs/").replace("README.md", "index.md")
            assert (built / place).with_suffix(".html").exists(), name
    for place in site.BESIDE.values():
        assert (built / place).with_suffix(".html").exists(), place


def check_nothing_is_loaded_from_elsewhere(built: Path) -> None:
    for path in built.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        loaded = re.findall(r"<(?:script|img|iframe)[^>]+src=\"?([^\"\s>]+)", text)
        loaded += re.findall(r"<link[^>]+href=\"?([^\"\s>]+)", text)
        assert not [one for one in loaded if one.startswith(("http:", "https:", "//"))], path


def check_markers_are_expanded(built: Path) -> None:
    for path in (built / "reference").glob("*.html"):
        assert "generated:" not in path.read_text(encoding="utf-8")
    assert "force-release" in (built / "reference" / "commands.html").read_text(encoding="utf-8")


def check_a_copied_transcript_is_what_is_typed(built: Path) -> None:
    """The theme copies the text of a block that its style sheet shows: not the prompts and the output."""
    marked = set(re.findall(r"class=\"?(g\w)\b", (built / "start.html").read_text(encoding="utf-8")))
    hidden = re.findall(r"\[data-md-copying\] \.(\w+)", (built / "assets" / "site.css").read_text(encoding="utf-8"))
    assert marked == set(hidden) == {"gp", "go"}


def check_lists_are_lists(built: Path) -> None:
    for path in built.rglob("*.html"):
        text = re.sub(r"<pre.*?</pre>", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        assert not re.findall(r"^ *(?:[-*]|\d+\.) .*", text, re.MULTILINE), f"{path}: a list is a paragraph"
    text = (built / "guarantees.html").read_text(encoding="utf-8")
    assert text.count("<li>Shown by:<ul>") == read("docs/guarantees.md").count("\n- Shown by:\n  - "), (
        "one in the other"
    )


def test_lists_are_written_for_the_stricter_reader() -> None:
    text = "Refused:\n- one\n  goes on\n  - below\n    goes on\n- two\n\n  a paragraph of two\n\nAfter\n\n1. a\n2. b"
    clear = (
        "Refused:\n\n- one\n    goes on\n    - below\n        goes on\n- two\n\n    a paragraph of two\n\nAfter\n\n"
        "1. a\n2. b"
    )
    assert site.with_clear_lists(text) == clear


def test_links_lead_to_the_same_documents_on_the_site() -> None:
    text = (
        "[a](../ARCHITECTURE.md#x) [b](guides/vault.md) [c](../src/dibs/errors.py) [d](https://example.org) [e](#here)"
    )
    assert site.relinked(text, "docs/protocol.md") == (
        "[a](concepts/architecture.md#x) [b](guides/vault.md) [c](source/src/dibs/errors.py.txt)"
        " [d](https://example.org) [e](#here)"
    )
