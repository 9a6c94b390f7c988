"""The line of the log that a request leaves: for people, for programs, or none."""

from __future__ import annotations

import asyncio
import io
import json
import logging

import pytest
from starlette.types import Message, Receive, Scope, Send

from dibs.server.auth.guard import Guard
from dibs.server.ops.logs import LogFormatter

SECRET = "dibs_0123456789_" + "x" * 43


async def crashing(scope: Scope, receive: Receive, send: Send) -> None:
    raise RuntimeError("a mistake")


async def greeting(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})


async def nothing() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


async def swallowed(message: Message) -> None:
    pass


def logged(app: object, path: str, *, as_json: bool, log: io.StringIO | None = None) -> str:
    log = log or io.StringIO()
    guard = Guard(app, hosts=frozenset({"here"}), origins=frozenset(), log=log, log_json=as_json)  # type: ignore[arg-type]
    scope: Scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "headers": [(b"host", b"here")],
        "client": ("192.0.2.7", 1),
        "state": {"caller": "0123456789"},
    }
    asyncio.run(guard(scope, nothing, swallowed))
    return log.getvalue()


def test_a_line_is_for_people_or_for_programs() -> None:
    line = logged(greeting, "/v1/who", as_json=False)
    at, method, path, status, took, client, key = line.split()
    assert (method, path, status, client, key) == ("GET", "/v1/who", "200", "192.0.2.7", "0123456789")
    assert (at[-1], took[-2:]) == ("Z", "ms")
    told = json.loads(logged(greeting, "/v1/who", as_json=True))
    assert list(told) == ["at", "method", "path", "status", "ms", "client", "key"]
    assert (told["path"], told["status"], told["key"]) == ("/v1/who", 200, "0123456789")


@pytest.mark.parametrize("as_json", [False, True])
def test_a_path_forges_no_line_and_tells_no_secret(as_json: bool) -> None:
    line = logged(greeting, f"/{SECRET}/a\n2026-01-01T00:00:00Z GET / 200\x1b[2J", as_json=as_json)
    assert line.count("\n") == 1
    assert "\x1b" not in line
    assert "xxx" not in line
    assert "dibs_0123456789_***" in line


def test_a_crash_leaves_its_line_too() -> None:
    log = io.StringIO()
    with pytest.raises(RuntimeError):
        logged(crashing, "/v1/who", as_json=False, log=log)
    assert " GET /v1/who 500 " in log.getvalue()


@pytest.mark.parametrize("as_json", [False, True])
def test_what_the_server_says_of_itself_has_the_same_form(as_json: bool) -> None:
    record = logging.LogRecord("uvicorn.error", logging.WARNING, "", 0, "odd: %s", (SECRET,), None)
    line = LogFormatter(as_json).format(record)
    assert "xxx" not in line
    if as_json:
        assert json.loads(line).keys() == {"at", "level", "message"}
    else:
        assert line.endswith("Z warning odd: dibs_0123456789_***")
