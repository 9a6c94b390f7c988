"""A backup for PostgreSQL is lines of JSON under a digest that anybody can compute: what it says is input like any
other, and a refusal leaves the board as it was.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dibs.errors import Invalid
from dibs.system import progress
from dibs.testing.conformance.asking import added, session
from tests.kit import postgres
from tests.kit.postgres import PostgresHarness
from tests.kit.postgres_server import PostgresServer


@pytest.fixture
def harness(postgres_server: PostgresServer, folder: Path) -> Iterator[PostgresHarness]:
    with postgres.harness(postgres_server, folder) as harness:
        yield harness


def rewrite(backup: Path, to: Path, change: tuple[str, str, Any] | bytes) -> None:
    """The same backup with a field of the first record of a kind changed, or a line more, and a digest that fits."""
    head, *lines, _ = backup.read_bytes().splitlines(keepends=True)
    if isinstance(change, bytes):
        lines.append(change)
    else:
        kind, field, value = change
        at = next(number for number, line in enumerate(lines) if json.loads(line)["record"] == kind)
        record = json.loads(lines[at])
        record["value"][field] = value
        lines[at] = json.dumps(record).encode() + b"\n"
    end = {"dibs": "end", "records": len(lines), "sha256": hashlib.sha256(b"".join(lines)).hexdigest()}
    to.write_bytes(head + b"".join(lines) + json.dumps(end).encode() + b"\n")


HOSTILE: list[tuple[str, str, Any] | bytes] = [
    ("item", "id", "../../x"),
    ("item", "id", "--help"),
    ("item", "id", "a\x1b[2J"),
    ("event", "token", 2**62),
    ("board", "token_floor", 2**62),
    ("board", "event_floor", 2**53),
    b"[]\n",
    b"no JSON\n",
    b'{"record": ["item"], "value": {}}\n',
    b'{"record": "item", "value": [1]}\n',
    b'{"record": "key", "value": {"id": "evil", "role": "admin"}}\n',
]


def test_a_backup_that_was_tampered_with_is_refused(harness: PostgresHarness, tmp_path: Path) -> None:
    board = harness.board()
    added(board, "x", "y")
    board.claim("x", session=session(board))
    board.backup(str(tmp_path / "backup"))
    before = list(board.export())
    for number, change in enumerate(HOSTILE):
        tampered = tmp_path / f"tampered-{number}"
        rewrite(tmp_path / "backup", tampered, change)
        with pytest.raises(Invalid) as refused:
            board.restore(str(tampered))
        assert refused.value.message.isprintable()
        assert list(board.export()) == before, change
    assert board.restore(str(tmp_path / "backup")) == 2


def test_a_restore_reports_how_far_it_is(
    harness: PostgresHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = harness.board()
    added(board, "x", "y")
    board.backup(str(tmp_path / "backup"))
    total = len(list(board.export()))
    heard: list[tuple[str, int, int]] = []
    monkeypatch.setattr(progress, "listener", lambda *report: heard.append(report))
    board.restore(str(tmp_path / "backup"))
    assert heard == [("restored", done, total) for done in range(1, total + 1)]
