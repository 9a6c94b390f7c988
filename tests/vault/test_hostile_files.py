"""What people, programs and whoever pushes may put into a vault: none of it is followed, waited for or overwritten."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from dibs.store.vault.disk import Disk, Raced, Unfit
from dibs.store.vault.safe_fs import FILE_BYTES_MAX, NAME_BYTES_MAX

X, Y = "Needs_Action/x.md", "Needs_Action/y.md"
PLAIN = "Needs_Action/plain.md"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder that is none of our business, with a file in it."""
    made = tmp_path / "outside"
    made.mkdir()
    (made / "x.md").write_bytes(b"secret")
    return made


def root(disk: Disk) -> Path:
    return Path(disk.root)


def planted(disk: Disk, kind: str, outside: Path) -> Path:
    path = root(disk) / X
    path.parent.mkdir(exist_ok=True)
    (root(disk) / PLAIN).write_bytes(b"plain")
    if kind == "link":
        path.symlink_to(outside / "x.md")
    elif kind == "dangling link":
        path.symlink_to(outside / "none.md")
    elif kind == "FIFO":
        os.mkfifo(path)
    elif kind == "hard link":
        os.link(outside / "x.md", path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as server:
            os.chdir(path.parent)  # a socket's path may have a hundred characters only
            server.bind(path.name)
    elif kind == "device":
        try:
            os.mknod(path, 0o020600, os.makedev(1, 5))
        except PermissionError:
            pytest.skip("only root makes devices")
    elif kind == "50 MB":
        with open(path, "wb") as file:
            file.truncate(50_000_000)
    return path


KINDS = {
    "link": "symbolic link",
    "dangling link": "symbolic link",
    "FIFO": "FIFO",
    "hard link": "hard links",
    "folder": "folder",
    "socket": "socket",
    "device": "device",
    "50 MB": "bytes",
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_plain_file_is_told_and_not_touched(
    disk: Disk, outside: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(outside)
    path = planted(disk, kind, outside)
    found, refused = disk.scan()
    assert list(found) == [PLAIN]
    assert list(refused) == [X]
    assert KINDS[kind] in refused[X]
    before = os.lstat(path)
    with pytest.raises(Unfit, match=KINDS[kind]):
        disk.read(X)
    with pytest.raises(Unfit, match=KINDS[kind]):
        disk.exchange(X, b"mine", b"secret")
    with pytest.raises(Unfit, match=KINDS[kind]):
        disk.move(X, "Done/x.md")
    with pytest.raises(FileExistsError):
        disk.create(X, b"mine")
    with pytest.raises(FileExistsError):
        disk.move(PLAIN, X)
    assert disk.stamp(X) is None
    assert os.lstat(path)[:7] == before[:7]
    assert (outside / "x.md").read_bytes() == b"secret"
    assert sorted(os.listdir(outside)) == ["x.md"]
    assert os.listdir(root(disk) / ".dibs/tmp") == []


@pytest.mark.parametrize("folder", ["Needs_Action", "In_Progress", "In_Progress/ann", "Done", ".dibs", ".dibs/tmp"])
def test_no_linked_folder_is_entered(disk: Disk, outside: Path, folder: str) -> None:
    link = root(disk) / folder
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(outside)
    name = "x.md" if folder != "In_Progress" else "ann/x.md"
    path = f"{folder}/{name}"
    for what in (disk.read, lambda path: disk.exchange(path, b"mine", b"secret"), lambda path: disk.create(path, b"")):
        with pytest.raises(Unfit):
            what(path)
    other = root(disk) / "Parked"
    other.mkdir()
    (other / "y.md").write_bytes(b"mine")
    if not folder.startswith(".dibs"):
        with pytest.raises(Unfit):
            disk.move("Parked/y.md", path)
        with pytest.raises(Unfit):
            disk.move(path, "Parked/x.md")
        assert disk.scan()[1].keys() == {folder}
    else:
        with pytest.raises(Unfit):
            disk.create("Parked/z.md", b"mine")
        with pytest.raises(Unfit):
            disk.exchange("Parked/y.md", b"more", b"mine")
    assert [(entry.name, entry.read_bytes()) for entry in outside.iterdir()] == [("x.md", b"secret")]
    assert (other / "y.md").read_bytes() == b"mine"


def test_a_file_where_a_folder_should_be_is_told(disk: Disk) -> None:
    (root(disk) / "Done").write_bytes(b"")
    (root(disk) / "In_Progress").write_bytes(b"")
    assert disk.scan() == ({}, {"Done": "is a link or no folder", "In_Progress": "is a link or no folder"})
    with pytest.raises(Unfit):
        disk.create("Done/x.md", b"")


GOOD_NAMES = [
    "with spaces.md",
    " .md",
    "ünï-cødé.md",
    "家族 👨‍👩‍👧 🦀.md",
    "..md.md",
    "-rf.md",
    "$(id);'\".md",
    "*.md",
    "a\\b.md",
    "narrow\u202fspace.md",
    "x" * (NAME_BYTES_MAX - 3) + ".md",
]


@pytest.mark.parametrize("name", [name for name in GOOD_NAMES if not name.startswith(".")])
def test_names_that_people_give_are_names(disk: Disk, name: str) -> None:
    path = f"Needs_Action/{name}"
    disk.create(path, b"one")
    assert list(disk.scan()[0]) == [path]
    disk.exchange(path, b"two", b"one")
    disk.move(path, f"In_Progress/ann/{name}")
    assert disk.read(f"In_Progress/ann/{name}")[0] == b"two"
    assert disk.scan()[1] == {}
    assert disk.late_saves() == []


BAD_NAMES = {
    b"line\nend.md": "control characters",
    b"bell\x07.md": "control characters",
    b"\x7f.md": "control characters",
    b"latin-\xe9.md": "not UTF-8",
    b"\xff.md": "not UTF-8",
    b"y" * NAME_BYTES_MAX + b".md": "bytes",
}


@pytest.mark.parametrize("name", BAD_NAMES)
def test_names_that_could_not_be_told_apart_are_refused(disk: Disk, name: bytes) -> None:
    folder = os.fsencode(root(disk) / "Needs_Action")
    os.mkdir(folder)
    with open(os.path.join(folder, name), "wb") as file:
        file.write(b"one")
    found, refused = disk.scan()
    assert found == {}
    [(path, why)] = refused.items()
    assert BAD_NAMES[name] in why
    assert path.encode().decode().isprintable() or b"\n" in name or min(name) < 32 or 127 in name
    with pytest.raises(Unfit, match=BAD_NAMES[name]):
        disk.read(f"Needs_Action/{os.fsdecode(name)}")


@pytest.mark.parametrize(
    "path",
    [
        "x.md",
        "",
        "/etc/passwd",
        "Needs_Action",
        "Needs_Action/",
        "Needs_Action/..",
        "Needs_Action/../../x.md",
        "../x.md",
        "./x.md",
        "Needs_Action//x.md",
        "Needs_Action/a/b/x.md",
        ".git/hooks",
        ".dibs/vault.db",
        "Needs_Action/.x.md",
        "Needs_Action/nul\0.md",
    ],
)
def test_no_path_leads_outside_or_to_what_is_hidden(disk: Disk, tmp_path: Path, path: str) -> None:
    (tmp_path / "x.md").write_bytes(b"secret")
    (root(disk) / "Needs_Action").mkdir()
    (root(disk) / PLAIN).write_bytes(b"plain")
    for what in (
        lambda: disk.read(path),
        lambda: disk.create(path, b""),
        lambda: disk.exchange(path, b"", b"secret"),
        lambda: disk.move(path, Y),
        lambda: disk.move(PLAIN, path),
    ):
        with pytest.raises(Unfit):
            what()
    assert disk.stamp(path) is None
    assert (tmp_path / "x.md").read_bytes() == b"secret"


def test_names_that_differ_by_case_only_are_two_files_where_the_file_system_says_so(disk: Disk) -> None:
    disk.create("Needs_Action/a.md", b"small")
    try:
        disk.create("Needs_Action/A.md", b"large")
    except FileExistsError:
        assert list(disk.scan()[0]) == ["Needs_Action/a.md"]
    else:
        assert sorted(disk.scan()[0]) == ["Needs_Action/A.md", "Needs_Action/a.md"]
        with pytest.raises(FileExistsError):
            disk.move("Needs_Action/a.md", "Needs_Action/A.md")


def test_what_is_no_item_is_not_even_told(disk: Disk) -> None:
    folder = root(disk) / "Needs_Action"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub/inner.md").write_bytes(b"")
    for name in ("notes.txt", "image.png", "x.md~", ".x.md.swp", ".hidden.md", "X.MD"):
        (folder / name).write_bytes(b"")
    (folder / ".#x.md").symlink_to("somebody@host.1234")
    for name in ("Archive", "Conflicts", "Templates", ".obsidian", ".git"):
        (root(disk) / name).mkdir()
        (root(disk) / name / "x.md").write_bytes(b"")
    (root(disk) / "x.md").write_bytes(b"")
    assert disk.scan() == ({}, {})


def test_a_file_in_no_agents_folder_is_told(disk: Disk) -> None:
    (root(disk) / "In_Progress/ann").mkdir(parents=True)
    (root(disk) / "In_Progress/.hidden").mkdir()
    (root(disk) / "In_Progress/x.md").write_bytes(b"")
    (root(disk) / "In_Progress/bell\a").mkdir()
    found, refused = disk.scan()
    assert found == {}
    assert refused["In_Progress/x.md"] == "lies in no agent's folder"
    assert len(refused) == 2


def test_files_that_vanish_while_they_are_looked_at_are_not_there(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(10):
        disk.create(f"Needs_Action/{number}.md", b"")
    stat, open_ = os.stat, os.open

    def vanishing(name: object, **how: object) -> os.stat_result:
        if name in ("3.md", "7.md"):
            os.unlink(str(name), dir_fd=how["dir_fd"])  # type: ignore[arg-type]
        return stat(name, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "stat", vanishing)
    found, refused = disk.scan()
    monkeypatch.undo()
    assert len(found) == 8
    assert refused == {}

    def vanished(name: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if name == "5.md":
            os.unlink(name, dir_fd=dir_fd)
        return open_(name, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", vanished)
    with pytest.raises(FileNotFoundError):
        disk.read("Needs_Action/5.md")


def test_a_file_that_becomes_a_fifo_between_look_and_open_is_not_waited_for(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk.create(X, b"one")
    open_ = os.open

    def swapped(name: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if name == "x.md":
            (root(disk) / X).unlink(missing_ok=True)
            os.mkfifo(root(disk) / X)
        return open_(name, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", swapped)
    with pytest.raises(Unfit, match="FIFO"):
        disk.read(X)


def test_a_file_that_becomes_a_link_between_look_and_open_is_not_followed(
    disk: Disk, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk.create(X, b"one")
    open_ = os.open

    def swapped(name: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if name == "x.md":
            (root(disk) / X).unlink(missing_ok=True)
            (root(disk) / X).symlink_to(outside / "x.md")
        return open_(name, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", swapped)
    with pytest.raises(Unfit, match="link"):
        disk.read(X)


def test_a_file_that_grows_without_end_is_not_read_to_it(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    disk.create(X, b"one")
    read = os.read

    def growing(descriptor: int, count: int) -> bytes:
        with open(root(disk) / X, "ab") as file:
            file.write(b"x" * 400_000)
        return read(descriptor, min(count, 400_000))

    monkeypatch.setattr(os, "read", growing)
    with pytest.raises(Unfit, match=f"over {FILE_BYTES_MAX} bytes"):
        disk.read(X)


def test_a_file_that_never_holds_still_is_given_up(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    disk.create(X, b"one")
    read = os.read

    def changing(descriptor: int, count: int) -> bytes:
        with open(root(disk) / X, "r+b") as file:
            file.write(b"two")
            os.utime(file.fileno(), ns=(0, int.from_bytes(os.urandom(7))))
        return read(descriptor, count)

    monkeypatch.setattr(os, "read", changing)
    with pytest.raises(Raced):
        disk.read(X)


def test_a_folder_that_vanishes_is_made_again_or_missed(disk: Disk) -> None:
    disk.create(X, b"one")
    (root(disk) / X).unlink()
    (root(disk) / "Needs_Action").rmdir()
    disk.sync()
    with pytest.raises(FileNotFoundError):
        disk.read(X)
    disk.create(X, b"two")
    assert disk.read(X)[0] == b"two"
