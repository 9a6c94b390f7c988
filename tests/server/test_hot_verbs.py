"""The verbs that are served in front of FastAPI: whichever of both serves a request, the answer is the same.

A request with a query goes to FastAPI's route, and a parameter that the verb does not have is ignored there. So every
request here is sent twice, with such a parameter and without.
"""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self, cast

import pytest
from starlette.types import Receive, Scope, Send

from dibs.board import Board
from dibs.model import AGENT, VIEWER, Session
from dibs.server.api import verb_routes
from dibs.server.api.bodies import SMALL_BYTES_MAX
from dibs.server.api.verb_routes import HOT
from dibs.server.auth import callers
from dibs.server.auth.guard import BODY_BYTES_MAX, Guard
from dibs.text import json_text
from dibs.verbs import BY_NAME
from tests.kit import sqlite
from tests.kit.http import Host
from tests.kit.http_host import Served as InThread
from tests.kit.waiting import PATIENCE_SECONDS
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


def whole(caller: Caller, verb: str, *headers: str, version: str = "1.1", query: str = "") -> bytes:
    """A request in one piece; `http.client` sends head and body one after the other."""
    body = json.dumps({"session": "coder-1", **BODIES[verb]})
    lines = [
        f"POST {path_of(verb)}{query} HTTP/{version}",
        f"Host: {caller.host}:{caller.port}",
        f"Authorization: Bearer {caller.key}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        *headers,
    ]
    return "\r\n".join([*lines, "", body]).encode()


@contextmanager
def connection_of(caller: Caller) -> Iterator[tuple[socket.socket, Callable[[], http.client.HTTPResponse]]]:
    """A connection, and what reads the next answer on it."""
    with socket.create_connection((caller.host, caller.port), PATIENCE_SECONDS) as connection:
        file = connection.makefile("rb")

        def answer() -> http.client.HTTPResponse:
            found = http.client.HTTPResponse(cast("socket.socket", Unbuffered(file)))
            found.begin()
            found.read()
            return found

        yield connection, answer


class Unbuffered:
    """Lets several responses read one after the other from the same file."""

    def __init__(self, file: BufferedReader) -> None:
        self._file = file

    def makefile(self, mode: str) -> Self:
        return self

    def close(self) -> None:
        pass

    def flush(self) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


@pytest.fixture
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Caller]:
    """A caller with a session and a known key, of a server in this process."""
    monkeypatch.setattr(callers, "CACHE_SECONDS", 60.0)
    with sqlite.harness(tmp_path) as harness:
        harness.board().add("Login fails", id="fix-login")
        server = InThread(harness.recipe())
        try:
            key = harness.board().create_key(AGENT, agent="coder")[1]
            caller = Caller(f"http://127.0.0.1:{server.port}", key)
            caller.ok("POST", "/v1/sessions", {"agent": "coder", "id": "coder-1"})
            yield caller
        finally:
            server.stop()


@pytest.mark.parametrize("query", ["", QUERY])
def test_a_large_body_is_encoded_in_a_thread_of_its_own(
    inside: Caller, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not in the thread that holds the lock of the board, in which the checks of small bodies run."""
    encode, threads = json_text.encoded, []

    def encoded(data: dict[str, Any]) -> Any:
        threads.append(threading.current_thread().name.partition("_")[0])
        return encode(data)

    monkeypatch.setattr(json_text, "encoded", encoded)
    inside.ok("POST", path_of("claim"), {"session": "coder-1"})
    large = {"session": "coder-1", "note": "half", "meta": {"log": "x" * SMALL_BYTES_MAX}}
    inside.ok("POST", path_of("progress") + query, large)
    assert threads == ["long"]


def test_a_request_that_arrived_as_a_whole_needs_no_task(inside: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Guard, "__call__", unexpected)
    with connection_of(inside) as (connection, answer):
        for verb in ("claim", "progress", "release", "heartbeat", "next", "done"):
            connection.sendall(whole(inside, verb))
            assert answer().status == 200, verb
        connection.sendall(whole(inside, "release"))
        assert answer().status == 404, "a refusal of the verb needs none either"


def test_without_a_task_the_answer_is_the_same(inside: Caller) -> None:
    for verb in ("heartbeat", "progress", "claim", "progress", "release"):
        headers = ("Accept-Encoding: gzip", f"Idempotency-Key: {verb}", "Connection: close")
        one, other = (inside.bytes(whole(inside, verb, *headers, query=query)) for query in ("", QUERY))
        assert sorted(one.splitlines()) == sorted(other.splitlines()), verb


def test_whose_a_session_is_is_looked_up_for_the_first_of_many_verbs(
    inside: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    find = Board.find_session

    def noted(board: Board, session: str) -> Session:
        asked.append(session)
        return find(board, session)

    monkeypatch.setattr(Board, "find_session", noted)
    for _ in range(3):
        inside.ok("POST", "/v1/heartbeat", {"session": "coder-1"})
    assert asked == ["coder-1"]
    monkeypatch.setattr(callers, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + callers.CACHE_SECONDS))
    inside.ok("POST", "/v1/heartbeat", {"session": "coder-1"})
    assert asked == ["coder-1"] * 2


def test_a_crash_is_told_to_the_log_alone(
    inside: Caller, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def crash(*_: object, **__: object) -> None:
        raise RuntimeError("private")

    monkeypatch.setattr(verb_routes, "call", crash)
    one, other = (inside.bytes(whole(inside, "heartbeat", "Connection: close", query=query)) for query in ("", QUERY))
    assert one.startswith(b"HTTP/1.1 500")
    assert sorted(one.splitlines()) == sorted(other.splitlines())
    assert b"private" not in one
    assert ["private" in str(record.exc_info) for record in caplog.records] == [True, True]


def test_requests_in_pieces_and_several_in_one_piece_are_answered_in_order(inside: Caller) -> None:
    claim, release, done = (whole(inside, verb) for verb in ("claim", "release", "done"))
    with connection_of(inside) as (connection, answer):
        for one in (claim, release):
            for piece in (one[:20], one[20:-5], one[-5:]):
                connection.sendall(piece)
                time.sleep(0.05)
            assert answer().status == 200
        connection.sendall(claim + done + claim)
        assert [answer().status for _ in range(3)] == [200, 200, 400]


@pytest.mark.parametrize(("headers", "version"), [(["Connection: close"], "1.1"), ([], "1.0")])
def test_a_connection_ends_after_the_answer_if_its_client_wants_that(
    inside: Caller, headers: list[str], version: str
) -> None:
    found = inside.bytes(whole(inside, "heartbeat", *headers, version=version))
    assert found.startswith(b"HTTP/1.1 200")
    assert found.count(b"\r\nconnection: close\r\n") == 1


def test_a_client_that_is_gone_gets_no_answer_and_disturbs_nobody(inside: Caller) -> None:
    with connection_of(inside) as (connection, _):
        connection.sendall(whole(inside, "claim"))
    with connection_of(inside) as (connection, answer):
        connection.sendall(whole(inside, "heartbeat"))
        assert answer().status == 200
        connection.sendall(whole(inside, "done"))
        assert answer().status == 200, "the verb took effect"


async def unexpected(guard: Guard, scope: Scope, receive: Receive, send: Send) -> None:
    raise AssertionError(f"{scope['path']} got a task")
