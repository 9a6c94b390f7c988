"""A board in a folder, and clients of `dibs mcp` there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dibs.board import Board, connect
from tests.e2e.conftest import bare, environment, settings  # noqa: F401  fixtures
from tests.mcp.client import McpClient


@pytest.fixture
def board(tmp_path: Path) -> Iterator[Board]:
    with connect(str(tmp_path / ".dibs" / "board.db"), folder=str(tmp_path), create=True) as board:
        yield board


@pytest.fixture
def start(board: Board, tmp_path: Path, environment: dict[str, str]) -> Iterator[Callable[..., McpClient]]:  # noqa: F811
    """Starts `dibs mcp` in the folder of the board; keywords are variables of its environment."""
    started: list[McpClient] = []

    def start(*words: str, **variables: str) -> McpClient:
        started.append(McpClient(tmp_path, environment | variables, *words))
        return started[-1]

    yield start
    for client in started:
        client.kill()


@pytest.fixture
def mcp(start: Callable[..., McpClient]) -> McpClient:
    """A client as session s1 of coder."""
    return start(DIBS_SESSION="s1", DIBS_AGENT="coder")
