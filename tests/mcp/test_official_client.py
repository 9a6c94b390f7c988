"""The official Python client talks to dibs in both eras of the protocol, over stdio and over HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dibs.board import Board
from dibs.mcp import messages
from dibs.mcp.tools import INSTRUCTIONS, TOOLS
from dibs.model import AGENT
from tests.kit import sqlite
from tests.kit.http import Host
from tests.kit.soak import in_a_soak
from tests.server.calling import serving

ERAS = ("legacy", "auto", *in_a_soak(messages.MODERN))
VERSIONS = {"legacy": "2025-11-25", messages.MODERN: messages.MODERN, "auto": messages.MODERN}


@pytest.mark.parametrize("era", ERAS)
def test_over_stdio(board: Board, tmp_path: Path, environment: dict[str, str], era: str) -> None:
    from mcp.client.client import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "dibs.cli.main", "mcp"],
        env={**environment, "DIBS_SESSION": "s1", "PYTHONPATH": os.environ["PYTHONPATH"]},
        cwd=str(tmp_path),
    )

    @asynccontextmanager
    async def client() -> AsyncIterator[Any]:
        async with Client(stdio_client(server), mode=era) as found:
            yield found

    asyncio.run(_use(client, board, era, session=None))
    assert board.get("a").item.status == "done"
    assert board.get("b").item.status == "ready"  # given back at the end


@pytest.mark.parametrize("era", ERAS)
def test_over_http(http_host: Host, tmp_path: Path, era: str) -> None:
    import httpx2
    from mcp.client.client import Client
    from mcp.client.streamable_http import streamable_http_client

    with sqlite.harness(tmp_path) as harness, serving(http_host, harness) as served:
        secret = served.board.create_key(AGENT)[1]

        @asynccontextmanager
        async def client() -> AsyncIterator[Any]:
            async with (
                httpx2.AsyncClient(headers={"Authorization": f"Bearer {secret}"}) as http,
                Client(streamable_http_client(f"{served.url}/mcp", http_client=http), mode=era) as found,
            ):
                yield found

        asyncio.run(_use(client, served.board, era, session="s1"))
        assert served.board.get("a").item.status == "done"


async def _use(client: Callable[[], Any], board: Board, era: str, session: str | None) -> None:
    async with client() as found:
        assert found.protocol_version == VERSIONS[era]
        # A client that is told the version asks for nothing before its first call.
        assert found.instructions == (None if era == messages.MODERN else INSTRUCTIONS)
        assert len((await found.list_tools()).tools) == len(TOOLS)

        async def call(tool: str, **arguments: Any) -> Any:
            answer = await found.call_tool(tool, {**arguments, **({"session": session} if session else {})})
            assert answer.structured_content is None
            data = json.loads(answer.content[0].text)
            assert bool(answer.is_error) == ("error" in data)
            return data

        await _work(call, board)


async def _work(call: Callable[..., Awaitable[Any]], board: Board) -> None:
    for id in ("a", "b"):
        board.add(id, id=id)
    assert (await call("next"))["claimed"] == "a"
    assert (await call("done", item="a", note="ok"))["status"] == "done"
    assert (await call("claim", item="a"))["error"] == "TASK_NOT_CLAIMABLE"
    assert (await call("claim"))["error"] == "INVALID"
    # Two calls at once: one waits while the other is answered.
    board.start_session("other", id="s0")
    board.claim("b", session="s0")
    waiting = asyncio.ensure_future(call("wait", item="b"))
    while not board.get("b").waiters:
        await asyncio.sleep(0.01)
    board.release("b", session="s0")
    assert (await waiting)["claimed"] == "b"
