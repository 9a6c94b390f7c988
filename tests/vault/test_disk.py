"""Files of a vault as they should be: made, read, exchanged, moved, found; and the saves that come between."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from dibs.store.vault import disk as module
from dibs.store.vault import late_saves
from dibs.store.vault.disk import Disk, Raced, Unfit
from dibs.store.vault.safe_fs import FILE_BYTES_MAX, TICK_NS
from dibs.system import renaming
from dibs.system.renaming import Place

X = "Needs_Action/x.md"


def at(disk: Disk, path: str) -> Path:
    return Path(disk.root, path)


def files(disk: Disk) -> dict[str, bytes]:
    """Every file outside `.dibs`, with its text."""
    root = Path(disk.root)
    found = [path for path in root.rglob("*") if path.is_file() and ".dibs" not in path.parts]
    return {str(path.relative_to(root)): path.read_bytes() for path in found}


def test_what_is_made_is_read_and_found(disk: Disk) -> None:
    disk.create(X, b"one")
    text, stamp = disk.read(X)
    assert text == b"one"
    assert disk.stamp(X) == stamp == disk.scan()[0][X]
    assert (stamp[1], stamp[0]) == (3, at(disk, X).stat().st_ino)
    assert disk.scan() == ({X: stamp}, {})


def test_a_stamp_is_given_when_no_later_save_can_have_the_same(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system's clock ticks: two saves of one size within a tick leave the same times."""
    tick_ns = 300_000_000
    monkeypatch.setattr(module, "TICK_NS", tick_ns)  # long enough for a busy machine to read within it
    at(disk, X).parent.mkdir()
    at(disk, X).write_bytes(b"one")
    sleep = time.sleep

    def save_again(seconds: float) -> None:
        monkeypatch.setattr(time, "sleep", sleep)
        times = at(disk, X).stat()
        at(disk, X).write_bytes(b"two")
        os.utime(at(disk, X), ns=(times.st_atime_ns, times.st_mtime_ns))
        sleep(seconds)

    monkeypatch.setattr(time, "sleep", save_again)
    text, stamp = disk.read(X)
    assert text == b"two"
    assert time.time_ns() - stamp[2] > tick_ns


def test_what_is_there_is_never_made_again(disk: Disk) -> None:
    disk.create(X, b"one")
    with pytest.raises(FileExistsError):
        disk.create(X, b"two")
    assert files(disk) == {X: b"one"}
    assert os.listdir(at(disk, ".dibs/tmp")) == []


def test_an_exchange_writes_the_new_text_in_one_step_and_keeps_the_permissions(disk: Disk) -> None:
    disk.create(X, b"one")
    at(disk, X).chmod(0o640)
    before = disk.stamp(X)
    disk.exchange(X, b"two", b"one")
    assert files(disk) == {X: b"two"}
    assert at(disk, X).stat().st_mode & 0o777 == 0o640
    assert disk.stamp(X) != before
    assert disk.late_saves() == []


def test_an_exchange_of_what_was_not_read_changes_nothing(disk: Disk) -> None:
    disk.create(X, b"one")
    with pytest.raises(Raced):
        disk.exchange(X, b"two", b"zero")
    with pytest.raises(Raced):
        disk.exchange("Needs_Action/y.md", b"two", b"one")
    with pytest.raises(Raced):
        disk.exchange("Parked/y.md", b"two", b"one")
    assert files(disk) == {X: b"one"}


def test_a_move_makes_the_folder_and_overwrites_nothing(disk: Disk) -> None:
    disk.create(X, b"one")
    disk.move(X, "In_Progress/ann/x.md")
    assert files(disk) == {"In_Progress/ann/x.md": b"one"}
    disk.create(X, b"another")
    with pytest.raises(FileExistsError):
        disk.move(X, "In_Progress/ann/x.md")
    assert files(disk) == {"In_Progress/ann/x.md": b"one", X: b"another"}
    with pytest.raises(Raced):
        disk.move("Needs_Action/y.md", "Done/y.md")
    with pytest.raises(Raced):
        disk.move("Parked/y.md", "Done/y.md")


def test_a_text_that_has_no_place_is_kept_under_a_free_name(disk: Disk) -> None:
    kept = [disk.keep("Conflicts", "x.md", b"%d" % number) for number in range(3)]
    assert kept == ["Conflicts/x.md", "Conflicts/x 2.md", "Conflicts/x 3.md"]
    assert [files(disk)[path] for path in kept] == [b"0", b"1", b"2"]
    assert disk.scan() == ({}, {}), "what is kept there is nobody's item"


def test_a_place_is_found_for_a_long_name_and_among_very_many(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "NAMES_MAX", 4)
    name = "ü" * 98 + ".md"
    kept = [disk.keep("Conflicts", name, b"%d" % number) for number in range(6)]
    assert len(set(kept)) == 6
    assert [files(disk)[path] for path in kept] == [b"%d" % number for number in range(6)]


def test_every_folder_touched_is_synced_once(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        synced.append(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    disk.create(X, b"one")
    disk.exchange(X, b"two", b"one")
    disk.move(X, "In_Progress/ann/x.md")
    monkeypatch.setattr(os, "fsync", noted)
    disk.sync()
    folders = (".", "Needs_Action", "In_Progress", "In_Progress/ann")
    assert {at(disk, one).stat().st_ino for one in folders} <= set(synced), "new folders' parents as well"
    synced.clear()
    disk.sync()
    assert synced == []


def test_it_works_on_both_sides_of_a_fork(disk: Disk) -> None:
    disk.create(X, b"one")
    child = os.fork()
    if child == 0:
        try:
            disk.exchange(X, b"two", b"one")
            disk.move(X, "Done/x.md")
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert disk.read("Done/x.md")[0] == b"two"


def test_it_stays_in_its_folder_when_the_program_goes_elsewhere(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    disk.create(X, b"one")
    assert files(disk) == {X: b"one"}


class TestLateSaves:
    def test_a_save_into_the_displaced_file_is_told_until_it_is_settled(self, disk: Disk) -> None:
        disk.create(X, b"one")
        with open(at(disk, X), "r+b", buffering=0) as editor:
            disk.exchange(X, b"two", b"one")
            assert disk.late_saves() == []
            editor.truncate()
            editor.write(b"hers")
            assert disk.late_saves() == [], "a save in the middle is told too early"
        assert disk.late_saves() == [(X, b"one", b"hers")] == disk.late_saves()
        assert Disk(disk.root).late_saves() == [(X, b"one", b"hers")], "others are told as well"
        disk.settle_late_save(X, b"hers")
        assert disk.late_saves() == []
        assert files(disk) == {X: b"two"}

    def test_after_it_was_settled_the_next_one_is_told(self, disk: Disk) -> None:
        disk.create(X, b"one")
        with open(at(disk, X), "r+b", buffering=0) as editor, open(at(disk, X), "r+b", buffering=0) as again:
            disk.exchange(X, b"two", b"one")
            editor.write(b"her")
            later(disk, late_saves.QUIET_SECONDS)
            [late] = disk.late_saves()
            assert late == (X, b"one", b"her")
            disk.settle_late_save(X, b"her")
            again.write(b"his")
        assert disk.late_saves() == [(X, b"her", b"his")]

    def test_one_who_never_closes_is_told_of_when_quiet(self, disk: Disk) -> None:
        disk.create(X, b"one")
        with open(at(disk, X), "r+b", buffering=0) as editor:
            disk.exchange(X, b"two", b"one")
            editor.write(b"her")
            later(disk, late_saves.QUIET_SECONDS)
            assert disk.late_saves() == [(X, b"one", b"her")]

    def test_where_nobody_can_say_who_writes_a_save_is_told_when_quiet(
        self, disk: Disk, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delattr(fcntl, "F_SETLEASE")
        disk.create(X, b"one")
        with open(at(disk, X), "r+b", buffering=0) as editor:
            disk.exchange(X, b"two", b"one")
            editor.write(b"her")
        assert disk.late_saves() == []
        later(disk, late_saves.QUIET_SECONDS)
        assert disk.late_saves() == [(X, b"one", b"her")]
        disk.settle_late_save(X, b"her")
        monkeypatch.setattr(late_saves, "KEEP_SECONDS", -1.0)
        disk.late_saves()
        assert kept(disk) == 0

    def test_the_untouched_go_after_a_while_unless_somebody_has_them_open(
        self, disk: Disk, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        disk.create(X, b"one")
        with open(at(disk, X), "r+b", buffering=0) as editor:
            disk.exchange(X, b"two", b"one")
            disk.late_saves()
            assert kept(disk) == 2
            monkeypatch.setattr(late_saves, "KEEP_SECONDS", -1.0)
            disk.late_saves()
            assert kept(disk) == 2, "it is open to be written"
            editor.write(b"her")
        assert disk.late_saves() == [(X, b"one", b"her")]
        disk.settle_late_save(X, b"her")
        disk.late_saves()
        assert kept(disk) == 0

    def test_a_save_of_the_same_size_in_the_same_tick_is_found(self, disk: Disk) -> None:
        at(disk, X).parent.mkdir()
        at(disk, X).write_bytes(b"one")
        # As late as the exchange, however long it takes to get there.
        tick = time.time_ns() + 10**9
        os.utime(at(disk, X), ns=(tick, tick))
        with open(at(disk, X), "r+b", buffering=0) as editor:
            disk.exchange(X, b"two", b"one")
            editor.write(b"her")
        [name] = [one for one in os.listdir(at(disk, late_saves.FOLDER)) if one.endswith(".text")]
        os.utime(at(disk, f"{late_saves.FOLDER}/{name}"), ns=(tick, tick))
        assert disk.late_saves() == [(X, b"one", b"her")]

    def test_a_save_that_keeps_the_stamp_stays(self, disk: Disk) -> None:
        at(disk, X).parent.mkdir()
        at(disk, X).write_bytes(b"one")
        was, read = disk.read(X)
        at(disk, X).write_bytes(b"her")
        os.utime(at(disk, X), ns=(read[2], read[2]))
        with pytest.raises(Raced):
            disk.exchange(X, b"two", was, read)
        assert at(disk, X).read_bytes() == b"her"

    def test_our_own_text_is_older_than_any_save_over_it(self, disk: Disk) -> None:
        """So size and mtime tell them apart, although clocks of file systems tick."""
        disk.create(X, b"one")
        disk.exchange(X, b"two", b"one")
        assert time.time_ns() - at(disk, X).stat().st_mtime_ns > TICK_NS

    def test_what_nobody_knows_any_more_goes_to_conflicts(self, disk: Disk) -> None:
        """The record of a displaced text is lost with the power, and somebody had saved into it."""
        disk.create(X, b"one")
        with open(at(disk, X), "r+b", buffering=0) as editor:
            disk.exchange(X, b"two", b"one")
            editor.write(b"hers")
        [record] = [one for one in os.listdir(at(disk, late_saves.FOLDER)) if one.endswith(".was")]
        at(disk, f"{late_saves.FOLDER}/{record}").write_bytes(b"")
        assert disk.late_saves() == []
        assert files(disk) == {X: b"two", "Conflicts/unknown.md": b"hers"}
        assert kept(disk) == 0

    def test_a_text_grown_too_large_goes_to_conflicts(self, disk: Disk) -> None:
        disk.create(X, b"one")
        with open(at(disk, X), "r+b", buffering=0) as editor:
            disk.exchange(X, b"two", b"one")
            editor.truncate(FILE_BYTES_MAX + 1)
        assert disk.late_saves() == []
        assert at(disk, "Conflicts/x.md").stat().st_size == FILE_BYTES_MAX + 1

    def test_foreign_files_among_them_are_left_alone(self, disk: Disk) -> None:
        disk.create(X, b"one")
        disk.exchange(X, b"two", b"one")
        for name in ("x.text", "1-2-3.text", "a-b-c-d.text", "README", "\udcff.was"):
            at(disk, f"{late_saves.FOLDER}/{name}").write_bytes(b"?")
        assert disk.late_saves() == []
        assert kept(disk) == 7


class TestSavesBetween:
    """Somebody saves at one exact moment of an exchange."""

    def test_a_save_before_the_swap_is_put_back(self, disk: Disk, swapping: Swapping) -> None:
        disk.create(X, b"one")
        swapping.before[1] = lambda: save(disk, b"hers")
        with pytest.raises(Raced):
            disk.exchange(X, b"two", b"one")
        assert files(disk) == {X: b"hers"}
        assert disk.late_saves() == []

    def test_a_save_into_the_file_before_the_swap_is_put_back(self, disk: Disk, swapping: Swapping) -> None:
        disk.create(X, b"one")
        swapping.before[1] = lambda: save_in_place(disk, b"hers")
        with pytest.raises(Raced):
            disk.exchange(X, b"two", b"one")
        assert files(disk) == {X: b"hers"}
        assert disk.late_saves() == []

    @pytest.mark.parametrize("in_place", [True, False])
    def test_a_later_save_over_ours_keeps_its_place(self, disk: Disk, swapping: Swapping, in_place: bool) -> None:
        disk.create(X, b"one")
        swapping.before[1] = lambda: save_in_place(disk, b"hers")
        swapping.before[2] = lambda: save_in_place(disk, b"his") if in_place else save(disk, b"his")
        with pytest.raises(Raced):
            disk.exchange(X, b"two", b"one")
        assert files(disk) == {X: b"his"}, "the latest save lost its place"
        assert disk.late_saves() == [(X, b"one", b"hers")], "the one before it is lost"

    def test_saves_over_every_swap_come_to_an_end_and_lose_nothing(self, disk: Disk, swapping: Swapping) -> None:
        disk.create(X, b"one")
        saves = [b"save %d" % number for number in range(200)]
        left = iter(saves)
        swapping.always = lambda: save_in_place(disk, next(left))
        with pytest.raises(Raced):
            disk.exchange(X, b"two", b"one")
        done = saves[: swapping.count]
        there = {disk.read(X)[0], *(now for _, _, now in disk.late_saves())}
        assert there == set(done[-2:])

    def test_a_file_moved_away_while_its_save_is_put_back_leaves_the_save(self, disk: Disk, swapping: Swapping) -> None:
        disk.create(X, b"one")
        os.mkdir(at(disk, "Done"))
        swapping.before[1] = lambda: save_in_place(disk, b"hers")
        swapping.before[2] = lambda: at(disk, X).rename(at(disk, "Done/x.md"))
        with pytest.raises(Raced):
            disk.exchange(X, b"two", b"one")
        assert files(disk) == {"Done/x.md": b"two"}
        assert disk.late_saves() == [(X, b"one", b"hers")]

    def test_a_file_moved_away_before_the_swap_is_not_doubled(self, disk: Disk, swapping: Swapping) -> None:
        disk.create(X, b"one")
        os.mkdir(at(disk, "Done"))
        swapping.before[1] = lambda: at(disk, X).rename(at(disk, "Done/x.md"))
        with pytest.raises(Raced):
            disk.exchange(X, b"two", b"one")
        assert files(disk) == {"Done/x.md": b"one"}
        assert kept(disk) == 0

    def test_a_file_moved_away_between_the_steps_of_a_swap_is_not_doubled(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        disk = Disk(str(tmp_path), native=False)
        disk.create(X, b"one")
        os.mkdir(at(disk, "Done"))
        rename = renaming.rename

        def late(one: Place, other: Place) -> None:
            if other[1] == "x.md":
                at(disk, X).rename(at(disk, "Done/x.md"))
            rename(one, other)

        monkeypatch.setattr(renaming, "rename", late)
        with pytest.raises(Raced):
            disk.exchange(X, b"two", b"one")
        assert files(disk) == {"Done/x.md": b"one"}
        assert disk.scan()[1] == {}
        disk.close()

    def test_a_link_put_in_its_place_is_put_back(self, disk: Disk, swapping: Swapping, tmp_path: Path) -> None:
        secret = tmp_path / "secret"
        secret.write_bytes(b"secret")
        disk.create(X, b"one")

        def plant() -> None:
            at(disk, X).unlink()
            at(disk, X).symlink_to(secret)

        swapping.before[1] = plant
        with pytest.raises(Raced):
            disk.exchange(X, b"two", b"one")
        assert secret.read_bytes() == b"secret"
        assert at(disk, X).is_symlink()
        assert disk.late_saves() == []


class TestLeftovers:
    """What a crash leaves is brought to its end by the next scan."""

    def test_a_file_on_its_way_arrives(self, disk: Disk) -> None:
        disk.create(X, b"one")
        stray = f"Needs_Action/{renaming.STRAY}0123456789abcdef-x.md"
        at(disk, X).rename(at(disk, stray))
        assert list(disk.scan()[0]) == [X]
        assert files(disk) == {X: b"one"}

    def test_one_that_has_arrived_has_one_name(self, disk: Disk) -> None:
        disk.create(X, b"one")
        os.link(at(disk, X), at(disk, f"Needs_Action/{renaming.STRAY}0123456789abcdef-x.md"))
        assert disk.scan() == ({X: disk.stamp(X)}, {})
        assert files(disk) == {X: b"one"}

    def test_one_whose_place_was_taken_goes_to_conflicts(self, disk: Disk) -> None:
        disk.create(X, b"one")
        at(disk, f"Needs_Action/{renaming.STRAY}0123456789abcdef-x.md").write_bytes(b"two")
        assert list(disk.scan()[0]) == [X]
        assert files(disk) == {X: b"one", "Conflicts/x.md": b"two"}

    def test_old_drafts_go_and_new_ones_stay(self, disk: Disk) -> None:
        disk.create(X, b"one")
        for name in ("old.new", "young.new"):
            at(disk, f".dibs/tmp/{name}").write_bytes(b"")
        os.utime(at(disk, ".dibs/tmp/old.new"), (0, 0))
        disk.scan()
        assert os.listdir(at(disk, ".dibs/tmp")) == ["young.new"]


class Swapping:
    """What happens just before the first, second ... swap of a disk."""

    def __init__(self, disk: Disk) -> None:
        self.before: dict[int, Callable[[], object]] = {}
        self.always: Callable[[], object] | None = None
        self.count = 0
        self._renaming = disk._renaming
        self._swap = self._renaming.swap

    def swap(self, one: Place, other: Place, spare: Place) -> None:
        self.count += 1
        happening = self.before.get(self.count, self.always)
        if happening is not None:
            happening()
        self._swap(one, other, spare)


@pytest.fixture
def swapping(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> Swapping:
    swapping = Swapping(disk)
    monkeypatch.setattr(disk._renaming, "swap", swapping.swap)
    return swapping


def save(disk: Disk, text: bytes) -> None:
    """As most editors do: a new file, renamed over the old one."""
    draft = at(disk, X).with_name(".x.md.swp")
    draft.write_bytes(text)
    draft.rename(at(disk, X))


def save_in_place(disk: Disk, text: bytes) -> None:
    with open(at(disk, X), "r+b") as file:
        file.truncate()
        file.write(text)


def kept(disk: Disk) -> int:
    return len(os.listdir(at(disk, late_saves.FOLDER)))


def later(disk: Disk, seconds: float) -> None:
    """Let the last write into every displaced file be that long ago."""
    moment = time.time() - seconds - 1
    for name in os.listdir(at(disk, late_saves.FOLDER)):
        os.utime(at(disk, f"{late_saves.FOLDER}/{name}"), (moment, moment))


def test_what_could_not_be_read_again_is_not_written(disk: Disk) -> None:
    disk.create(X, b"x" * FILE_BYTES_MAX)
    assert len(disk.read(X)[0]) == FILE_BYTES_MAX
    with pytest.raises(Unfit):
        disk.create("Needs_Action/y.md", b"x" * (FILE_BYTES_MAX + 1))
    with pytest.raises(Unfit):
        disk.exchange(X, b"x" * (FILE_BYTES_MAX + 1), b"x" * FILE_BYTES_MAX)
    assert list(files(disk)) == [X]
