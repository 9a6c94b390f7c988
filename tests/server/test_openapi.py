"""The OpenAPI document against the server: whatever is sent, each reply is documented, and none is a server error."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import jsonschema_rs
import pytest

from dibs.testing import sizes
from dibs.testing.conformance.asking import added
from tests.kit import sqlite
from tests.kit.http import Host
from tests.server.calling import Caller

EXAMPLES, EXAMPLES_SOAK = 2, 200
#: An answer that never ends cannot be compared with its description; restoring would take away what others ask for; and
#: ids that were answered are asked for, also that of the key which it asks with.
LEFT_OUT = ("stream", "restore", "revoke_key")
JSON = "application/json"
#: A board refuses what has the right shape and the wrong meaning, and says so with 422: that is no contradiction.
UNWANTED = "positive_data_acceptance"


@pytest.fixture
def server(http_host: Host, folder: Path) -> Iterator[tuple[str, str]]:
    with sqlite.harness(folder) as harness:
        board = harness.board()
        added(board, "fix-login", "plan", "build")
        board.start_session("coder", id="coder-1")
        url, key = http_host.serve(harness.recipe(), wait_seconds_max=0.5)
        yield url, key
        http_host.stop(url)


def test_every_reply_is_documented_and_none_is_an_error_of_the_server(server: tuple[str, str]) -> None:
    url, key = server
    soak = sizes.FACTOR > 1
    command = [sys.executable, "-m", "schemathesis.cli", "run", f"{url}/openapi.json", "--no-color"]
    command += ["--header", f"Authorization: Bearer {key}", "--exclude-checks", UNWANTED, "--request-timeout", "30"]
    command += ["--phases", "examples,coverage,fuzzing" if soak else "examples,coverage", "--workers", "2"]
    command += ["--max-examples", str(EXAMPLES_SOAK if soak else EXAMPLES), "--suppress-health-check", "all"]
    for operation in LEFT_OUT:
        command += ["--exclude-operation-id", operation]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert Caller(url, key).get("/v1/me").status == 200, "the key it asked with is not good any more"


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
