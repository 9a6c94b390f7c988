"""docs/guides/worktrees.md: what is typed there works, and its figures are those of the code."""

from __future__ import annotations

import json
from pathlib import Path

from dibs.worker import output
from dibs.worker.worktree import handover, repository, worktrees
from tests.docs.markdown import blocks, code, read, table
from tests.docs.shop import Shop

GUIDE = read("docs/guides/worktrees.md")


def test_what_the_guide_types_works(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    (shop.folder / ".git" / "HEAD").unlink()  # a real repository takes its place
    identity = "git config --global user.name you; git config --global user.email you@example.org"
    typed = shop.type(f"set -e\n{identity}\n{blocks(GUIDE, 'sh')[0]}")
    assert typed.returncode == 0, typed.stdout
    assert "fix-login\n" in typed.stdout
    assert typed.stdout.count("done, not pushed") == 2
    assert typed.stdout.count("removed ") == 2
    (run,) = shop.answer("dibs runs --item fix-login")["runs"]
    assert run["links"]["worktree"] == f"{shop.folder}.worktrees/fix-login"
    notes = shop.answer("dibs show fix-login")["notes"]
    told = {field for fields, _ in table(GUIDE, "field", "meaning") for field in code(fields)}
    assert set(notes[-1]["meta"][handover.FIELD]) == told - {"problem"}, json.dumps(notes[-1])


def test_the_figures_are_those_of_the_code() -> None:
    rows = {code(field)[0]: meaning for field, meaning in table(GUIDE, "field", "meaning")}
    assert f"{repository.DIFFSTAT_LINES_MAX} files and {repository.DIFFSTAT_CHARACTERS_MAX:,}" in rows["diffstat"]
    assert f"{output.LAST_LINES} lines of output; {output.LAST_BYTES:,} bytes" in rows["output"]
    options = {code(option)[0]: meaning for option, meaning in table(GUIDE, "option", "meaning")}
    assert options["--worktrees-max N"].endswith(f"; {worktrees.WORKTREES_MAX} without it")
    assert repository.FOLDER_SUFFIX in options["--worktrees-dir DIR"]
