"""Calls that wait: for work, or in the queue of an item. They can be cancelled, and block no other call."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dibs.board import Board
from dibs.mcp import messages, stdio
from tests.kit.http import Host
from tests.kit.waiting import until
from tests.mcp.client import McpClient, data_of, request
from tests.server.attacking import served

Start = Callable[..., McpClient]


WAIT = {"name": "wait", "arguments": {"item": "x", "wait_seconds": 0}}


@pytest.fixture
def held(board: Board) -> Board:
    """Session s0 holds x."""
    board.add("x", id="x")
    board.start_session("other", id="s0")
    board.claim("x", session="s0")
    return board


def test_a_wait_ends_with_the_claim_when_the_item_is_free(held: Board, mcp: McpClient) -> None:
    id = mcp.start_call("wait", {"progressToken": "p"}, item="x")
    progress = mcp.read()
    assert progress["method"] == "notifications/progress"
    assert progress["params"] == {"progressToken": "p", "progress": 1, "message": "position 1 in the queue"}
    assert mcp.call("who")["holdings"][0]["waiters"] == 1  # another call is answered meanwhile
    held.done("x", session="s0")
    refused = mcp.read()
    assert refused["id"] == id
    assert data_of(refused)["error"] == "TASK_NOT_CLAIMABLE"
    held.add("y", id="y")
    held.claim("y", session="s0")
    mcp.start_call("wait", item="y")
    until(lambda: held.get("y").waiters)
    held.release("y", session="s0")
    assert data_of(mcp.read())["claimed"] == "y"
    assert not held.get("y").waiters


def test_a_wait_that_takes_longer_answers_with_the_place_and_keeps_it(held: Board, mcp: McpClient) -> None:
    place = mcp.call("wait", item="x", wait_seconds=0.1)
    assert place["position"] == 1
    assert place["ticket"] == held.get("x").waiters[0].id > 0
    assert place["holder"] == {"agent": "other", "session": "s0"}
    assert "again" in place["do"]
    (ticket,) = held.get("x").waiters
    assert mcp.call("wait", item="x", wait_seconds=0.1)["ticket"] == place["ticket"]
    (again,) = held.get("x").waiters
    assert (again.session, again.since_at) == ("s1", ticket.since_at)


def test_a_cancelled_wait_leaves_the_queue_and_is_not_answered(held: Board, mcp: McpClient) -> None:
    id = mcp.start_call("wait", item="x")
    until(lambda: held.get("x").waiters)
    mcp.cancel(id)
    until(lambda: not held.get("x").waiters)
    held.done("x", session="s0")
    assert mcp.ask("ping")["result"] == {}


def test_a_cancelled_next_is_given_nothing(held: Board, mcp: McpClient) -> None:
    mcp.call("who")
    id = mcp.start_call("next", wait_seconds=25)
    mcp.cancel(id)
    mcp.cancel(id)
    mcp.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": [1]}})
    mcp.send({"jsonrpc": "2.0", "method": "notifications/cancelled"})
    # The next call under the same id is accepted once the cancelled one is over.
    until(lambda: "in use" not in str(_ask_again(mcp, id)))
    held.add("y", id="y")
    assert held.get("y").item.status == "ready"


def test_only_a_cancellation_with_the_id_of_a_call_cancels_it(held: Board, mcp: McpClient) -> None:
    id = mcp.start_call("wait", item="x")
    assert id == 1
    until(lambda: held.get("x").waiters)
    for method, other in (("cancelled", True), ("none", 1), ("cancelled", 1.0)):
        mcp.send({"jsonrpc": "2.0", "method": f"notifications/{method}", "params": {"requestId": other}})
    assert mcp.ask("ping")["result"] == {}
    held.release("x", session="s0")
    assert data_of(mcp.read())["claimed"] == "x"


def _ask_again(mcp: McpClient, id: int) -> object:
    mcp.send({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "wait", "arguments": {}}})
    return mcp.read()


def test_next_waits_for_work_and_reports_that_it_does(board: Board, mcp: McpClient) -> None:
    mcp.start_call("next", {"progressToken": 7}, wait_seconds=25)
    progress = mcp.read()
    assert progress["method"] == "notifications/progress"
    assert progress["params"] == {"progressToken": 7, "progress": 1, "message": "nothing to claim yet"}
    board.add("x", id="x")
    assert data_of(mcp.read())["claimed"] == "x"
    # What need not wait reports nothing.
    board.add("y", id="y")
    assert mcp.call("next", {"progressToken": 8}, wait_seconds=25)["claimed"] == "y"


def test_a_call_that_still_waits_reports_so_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = messages.read(request(1, "tools/call", _meta={"progressToken": "p"}))
    assert asked is not None
    sent: list[dict[str, Any]] = []
    call = stdio.Call(asked, sent.append)
    call.wait_for("one")
    for _ in range(3):
        call.report()
    assert len(sent) == 1
    monkeypatch.setattr(stdio, "PROGRESS_SECONDS", 0)
    call.report()
    call.wait_for("two")
    call.report()
    told = [(one["params"]["progress"], one["params"]["message"]) for one in sent]
    assert told == [(1, "one"), (2, "one"), (3, "two")]


def test_the_end_of_the_connection_ends_waits(held: Board, mcp: McpClient) -> None:
    mcp.start_call("wait", item="x")
    until(lambda: held.get("x").waiters)
    assert mcp.end() == 0
    assert not held.get("x").waiters


def test_the_number_of_waiting_calls_is_bounded(held: Board, mcp: McpClient) -> None:
    mcp.call("who")
    ids = [mcp.start_call("wait", {"threadId": f"w{n}"}, item="x") for n in range(stdio.WAITS_MAX + 1)]
    refused = mcp.read()
    assert refused["id"] == ids[-1]
    assert refused["error"]["code"] == -32603
    for id in ids:
        mcp.cancel(id)
    until(lambda: not held.get("x").waiters and "error" not in mcp.ask("tools/call", **WAIT))


def test_the_holder_that_waits_for_its_own_item_has_it(held: Board, start: Start) -> None:
    holder = start(DIBS_SESSION="s0", DIBS_AGENT="other")
    assert holder.call("wait", item="x")["renewed"] is True
    assert not held.get("x").waiters


def test_waiters_are_served_in_order(held: Board, start: Start) -> None:
    clients = [start(DIBS_SESSION=f"w{n}", DIBS_AGENT="coder") for n in range(2)]
    for place, client in enumerate(clients, start=1):
        client.start_call("wait", item="x")
        _await_waiters(held, place)
    threading.Timer(0, lambda: held.release("x", session="s0")).start()
    for client in clients:
        assert data_of(client.read())["claimed"] == "x"
        client.call("release", item="x")


def _await_waiters(board: Board, count: int) -> None:
    until(lambda: len(board.get("x").waiters) == count)


def test_a_wait_on_the_board_of_a_server_can_be_cancelled_too(
    http_host: Host, tmp_path: Path, environment: dict[str, str]
) -> None:
    with served(http_host, tmp_path) as shop:
        shop.board.add("x", id="x")
        shop.board.start_session("other", id="s0")
        shop.board.claim("x", session="s0")
        about = {"DIBS_STORE": shop.url, "DIBS_KEY": shop.admin.key or "", "DIBS_SESSION": "s1", "DIBS_AGENT": "coder"}
        mcp = McpClient(tmp_path, environment | about)
        try:
            id = mcp.start_call("wait", item="x")
            until(lambda: shop.board.get("x").waiters)
            mcp.cancel(id)
            until(lambda: not shop.board.get("x").waiters)
            mcp.start_call("wait", item="x")
            until(lambda: shop.board.get("x").waiters)
            shop.board.release("x", session="s0")
            assert data_of(mcp.read())["claimed"] == "x"
            assert mcp.end() == 0
        finally:
            mcp.kill()
        assert shop.board.get("x").item.status == "ready"
