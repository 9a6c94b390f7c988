"""The OpenAPI document against the server: whatever is sent, each reply is documented, and none is a server error."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jsonschema_rs
import pytest

from dibs.testing.conformance.asking import added
from tests.kit import sqlite
from tests.kit.http import Host
from tests.server.calling import Caller

EXAMPLES = 200
#: An answer that never ends cannot be compared with its description; restoring would take away what others ask for; and
#: ids that were answered are asked for, also that of the key which it asks with. Webhooks would send to made-up URLs.
LEFT_OUT = ("stream", "restore", "revoke_key", "add_webhook", "send_webhook")
JSON = "application/json"
#: A board refuses what has the right shape and the wrong meaning, and says so with 422: that is no contradiction.
UNWANTED = "positive_data_acceptance"
#: Bodies of no operation, and values of no field or parameter that has another type.
NO_BODIES = (None, b"", b"{", b"\xff", b"null", b"[]", b'"text"', b"[" * 10_000, b'{"unknown": 1}')
WRONG: tuple[Any, ...] = (None, True, -1, 2**70, "", "\0", "x" * 2000, [[]], {"a": {}})
WRONG_WORDS = ("", "-1", "9" * 30, "%00", "%ff", "a%20b", "[]", "x" * 2000)


@pytest.fixture
def server(http_host: Host, folder: Path) -> Iterator[tuple[str, str]]:
    with sqlite.harness(folder) as harness:
        board = harness.board()
        added(board, "fix-login", "plan", "build")
        board.start_session("coder", id="coder-1")
        url, key = http_host.serve(harness.recipe(), wait_seconds_max=0.5)
        yield url, key
        http_host.stop(url)


@pytest.mark.soak
def test_every_reply_is_documented_and_none_is_an_error_of_the_server(server: tuple[str, str]) -> None:
    url, key = server
    command = [sys.executable, "-m", "schemathesis.cli", "run", f"{url}/openapi.json", "--no-color"]
    command += ["--header", f"Authorization: Bearer {key}", "--exclude-checks", UNWANTED, "--request-timeout", "30"]
    command += ["--phases", "examples,coverage,fuzzing", "--workers", "2"]
    command += ["--max-examples", str(EXAMPLES), "--suppress-health-check", "all"]
    for operation in LEFT_OUT:
        command += ["--exclude-operation-id", operation]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert Caller(url, key).get("/v1/me").status == 200, "the key it asked with is not good any more"


def test_what_is_malformed_is_refused_as_it_is_documented(server: tuple[str, str]) -> None:
    caller = Caller(*server)
    document = caller.get("/openapi.json").body
    wrong, asked = [], 0
    for path, method, operation in operations(document):
        for at, data in malformed(document, path, operation):
            reply = caller.ask(method.upper(), at, data)
            asked += 1
            if reply.status >= 500 or str(reply.status) not in operation["responses"]:
                wrong.append(f"{method} {at[:80]} {data!r:.80}: {reply.status}")
            elif reply.status >= 400 and not {"type", "error"} & reply.body.keys():
                wrong.append(f"{method} {at[:80]} {data!r:.80}: {reply.body!r:.80}")
    assert not wrong, "\n".join(wrong)
    assert asked > 1000
    assert caller.get("/v1/me").status == 200


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if operation.get("operationId") not in LEFT_OUT:
                yield path, method, operation


def malformed(document: dict[str, Any], path: str, operation: dict[str, Any]) -> Iterator[tuple[str, bytes | None]]:
    """Requests of an operation, each with one kind of mistake in it."""
    parameters = operation.get("parameters", [])
    plain = re.sub(r"\{\w+\}", "fix-login", path)
    if "{" in path:
        yield from ((re.sub(r"\{\w+\}", quote(word, safe="%"), path), b"{}") for word in WRONG_WORDS if word)
    named = [one["name"] for one in parameters if one["in"] == "query"]
    yield from ((f"{plain}?{name}={word}", None) for name in named for word in WRONG_WORDS)
    body = operation.get("requestBody", {}).get("content", {}).get(JSON)
    if body is not None:
        yield from ((plain, data) for data in NO_BODIES)
        schema = body["schema"]
        if "$ref" in schema:
            schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        for value in WRONG:
            yield plain, json.dumps(dict.fromkeys(schema.get("properties", {}), value)).encode()


def test_every_answer_has_an_example_that_its_schema_describes(server: tuple[str, str]) -> None:
    document = Caller(server[0], None).get("/openapi.json").body
    answers = [
        (path, method, status, kind, content)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        for status, response in operation["responses"].items()
        for kind, content in response.get("content", {}).items()
    ]
    without = [place for *place, content in answers if "example" not in content and place[2:] == ["200", JSON]]
    assert not without
    shown = [(place, content) for *place, content in answers if "example" in content]
    assert {place[2] for place, _ in shown} == {"200", "206", "409"}
    for place, content in shown:
        schema = {**content["schema"], "components": document["components"]}
        assert content["schema"], place
        wrong = [error.message for error in jsonschema_rs.validator_for(schema).iter_errors(content["example"])]
        assert not wrong, (place, wrong)


def test_what_is_no_json_is_not_described_as_json(server: tuple[str, str]) -> None:
    paths = Caller(server[0], None).get("/openapi.json").body["paths"]
    for path in ("/v1/export", "/v1/backup", "/api/events", "/metrics"):
        assert JSON not in paths[path]["get"]["responses"]["200"]["content"], path
