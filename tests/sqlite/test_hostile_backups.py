"""A backup that somebody tampered with: nothing in it runs, nothing of it is believed that no verb could have written,
and a refusal leaves the board as it was.
"""

from __future__ import annotations

import json
from pathlib import Path

import apsw
import pytest

from dibs.board import Board, connect
from dibs.errors import Invalid, StoreUnusable

KEY = "INSERT INTO keys (id, role, digest, created_at) VALUES ('evil', 'admin', 'digest', 0)"


@pytest.fixture
def board(tmp_path: Path) -> Board:
    board = connect(str(tmp_path / "board.db"), folder=str(tmp_path), create=True)
    board.add("t", id="x")
    board.start_session("coder", id="s")
    board.claim("x", session="s")
    return board


@pytest.fixture
def backup(board: Board, tmp_path: Path) -> Path:
    board.backup(str(tmp_path / "backup.db"))
    return tmp_path / "backup.db"


def tamper(backup: Path, statements: str) -> None:
    connection = apsw.Connection(str(backup))
    connection.execute(statements).fetchall()
    connection.close()


TAMPERED = {
    "trigger": (f"CREATE TRIGGER evil AFTER UPDATE ON meta BEGIN {KEY}; END", "trigger 'evil'"),
    "trigger on a copy": (f"CREATE TRIGGER evil AFTER DELETE ON keys BEGIN {KEY}; END", "trigger 'evil'"),
    "view": ("DROP TABLE requests; CREATE VIEW requests AS SELECT * FROM keys", "view 'requests'"),
    "default": ("ALTER TABLE items ADD COLUMN more TEXT DEFAULT 'x'", "table 'items'"),
    "no table": ("DROP TABLE soft_claims", "no table soft_claims"),
    "index": ("CREATE INDEX evil ON items (abs(priority))", "index 'evil'"),
    "id with an escape": ("UPDATE items SET id = 'a' || char(27) || '[2J'", "letters, digits"),
    "id of an option": ("UPDATE items SET id = '--help'", "letters, digits"),
    "id of a path": ("UPDATE events SET item = '../../x'", "letters, digits"),
    "floor": ("UPDATE meta SET value = 4611686018427387904 WHERE name = 'token_floor'", "token_floor"),
    "token": ("UPDATE items SET token = 4611686018427387904", "token"),
    "JSON": ("UPDATE items SET payload = '{'", "cannot be restored"),
    "status": ("UPDATE items SET status = 'stolen'", "unknown status"),
    "sequence": ("UPDATE sqlite_sequence SET seq = 4611686018427387904 WHERE name = 'events'", "counts up to"),
}


@pytest.mark.parametrize(("statements", "said"), TAMPERED.values(), ids=TAMPERED.keys())
def test_a_backup_that_was_tampered_with_is_refused(
    board: Board, backup: Path, tmp_path: Path, statements: str, said: str
) -> None:
    tamper(backup, statements)
    before = list(board.export())
    with pytest.raises((Invalid, StoreUnusable)) as refused:
        board.restore(str(backup))
    assert said in refused.value.message
    assert refused.value.message.isprintable()
    assert list(board.export()) == before
    assert board.keys() == ()
    assert not [one.name for one in tmp_path.iterdir() if "-restore-" in one.name]


def test_keys_of_a_backup_do_not_come_back(board: Board, backup: Path) -> None:
    tamper(backup, KEY)
    board.restore(str(backup))
    assert board.keys() == ()


def test_a_damaged_backup_is_refused_before_anything_is_touched(board: Board, backup: Path) -> None:
    data = bytearray(backup.read_bytes())
    data[2 * 4096 : 2 * 4096 + 200] = b"\xff" * 200
    backup.write_bytes(data)
    before = list(board.export())
    with pytest.raises(StoreUnusable, match="cannot be restored"):
        board.restore(str(backup))
    assert list(board.export()) == before


def test_a_backup_from_before_version_1_is_refused_and_told_how_it_comes_over(board: Board, backup: Path) -> None:
    tamper(backup, "PRAGMA application_id = 0x64696273; PRAGMA user_version = 12")
    before = list(board.export())
    with pytest.raises(StoreUnusable, match=r"cannot be restored: .* before schema 1: .*dibs export FILE"):
        board.restore(str(backup))
    assert list(board.export()) == before


def test_a_hostile_board_cannot_be_copied(board: Board, tmp_path: Path) -> None:
    board.close()
    tamper(tmp_path / "board.db", "UPDATE items SET id = '../../x'")
    with (
        connect(str(tmp_path / "board.db"), folder=str(tmp_path)) as source,
        connect(str(tmp_path / "copy.db"), folder=str(tmp_path), create=True) as copy,
    ):
        with pytest.raises(Invalid, match="letters, digits"):
            copy.load(source.export())
        assert copy.list() == ()


def test_a_line_of_an_import_is_named(board: Board, tmp_path: Path) -> None:
    records = [(kind, json.loads(json.dumps(data))) for kind, data in board.export()]
    number = next(number for number, (kind, _) in enumerate(records, start=1) if kind == "item")
    records[number - 1][1]["id"] = "a\x1b[2J"
    with (
        connect(str(tmp_path / "copy.db"), folder=str(tmp_path), create=True) as copy,
        pytest.raises(Invalid, match=f"record {number} ") as refused,
    ):
        copy.load(records)
    assert refused.value.facts["record"] == number
