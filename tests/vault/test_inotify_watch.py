"""What changed in a vault is told by the kernel: nothing is missed, and what is unsure is "everything"."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dibs.store.vault import watch as module
from dibs.store.vault.disk import Disk
from dibs.store.vault.watch import BELL, LATE_SAVE, InotifyWatch
from dibs.testing import sizes
from tests.vault.test_disk_races import Player, playing

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="inotify is Linux's")

X = "Needs_Action/x.md"
ROUNDS = 1000


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "vault"
    for folder in ("Needs_Action", "Done", "In_Progress/ann"):
        (made / folder).mkdir(parents=True)
    return made


@pytest.fixture
def disk(root: Path) -> Iterator[Disk]:
    disk = Disk(str(root))
    yield disk
    disk.close()


@pytest.fixture
def watch(disk: Disk, tmp_path: Path) -> Iterator[InotifyWatch]:
    bell = tmp_path / "bell"
    bell.write_bytes(b"")
    watch = disk.watch(str(bell))
    if watch._inotify is None:
        pytest.skip("this folder lies where changes are not told")
    assert watch.changes() is None, "at the start everything is new"
    assert watch.changes() == set()
    yield watch
    watch.close()


def test_each_change_of_a_file_is_told_once(root: Path, watch: InotifyWatch) -> None:
    path, other = root / X, root / "In_Progress/ann/x.md"
    path.write_bytes(b"one")
    assert watch.changes() == {X}
    path.write_bytes(b"two")
    assert watch.changes() == {X}
    path.chmod(0o600)
    assert watch.changes() == {X}
    path.rename(other)
    assert watch.changes() == {X, "In_Progress/ann/x.md"}
    draft = other.with_name(".x.md.swp")
    draft.write_bytes(b"three")
    assert watch.changes() == set()
    draft.rename(other)
    assert watch.changes() == {"In_Progress/ann/x.md"}
    other.unlink()
    assert watch.changes() == {"In_Progress/ann/x.md"}
    assert watch.changes() == set()


def test_our_own_changes_are_told_as_well(disk: Disk, watch: InotifyWatch) -> None:
    disk.create(X, b"one")
    assert watch.changes() == {X}
    disk.exchange(X, b"two", b"one")
    assert watch.changes() == {X}
    disk.move(X, "Done/x.md")
    assert watch.changes() == {X, "Done/x.md"}


def test_a_late_save_is_told(root: Path, disk: Disk, watch: InotifyWatch) -> None:
    disk.create(X, b"one")
    with open(root / X, "r+b") as editor:
        disk.exchange(X, b"two", b"one")
        assert watch.changes() == {X}
        editor.write(b"hers")
    assert watch.changes() == {LATE_SAVE}
    assert disk.late_saves() == [(X, b"one", b"hers")]


def test_the_bell_is_heard_at_the_same_descriptor(tmp_path: Path, root: Path, watch: InotifyWatch) -> None:
    assert not watch.wait(0)
    (tmp_path / "bell").write_bytes(b"!")
    assert watch.wait(10)
    assert watch.changes() == {BELL}
    (root / X).write_bytes(b"one")
    assert watch.wait(10)
    assert watch.changes() == {X}
    assert not watch.wait(0)


def test_a_folder_that_comes_or_goes_is_everything_and_then_watched(root: Path, watch: InotifyWatch) -> None:
    (root / "Parked").mkdir()
    assert watch.changes() is None
    (root / "Parked/x.md").write_bytes(b"")
    assert watch.changes() == {"Parked/x.md"}
    (root / "In_Progress/bob").mkdir()
    (root / "In_Progress/bob/x.md").write_bytes(b"")
    assert watch.changes() is None
    (root / "In_Progress/bob/y.md").write_bytes(b"")
    assert watch.changes() == {"In_Progress/bob/y.md"}
    (root / "In_Progress/bob").rename(root / "In_Progress/eve")
    assert watch.changes() is None
    (root / "In_Progress/eve/y.md").write_bytes(b"more")
    assert watch.changes() == {"In_Progress/eve/y.md"}
    (root / "Done").rename(root / "Elsewhere")
    assert watch.changes() is None
    (root / "Elsewhere/x.md").write_bytes(b"")
    assert watch.changes() == set()
    (root / "Needs_Action").rmdir()
    assert watch.changes() is None
    (root / "Needs_Action").symlink_to(root / "Elsewhere")
    assert watch.changes() is None
    (root / "In_Progress/lost.md").write_bytes(b"")
    assert watch.changes() is None, "what is refused changed"
    assert watch.changes() == set()


def test_what_is_no_business_of_ours_is_not_told(root: Path, watch: InotifyWatch) -> None:
    (root / "Templates").mkdir()
    (root / "Templates/x.md").write_bytes(b"")
    (root / "x.md").write_bytes(b"")
    (root / ".dibs/vault.db").write_bytes(b"")
    (root / "Needs_Action/notes.txt").write_bytes(b"")
    (root / "Needs_Action/.hidden.md").write_bytes(b"")
    assert watch.changes() == set()


def test_a_move_in_steps_that_broke_off_is_everything(root: Path, watch: InotifyWatch) -> None:
    (root / "Needs_Action/.dibs-move-0123456789abcdef-x.md").write_bytes(b"one")
    assert watch.changes() is None


def test_more_than_the_kernel_keeps_is_everything(root: Path, watch: InotifyWatch) -> None:
    most = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    if most > 100_000:
        pytest.skip(f"this kernel keeps {most} events")
    with open(root / X, "wb", buffering=0) as one, open(root / "Done/y.md", "wb", buffering=0) as other:
        # Two in turn, since the kernel makes one event of two that are the same.
        for _ in range(most // 2 + 10):
            one.write(b"x")
            other.write(b"x")
    assert watch.changes() is None
    assert watch.changes() == set()
    (root / X).unlink()
    assert watch.changes() == {X}


def test_parent_and_child_are_both_told(root: Path, watch: InotifyWatch) -> None:
    hearing, telling = os.pipe()
    (root / X).write_bytes(b"one")
    child = os.fork()
    if child == 0:
        try:
            answers = [watch.changes()]
            (root / "Done/y.md").write_bytes(b"")
            answers.append(watch.changes())
            os.write(telling, repr(answers).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert os.read(hearing, 1000) == b"[None, {'Done/y.md'}]"
    assert watch.changes() == {X, "Done/y.md"}


def test_where_nothing_is_told_everything_may_have_changed(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOCAL", frozenset({"nfs9"}))
    watch = disk.watch()
    assert watch._inotify is None
    assert [watch.changes(), watch.changes()] == [None, None]
    assert watch.wait(0)


def test_what_could_not_be_watched_is_tried_again(
    root: Path, disk: Disk, watch: InotifyWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "REOPEN_SECONDS", -1.0)
    monkeypatch.setattr(module, "LOCAL", frozenset())
    late = disk.watch()
    assert late.changes() is None
    monkeypatch.undo()
    late._reopen_at = 0.0
    assert late.changes() is None
    (root / X).write_bytes(b"one")
    assert late.changes() == {X}
    late.close()


def test_a_bell_that_cannot_be_watched_is_no_reason_to_sleep(disk: Disk, tmp_path: Path) -> None:
    watch = disk.watch(str(tmp_path / "none"))
    assert [watch.changes(), watch.changes()] == [None, None]


def test_what_is_told_is_what_a_scan_would_find(root: Path, disk: Disk, watch: InotifyWatch) -> None:
    """A thousand changes by another process: after each, the files told bring an old scan up to date."""
    seed = sizes.seed()
    draw = random.Random(seed)
    known = disk.scan()[0]
    with playing(("change", str(root))) as players:
        [changer] = players
        for number in range(sizes.times(ROUNDS)):
            asked(changer, f"{draw.randrange(1 << 32)}")
            changed = watch.changes()
            assert changed is not None
            for path in changed:
                stamp = disk.stamp(path)
                if stamp is None:
                    known.pop(path, None)
                else:
                    known[path] = stamp
            assert known == disk.scan()[0], f"seed {seed}, change {number}"


def asked(player: Player, line: str) -> None:
    player.tell(line)
    assert player.answer() == "changed"
