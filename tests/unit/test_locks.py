"""Locks of files between processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dibs.system import locks


def test_a_lock_is_taken_once_and_ends_with_its_descriptor(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    first = locks.take(path)
    assert first is not None
    assert locks.take(path) is None
    assert os.stat(path).st_mode & 0o777 == 0o600
    os.close(first)
    again = locks.take(path)
    assert again is not None
    os.close(again)


def test_a_lock_ends_with_its_process(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    script = f"from dibs.system import locks; assert locks.take({path!r}) is not None; print(flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        assert locks.take(path) is None
        holder.kill()
        holder.wait()
        taken = locks.take(path)
    assert taken is not None
    os.close(taken)


@pytest.mark.parametrize("is_locked", [True, False])
def test_a_file_that_is_removed_before_it_is_locked_is_made_anew(
    tmp_path: Path, is_locked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its last holder removes it, and has the lock a moment longer, or not."""
    path, opened = tmp_path / "lock", []

    def late(file: int) -> bool:
        opened.append(file)
        if len(opened) == 1:
            path.unlink()
            return is_locked
        return True

    monkeypatch.setattr(locks, "try_lock", late)
    taken = locks.take(str(path))
    assert taken is not None
    assert locks.is_at(taken, str(path))
    assert len(opened) == 2
    os.close(taken)


def test_a_lock_is_released_although_another_process_has_a_copy_of_its_descriptor(tmp_path: Path) -> None:
    lock, other = (locks.FileLock(str(tmp_path / "lock")) for _ in range(2))
    assert lock.acquire()
    copy = os.dup(lock.descriptor)
    assert not other.acquire()
    lock.release()
    lock.release()
    assert other.acquire()
    other.release()
    os.close(copy)


def test_waiting_ends_with_the_lock_with_its_time_and_when_it_is_not_needed(tmp_path: Path) -> None:
    answers = iter([False, False, True])
    assert locks.within(60, lambda: next(answers))
    assert not locks.within(0, lambda: False)
    assert not locks.within(60, lambda: False, lambda: True)
