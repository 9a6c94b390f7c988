"""`/mcp` of the server: keys and roles as on every other route, and a session that each call names."""

from __future__ import annotations

import base64
import http.client
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from dibs.model import AGENT, VIEWER
from tests.kit.http import Host
from tests.kit.waiting import until
from tests.mcp.client import MODERN_META, data_of, request
from tests.server.attacking import Caller, Served, served
from tests.server.process import Background

MODERN_HEADERS = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list"}


@pytest.fixture(scope="module")
def shop(http_host: Host, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(http_host, tmp_path_factory.mktemp("mcp")) as found:
        yield found


def call(caller: Caller, tool: str, **arguments: Any) -> Any:
    answer = caller("POST", "/mcp", request(1, "tools/call", name=tool, arguments=arguments))
    assert answer.status == 200, answer.body
    return data_of(answer.json)


def test_a_key_works_through_the_tools_as_the_session_that_it_names(shop: Served) -> None:
    mine, other = shop.caller(AGENT, "ann"), shop.caller(AGENT, "bob")
    shop.board.add("a", id="a")
    assert call(mine, "next", session="ann-1")["claimed"] == "a"
    session = shop.board.find_session("ann-1")
    assert (session.agent, session.kind, session.owner) == ("ann", "mcp", None)
    assert call(other, "claim", item="a", session="bob-1")["error"] == "TASK_ALREADY_CLAIMED"
    for tool in ("done", "claim", "release", "wait"):
        refused = call(other, tool, item="a", session="ann-1")
        assert (refused["error"], refused["do"]) == ("FORBIDDEN", "choose another id as session")
    assert call(mine, "done", item="a", session="ann-1")["status"] == "done"
    added = call(other, "add", title="by bob", session="bob-1")
    assert shop.board.get(added["id"]).item.created_by == "bob"


def test_a_call_without_a_session_is_told_to_choose_one(shop: Served) -> None:
    shop.board.add("b", id="b")
    for tool in ("next", "claim", "wait", "done"):
        refused = call(shop.caller(AGENT), tool, **({} if tool == "next" else {"item": "b"}))
        assert (refused["error"], refused["field"]) == ("INVALID", "session")
        assert "eight random characters" in refused["message"]
    listed = shop.caller(AGENT)("POST", "/mcp", request(1, "tools/list")).json["result"]["tools"]
    assert all(
        ("session" in tool["inputSchema"]["properties"]) != tool["annotations"]["readOnlyHint"] for tool in listed
    )
    assert shop.board.get("b").item.status == "ready"


def test_roles_hold_for_tools(shop: Served) -> None:
    viewer = shop.caller(VIEWER)
    shop.board.add("c", id="c")
    assert call(viewer, "show", item="c")["id"] == "c"
    assert call(viewer, "why", item="c")["reasons"]
    assert call(viewer, "list")["items"]
    for tool, arguments in (("next", {}), ("claim", {"item": "c"}), ("add", {"title": "x"}), ("wait", {"item": "c"})):
        assert call(viewer, tool, **arguments, session="v")["error"] == "FORBIDDEN"
    assert shop.nobody("POST", "/mcp", request(1, "ping")).status == 401
    assert shop.board.get("c").item.status == "ready"


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
def test_only_post_is_served(shop: Served, method: str) -> None:
    assert shop.admin(method, "/mcp").status == 405


def test_a_page_of_another_origin_or_under_another_name_is_refused(shop: Served) -> None:
    body = request(1, "tools/list")
    assert shop.admin("POST", "/mcp", body, headers={"Origin": "https://evil.example"}).status == 403
    assert shop.admin("POST", "/mcp", body, headers={"Host": "evil.example"}).status == 421
    assert shop.admin("POST", "/mcp", body, headers={"Content-Type": "text/plain"}).status == 415


def test_bad_messages_are_errors_of_the_protocol(shop: Served) -> None:
    for body, status, code in (
        (b"hello", 400, -32700),
        (b"", 400, -32700),
        (b"[]", 400, -32600),
        (b"5", 400, -32600),
        (json.dumps(request(1, "resources/list")).encode(), 404, -32601),
        (json.dumps(request(1, "tools/call", name="none")).encode(), 400, -32602),
        (json.dumps(request(1, "server/discover")).encode(), 400, -32602),
    ):
        answer = shop.admin("POST", "/mcp", raw=body)
        assert (answer.status, answer.json["error"]["code"]) == (status, code), body
    notification = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert shop.admin("POST", "/mcp", notification).status == 202


def test_the_headers_of_a_modern_request_agree_with_its_body(shop: Served) -> None:
    body = request(1, "tools/list", _meta=MODERN_META)
    assert shop.admin("POST", "/mcp", body, headers=MODERN_HEADERS).status == 200
    for wrong in (
        {"MCP-Protocol-Version": "2025-11-25"},
        {"MCP-Protocol-Version": "1900-01-01"},
        {"Mcp-Method": "tools/call"},
    ):
        answer = shop.admin("POST", "/mcp", body, headers=MODERN_HEADERS | wrong)
        assert (answer.status, answer.json["error"]["code"]) == (400, -32020)
    called = request(1, "tools/call", name="who", _meta=MODERN_META)
    headers = MODERN_HEADERS | {"Mcp-Method": "tools/call"}
    encoded = f"=?base64?{base64.b64encode(b'who').decode()}?="
    for name, status in (("who", 200), (encoded, 200), ("next", 400), ("=?base64?!?=", 400)):
        assert shop.admin("POST", "/mcp", called, headers=headers | {"Mcp-Name": name}).status == status
    assert shop.admin("POST", "/mcp", called, headers=headers).json["error"]["code"] == -32020
    legacy = shop.admin("POST", "/mcp", request(1, "ping"), headers={"MCP-Protocol-Version": "1900-01-01"})
    assert (legacy.status, legacy.json["error"]["code"]) == (400, -32022)
    older = {"MCP-Protocol-Version": "2025-06-18"}
    assert shop.admin("POST", "/mcp", request(1, "ping"), headers=older).status == 200


def test_a_client_that_disconnects_leaves_the_queue(shop: Served) -> None:
    shop.board.add("d", id="d")
    shop.board.start_session("other", id="s0")
    shop.board.claim("d", session="s0")
    caller = shop.caller(AGENT, "eve")
    call(caller, "why", item="d", session="eve-1")
    connection = http.client.HTTPConnection(urlsplit(shop.url).netloc)
    body = json.dumps(request(1, "tools/call", name="wait", arguments={"item": "d", "session": "eve-1"}))
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {caller.key}"}
    connection.request("POST", "/mcp", body, headers)
    until(lambda: shop.board.get("d").waiters)
    connection.close()
    until(lambda: not shop.board.get("d").waiters)


def test_a_revoked_key_gets_nothing_from_a_wait(shop: Served) -> None:
    key, secret = shop.board.create_key(AGENT, agent="kim")
    caller = Caller(shop.url, secret)
    shop.board.add("e", id="e", type="rare", not_before="2099-01-01T00:00Z")
    call(caller, "claim", item="e", session="kim-1")
    waiting = Background(
        lambda: caller(
            "POST",
            "/mcp",
            request(
                1, "tools/call", name="next", arguments={"types": ["rare"], "wait_seconds": 25, "session": "kim-1"}
            ),
        )
    )
    shop.admin.ok("POST", f"/v1/keys/{key.id}/revoke")
    shop.board.edit("e", not_before=None)
    answer = waiting.result()
    assert answer.status == 401 or data_of(answer.json)["error"] == "UNAUTHENTICATED"
    assert shop.board.get("e").item.status == "ready"
