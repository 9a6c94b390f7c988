"""Files that somebody put beside a board, under the names that dibs and SQLite use there: nothing is written through
them, and the refusal names them. And who may read what dibs makes.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

import apsw
import pytest

from dibs.board import Board
from dibs.config import DEFAULTS
from dibs.errors import StoreUnusable
from dibs.maintenance.doctor import examine
from dibs.model import NewItem
from dibs.store.sqlite.bell import BellWatch
from dibs.store.sqlite.side_files import SUFFIXES
from dibs.store.sqlite.store import SqliteStore

PRECIOUS = b"somebody's only copy\n" * 100


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A board in one file, as a clone brings it."""
    path = tmp_path / "board.db"
    store = SqliteStore(str(path), DEFAULTS, create=True)
    store.add([NewItem(id="x", title="x")], actor="tester")
    store.engine.connection().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    store.close()
    for suffix in SUFFIXES:
        (tmp_path / f"board.db{suffix}").unlink(missing_ok=True)
    return path


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    path = tmp_path / "home" / "precious"
    path.write_bytes(PRECIOUS)
    return path


def plant(kind: str, place: Path, target: Path) -> None:
    if kind == "link":
        place.symlink_to(target)
    elif kind == "dangling link":
        place.symlink_to(target.with_name("new"))
    elif kind == "hard link":
        os.link(target, place)
    elif kind == "pipe":
        os.mkfifo(place)
    else:
        place.mkdir()


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("kind", ["link", "dangling link", "hard link", "pipe", "folder"])
def test_what_lies_beside_a_board_is_its_own(path: Path, precious: Path, suffix: str, kind: str) -> None:
    place = path.with_name(path.name + suffix)
    plant(kind, place, precious)
    with pytest.raises(StoreUnusable) as refused:
        SqliteStore(str(path), DEFAULTS)
    assert refused.value.facts["path"] == str(place)
    assert precious.read_bytes() == PRECIOUS
    assert [one.name for one in precious.parent.iterdir()] == ["precious"]


@pytest.mark.parametrize("suffix", ["-lock", "-bell"])
def test_a_link_that_is_planted_while_the_board_is_open_is_not_followed(
    path: Path, precious: Path, suffix: str
) -> None:
    store = SqliteStore(str(path), DEFAULTS)
    path.with_name(path.name + suffix).symlink_to(precious)
    if suffix == "-lock":
        with pytest.raises(StoreUnusable, match="is a link"):
            store.add([NewItem(id="y", title="y")], actor="tester")
    else:
        store.add([NewItem(id="y", title="y")], actor="tester")  # only a ring is lost
        assert BellWatch(store.engine.bell, lambda: apsw.Connection(str(path)))._inotify is None
    assert precious.read_bytes() == PRECIOUS


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a file away")
def test_a_lock_of_a_stranger_is_refused(path: Path) -> None:
    lock = path.with_name("board.db-lock")
    lock.touch()
    for board_owner, lock_owner, is_fit in ((0, 12666, False), (12001, 12001, True), (12001, 0, True)):
        os.chown(path, board_owner, board_owner)
        os.chown(lock, lock_owner, lock_owner)
        if is_fit:
            SqliteStore(str(path), DEFAULTS).close()
        else:
            with pytest.raises(StoreUnusable, match="belongs to uid 12666"):
                SqliteStore(str(path), DEFAULTS)


def test_a_board_that_was_replaced_by_a_link_is_not_opened(path: Path, precious: Path) -> None:
    store = SqliteStore(str(path), DEFAULTS)
    path.rename(path.with_name("moved.db"))
    path.symlink_to(precious)
    with pytest.raises(StoreUnusable):
        list(store.export())
    assert precious.read_bytes() == PRECIOUS


def test_a_pipe_in_the_place_of_a_board_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "board.db")
    with pytest.raises(StoreUnusable, match="not a regular file"):
        SqliteStore(str(tmp_path / "board.db"), DEFAULTS)


# Who may read it


def test_a_new_board_and_its_backup_are_their_owners_alone(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        store = SqliteStore(str(tmp_path / "board.db"), DEFAULTS, create=True)
        store.add([NewItem(id="x", title="x")], actor="tester")
        store.backup(str(tmp_path / "backup.db"))
        modes = {one.name: stat.S_IMODE(one.stat().st_mode) for one in tmp_path.iterdir()}
    finally:
        os.umask(before)
    assert {"board.db", "board.db-wal", "board.db-shm", "board.db-lock", "board.db-bell"} < modes.keys()
    assert set(modes.values()) == {0o600}, modes


def test_a_board_that_others_can_read_stays_so_and_the_doctor_remarks_on_it(path: Path) -> None:
    path.chmod(0o644)
    board = Board(SqliteStore(str(path), DEFAULTS), DEFAULTS)
    board.add("t", id="t")
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    remark, *others = examine(board)
    assert others == []
    assert "can be read by every user" in remark.what
    assert (remark.late, remark.advice) == (True, f"chmod o= {path}*")
    board.close()


# What stands in its schema


TRIGGER = "CREATE TRIGGER evil AFTER INSERT ON items BEGIN DELETE FROM events; DELETE FROM items; END"
VIEW = "CREATE VIEW peek AS SELECT * FROM keys"


def test_nothing_that_stands_in_a_schema_runs_and_the_doctor_names_it(path: Path) -> None:
    foreign = apsw.Connection(str(path))
    foreign.execute(f"{TRIGGER}; {VIEW}; CREATE TABLE other (x)")
    foreign.close()
    board = Board(SqliteStore(str(path), DEFAULTS), DEFAULTS)
    board.add("t", id="t")
    assert len(board.list()) == 2
    findings = [finding.what for finding in examine(board) if not finding.late]
    assert [what.rpartition("has ")[2] for what in findings] == [
        "the table 'other'",
        "the trigger 'evil'",
        "the view 'peek'",
    ]
    board.close()


def test_statistics_and_a_board_of_before_are_no_finding(path: Path) -> None:
    connection = apsw.Connection(str(path))
    connection.execute("ANALYZE").fetchall()
    connection.close()
    store = SqliteStore(str(path), DEFAULTS)
    assert store.check() == ()
    store.close()
