"""The files of a vault: found, read, made, exchanged and moved, among people and programs who do the same.

No lock holds those others back. So nothing is overwritten that was not read: a new text is exchanged with the old one,
and if what comes out is not what was read, it is somebody's save and is put back; a file is moved by a rename that
never overwrites, and of all who rename a file one succeeds. Whatever gives way is kept for a while (see `displaced`).
What files mean is not known here.
"""

from __future__ import annotations

import os
import time

from dibs.files.renaming import Moved, Renaming, mend
from dibs.store.vault.displaced_texts import Displaced, Record
from dibs.store.vault.layout import CONFLICTS, LOOKED_INTO
from dibs.store.vault.safe_fs import (
    FILE_BYTES_MAX,
    TEMPORARY,
    TICK_NS,
    Beneath,
    Folder,
    Raced,
    Stamp,
    Unfit,
    stamp_of,
    unfit_name,
)
from dibs.store.vault.scan import Marking, Scan, folders_within, met_twice, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dibs.store.vault.inotify_watch import Eyes

__all__ = ["Disk", "Raced", "Stamp", "Unfit"]

#: How often a text that lost its place is tried to be put back, and how many names are tried for one.
SWAPS_MAX = 50
NAMES_MAX = 1000
STEM_BYTES_MAX = 150
#: So often a file that was saved just now is let grow older before its stamp is believed.
TICKS_MAX = 3
#: A temporary file that is older was left by a crash.
TEMPORARY_SECONDS_MAX = 60.0


class Disk:
    def __init__(self, root: str, *, folders: Sequence[str] = LOOKED_INTO, native: bool = True) -> None:
        """`native=False` does without the renames that some systems and file systems lack."""
        self._beneath = Beneath(root)
        self._displaced = Displaced(self._beneath)
        self._renaming = Renaming(native)
        self._folders = tuple(folders)
        self._late: list[tuple[str, Record, bytes]] = []

    @property
    def root(self) -> str:
        return self._beneath.root

    def close(self) -> None:
        self._beneath.close()

    def scan(self) -> tuple[dict[str, Stamp], dict[str, str]]:
        """Every item's file by its path; and what looks like one and is none, with why. Opens no file.

        A file that goes back to an earlier folder meanwhile may be missed: look for it before believing that it is
        gone. Call it with the board's lock held: what a crash left half done is brought to its end here.
        """
        self._mend()
        scan = Scan(self._beneath, self._folders)
        if scan.strays:
            for path, stray in scan.strays:
                self._mend_stray(path, stray)
            scan = Scan(self._beneath, self._folders)
        for path in met_twice(scan.found):
            now = self.stamp(path)
            if now is None:
                del scan.found[path]
            else:
                scan.found[path] = now
        return scan.found, scan.refused

    def mark(self) -> int | None:
        """A number that is another one whenever any file is; None if only a scan can tell. Cheaper than that."""
        self._mend()
        return self.glimpse()

    def glimpse(self) -> int | None:
        """The same for who does not hold the lock: nothing is mended."""
        marking = Marking(self._beneath, self._folders)
        return None if marking.strays else marking.sum

    def glance(self) -> tuple[dict[str, Stamp], dict[str, str]]:
        """The same as they are met, for who does not hold the lock: nothing is mended."""
        scan = Scan(self._beneath, self._folders)
        return scan.found, scan.refused

    def names_in(self, folder: str) -> list[str]:
        """Of the files in one that is not looked into."""
        return [path.rpartition("/")[2] for path in Scan(self._beneath, (folder,)).found]

    def folders_within(self) -> list[str]:
        """The folders that nobody looks into."""
        return folders_within(self._beneath, self._folders)

    def read(self, path: str) -> tuple[bytes, Stamp]:
        """The text and the stamp of exactly this text; FileNotFoundError, Unfit, and Raced if it never holds still."""
        folder, name = self._at(path)
        with folder:
            try:
                text, found = folder.read(name)
                for _ in range(TICKS_MAX):
                    if not _may_be_saved_unseen(found):
                        break
                    time.sleep(TICK_NS / 1e9)
                    text, found = folder.read(name)
            except Unfit as why:
                raise Unfit(f"{path} {why}") from None
            return text, stamp_of(found)

    def stamp(self, path: str) -> Stamp | None:
        """None if there is no such file, or one that we do not touch."""
        try:
            folder, name = self._at(path)
            with folder:
                return stamp_of(folder.look(name))
        except (FileNotFoundError, Unfit):
            return None

    def create(self, path: str, data: bytes) -> Stamp:
        """A new file, as it was put there; FileExistsError if there is one, which is left as it is."""
        _require_size(path, data)
        folder, name = self._at(path, make=True)
        with folder, self._beneath.folder(TEMPORARY, make=True) as temporary:
            draft = f"{os.urandom(8).hex()}.new"
            temporary.write(draft, data)
            put = stamp_of(temporary.look(draft))
            try:
                self._renaming.move((temporary.descriptor, draft), (folder.descriptor, name))
            except BaseException:
                temporary.unlink(draft)
                raise
            self._beneath.touched.add(folder.path)
            return put

    def exchange(self, path: str, data: bytes, was: bytes) -> Stamp:
        """Write the text of a file whose text is `was`, and tell how it was put there; Raced if it is another one by
        now, which stays there."""
        _require_size(path, data)
        try:
            folder, name = self._at(path)
        except FileNotFoundError:
            raise Raced(f"{path} is gone") from None
        with folder, self._displaced.folder() as displaced:
            found = self._expected(folder, name, was)
            ours = self._displaced.prepare(displaced, Record(path, was, data), found)
            put = stamp_of(displaced.look(ours))
            try:
                self._swap(displaced, ours, folder, name)
            except (FileNotFoundError, Moved):
                self._displaced.forget(displaced, ours)
                raise Raced(f"{path} was moved") from None
            self._beneath.touched.add(folder.path)
            if _text(displaced, ours) != was:
                self._give_back(displaced, ours, folder, name, Record(path, was, data))
                raise Raced(f"{path} was saved meanwhile")
            return put

    def move(self, path: str, to: str) -> None:
        """Rename without overwriting: Raced if it is gone, FileExistsError if there is something of that name."""
        try:
            folder, name = self._at(path)
        except FileNotFoundError:
            raise Raced(f"{path} is gone") from None
        with folder:
            target, new = self._at(to, make=True)
            with target:
                try:
                    folder.look(name)
                    self._renaming.move((folder.descriptor, name), (target.descriptor, new))
                except FileNotFoundError:
                    raise Raced(f"{path} is gone") from None
                except Unfit as why:
                    raise Unfit(f"{path} {why}") from None
                self._beneath.touched |= {folder.path, target.path}

    def discard(self, path: str, was: bytes) -> None:
        """Take away a file that was made and is not wanted after all, if it still says what it was made to say."""
        folder, name = self._at(path)
        with folder, self._displaced.folder() as displaced:
            found = self._expected(folder, name, was)
            place = self._displaced.prepare(displaced, Record(path, was, was), found)
            displaced.unlink(place)
            self._renaming.move((folder.descriptor, name), (displaced.descriptor, place))
            self._beneath.touched.add(folder.path)

    def sync(self) -> None:
        """Let all that was made and moved since the last time reach the disk."""
        self._beneath.sync()

    def keep(self, folder: str, name: str, data: bytes) -> str:
        """Write a text under that name or, if it is taken, a similar one; its path."""
        for free in _names_like(name):
            try:
                self.create(f"{folder}/{free}", data)
            except FileExistsError:
                continue
            return f"{folder}/{free}"
        raise FileExistsError(f"{folder} is full of files like {name}")

    def holds(self, folder: str, name: str, data: bytes) -> bool:
        """Whether that text was kept there before, under that name or a similar one."""
        for taken in _names_like(name):
            try:
                if self.read(f"{folder}/{taken}")[0] == data:
                    return True
            except FileNotFoundError:
                return False
            except (Raced, Unfit):
                continue
        return False

    def late_saves(self) -> list[tuple[str, bytes, bytes]]:
        """Texts that were saved into files which had given way to ours: path, what it said then, what it says now.

        Told again until `settled`. Those that are no readable texts, or of unknown origin, are put into Conflicts.
        """
        self._late = []
        with self._displaced.folder() as displaced:
            for name, record, text in self._displaced.late(displaced):
                if record is None or text is None:
                    self._set_aside(displaced, name, _name_of(record))
                    self._displaced.forget_record(displaced, name)
                else:
                    self._late.append((name, record, text))
        return [(record.path, record.was, text) for _, record, text in self._late]

    def settled(self, path: str, now: bytes) -> None:
        """The late save of that text at that path has been dealt with. It may be saved to yet again."""
        with self._displaced.folder() as displaced:
            for late in [one for one in self._late if (one[1].path, one[2]) == (path, now)]:
                self._late.remove(late)
                self._displaced.renew(displaced, late[0], Record(path, now, now))

    def eyes(self, bell: str | None = None) -> Eyes:
        """What tells which files changed, without a scan, and when the file `bell` was written."""
        from dibs.store.vault.inotify_watch import Eyes

        return Eyes(self._beneath, folders=self._folders, bell=bell)

    def _at(self, path: str, *, make: bool = False) -> tuple[Folder, str]:
        """The folder, opened, and the name in it."""
        pieces = path.split("/")
        why = next((why for why in map(unfit_name, pieces) if why), None)
        if why is not None or not 2 <= len(pieces) <= 3:
            raise Unfit(f"{shown(path)} {why or 'is not a path of a vault'}")
        return self._beneath.folder("/".join(pieces[:-1]), make=make), pieces[-1]

    def _expected(self, folder: Folder, name: str, was: bytes) -> os.stat_result:
        try:
            text, found = folder.read(name)
        except FileNotFoundError:
            raise Raced(f"{folder.path}/{name} is gone") from None
        except Unfit as why:
            raise Unfit(f"{folder.path}/{name} {why}") from None
        if text != was:
            raise Raced(f"{folder.path}/{name} was saved meanwhile")
        return found

    def _swap(self, displaced: Folder, ours: str, folder: Folder, name: str) -> None:
        with self._beneath.folder(TEMPORARY, make=True) as temporary:
            spare = (temporary.descriptor, f"{ours}.link")
            self._renaming.swap((displaced.descriptor, ours), (folder.descriptor, name), spare)

    def _give_back(self, displaced: Folder, ours: str, folder: Folder, name: str, record: Record) -> None:
        """Put the save in hand back to its place. What comes out there must be what we had put; if it is not, a later
        save came over it, and belongs there instead."""
        put: bytes | None = record.ours
        hand = came = _text(displaced, ours)
        for _ in range(SWAPS_MAX):
            try:
                self._swap(displaced, ours, folder, name)
            except (FileNotFoundError, Moved):
                return  # nothing is there any more; what is in hand is a late save
            came = _text(displaced, ours)
            if came == put:
                break
            put, hand = hand, came
        if came == record.ours:
            self._displaced.renew(displaced, ours, Record(record.path, record.ours, record.ours))

    def _mend(self) -> None:
        """Finish or clear away what a crash left in the folder for temporary files."""
        try:
            temporary = self._beneath.folder(TEMPORARY)
        except FileNotFoundError:
            return
        with temporary:
            for name in os.listdir(temporary.descriptor):
                try:
                    one = os.stat(name, dir_fd=temporary.descriptor, follow_symlinks=False)
                    if name.endswith(".link"):
                        self._mend_link(temporary, name, one)
                    elif name.endswith(".new") and time.time() - one.st_mtime > TEMPORARY_SECONDS_MAX:
                        temporary.unlink(name)
                except FileNotFoundError:
                    pass

    def _mend_link(self, temporary: Folder, name: str, one: os.stat_result) -> None:
        """A second name of a file whose text was to be exchanged; or its last one, if ours is in its place already."""
        if one.st_nlink > 1:
            return temporary.unlink(name)
        with self._displaced.folder() as displaced:
            at, to = temporary.descriptor, displaced.descriptor
            return os.rename(name, name.removesuffix(".link"), src_dir_fd=at, dst_dir_fd=to)

    def _mend_stray(self, path: str, stray: str) -> None:
        try:
            with self._beneath.folder(path) as folder:
                taken = mend(folder.descriptor, stray)
                if taken is not None:
                    self._set_aside(folder, stray, taken)
        except FileNotFoundError:
            pass

    def _set_aside(self, folder: Folder, name: str, wanted: str) -> None:
        """Move whatever it is into Conflicts, as it is."""
        with self._beneath.folder(CONFLICTS, make=True) as conflicts:
            for free in _names_like(wanted):
                try:
                    self._renaming.move((folder.descriptor, name), (conflicts.descriptor, free))
                    self._beneath.touched.add(CONFLICTS)
                    return
                except FileExistsError:
                    continue
                except FileNotFoundError:
                    return


def _may_be_saved_unseen(found: os.stat_result) -> bool:
    """Was it saved so shortly ago that the next save may leave the same stamp, if the size is the same as well?"""
    now = time.time_ns()
    return 0 <= now - found.st_mtime_ns <= TICK_NS and 0 <= now - found.st_ctime_ns <= TICK_NS


def _require_size(path: str, data: bytes) -> None:
    """What could not be read again is not written."""
    if len(data) > FILE_BYTES_MAX:
        raise Unfit(f"{shown(path)} would have {len(data)} bytes; {FILE_BYTES_MAX} is the most")


def _text(folder: Folder, name: str) -> bytes | None:
    """None if it is no file with a text."""
    try:
        return folder.read(name)[0]
    except (Unfit, Raced, FileNotFoundError):
        return None


def _name_of(record: Record | None) -> str:
    name = "" if record is None else record.path.rpartition("/")[2]
    return "unknown.md" if unfit_name(name) else name


def _names_like(name: str) -> Iterator[str]:
    """It, some with a number, and one that is free for sure."""
    yield name
    stem, dot, suffix = name.rpartition(".") if "." in name else (name, "", "")
    stem = stem.encode()[:STEM_BYTES_MAX].decode(errors="ignore")
    for number in range(2, NAMES_MAX):
        yield f"{stem} {number}{dot}{suffix}"
    yield f"{stem} {os.urandom(8).hex()}{dot}{suffix}"
