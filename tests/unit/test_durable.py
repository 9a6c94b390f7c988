"""New files: whole and under their name, or not there at all; and nothing is overwritten."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from stat import S_ISDIR

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


#: A process that is at work on a new file until it is killed.
AT_WORK = """
import sys
from dibs.system import durable
with durable.NewFile(sys.argv[1]) as half:
    for suffix in ("", "-journal"):
        open(half + suffix, "w").write("a part")
    print("at work", flush=True)
    sys.stdin.read()
"""


@contextmanager
def at_work(path: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", AT_WORK, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "at work\n"
        yield process
        process.kill()


def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path: Path) -> None:
    path = tmp_path / "new"
    for _ in range(2):
        with at_work(path) as killed:
            killed.kill()
            killed.wait()
            assert len(os.listdir(tmp_path)) == 2, "only the half of the last one, and its journal"
    with durable.NewFile(str(path)):
        pass
    assert os.listdir(tmp_path) == ["new"]


def test_what_others_have_is_not_removed(tmp_path: Path) -> None:
    path = tmp_path / "new"
    kept = ["new.half", "new.12345678.half.gz", "new.1234567.half", "newer.12345678.half", "new.1234567G.half"]
    for name in kept:
        (tmp_path / name).write_text("mine")
    (tmp_path / "new.00000001.half").symlink_to("new.half")
    (tmp_path / "new.00000002.half").mkdir()
    os.mkfifo(tmp_path / "new.00000003.half")
    before = set(os.listdir(tmp_path))
    with at_work(path):
        with durable.NewFile(str(path)) as half:
            Path(half).write_text("all of it")
        left = set(os.listdir(tmp_path)) - before
        assert len(left) == 3, "the half of the living process, its journal, and the new file"
    assert path.read_text() == "all of it"


def test_macos_is_asked_for_more_than_fsync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr("fcntl.F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr("fcntl.fcntl", lambda descriptor, what: asked.append((descriptor, what)))
    durable.sync(7)
    assert asked == [(7, 51)]


def refuse(*_: object) -> None:
    raise PermissionError(1, "Operation not permitted")


def test_a_file_is_replaced_in_one_step(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for data in (b"one", b"two"):
        durable.replace(str(path), data)
        assert (path.read_bytes(), path.stat().st_mode & 0o777) == (data, 0o600)
    path.chmod(0o741)
    durable.replace(str(path), b"three", keeps_mode=True)
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"three", 0o741)
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("failing", ["replace", "fsync", "fchmod"])
def test_a_replacement_that_fails_leaves_the_old_file_alone(
    tmp_path: Path, failing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_text("old")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, failing, fail)
    with pytest.raises(OSError, match="No space left"):
        durable.replace(str(path), b"new", keeps_mode=True)
    assert (path.read_text(), os.listdir(tmp_path)) == ("old", ["file"])


def test_only_a_synced_replacement_waits_for_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[bool] = []
    monkeypatch.setattr(durable, "sync", lambda descriptor: synced.append(S_ISDIR(os.fstat(descriptor).st_mode)))
    durable.replace(str(tmp_path / "file"), b"", is_synced=False)
    assert synced == []
    durable.replace(str(tmp_path / "file"), b"")
    assert synced == [False, True]


def test_a_temporary_file_that_is_a_lock_of_another_program_stays(tmp_path: Path) -> None:
    path, lock = tmp_path / "config", tmp_path / "config.lock"
    path.write_text("old")
    lock.write_text("of another program")
    with pytest.raises(FileExistsError):
        durable.replace(str(path), b"new", half=str(lock))
    assert (path.read_text(), lock.read_text()) == ("old", "of another program")
    lock.unlink()
    durable.replace(str(path), b"new", half=str(lock))
    assert (path.read_text(), lock.exists()) == ("new", False)
