"""The files of a vault: found, read, created, exchanged and moved, while people and programs do the same.

Other programs take no lock, so dibs overwrites nothing that it has not read. A new text is exchanged with the old one;
if the old one is not the text that was read, it is another program's save and is put back. A move is a rename that
never overwrites: of all processes that rename a file, one succeeds. Displaced files are kept for late saves. This
module does not know what the files mean.
"""

from __future__ import annotations

import os
import time

from dibs.store.vault.late_saves import DisplacedFiles, Record
from dibs.store.vault.layout import CONFLICTS, SCANNED, name_of
from dibs.store.vault.safe_fs import (
    FILE_BYTES_MAX,
    TEMPORARY,
    TICK_NS,
    Folder,
    Raced,
    SafeRoot,
    Stamp,
    Unfit,
    printable,
    stamp_of,
    why_name_unfit,
)
from dibs.store.vault.scan import ChecksumScan, Scan, met_twice, subfolders
from dibs.system.renaming import Moved, Renaming, mend, rename

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from dibs.store.vault.watch import InotifyWatch

__all__ = ["Disk", "Raced", "Stamp", "Unfit"]

#: The number of attempts to put a displaced save back, and of names to try for a file.
SWAPS_MAX = 50
NAMES_MAX = 1000
STEM_BYTES_MAX = 150
#: The number of times that a file which was just saved is read again, until its stamp is reliable.
TICKS_MAX = 3
#: An older temporary file was left by a crash.
TEMPORARY_SECONDS_MAX = 60.0


class Disk:
    def __init__(self, root: str, *, folders: Sequence[str] = SCANNED, native: bool = True) -> None:
        """`native=False`: rename without the flags that some systems and file systems lack."""
        self._root = SafeRoot(root)
        self._displaced = DisplacedFiles(self._root)
        self._renaming = Renaming(native)
        self._folders = tuple(folders)
        self._late: list[tuple[str, Record, bytes]] = []

    @property
    def root(self) -> str:
        return self._root.root

    def close(self) -> None:
        self._root.close()

    # Finding files. Callers of the unlocked forms do not hold the board's lock; these forms finish no interrupted
    # rename.

    def scan(self) -> tuple[dict[str, Stamp], dict[str, str]]:
        """The stamps of all task files by path, and the files that cannot be task files, with the reason.

        A file that moves back to an earlier folder during the scan may be missed: check its path before treating it as
        gone. Renames that a crash interrupted are finished here.
        """
        self._finish_interrupted()
        scan = Scan(self._root, self._folders)
        if scan.strays:
            for path, stray in scan.strays:
                self._finish_move(path, stray)
            scan = Scan(self._root, self._folders)
        for path in met_twice(scan.found):
            now = self.stamp(path)
            if now is None:
                del scan.found[path]
            else:
                scan.found[path] = now
        return scan.found, scan.refused

    def scan_unlocked(self) -> tuple[dict[str, Stamp], dict[str, str]]:
        scan = Scan(self._root, self._folders)
        return scan.found, scan.refused

    def checksum(self) -> int | None:
        """A number that changes when any file does; None if only a scan can tell. Cheaper than a scan."""
        self._finish_interrupted()
        return self.checksum_unlocked()

    def checksum_unlocked(self) -> int | None:
        scan = ChecksumScan(self._root, self._folders)
        return None if scan.strays else scan.sum

    def names_in(self, folder: str) -> list[str]:
        """The file names in a folder that is not scanned."""
        return [name_of(path) for path in Scan(self._root, (folder,)).found]

    def subfolders(self) -> list[str]:
        return subfolders(self._root, self._folders)

    def watch(self, bell: str | None = None) -> InotifyWatch:
        from dibs.store.vault.watch import InotifyWatch

        return InotifyWatch(self._root, folders=self._folders, bell=bell)

    # One file

    def read(self, path: str) -> tuple[bytes, Stamp]:
        """The content, and the stamp of exactly this content. FileNotFoundError; Unfit; Raced if it keeps changing."""
        folder, name = self._open(path)
        with folder:
            try:
                data, found = folder.read(name)
                for _ in range(TICKS_MAX):
                    if not _may_change_unnoticed(found):
                        break
                    time.sleep(TICK_NS / 1e9)
                    data, found = folder.read(name)
            except Unfit as why:
                raise Unfit(f"{path} {why}") from None
            return data, stamp_of(found)

    def stamp(self, path: str) -> Stamp | None:
        """None if there is no such file, or it is Unfit."""
        try:
            folder, name = self._open(path)
            with folder:
                return stamp_of(folder.stat(name))
        except (FileNotFoundError, Unfit):
            return None

    def exists(self, path: str) -> bool:
        """Whether anything has this name, be it a file or not."""
        try:
            folder, name = self._open(path)
            with folder:
                os.stat(name, dir_fd=folder.descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return True

    def create(self, path: str, data: bytes) -> Stamp:
        """Create a file; FileExistsError if there is one, which stays."""
        _require_size(path, data)
        folder, name = self._open(path, make=True)
        with folder, self._root.folder(TEMPORARY, make=True) as temporary:
            draft = f"{os.urandom(8).hex()}.new"
            temporary.write(draft, data)
            stamp = stamp_of(temporary.stat(draft))
            try:
                self._renaming.move((temporary.descriptor, draft), (folder.descriptor, name))
            except BaseException:
                temporary.unlink(draft)
                raise
            self._root.touched.add(folder.path)
            return stamp

    def exchange(self, path: str, data: bytes, was: bytes, read: Stamp | None = None) -> Stamp:
        """Replace the content `was` with `data`; Raced if the content is another one by now, which stays. A file that
        has the stamp `read`, with which `was` was read, is not read again before the exchange."""
        _require_size(path, data)
        try:
            folder, name = self._open(path)
        except FileNotFoundError:
            raise Raced(f"{path} is gone") from None
        with folder, self._displaced.folder() as displaced, self._root.folder(TEMPORARY, make=True) as temporary:
            found = self._require_content(folder, name, was, read)
            draft = self._displaced.prepare(displaced, temporary, Record(path=path, was=was, new=data), found)
            stamp = stamp_of(displaced.stat(draft))
            try:
                self._swap(displaced, temporary, draft, folder, name)
            except (FileNotFoundError, Moved):
                self._displaced.forget(displaced, draft)
                raise Raced(f"{path} was moved") from None
            self._root.touched.add(folder.path)
            if _content(displaced, draft) != was:
                self._put_back(displaced, temporary, draft, folder, name, Record(path=path, was=was, new=data))
                raise Raced(f"{path} was saved meanwhile")
            return stamp

    def move(self, path: str, to: str) -> None:
        """Rename without overwriting: Raced if the file is gone, FileExistsError if `to` exists."""
        try:
            folder, name = self._open(path)
        except FileNotFoundError:
            raise Raced(f"{path} is gone") from None
        with folder:
            target, new = self._open(to, make=True)
            with target:
                try:
                    folder.stat(name)
                    self._renaming.move((folder.descriptor, name), (target.descriptor, new))
                except FileNotFoundError:
                    raise Raced(f"{path} is gone") from None
                except Unfit as why:
                    raise Unfit(f"{path} {why}") from None
                self._root.touched |= {folder.path, target.path}

    def discard(self, path: str, was: bytes) -> None:
        """Remove a file that still has the content `was`."""
        folder, name = self._open(path)
        with folder, self._displaced.folder() as displaced, self._root.folder(TEMPORARY, make=True) as temporary:
            found = self._require_content(folder, name, was)
            place = self._displaced.prepare(displaced, temporary, Record(path=path, was=was, new=was), found)
            displaced.unlink(place)
            self._renaming.move((folder.descriptor, name), (displaced.descriptor, place))
            self._root.touched.add(folder.path)

    @property
    def touched(self) -> set[str]:
        """The folders whose entries changed since the last sync."""
        return self._root.touched

    def sync(self, folders: Iterable[str] = ()) -> None:
        """Make all changes since the last sync durable, and those in `folders`."""
        self._root.touched.update(folders)
        self._root.sync()

    def sync_all(self) -> None:
        """Make all changes durable, by whichever process."""
        self.sync((*self._folders, *Scan(self._root, ()).agent_folders()))

    def keep(self, folder: str, name: str, data: bytes) -> str:
        """Create a file under this name or, if it is taken, a similar one; return its path."""
        for similar in similar_names(name):
            try:
                self.create(f"{folder}/{similar}", data)
            except FileExistsError:
                continue
            return f"{folder}/{similar}"
        raise FileExistsError(f"{folder} is full of files like {name}")

    def holds(self, folder: str, name: str, data: bytes) -> bool:
        """Whether `keep` has kept this content under this name before."""
        for similar in similar_names(name):
            try:
                if self.read(f"{folder}/{similar}")[0] == data:
                    return True
            except FileNotFoundError:
                return False
            except (Raced, Unfit):
                continue
        return False

    # Late saves

    def late_saves(self) -> list[tuple[str, bytes, bytes]]:
        """What was saved into displaced files: path, content when it was displaced, content now.

        Each is answered again until `settle_late_save`. A file that cannot be read, or whose record is lost, is moved
        to Conflicts.
        """
        self._late = []
        with self._displaced.folder() as displaced:
            for name, record, data in self._displaced.late(displaced):
                if record is None or data is None:
                    wanted = "" if record is None else name_of(record.path)
                    self._move_to_conflicts(displaced, name, "unknown.md" if why_name_unfit(wanted) else wanted)
                    self._displaced.forget_record(displaced, name)
                else:
                    self._late.append((name, record, data))
        return [(record.path, record.was, data) for _, record, data in self._late]

    def settle_late_save(self, path: str, saved: bytes) -> None:
        """Note that this late save was merged or kept. An editor may save to the displaced file once more."""
        with self._displaced.folder() as displaced:
            for late in [one for one in self._late if (one[1].path, one[2]) == (path, saved)]:
                self._late.remove(late)
                self._displaced.renew(displaced, late[0], Record(path=path, was=saved, new=saved))

    # Internals

    def _open(self, path: str, *, make: bool = False) -> tuple[Folder, str]:
        """Open the folder of a path; return the folder and the file name."""
        parts = path.split("/")
        why = next((why for why in map(why_name_unfit, parts) if why), None)
        if why is not None or not 2 <= len(parts) <= 3:
            raise Unfit(f"{printable(path)} {why or 'is not a path of a vault'}")
        return self._root.folder("/".join(parts[:-1]), make=make), parts[-1]

    def _require_content(self, folder: Folder, name: str, was: bytes, read: Stamp | None = None) -> os.stat_result:
        try:
            if read is not None and stamp_of(found := folder.stat(name)).content == read.content:
                return found
            data, found = folder.read(name)
        except FileNotFoundError:
            raise Raced(f"{folder.path}/{name} is gone") from None
        except Unfit as why:
            raise Unfit(f"{folder.path}/{name} {why}") from None
        if data != was:
            raise Raced(f"{folder.path}/{name} was saved meanwhile")
        return found

    def _swap(self, displaced: Folder, spare: Folder, draft: str, folder: Folder, name: str) -> None:
        free = (spare.descriptor, f"{draft}.link")
        self._renaming.swap((displaced.descriptor, draft), (folder.descriptor, name), free)

    def _put_back(
        self, displaced: Folder, spare: Folder, draft: str, folder: Folder, name: str, record: Record
    ) -> None:
        """Swap the displaced save back to its place. If the content that comes out is not the one that was put there,
        a later save had replaced it, and is swapped back in turn."""
        expected: bytes | None = record.new
        displaced_data = found = _content(displaced, draft)
        for _ in range(SWAPS_MAX):
            try:
                self._swap(displaced, spare, draft, folder, name)
            except (FileNotFoundError, Moved):
                return  # the path is empty now: the displaced content becomes a late save
            found = _content(displaced, draft)
            if found == expected:
                break
            expected, displaced_data = displaced_data, found
        if found == record.new:
            self._displaced.renew(displaced, draft, record.replace(was=record.new))

    def _finish_interrupted(self) -> None:
        """Finish or remove what a crash left in the folder for temporary files."""
        try:
            temporary = self._root.folder(TEMPORARY)
        except FileNotFoundError:
            return
        with temporary:
            for name in os.listdir(temporary.descriptor):
                try:
                    one = os.stat(name, dir_fd=temporary.descriptor, follow_symlinks=False)
                    if name.endswith(".link"):
                        self._finish_swap(temporary, name, one)
                    elif name.endswith(".new") and time.time() - one.st_mtime > TEMPORARY_SECONDS_MAX:
                        temporary.unlink(name)
                except FileNotFoundError:
                    pass

    def _finish_swap(self, temporary: Folder, name: str, one: os.stat_result) -> None:
        """Remove the second hard link of a file that was to be displaced. If it is the only link, the file was
        displaced, and the link becomes its name among the displaced files."""
        if one.st_nlink > 1:
            temporary.unlink(name)
            return
        with self._displaced.folder() as displaced:
            rename((temporary.descriptor, name), (displaced.descriptor, name.removesuffix(".link")))

    def _finish_move(self, path: str, stray: str) -> None:
        try:
            with self._root.folder(path) as folder:
                taken = mend(folder.descriptor, stray)
                if taken is not None:
                    self._move_to_conflicts(folder, stray, taken)
        except FileNotFoundError:
            pass

    def _move_to_conflicts(self, folder: Folder, name: str, wanted: str) -> None:
        with self._root.folder(CONFLICTS, make=True) as conflicts:
            for similar in similar_names(wanted):
                try:
                    self._renaming.move((folder.descriptor, name), (conflicts.descriptor, similar))
                    self._root.touched.add(CONFLICTS)
                    return
                except FileExistsError:
                    continue
                except FileNotFoundError:
                    return


def _may_change_unnoticed(found: os.stat_result) -> bool:
    """Whether the file was saved so recently that another save of the same size may leave the same stamp."""
    now = time.time_ns()
    return 0 <= now - found.st_mtime_ns <= TICK_NS and 0 <= now - found.st_ctime_ns <= TICK_NS


def _require_size(path: str, data: bytes) -> None:
    if len(data) > FILE_BYTES_MAX:
        raise Unfit(f"{printable(path)} would have {len(data)} bytes; {FILE_BYTES_MAX} is the most")


def _content(folder: Folder, name: str) -> bytes | None:
    try:
        return folder.read(name)[0]
    except (Unfit, Raced, FileNotFoundError):
        return None


def similar_names(name: str) -> Iterator[str]:
    """The name itself, then the name with a number, then one with random digits, which is free."""
    yield name
    stem, dot, suffix = name.rpartition(".") if "." in name else (name, "", "")
    stem = stem.encode()[:STEM_BYTES_MAX].decode(errors="ignore")
    for number in range(2, NAMES_MAX):
        yield f"{stem} {number}{dot}{suffix}"
    yield f"{stem} {os.urandom(8).hex()}{dot}{suffix}"
