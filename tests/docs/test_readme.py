"""What the README and the first pages say is so: their transcripts, their snippets, their lists."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import pytest

from tests.docs.markdown import ROOT, blocks, prose, read
from tests.docs.shop import Shop, steps

README = read("README.md")
START = read("docs/start.md")
#: Pages whose transcripts are typed one after the other, each page on a new board, and the commands that they show.
TRANSCRIPTS = {
    "README.md": ("dibs init", "dibs add", "dibs claim", "dibs done", "dibs log"),
    "docs/start.md": ("dibs init", "dibs add", "dibs claim", "dibs done", "dibs log"),
    "docs/guides/waiting.md": ("dibs wait", " --needs ", " --not-before ", " --resource "),
    "docs/guides/mcp.md": ("dibs add",),
    "docs/guides/approvals.md": ("dibs agent set", "dibs submit", "dibs approve"),
}
README_LINES_MAX = 160


def check_transcript(text: str, shop: Shop) -> None:
    """What is typed in the whole document, one after the other on one board."""
    told = [step for transcript in blocks(text, "console") for step in steps(transcript)]
    if told[0][0] != "dibs init":
        shop.type("dibs init")
    for command, output in told:
        assert shop.normal(shop.type(command).stdout) == shop.normal(output), f"$ {command}"


@pytest.mark.parametrize("document", TRANSCRIPTS)
def test_the_transcript_is_what_happens(tmp_path: Path, document: str) -> None:
    text = read(document)
    check_transcript(text, Shop(tmp_path))
    for needed in TRANSCRIPTS[document]:
        assert needed in "".join(blocks(text, "console"))


def test_the_agents_lines_work_as_they_stand(tmp_path: Path) -> None:
    (lines,) = blocks(START, "sh")
    shop = Shop(tmp_path)
    check_transcript(START, shop)  # as a reader of the page does it: the item of the transcript is done by then
    done = shop.type(f"set -e\n{lines}")
    assert done.returncode == 0, done.stdout
    shown = shop.answer("dibs show fix-logout")
    assert shown["item"]["status"] == "done"
    assert shown["runs"][0]["links"] == {"pr": "https://example.org/pull/7"}
    assert [note["note"] for note in shown["notes"]] == ["the cause is in auth.py"]
    live = [one["session"]["id"] for one in shop.answer("dibs sessions")["sessions"]]
    assert sorted(live) == ["coder-1", "fixer-1"], "those of the transcript; the one of the lines has ended"


def test_the_python_snippet_runs(tmp_path: Path) -> None:
    (snippet,) = blocks(START, "python")
    shop = Shop(tmp_path)
    shop.type('dibs init && dibs add "Fix login" && dibs add "Fix logout"')
    (shop.folder / "snippet.py").write_text(snippet)
    done = shop.type(f"{sys.executable} -W error snippet.py")
    assert (done.returncode, done.stdout) == (0, "")
    assert [item["status"] for item in shop.answer("dibs list --all")["items"]] == ["done", "done"]


def test_the_first_screen_has_what_it_should() -> None:
    first = README[: README.index("\n## ")]
    assert first.count("](docs/guarantees.md#") >= 6, "each promise with its proof"
    assert "make run" in first
    assert "make test" in first
    assert len(first.split("\n")) <= 60
    assert len(README.split("\n")) <= README_LINES_MAX


def test_the_command_is_installed_under_both_names() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for text in (README, read("docs/install.md")):
        assert f"pip install {project['name']}" in text
        for name in project["scripts"]:
            assert re.search(rf"`{name}`", prose(text))


def test_every_extra_is_described() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    told = set(re.findall(r"^\| `([a-z]+)` \|", read("docs/install.md"), re.MULTILINE))
    assert told == set(extras)
