"""New files: whole and under their name, or not there at all; and nothing is overwritten."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dibs.system import durable


def test_a_file_is_there_when_the_block_has_ended(tmp_path: Path) -> None:
    path = tmp_path / "new"
    with durable.NewFile(str(path)) as half:
        Path(half).write_text("all of it")
        assert not path.exists()
    assert path.read_text() == "all of it"
    assert path.stat().st_mode & 0o777 == 0o600, "a whole board may be in it"
    assert os.listdir(tmp_path) == ["new"]


@pytest.mark.parametrize("links", [True, False], ids=["links", "no_links"])
def test_a_file_that_was_made_meanwhile_is_not_overwritten(
    tmp_path: Path, links: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not links:
        monkeypatch.setattr(os, "link", refuse)
    path = tmp_path / "new"

    def write() -> None:
        with durable.NewFile(str(path)) as half:
            Path(half).write_text("ours")
            path.write_text("theirs")

    with pytest.raises(FileExistsError):
        write()
    assert path.read_text() == "theirs"
    assert os.listdir(tmp_path) == ["new"]


def test_a_block_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def fail() -> None:
        with durable.NewFile(str(tmp_path / "new")) as half:
            Path(half).write_text("a part")
            raise OSError("no room")

    with pytest.raises(OSError, match="no room"):
        fail()
    assert os.listdir(tmp_path) == []


def test_macos_is_asked_for_more_than_fsync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr("fcntl.F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr("fcntl.fcntl", lambda descriptor, what: asked.append((descriptor, what)))
    durable.sync(7)
    assert asked == [(7, 51)]


def refuse(*_: object) -> None:
    raise PermissionError(1, "Operation not permitted")
