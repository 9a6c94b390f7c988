"""A board whose file is damaged: no backup is made of it, no export, and every call is refused in words."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import apsw
import pytest

from dibs.board import Board, connect
from dibs.errors import DibsError, StoreUnusable
from dibs.maintenance import doctor
from dibs.testing.conformance.used_board import used
from tests.kit import sqlite, vault

PAGE = 4096
THREADS = 4
WRITES = 10


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A used board, all of it in its file."""
    with sqlite.harness(tmp_path) as harness:
        used(harness, harness.board())
    assert os.path.getsize(tmp_path / "board.db-wal") == 0
    return tmp_path / "board.db"


def opened(place: Path) -> Board:
    return connect(str(place), folder=str(place.parent), seeded=False)


def changed(place: Path, statement: str) -> None:
    """Change rows as damage does it: past every check."""
    connection = apsw.Connection(str(place))
    connection.execute(f"PRAGMA writable_schema = ON; {statement}; PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    connection.close()


def without_a_page_of(place: Path, name: str) -> None:
    """Overwrite the first page of a table or an index."""
    connection = apsw.Connection(str(place))
    ((page,),) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (name,)).fetchall()
    connection.close()
    with open(place, "r+b") as file:
        file.seek((int(str(page)) - 1) * PAGE)
        file.write(b"\x5a" * PAGE)


def findings(place: Path) -> list[str]:
    """What doctor says; the refusal, if the board cannot be read at all."""
    try:
        with opened(place) as board:
            return [finding.what for finding in doctor.examine(board)]
    except StoreUnusable as refused:
        return [refused.message]


def lost_rows_of_an_index(place: Path) -> None:
    """Rows that only the index still has, or lacks, as after a lost write of one page."""
    changed(place, "DELETE FROM items WHERE id = 'no such item'")
    connection = apsw.Connection(str(place))
    ((page,),) = connection.execute(
        "SELECT rootpage FROM sqlite_schema WHERE type = 'index' AND tbl_name = 'events' LIMIT 1"
    ).fetchall()
    connection.close()
    with open(place, "r+b") as file:
        file.seek((int(str(page)) - 1) * PAGE)
        file.write(b"\x0a" + b"\0\0" + b"\0\0" + b"\x10\0" + b"\0")  # an empty leaf of an index


DAMAGE: dict[str, Callable[[Path], None]] = {
    "a page of events": lambda place: without_a_page_of(place, "events"),
    "a page of items": lambda place: without_a_page_of(place, "items"),
    "an index without its rows": lost_rows_of_an_index,
    "text that is not UTF-8": lambda place: changed(place, "UPDATE items SET title = CAST(x'ff41' AS TEXT)"),
    "no JSON": lambda place: changed(place, "UPDATE items SET payload = '{'"),
    "an unknown status": lambda place: changed(place, "UPDATE items SET status = 'stolen' WHERE id = 'x'"),
    "an item that is gone": lambda place: changed(place, "DELETE FROM items WHERE id = 'x'"),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_there_is_no_backup_of_a_damaged_board(place: Path, damage: Callable[[Path], None]) -> None:
    damage(place)
    with opened(place) as board:
        with pytest.raises(StoreUnusable) as refused:
            board.backup(str(place.parent / "backup"))
        assert refused.value.message.isprintable()
        assert "there is no backup" in refused.value.message
    assert [name for name in os.listdir(place.parent) if name.startswith("backup")] == []


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_doctor_finds_the_damage(place: Path, damage: Callable[[Path], None]) -> None:
    damage(place)
    found = findings(place)
    assert found
    assert all(what.isprintable() for what in found)


def test_doctor_names_a_fault_of_an_index_whose_name_is_damaged(place: Path) -> None:
    connection = apsw.Connection(str(place))
    ((page,),) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'items_status'").fetchall()
    connection.close()
    changed(
        place,
        "UPDATE sqlite_schema SET name = CAST(x'ff41' AS TEXT),"
        " sql = CAST(replace(CAST(sql AS BLOB), CAST(name AS BLOB), x'ff41') AS TEXT) WHERE name = 'items_status'",
    )
    with open(place, "r+b") as file:
        file.seek((int(str(page)) - 1) * PAGE + 3)
        file.write(b"\0\0")  # an index without entries
    assert any("damaged" in finding for finding in findings(place))
    with opened(place) as board, pytest.raises(StoreUnusable, match="there is no backup"):
        board.backup(str(place.with_name("backup")))


def test_doctor_finds_an_item_whose_history_gives_no_token(place: Path) -> None:
    changed(place, "UPDATE events SET kind = 'adddd'")
    assert any("is missing by its history" in what for what in findings(place))


@pytest.mark.parametrize("name", ["a page of events", "an index without its rows", "text that is not UTF-8", "no JSON"])
def test_there_is_no_export_of_a_board_that_cannot_be_read_as_a_whole(place: Path, name: str) -> None:
    DAMAGE[name](place)
    with opened(place) as board, pytest.raises(StoreUnusable):
        list(board.export())


def test_a_log_that_was_deleted_under_its_users_is_noticed_by_the_backup(tmp_path: Path) -> None:
    """Who has the board open writes into the deleted log, and who opens it then starts another one."""
    place = tmp_path / "board.db"
    with connect(str(place), folder=str(tmp_path), create=True) as board:
        board.add_many({"title": f"{number}", "body": "x" * 2000} for number in range(300))
        os.unlink(f"{place}-wal")
        refusals = 0
        for number in range(WRITES):
            for who in (board, None):
                path = str(tmp_path / f"backup-{number}-{who is None}")
                try:
                    with nullcontext(board) if who else opened(place) as one:
                        one.add("more", body="y" * 2000 * number)
                        one.backup(path)
                except DibsError:
                    refusals += 1
                    assert not os.path.exists(path)
                else:
                    with connect(f"{path}.db", folder=str(tmp_path), create=True) as new:
                        new.restore(path)
    assert refusals > 0
    assert [name for name in os.listdir(tmp_path) if "half" in name] == []


def test_a_vault_whose_index_is_damaged_has_no_backup_either(tmp_path: Path) -> None:
    with vault.harness(tmp_path) as harness:
        used(harness, harness.board())
    index = tmp_path / "vault/.dibs/vault.db"
    changed(index, "UPDATE events SET data = '{'")
    with vault.harness(tmp_path) as harness, pytest.raises(StoreUnusable, match="there is no backup"):
        harness.board().backup(str(tmp_path / "backup"))
    assert not (tmp_path / "backup").exists()


READS: dict[str, Callable[[Board], object]] = {
    "list": lambda board: board.list(),
    "get": lambda board: board.get("x"),
    "view": lambda board: board.view(),
    "page": lambda board: board.page(),
    "claim": lambda board: board.claim("later-on", session=board.start_session("coder").id),
    "edit": lambda board: board.edit("x", priority=1),
    "who": lambda board: board.who(),
}


@pytest.mark.parametrize("call", READS.values(), ids=READS.keys())
@pytest.mark.parametrize("shared", [False, True], ids=["one thread", "threads"])
def test_text_that_is_not_utf_8_is_a_refusal_and_not_an_error_of_python(
    place: Path, call: Callable[[Board], object], shared: bool
) -> None:
    with opened(place) as board:
        board.add("t", id="later-on")
    changed(place, "UPDATE items SET title = CAST(x'ff41' AS TEXT), phase = CAST(x'ff41' AS TEXT)")
    raised: list[BaseException] = []
    with opened(place) as board:
        if shared:
            board.store.separate_readers()

        def run() -> None:
            try:
                call(board)
            except BaseException as error:
                raised.append(error)

        threads = [threading.Thread(target=run) for _ in range(THREADS if shared else 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert {type(error) for error in raised} == {StoreUnusable}, raised
    assert all("not UTF-8" in str(error) and "restore a backup" in str(error) for error in raised)


def test_a_kept_answer_that_is_no_json_is_a_refusal_and_not_an_error_of_python(place: Path) -> None:
    with opened(place) as board:
        board.add("t", id="kept", request_id="again")
    changed(place, "UPDATE requests SET answer = '{broken'")
    with opened(place) as board, pytest.raises(StoreUnusable, match="restore a backup"):
        board.add("t", id="kept", request_id="again")


def test_doctor_knows_the_token_of_an_item_that_is_reopened_after_a_restore(tmp_path: Path) -> None:
    with sqlite.harness(tmp_path) as harness:
        board = harness.board()
        session = board.start_session("ann").id
        board.add("x", id="x")
        token = board.claim("x", session=session).claim.token
        board.done("x", session=session)
        board.backup(str(tmp_path / "backup"))
        board.restore(str(tmp_path / "backup"))
        assert board.reopen("x").token > token + 1
        assert not list(doctor.examine(board))
