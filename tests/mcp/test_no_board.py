"""Where there is no board, a server costs a model nothing: no tools and no instructions."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dibs.board import connect
from dibs.mcp import stdio
from dibs.mcp.messages import SUBSCRIPTION_KEY
from tests.mcp.client import MODERN_META, RUN, McpClient, request

CHANGED = "notifications/tools/list_changed"
SOON = f"from dibs.mcp import stdio; stdio.BOARD_LOOK_MS = 20; {RUN}"


@pytest.fixture
def empty(tmp_path: Path, environment: dict[str, str]) -> Iterator[McpClient]:
    client = McpClient(tmp_path, environment, program=SOON)
    yield client
    client.kill()


def test_a_legacy_client_is_offered_nothing_and_told_when_there_is_a_board(empty: McpClient, tmp_path: Path) -> None:
    hello = empty.ask("initialize", protocolVersion="2025-11-25")["result"]
    assert hello["capabilities"] == {"tools": {"listChanged": True}}
    assert "instructions" not in hello
    assert empty.ask("tools/list")["result"] == {"tools": []}
    assert "dibs init" in empty.call("next")["message"]
    connect(str(tmp_path / ".dibs" / "board.db"), create=True).close()
    assert empty.read() == {"jsonrpc": "2.0", "method": CHANGED}
    assert len(empty.ask("tools/list")["result"]["tools"]) == 15
    assert empty.call("next")["nothing"]
    assert "instructions" in empty.ask("initialize", protocolVersion="2025-11-25")["result"]


def test_a_modern_client_is_told_if_it_subscribed(empty: McpClient, tmp_path: Path) -> None:
    found = empty.ask("server/discover", _meta=MODERN_META)["result"]
    assert "instructions" not in found
    assert (found["capabilities"], found["ttlMs"]) == ({"tools": {"listChanged": True}}, 0)
    listed = empty.ask("tools/list", _meta=MODERN_META)["result"]
    assert (listed["tools"], listed["ttlMs"]) == ([], 0)
    for id in ("mine", "cancelled"):
        empty.send(request(id, "subscriptions/listen", _meta=MODERN_META, notifications={"toolsListChanged": True}))
        told = empty.read()
        assert told["method"] == "notifications/subscriptions/acknowledged"
        assert told["params"] == {"notifications": {"toolsListChanged": True}, "_meta": {SUBSCRIPTION_KEY: id}}
    empty.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "cancelled"}})
    empty.send({"jsonrpc": "2.0", "method": "notifications/initialized", "params": {"requestId": "mine"}})
    empty.send(request("other", "subscriptions/listen", _meta=MODERN_META, notifications={"promptsListChanged": True}))
    assert empty.read()["params"]["notifications"] == {}
    connect(str(tmp_path / ".dibs" / "board.db"), create=True).close()
    told = empty.read()
    assert (told["method"], told["params"]) == (CHANGED, {"_meta": {SUBSCRIPTION_KEY: "mine"}})
    listed = empty.ask("tools/list", _meta=MODERN_META)["result"]
    assert (len(listed["tools"]), listed["ttlMs"]) == (15, 300_000)


def test_the_number_of_subscriptions_is_bounded(empty: McpClient) -> None:
    for n in range(stdio.SUBSCRIPTIONS_MAX + 1):
        empty.send(request(n, "subscriptions/listen", _meta=MODERN_META, notifications={"toolsListChanged": True}))
    answers = [empty.read() for _ in range(stdio.SUBSCRIPTIONS_MAX + 1)]
    assert [answer["error"]["code"] for answer in answers if "error" in answer] == [-32603]
    wrong = {**MODERN_META, "io.modelcontextprotocol/protocolVersion": "1900-01-01"}
    assert empty.ask("subscriptions/listen", _meta=wrong)["error"]["code"] == -32022
    # A client of the legacy has no such method.
    assert empty.ask("subscriptions/listen")["error"]["code"] == -32601


def test_a_board_that_is_not_trusted_is_one(tmp_path: Path, environment: dict[str, str]) -> None:
    """Its calls say what to do."""
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    connect(str(tmp_path / ".dibs" / "board.db"), create=True).close()
    subprocess.run(["git", "-C", str(tmp_path), "add", "--force", ".dibs"], check=True)
    client = McpClient(tmp_path, environment)
    try:
        assert len(client.ask("tools/list")["result"]["tools"]) == 15
        assert client.call("next")["error"] == "NOT_TRUSTED"
    finally:
        client.kill()


@pytest.mark.parametrize("era", ["legacy", "auto"])
def test_the_official_client_takes_it(tmp_path: Path, environment: dict[str, str], era: Any) -> None:
    from mcp.client.client import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client
    from mcp.shared.subscriptions import ToolsListChanged

    server = StdioServerParameters(command=sys.executable, args=["-c", SOON, "mcp"], env=environment, cwd=str(tmp_path))

    async def use() -> None:
        async with Client(stdio_client(server), mode=era) as client:
            assert client.instructions is None
            assert (await client.list_tools()).tools == []
            if era == "legacy":
                return
            async with client.listen(tools_list_changed=True) as changes:
                connect(str(tmp_path / ".dibs" / "board.db"), create=True).close()
                async for change in changes:
                    assert isinstance(change, ToolsListChanged)
                    break
            assert len((await client.list_tools()).tools) == 15

    asyncio.run(use())
