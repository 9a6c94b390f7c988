"""A backup for PostgreSQL is lines of JSON under a digest that anybody can compute: what it says is input like any
other, and a refusal leaves the board as it was.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from dibs.errors import Invalid, StoreUnusable
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
        with pytest.raises((Invalid, StoreUnusable)) as refused:
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


#: What nobody can write through dibs, and an owner of the database can.
DAMAGE = (
    "UPDATE dibs.items SET title = E'two\\nlines'",
    "UPDATE dibs.events SET kind = 'a b'",
    "UPDATE dibs.items SET token = 4611686018427387904",
    "DELETE FROM dibs.items WHERE id = 'x'",
)


@pytest.mark.parametrize("statement", DAMAGE)
def test_there_is_no_backup_that_could_not_be_restored(
    harness: PostgresHarness, tmp_path: Path, statement: str
) -> None:
    board = harness.board()
    added(board, "x", "y")
    board.claim("x", session=session(board))
    with psycopg.connect(harness.server.url(harness.database), autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")
        connection.execute(statement.encode())
    with pytest.raises(StoreUnusable, match="there is no backup"):
        board.backup(str(tmp_path / "backup"))
    assert list(tmp_path.iterdir()) == []


def test_a_backup_that_lost_its_end_is_refused(harness: PostgresHarness, tmp_path: Path) -> None:
    board = harness.board()
    added(board, "x", "y")
    board.backup(str(tmp_path / "backup"))
    content = (tmp_path / "backup").read_bytes()
    before = list(board.export())
    for size in (len(content) - 1, len(content) - 50, len(content) // 2, 40, 1):
        (tmp_path / "cut").write_bytes(content[:size])
        if size == len(content) - 1:  # only the line break is missing
            assert board.restore(str(tmp_path / "cut")) == 2
            before = list(board.export())
            continue
        with pytest.raises((Invalid, StoreUnusable)) as refused:
            board.restore(str(tmp_path / "cut"))
        assert refused.value.message.isprintable()
        assert list(board.export()) == before
