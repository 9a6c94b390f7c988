"""One look at all folders of a vault: which files are there, by their stamps. No file is opened."""

from __future__ import annotations

import os
from binascii import crc32

from dibs.files.renaming import STRAY
from dibs.store.vault.layout import HELD, LOOKED_INTO, SUFFIX
from dibs.store.vault.safe_fs import FILE_BYTES_MAX, Beneath, Stamp, Unfit, unfit, unfit_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: So many of them that a sum of thousands is still a number of SQLite's.
MARK_MAX = (1 << 48) - 1

_REGULAR, _KIND = 0o100000, 0o170000
_SHORT = 100


class Scan:
    """What was found: files, what looks like one and is none, and files that a crash left on their way."""

    def __init__(self, beneath: Beneath, folders: Sequence[str] = LOOKED_INTO) -> None:
        self.found: dict[str, Stamp] = {}
        self.refused: dict[str, str] = {}
        self.strays: list[tuple[str, str]] = []
        self._beneath = beneath
        for path in folders:
            for one in self._agents() if path == HELD else (path,):
                self._take_in(one)

    def _take_in(self, path: str) -> None:
        found, before = self.found, f"{path}/"
        for name, one in self._files(path):
            found[before + name] = Stamp((one[1], one[6], one.st_mtime_ns, one.st_ctime_ns))

    def _files(self, path: str) -> Iterator[tuple[str, os.stat_result]]:
        # The one loop here that is written for speed: a scan comes before every write.
        try:
            folder = self._beneath.folder(path)
        except FileNotFoundError:
            return
        except Unfit:
            self.refused[path] = "is a link or no folder"
            return
        except PermissionError:
            self.refused[path] = "cannot be opened"
            return
        stat = os.stat
        with folder:
            descriptor = folder.descriptor
            names = [name for name in os.listdir(descriptor) if name[-3:] == SUFFIX]
            are_fit = _are_plain(names)
            for name in names:
                if name[0] == ".":
                    if name.startswith(STRAY):
                        self.strays.append((path, name))
                    continue
                try:
                    one = stat(name, dir_fd=descriptor, follow_symlinks=False)
                except FileNotFoundError:
                    continue
                if (
                    one[0] & _KIND == _REGULAR
                    and one[3] == 1
                    and one[6] <= FILE_BYTES_MAX
                    and (are_fit or unfit_name(name) is None)
                ):
                    yield name, one
                else:
                    self.refused[f"{path}/{shown(name)}"] = unfit_name(name) or unfit(one) or "is being removed"

    def _agents(self) -> Iterator[str]:
        try:
            with self._beneath.folder(HELD) as folder, os.scandir(folder.descriptor) as entries:
                inner = [(entry.name, entry.is_dir(follow_symlinks=False), entry.is_symlink()) for entry in entries]
        except FileNotFoundError:
            return
        except Unfit:
            self.refused[HELD] = "is a link or no folder"
            return
        except PermissionError:
            self.refused[HELD] = "cannot be opened"
            return
        for name, is_folder, is_link in sorted(inner):
            why = unfit_name(name)
            if name.startswith("."):
                continue
            if is_folder and why is None:
                yield f"{HELD}/{name}"
            elif is_folder or is_link:
                self.refused[f"{HELD}/{shown(name)}"] = why or "is a symbolic link"
            elif name.endswith(SUFFIX):
                self.refused[f"{HELD}/{shown(name)}"] = why or "lies in no agent's folder"


def folders_within(beneath: Beneath, folders: Sequence[str]) -> list[str]:
    """The folders that lie where only files are looked for."""
    found = []
    for path in folders:
        for one in Scan(beneath, ())._agents() if path == HELD else (path,):
            try:
                with beneath.folder(one) as folder, os.scandir(folder.descriptor) as entries:
                    names = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
            except (OSError, Unfit):
                continue  # told of as a whole
            found += [f"{one}/{shown(name)}" for name in names if not name.startswith(".")]
    return found


class Marking(Scan):
    """A scan that keeps no more of the files than a number, which tells whether any of them is not as it was."""

    def __init__(self, beneath: Beneath, folders: Sequence[str] = LOOKED_INTO) -> None:
        self.sum = 0
        super().__init__(beneath, folders)

    def _take_in(self, path: str) -> None:
        place, total = crc32(path.encode()), 0
        for _, one in self._files(path):
            total += hash((place, one[1], one[6], one.st_mtime_ns, one.st_ctime_ns)) & MARK_MAX
        self.sum += total


def mark_of(path: str, stamp: Stamp) -> int:
    """What a file adds to the number: another one for each stamp and each folder. A new name changes the stamp, too."""
    return hash((crc32(path.rpartition("/")[0].encode()), *stamp)) & MARK_MAX


def met_twice(found: dict[str, Stamp]) -> list[str]:
    """Paths of files that were met in two places: they were moved while the folders were looked at."""
    if len({stamp[0] for stamp in found.values()}) == len(found):
        return []
    places: dict[int, list[str]] = {}
    for path, stamp in found.items():
        places.setdefault(stamp[0], []).append(path)
    return [path for paths in places.values() if len(paths) > 1 for path in paths]


def _are_plain(names: list[str]) -> bool:
    """Whether none of these names needs a closer look, told by one look at all of them."""
    together = "".join(names)
    return together.isascii() and together.isprintable() and all(map(_SHORT.__gt__, map(len, names)))


def shown(path: str) -> str:
    """As text that can be printed and stored, also if it is none."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")
