"""The OpenAPI document against the server: whatever is sent, each reply is documented, and none is a server error."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dibs.testing import sizes, sqlite
from dibs.testing.conformance.asking import added
from dibs.testing.http import Host

EXAMPLES, EXAMPLES_SOAK = 4, 200
#: An answer that never ends cannot be compared with its description; restoring would take away what others ask for.
LEFT_OUT = ("stream", "restore")
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
