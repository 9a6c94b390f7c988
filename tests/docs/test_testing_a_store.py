"""docs/guides/testing-a-store.md: the small store is as it is shown, and its commands give what the guide says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from textwrap import indent

import pytest

from dibs.testing import sizes
from tests.docs.markdown import ROOT, blocks, read

GUIDE = read("docs/guides/testing-a-store.md")
INSTALL, FEW, ALL, ONE = (block.rstrip("\n") for block in blocks(GUIDE, "sh"))
SOUND, MISTAKEN = blocks(GUIDE, "text")
SMALL_STORE = ROOT / "examples" / "small_store"
SECONDS_MAX = 1800


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A folder with a copy of the small store, which a test may change."""
    copied = tmp_path / "examples" / "small_store"
    copied.mkdir(parents=True)
    for path in SMALL_STORE.glob("*.py"):
        shutil.copy(path, copied)
    return tmp_path


def typed(command: str, folder: Path) -> str:
    """What a shell prints for this command, as on a terminal of 80 columns."""
    path = f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
    environment = {"PATH": path, "HOME": str(folder), "COLUMNS": "80", "TMPDIR": str(folder)}
    ran = subprocess.run(
        ["sh", "-c", command],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert not ran.stderr, ran.stderr
    return ran.stdout


def as_shown(shown: str) -> str:
    """A pattern for an output: … stands for anything; a random id, the duration and the size of the
    suite differ each time."""
    pattern = re.escape(shown).replace("…", r"(?:.|\n)*?")
    pattern = re.sub(r"id='\w+'", r"id='\\w+'", pattern)
    pattern = re.sub(r"\d+\\ deselected", r"\\d+\\ deselected", pattern)
    return re.sub(r"\d+\\\.\d+s", r"[\\d.]+s", pattern)


def test_the_code_that_is_shown_is_that_of_the_small_store() -> None:
    code = "\n".join(path.read_text() for path in SMALL_STORE.glob("*.py"))
    shown = blocks(GUIDE, "python")
    assert len(shown) >= 3
    for block in shown:
        assert block in code or indent(block, " " * 4) in code


def test_the_command_passes_on_the_small_store(copy: Path) -> None:
    assert re.fullmatch(as_shown(SOUND), typed(FEW, copy))


def test_the_mistake_is_found_as_it_is_shown(copy: Path) -> None:
    (diff,) = blocks(GUIDE, "diff")
    removed = diff.removeprefix("-").rstrip("\n")
    store = copy / "examples" / "small_store" / "store.py"
    before = store.read_text()
    assert before.count(removed + "\n") == 1
    store.write_text(before.replace(removed + "\n", ""))
    assert re.fullmatch(as_shown(MISTAKEN), typed(ONE, copy))


@pytest.mark.nightly
def test_the_verbs_about_a_whole_board_pass_which_are_the_small_stores_own(copy: Path) -> None:
    said = typed(f"{ALL} -k 'TestWebhooks or restore'", copy)
    assert re.search(r"^\d+ passed, \d+ deselected in ", said, re.MULTILINE), said


@pytest.mark.skipif(sizes.FACTOR == 1, reason="the whole suite on the small store takes minutes: DIBS_SOAK=1 runs it")
def test_the_whole_suite_passes_on_the_small_store(copy: Path) -> None:
    said = typed(ALL, copy)
    assert re.search(r"^\d+ passed, 5 skipped in ", said, re.MULTILINE), said


def test_the_extra_installs_what_the_suite_needs() -> None:
    assert INSTALL == "pip install 'calldibs[testing]'"
    assert '\ntesting = ["pytest>=8"]\n' in read("pyproject.toml")
