"""A vault for one test, and what people and other programs do to it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from dibs.board import Board
from dibs.store.vault.disk import Disk
from dibs.testing.harness import Harness
from tests.kit import vault


@pytest.fixture(params=[True, False], ids=["native", "in-steps"])
def disk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Disk]:
    """With the system's own renames, and with renames made of steps, as on file systems that lack them."""
    root = tmp_path / "vault"
    root.mkdir()
    disk = Disk(str(root), native=request.param)
    yield disk
    disk.close()


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    with vault.harness(tmp_path) as harness:
        yield harness


@pytest.fixture
def board(harness: Harness) -> Board:
    return harness.board()


@pytest.fixture
def root(tmp_path: Path, board: Board) -> Path:
    return tmp_path / "vault"


def put(root: Path, path: str, text: str = "") -> Path:
    """Write a file by hand."""
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8", newline="")
    return file


def move(root: Path, path: str, to: str) -> None:
    """As `mv` does."""
    (root / to).parent.mkdir(parents=True, exist_ok=True)
    os.rename(root / path, root / to)


def places(root: Path) -> list[str]:
    """Every markdown file of the vault, wherever it lies."""
    return sorted(
        str(file.relative_to(root)) for file in root.rglob("*.md") if file.relative_to(root).parts[0] != ".dibs"
    )


def forget_index(root: Path) -> None:
    """As `rm .dibs/vault.db*` does: the next look makes another one from the files."""
    for name in ("vault.db", "vault.db-wal", "vault.db-shm"):
        (root / ".dibs" / name).unlink(missing_ok=True)
