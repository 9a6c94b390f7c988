"""The WAL does not grow for ever where every process lives for one write."""

from __future__ import annotations

import os
from pathlib import Path

import apsw
import pytest

from dibs.board import connect
from dibs.store.sqlite.database import WAL_BYTES_MAX

COMMANDS = 120
#: Whoever crosses the line leaves all that it has written itself.
ONE_WRITE = 40 * 4120


def test_commands_one_after_another_leave_a_log_of_bounded_length(tmp_path: Path) -> None:
    place = tmp_path / "board.db"
    connect(str(place), folder=str(tmp_path), create=True).close()
    lengths = []
    for number in range(COMMANDS):
        with connect(str(place), lean=True) as board:
            board.add(title=f"{number}", body="x" * 5000)
        lengths.append(os.stat(f"{place}-wal").st_size)
    assert max(lengths) <= WAL_BYTES_MAX + ONE_WRITE
    assert lengths.count(0) >= 1, "it was never long enough to tell"
    with connect(str(place)) as board:
        assert len(board.list()) == COMMANDS


def test_who_reads_the_log_is_not_waited_for_and_loses_nothing(tmp_path: Path) -> None:
    place = tmp_path / "board.db"
    with connect(str(place), folder=str(tmp_path), create=True) as board:
        board.add_many({"title": f"{number}", "body": "x" * 5000} for number in range(400))
        reader = apsw.Connection(str(place))
        reader.execute("BEGIN")
        before = reader.execute("SELECT count(*) FROM items").fetchall()
        board.add(title="one more")
    assert os.stat(f"{place}-wal").st_size > WAL_BYTES_MAX
    assert reader.execute("SELECT count(*) FROM items").fetchall() == before == [(400,)]
    reader.close()
    with connect(str(place)) as board:
        assert len(board.list()) == 401


def test_a_command_that_waited_long_leaves_no_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a keeper of claims or a screen does, which are commands too."""
    place = tmp_path / "board.db"
    connect(str(place), folder=str(tmp_path), create=True).close()
    lengths = []
    for seconds in (60.0, 0.0):
        monkeypatch.setattr("dibs.store.sqlite.engine.COMMAND_SECONDS_MAX", seconds)
        with connect(str(place), lean=True) as board:
            board.add("t")
        lengths.append(os.stat(f"{place}-wal").st_size)
    assert lengths[0] > 0 == lengths[1]
