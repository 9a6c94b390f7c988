"""A small board with something in every list, on its own clock."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dibs.board import Board
from tests.conformance.conftest import folder  # noqa: F401
from tests.kit import sqlite
from tests.kit.sqlite import SqliteHarness


@pytest.fixture
def harness(folder: Path) -> Iterator[SqliteHarness]:  # noqa: F811
    with sqlite.harness(folder) as made:
        yield made


@pytest.fixture
def board(harness: SqliteHarness) -> Board:
    made = harness.board()
    for session in ("s-1", "s-2", "s-3"):
        made.start_session("coder" if session == "s-1" else "fixer", id=session, kind="autonomous")
    made.add("Login fails on Safari", id="fix-login", priority=10, labels=["web"])
    made.add("Migrate orders", id="db-migrate", priority=8, type="bug")
    made.add("Tell them that login works", id="letter-42", priority=8)
    made.add("Publish the prices", id="prices", needs_approval=True)
    made.add("Document the webhooks", id="docs-42", priority=3)
    made.add("Release 2", id="release-2", depends_on=["fix-login"])
    made.claim("fix-login", session="s-1")
    made.progress("fix-login", "tests green, pushing", session="s-1")
    made.claim("db-migrate", session="s-2")
    made.fail("db-migrate", session="s-2", reason="tests red")
    made.claim("letter-42", session="s-2")
    made.submit("letter-42", session="s-2", draft="Dear customer, it works.")
    made.wait("fix-login", session="s-3")
    return made
