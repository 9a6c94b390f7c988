"""Messages that no client should send: each is answered with an error or ignored, and the server goes on."""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any

import pytest

from dibs.board import Board
from dibs.mcp import messages, tools
from tests.mcp.client import MODERN_META, McpClient, request

MODERN = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"

ERRORS: dict[str, tuple[bytes, int, Any]] = {
    "no JSON": (b"hello", -32700, None),
    "half of it": (b'{"jsonrpc": "2.0", "id": 1,', -32700, None),
    "binary": (bytes(range(11, 256)), -32700, None),
    "invalid UTF-8": (b'{"jsonrpc": "2.0", "id": 1, "method": "ping\xff"}', -32700, None),
    "deep": (b"[" * 100_000, -32700, None),
    "a number of 5,000 digits": (b'{"jsonrpc": "2.0", "id": ' + b"1" * 5000 + b"}", -32700, None),
    "NaN": (b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"a": NaN}}', -32700, None),
    "a batch": (b'[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]', -32600, None),
    "an empty batch": (b"[]", -32600, None),
    "null": (b"null", -32600, None),
    "a text": (b'"ping"', -32600, None),
    "another version of JSON-RPC": (b'{"jsonrpc": "1.0", "id": 1, "method": "ping"}', -32600, 1),
    "no method": (b'{"jsonrpc": "2.0", "id": 1}', -32600, 1),
    "a method that is a number": (b'{"jsonrpc": "2.0", "id": 1, "method": 5}', -32600, 1),
    "an id of null": (b'{"jsonrpc": "2.0", "id": null, "method": "ping"}', -32600, None),
    "an id that is an object": (b'{"jsonrpc": "2.0", "id": {}, "method": "ping"}', -32600, None),
    "an id that is true": (b'{"jsonrpc": "2.0", "id": true, "method": "ping"}', -32600, None),
    "params that are a list": (b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": []}', -32602, 1),
    "params that are null": (b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": null}', -32602, 1),
    "meta that is a text": (b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"_meta": "x"}}', -32602, 1),
    "an unknown method": (b'{"jsonrpc": "2.0", "id": 1, "method": "resources/list"}', -32601, 1),
    "an unknown tool": (
        b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "rm"}}',
        -32602,
        1,
    ),
    "a tool that is a list": (
        b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": []}}',
        -32602,
        1,
    ),
    "discover without a version": (b'{"jsonrpc": "2.0", "id": 1, "method": "server/discover"}', -32602, 1),
    "too long": (b" " * (messages.MESSAGE_BYTES_MAX + 100_000) + b"{}", -32600, None),
}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]) -> Any:
    """One server for all of them: each finds it well after the one before."""
    client = McpClient(tmp_path_factory.mktemp("abuse"), environment)
    yield client
    client.kill()


@pytest.mark.parametrize(("line", "code", "id"), ERRORS.values(), ids=ERRORS.keys())
def test_a_message_that_is_none_is_an_error(shared: McpClient, line: bytes, code: int, id: Any) -> None:
    shared.write(line + b"\n")
    found = shared.read()
    assert (found["error"]["code"], found.get("id")) == (code, id)
    assert len(json.dumps(found)) < 1000
    assert shared.ask("ping")["result"] == {}


def test_text_that_cannot_be_encoded_is_answered_as_it_came(shared: McpClient) -> None:
    shared.write(b'{"jsonrpc": "2.0", "id": "\\ud800", "method": "ping"}\n')
    assert shared.read() == {"jsonrpc": "2.0", "id": "\ud800", "result": {}}
    found = shared.ask("tools/list", _meta={MODERN: "\ud800", CAPABILITIES: {}})["error"]
    assert (found["code"], found["data"]["requested"]) == (-32022, "\ud800")
    assert shared.ask("ping\ud800")["error"]["code"] == -32601
    assert shared.ask("ping")["result"] == {}


IGNORED = {
    "an empty line": b"",
    "spaces": b" \t\r",
    "an unknown notification": b'{"jsonrpc": "2.0", "method": "notifications/none"}',
    "a notification about a request": b'{"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "next"}}',
    "an answer": b'{"jsonrpc": "2.0", "id": 1, "result": {}}',
    "an error": b'{"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "x"}}',
}


@pytest.mark.parametrize("line", IGNORED.values(), ids=IGNORED.keys())
def test_what_needs_no_answer_gets_none(shared: McpClient, line: bytes) -> None:
    shared.write(line + b"\n")
    assert shared.ask("ping")["result"] == {}


@pytest.mark.parametrize(
    ("meta", "code"),
    [
        ({MODERN: "1900-01-01", CAPABILITIES: {}}, -32022),
        ({MODERN: 5, CAPABILITIES: {}}, -32022),
        ({MODERN: "2026-07-28"}, -32602),
        ({MODERN: "2026-07-28", CAPABILITIES: "none"}, -32602),
    ],
)
def test_a_modern_request_has_a_known_version_and_capabilities(
    shared: McpClient, meta: dict[str, Any], code: int
) -> None:
    found = shared.ask("tools/list", _meta=meta)["error"]
    assert found["code"] == code
    if code == -32022:
        assert found["data"] == {"supported": list(messages.VERSIONS), "requested": str(meta[MODERN])}


@pytest.mark.parametrize("method", ["initialize", "ping", "logging/setLevel"])
def test_a_modern_client_has_no_methods_of_the_legacy(shared: McpClient, method: str) -> None:
    assert shared.ask(method, _meta=MODERN_META)["error"]["code"] == -32601


@pytest.mark.parametrize(
    ("asked", "given"), [("2025-06-18", "2025-06-18"), ("1999-01-01", "2025-11-25"), (5, "2025-11-25")]
)
def test_a_legacy_client_is_given_a_version(shared: McpClient, asked: Any, given: str) -> None:
    assert shared.ask("initialize", protocolVersion=asked)["result"]["protocolVersion"] == given


def test_a_duplicate_id_of_a_waiting_call_is_refused_without_the_id(board: Board, mcp: McpClient) -> None:
    mcp.send(request("same", "tools/call", name="next", arguments={"wait_seconds": 25}))
    mcp.send(request("same", "tools/call", name="next", arguments={"wait_seconds": 25}))
    refused = mcp.read()
    assert "id" not in refused
    board.add("x", id="x")
    assert mcp.read()["id"] == "same"


NASTY: list[Any] = [
    *(None, True, 0, -1, 1.5, 10**400, 1e308, "", " ", "x", "\ud800", "\0", "../x", "x" * 2000),
    *([], [None], [[]], ["x"] * 100, {}, {"x": None}, {"\ud800": "\udfff"}, {"a": {"b": [1, {"c": 1e308}]}}),
]


def test_every_argument_of_every_tool_may_be_anything(board: Board, mcp: McpClient) -> None:
    board.add("x", id="x")
    for tool in tools.TOOLS:
        for name in (*tool.parameters, "session"):
            for value in NASTY:
                arguments = {**dict.fromkeys(tool.required, "x"), "wait_seconds": 0, name: value}
                arguments = {one: given for one, given in arguments.items() if one in (*tool.parameters, "session")}
                found = mcp.ask("tools/call", name=tool.name, arguments=arguments)
                assert "result" in found, (tool.name, arguments)
    wrong: list[Any] = [None, [], "x", 5]
    for given in wrong:
        found = mcp.ask("tools/call", name="list", arguments=given)
        assert found["result"].get("isError", False) == (given is not None)
    assert mcp.ask("ping")["result"] == {}


def test_a_message_in_pieces_and_many_in_one_piece(mcp: McpClient) -> None:
    line = json.dumps(request(7, "ping")).encode() + b"\n"
    for byte in line:
        mcp.write(bytes([byte]))
    assert mcp.read()["id"] == 7
    mcp.write(line * 100)
    assert [mcp.read()["id"] for _ in range(100)] == [7] * 100


def test_the_last_message_needs_no_newline(mcp: McpClient) -> None:
    mcp.write(json.dumps(request(8, "ping")).encode())
    mcp.process.stdin.close()  # type: ignore[union-attr]
    assert mcp.read()["id"] == 8
    assert mcp.process.wait(30) == 0


def test_a_client_that_does_not_read_ends_the_server(board: Board, mcp: McpClient) -> None:
    board.add("x", id="x")
    mcp.call("claim", item="x")
    mcp.process.stdout.close()  # type: ignore[union-attr]
    mcp.send(request(9, "ping"))
    assert mcp.process.wait(30) == 0
    assert board.get("x").item.status == "ready"


def test_a_client_that_leaves_without_reading_does_not_keep_the_server(board: Board, mcp: McpClient) -> None:
    board.add("x", id="x")
    mcp.call("claim", item="x")
    assert mcp.process.stdin is not None
    os.set_blocking(mcp.process.stdin.fileno(), False)
    flood = json.dumps(request(1, "tools/list")).encode() + b"\n"
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(mcp.process.stdin.fileno(), flood)
    mcp.process.stdin.close()
    assert mcp.process.wait(60) == 0
    assert board.get("x").item.status == "ready"
