"""What the sandbox of Codex lets a command write: a board in `.git` only if its folder is named, and is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.agents.codex import SANDBOX, Codex, shell


@pytest.fixture
def sandboxed(codex: Codex) -> Codex:
    if why_not := codex.why_no_sandbox():
        pytest.skip(why_not)
    return codex


def test_a_folder_in_git_can_be_written_only_if_it_is_named(sandboxed: Codex, project: Path) -> None:
    board = project / ".git" / "dibs"
    board.mkdir()
    for writable in ([], [board]):
        with sandboxed.start(
            project, [shell("touch .git/dibs/board"), "done"], sandbox=SANDBOX, writable=writable
        ) as agent:
            assert agent.wait() == 0
            assert ("Read-only file system" in agent.results[0]) is not bool(writable)
    assert (board / "board").exists()


def test_a_named_folder_that_is_missing_from_git_breaks_every_command(sandboxed: Codex, project: Path) -> None:
    missing = project / ".git" / "dibs"
    with sandboxed.start(project, [shell("echo hello"), "done"], sandbox=SANDBOX, writable=[missing]) as agent:
        assert agent.wait() == 0
        assert "bwrap" in agent.results[0]
        assert "hello" not in agent.results[0]
