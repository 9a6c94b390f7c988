"""The verbs that are served in front of FastAPI: whichever of both serves a request, the answer is the same.

A request with a query goes to FastAPI's route, and a parameter that the verb does not have is ignored there. So every
request here is sent twice, with such a parameter and without.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from dibs.config import ServerSettings
from dibs.model import AGENT, VIEWER
from dibs.server import app
from dibs.server.api.hot_verbs import HOT, HotVerbs
from dibs.server.auth.guard import BODY_BYTES_MAX, Guard
from dibs.server.service import Service
from dibs.verbs import BY_NAME
from tests.kit import sqlite
from tests.kit.http import Host
from tests.server.attacking import Answer, Caller, Served, served

QUERY = "?nothing=1"
#: Besides the session.
BODIES: dict[str, dict[str, Any]] = {
    "heartbeat": {},
    "next": {"n": 1},
    "claim": {"ttl_seconds": 60},
    "progress": {"note": "half of it"},
    "done": {"note": "merged"},
    "release": {"reason": "lunch"},
}
BAD_BODIES: tuple[bytes, ...] = (
    b"",
    b"null",
    b"[]",
    b"{",
    b'{"session": 1}',
    b'{"session": "no such session"}',
    b'{"session": "coder-1", "unknown": 1}',
    b'{"session": "coder-1", "wait_seconds": 5}',
    b'{"session": "coder-1", "token": "x"}',
    b'{"session": "coder-1", "note": 1, "n": "x", "reason": 1, "ttl_seconds": "x"}',
    b"{" + b'"a": 1,' * 200 + b'"session": "coder-1"}',
    b"[" * 200_000,
)


@pytest.fixture
def shop(host: Host, tmp_path: Path) -> Iterator[Served]:
    with served(host, tmp_path) as found:
        found.board.add("Login fails", id="fix-login")
        found.board.add("Another", id="another")
        yield found


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    host = Host()
    yield host
    host.close()


@pytest.fixture
def coder(shop: Served) -> Caller:
    caller = shop.caller(AGENT, "coder")
    caller.ok("POST", "/v1/sessions", {"agent": "coder", "id": "coder-1"})
    return caller


def path_of(verb: str, item: str = "fix-login") -> str:
    return BY_NAME[verb].path.replace("{item}", item)


def both(caller: Caller, path: str, body: Any = None, **options: Any) -> Answer:
    """The answer, which is the same in front of FastAPI and behind it."""
    hot, cold = (caller("POST", f"{path}{query}", body, **options) for query in ("", QUERY))
    assert (hot.status, hot.body) == (cold.status, cold.body), path
    assert _headers(hot) == _headers(cold), path
    return hot


def _headers(answer: Answer) -> list[tuple[str, str]]:
    return sorted((name, value) for name, value in answer.headers.items() if name != "date")


@pytest.mark.parametrize("verb", HOT)
def test_a_refusal_is_the_same_by_both_ways(shop: Served, coder: Caller, verb: str) -> None:
    body = {"session": "coder-1", **BODIES[verb]}
    stranger, reader, other = Caller(shop.url, "dibs_x_y"), shop.caller(VIEWER), shop.caller(AGENT, "tester")
    assert both(shop.nobody, path_of(verb), body).status == 401
    assert both(stranger, path_of(verb), body).status == 401
    assert both(reader, path_of(verb), body).status == 403
    assert both(other, path_of(verb), body).status == 403
    assert both(coder, path_of(verb), body, headers={"Host": "elsewhere"}).status == 421
    assert both(coder, path_of(verb), body, headers={"Origin": "http://elsewhere"}).status == 403
    assert both(coder, path_of(verb), body, headers={"Content-Type": "text/plain"}).status == 415
    assert both(coder, path_of(verb), body, headers={"Authorization": "Basic x"}).status == 401
    assert both(shop.nobody, path_of(verb), body, headers={"Cookie": "dibs_session=x"}).status == 403
    long = {"Content-Length": str(BODY_BYTES_MAX + 1)}
    assert both(coder, path_of(verb), raw=b"", headers=long | {"Content-Type": "application/json"}).status == 413
    for bad in BAD_BODIES:
        assert both(coder, path_of(verb), raw=bad).status in (404, 422), bad
    assert [event.kind for event in shop.board.log("fix-login")] == ["added", "claimable"], "nothing has changed"


@pytest.mark.parametrize("verb", ["claim", "progress", "done", "release"])
def test_paths_mean_the_same_by_both_ways(coder: Caller, verb: str) -> None:
    body = {"session": "coder-1", **BODIES[verb]}
    for item in ("{item}", "", "a/b", "a%2Fb", "a%20b", "%7Bitem%7D", "..", "nothing", "x" * 200):
        assert both(coder, path_of(verb, item), body).status in (404, 405, 422), item
    for more in ("/", "//", "/more", "%0A"):
        assert both(coder, path_of(verb) + more, body).status in (404, 405), more


def test_an_answer_is_the_same_by_both_ways(shop: Served, coder: Caller) -> None:
    """The second request has the idempotency key of the first, and is given its answer; a heartbeat renews nothing."""
    for number, verb in enumerate(["claim", "progress", "release", "heartbeat", "next", "done"]):
        headers = {"Idempotency-Key": f"request-{number}", "Accept-Encoding": "gzip"}
        body = {"session": "coder-1", **BODIES[verb]}
        assert both(coder, path_of(verb), body, headers=headers).status == 200, verb
    kinds = [event.kind for event in shop.board.log("fix-login")]
    assert kinds == ["added", "claimable", "claimed", "progress", "released", "claimable", "claimed", "done"]


async def unexpected(scope: Scope, receive: Receive, send: Send) -> None:
    raise AssertionError(f"{scope['path']} reached FastAPI")


def test_hot_verbs_do_not_reach_fastapi(tmp_path: Path) -> None:
    with sqlite.harness(tmp_path) as harness:
        board = harness.board()
        guard = app.make(Service(board.store, board.settings), ServerSettings(), 8377, None)
        assert isinstance(guard, Guard)
        assert isinstance(guard._app, HotVerbs)
        guard._app.app = unexpected
        for verb in HOT:
            sent: list[Message] = []

            async def receive() -> Message:
                return {"type": "http.request", "body": b"{}", "more_body": False}

            async def send(message: Message) -> None:
                sent.append(message)  # noqa: B023 - awaited in this turn of the loop

            headers = [(b"host", b"127.0.0.1:8377"), (b"content-type", b"application/json")]
            scope = {"type": "http", "method": "POST", "query_string": b"", "path": path_of(verb), "headers": headers}
            asyncio.run(guard(scope, receive, send))
            assert sent[0]["status"] == 401, verb
