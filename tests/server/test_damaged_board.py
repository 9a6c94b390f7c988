"""A server of a damaged board: whoever asks for a copy of it gets a refusal, and no file."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from tests.server.process import Serving, serving


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    with serving(tmp_path) as server:
        assert server.dibs("add", "t", "--id", "x").returncode == 0
        assert server.stop() == 0
    place = tmp_path / ".dibs/board.db"
    connection = apsw.Connection(str(place))
    connection.execute("UPDATE items SET title = CAST(x'ff41' AS TEXT)").fetchall()
    connection.close()
    return place


def test_a_damaged_board_gives_no_copy_over_http(tmp_path: Path, damaged: Path) -> None:
    with Serving(tmp_path, store=str(damaged)) as server:
        copies: list[tuple[str, ...]] = [("backup", "copy"), ("export", "copy"), ("copy", server.url, "new.db")]
        for words in copies:
            done = server.dibs(*words)
            assert done.returncode != 0, words
            assert len(done.stderr.splitlines()) == 1, done.stderr
            assert "UTF-8" in done.stderr
            assert not (tmp_path / "copy").exists()
        for words in (("list",), ("show", "x"), ("claim", "x", "--session", "s", "--agent", "coder")):
            done = server.dibs(*words)
            assert done.returncode != 0, words
            assert "UTF-8" in done.stderr
            assert "internal error" not in done.stderr
