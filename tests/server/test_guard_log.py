"""The line of the log that a request leaves: for people, for programs, or none."""

from __future__ import annotations

import asyncio
import io
import json
import logging

import pytest
from starlette.types import Message, Receive, Scope, Send

from dibs.server.auth.guard import Guard
from dibs.server.ops.logs import AccessLog, LogFormatter
from dibs.server.ops.refused_keys import LINES_MAX

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


def refused(count: int, *, as_json: bool) -> tuple[list[str], list[str]]:
    """What the log has of so many requests with a refused key: their lines, and the sums."""
    stream, sums = io.StringIO(), Sums()
    logging.getLogger().addHandler(sums)

    async def send() -> None:
        log = AccessLog(stream, as_json)
        for n in range(count):
            headers = [(b"authorization", f"Bearer dibs_id{n % 2}_{'x' * 43}".encode())]
            log.write(
                {"method": "GET", "path": "/v1/me", "client": ("10.0.0.9", 1), "headers": headers, "state": {}},
                401,
                0.001,
            )
        await asyncio.sleep(0)
        log.refused_keys.sum_up()

    try:
        asyncio.run(send())
    finally:
        logging.getLogger().removeHandler(sums)
    return stream.getvalue().splitlines(), sums.found


class Sums(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(record.getMessage())


def test_a_refused_key_is_named_by_its_public_id() -> None:
    (line,), sums = refused(1, as_json=True)
    assert json.loads(line)["refused_key"] == "id0"
    assert "xxxx" not in line
    assert sums == []
    (line,), _ = refused(1, as_json=False)
    assert line.endswith(" refused:id0")


def test_a_flood_of_refused_keys_is_summed_up() -> None:
    lines, (told,) = refused(5_000, as_json=True)
    assert len(lines) == LINES_MAX
    assert told == (
        "5000 requests without a valid key in a minute, from 10.0.0.9 (5000); their keys: id0 (2500), id1 (2500)"
    )
