"""The work tree as blobs, computed without git: regular files only, with no filter or attribute applied.

Git itself would run the filters that a pulled repository names, and change line ends. So dibs reads and hashes the
files; a file with the same stamp is not read again.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import time

from dibs.store.vault.disk import Disk, Raced, Unfit
from dibs.store.vault.git.path_policy import DEPTH_MAX, SESSIONS, folders_above, task_name, why_unfit
from dibs.store.vault.layout import HIDDEN
from dibs.store.vault.safe_fs import Stamp, stamp_of
from dibs.system import durable
from dibs.system.git import GitFailed, fields
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from dibs.store.vault.git.merge import Tree
    from dibs.store.vault.safe_fs import Folder
    from dibs.system.git import Git

#: The blob of a file that changed less than this before it was read is not cached: the file could change again and keep
#: its stamp.
SETTLED_NS = 2_000_000_000
#: After this many new hashes, the cache is written to disk for the next process.
WORTH_KEEPING = 100
WALKS_MAX = 3
STAMPS = "git-stamps.json"


class WorkTreeFiles(Disk):
    """All files of a work tree, not only those of tasks."""

    def _open(self, path: str, *, make: bool = False) -> tuple[Folder, str]:
        why = why_unfit(path, "100644")
        if why is not None:
            raise Unfit(f"{path!r} is {why}")
        folder, _, name = path.rpartition("/")
        return self.folder(folder, make=make), name

    def folder(self, path: str, *, make: bool = False) -> Folder:
        return self._root.folder(path, make=make)


class Found(Value):
    """The files of a work tree, and in `unfit` the entries that dibs does not touch, with the reason."""

    tree: Tree
    unfit: dict[str, str]


class WorkTree:
    def __init__(self, disk: WorkTreeFiles, git: Git, algorithm: str) -> None:
        self._disk, self._git, self._algorithm = disk, git, algorithm
        self._cache = os.path.join(disk.root, HIDDEN, STAMPS)
        self._known: dict[str, tuple[Stamp, str]] | None = None
        self._unsaved = 0

    def look(self, tracked: Tree) -> Found:
        """Every file that is tracked, is a task, or is not ignored.

        The walk is repeated if a file was moved meanwhile, and so was met twice or not at all.
        """
        for _ in range(WALKS_MAX):
            walk = self._walk(tracked)
            if walk.is_consistent():
                break
        return self._hash(walk)

    def _walk(self, tracked: Tree) -> _Walk:
        walk = _Walk(self._disk, tracked)
        walk.enter("")
        while walk.unknown:
            unknown, walk.unknown = walk.unknown, []
            ignored = self._ignored(unknown)
            for path in unknown:
                if path not in ignored:
                    walk.add(path)
        return walk

    def _hash(self, walk: _Walk) -> Found:
        tree: Tree = {}
        for path, stamp in walk.files.items():
            try:
                blob = self._blob(path, stamp)
            except FileNotFoundError:
                continue
            except Unfit as unfit:
                walk.unfit[path] = str(unfit)
            else:
                tree[path] = blob
        self._save_cache()
        return Found(tree=tree, unfit=walk.unfit)

    def data(self, path: str, blob: str) -> bytes:
        """The content of a file; Raced if its blob is another one by now."""
        try:
            data, _ = self._disk.read(path)
        except (FileNotFoundError, Unfit) as error:
            raise Raced(path) from error
        if self.blob_of(data) != blob:
            raise Raced(path)
        return data

    def is_ignored(self, path: str) -> bool:
        return task_name(path) is None and bool(self._ignored([path]))

    def blob_of(self, data: bytes) -> str:
        return hashlib.new(self._algorithm, b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()

    def _blob(self, path: str, stamp: Stamp) -> str:
        known = self._cached()
        entry = known.get(path)
        if entry is not None and entry[0] == stamp:
            return entry[1]
        data, stamp = self._disk.read(path)
        blob = self.blob_of(data)
        if time.time_ns() - max(stamp[2:]) > SETTLED_NS:
            known[path] = (stamp, blob)
            self._unsaved += 1
        return blob

    def _cached(self) -> dict[str, tuple[Stamp, str]]:
        if self._known is None:
            try:
                with open(self._cache, encoding="utf-8") as file:
                    self._known = {
                        path: (Stamp((int(inode), int(size), int(mtime), int(ctime))), str(blob))
                        for path, (inode, size, mtime, ctime, blob) in json.load(file).items()
                    }
            except (OSError, ValueError, TypeError, AttributeError):
                self._known = {}
        return self._known

    def _save_cache(self) -> None:
        if self._unsaved < WORTH_KEEPING or self._known is None:
            return
        known = {path: [*stamp, blob] for path, (stamp, blob) in self._known.items()}
        try:
            durable.replace(self._cache, json.dumps(known).encode(), mode=0o666, is_synced=False)
        except OSError:
            return  # the cache only saves time
        self._unsaved = 0

    def _ignored(self, paths: Iterable[str]) -> set[str]:
        # A name may begin with a colon, which git would take for a pathspec.
        asked = [f"./{path}".encode() for path in paths]
        try:
            answer = self._git.run("check-ignore", "-z", "--stdin", "--no-index", feed=[b"\0".join([*asked, b""])])
        except GitFailed as failed:
            if failed.code != 1:
                raise
            return set()
        return {path.decode().removeprefix("./") for path in fields(answer)}


class _Walk:
    """One walk through the folders by descriptor, following no link. `unknown` are entries that may be ignored."""

    def __init__(self, disk: WorkTreeFiles, tracked: Tree) -> None:
        self.files: dict[str, Stamp] = {}
        self.unfit: dict[str, str] = {}
        self.unknown: list[str] = []
        self._unknown_files: dict[str, Stamp] = {}
        self._disk, self._tracked = disk, tracked
        self._folders = _folders_of(tracked)

    def is_consistent(self) -> bool:
        """Whether every tracked task was met, and no file was met twice."""
        names = {task_name(path) for path in self.files}
        gone = {task_name(path) for path in self._tracked if path not in self.files} - names - {None}
        return not gone and len({stamp[0] for stamp in self.files.values()}) == len(self.files)

    def add(self, path: str) -> None:
        """Add an unknown entry that is not ignored."""
        if path.endswith("/"):
            self._folders.add(path.removesuffix("/"))
            self.enter(path.removesuffix("/"))
        else:
            self.files[path] = self._unknown_files.pop(path)

    def enter(self, folder: str) -> None:
        try:
            with self._disk.folder(folder) as opened:
                self._list(opened.descriptor, f"{folder}/" if folder else "")
        except OSError as error:
            self.unfit[folder] = error.strerror or "cannot be read"
        except Unfit as error:
            self.unfit[folder] = str(error)

    def _list(self, descriptor: int, prefix: str) -> None:
        with os.scandir(descriptor) as entries:
            found = sorted((entry.name, entry) for entry in entries)
        if prefix and any(name == ".git" for name, _ in found):
            self.unfit[prefix.removesuffix("/")] = "a repository of its own"
            return
        for name, entry in found:
            path = prefix + name
            why = None if path == SESSIONS else why_unfit(path, "100644")
            if why is not None:
                self.unfit[path] = why
            elif entry.is_dir(follow_symlinks=False):
                self._folder(path)
            else:
                self._file(entry, path)

    def _folder(self, path: str) -> None:
        if path.count("/") >= DEPTH_MAX:
            self.unfit[path] = "too deep"
        elif path not in self._folders and not _is_task_folder(path):
            self.unknown.append(f"{path}/")
        else:
            self.enter(path)

    def _file(self, entry: os.DirEntry[str], path: str) -> None:
        try:
            found = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            return
        if not stat.S_ISREG(found.st_mode):
            self.unfit[path] = "not a regular file"
            return
        stamp = stamp_of(found)
        if path in self._tracked or task_name(path) is not None:
            self.files[path] = stamp
        else:
            self.unknown.append(path)
            self._unknown_files[path] = stamp


def _is_task_folder(folder: str) -> bool:
    return task_name(f"{folder}/x.md") is not None


def _folders_of(tree: Tree) -> set[str]:
    return {folder for path in tree for folder in folders_above(path)}
