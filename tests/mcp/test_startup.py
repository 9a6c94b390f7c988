"""The server stays light: what it has imported when it answers first, and after a claim."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from dibs.board import Board
from tests.e2e.test_startup import FORBIDDEN
from tests.mcp.client import request

#: Runs the server, then prints what it has imported.
LIST_MODULES = """
import sys
from dibs.cli.main import main
code = main(["mcp"])
sys.stderr.write("\\n".join(sys.modules))
sys.exit(code)
"""
#: JSON is what it reads, and signals end it.
FIRST = {"json", "re", "signal"}
#: The keeper of claims is a thread.
CLAIM = FIRST | {"contextlib", "threading"}


@pytest.mark.parametrize(
    ("message", "allowed"),
    [
        (request(1, "initialize", protocolVersion="2025-11-25"), FIRST),
        (request(1, "tools/list"), FIRST),
        (request(1, "tools/call", name="claim", arguments={"item": "x"}), CLAIM),
    ],
    ids=["initialize", "tools/list", "claim"],
)
def test_an_answer_imports_nothing_heavy(
    board: Board, tmp_path: Path, environment: dict[str, str], message: object, allowed: set[str]
) -> None:
    board.add("x", id="x")
    script = f"import sys; sys.path[:] = {sys.path!r}; {'; '.join(LIST_MODULES.strip().splitlines())}"
    done = subprocess.run(
        [sys.executable, "-S", "-c", script],
        cwd=tmp_path,
        env=environment,
        input=json.dumps(message),
        capture_output=True,
        text=True,
        check=True,
    )
    assert '"result"' in done.stdout
    imported = set(done.stderr.split())
    assert imported & FORBIDDEN <= allowed
    if allowed is FIRST:
        # The store is the heavier half; to look for a board needs only the names of its files.
        stores = {name for name in imported if name.startswith(("dibs.store", "dibs.board", "apsw"))}
        assert stores == {"dibs.store", "dibs.store.vault", "dibs.store.vault.layout"}
    assert not {name for name in imported if name.startswith(("dibs.server", "mcp"))}
