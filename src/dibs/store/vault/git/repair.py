"""Repairs a clone whose repository was damaged, for example by a power cut, from its remote.

Unreadable objects are moved away and fetched again, broken refs are dropped, and the branch returns to the newest
complete commit. Changes that were never pushed are in the work tree, which is not touched, so the next push includes
them.
Everything that is moved out of the repository is kept in its folder `dibs-damaged`.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import time
import zlib

from dibs.system.git import GitFailed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dibs.store.vault.git.repository import Repository

DAMAGED = "dibs-damaged"
FSCK_SECONDS = 600.0
#: How many lines of a finding are reported.
LINES_MAX = 5
#: Git's messages about an unreadable repository.
_SIGNS = re.compile(
    r"is empty|corrupt|bad object|bad signature|bad tree|bad revision|bad index|missing (blob|tree|commit|object)"
    r"|unable to read|invalid object|invalid sha1|index file smaller|broken ref|unable to resolve reference"
    r"|not a valid (object|commit)|could not (parse|read (?!from))|unexpected line|inflate|failed to read object"
    r"|did not send all necessary objects|cannot be read",
    re.IGNORECASE,
)


def is_damage(stderr: str) -> bool:
    """Whether git reported damage of this repository, not of the remote."""
    return any(_SIGNS.search(part) for part in stderr.split("; ") if not part.startswith("remote:"))


def findings(repository: Repository) -> list[str]:
    """What `git fsck` reports."""
    try:
        repository.git.run("fsck", "--no-dangling", "--no-progress", "--no-reflogs", seconds=FSCK_SECONDS)
    except GitFailed as failed:
        if failed.code is None:
            return []  # it is too large to be checked in time
        lines = failed.stderr.split("; ") + failed.output.decode(errors="replace").splitlines()
        return [line for line in lines if line.strip()][:LINES_MAX]
    return []


def repair(repository: Repository, files: Iterable[str]) -> bool:
    """Repair a repository; return whether it was damaged. `files` are those of the work tree."""
    if not findings(repository):
        return False
    _Repair(repository).run(files)
    return True


class _Repair:
    def __init__(self, repository: Repository) -> None:
        self._repository, self._git = repository, repository.git
        self._dir = repository.common_dir
        self._damaged = os.path.join(self._dir, DAMAGED, str(time.time_ns()))

    def run(self, files: Iterable[str]) -> None:
        self._repository.require_remote()
        self._move_objects_away()
        self._move_packs_away()
        refs = self._move_refs_away()
        self._move_index_away()
        self._repository.fetch(again=True)
        self._write_blobs(files)
        for name, commit in refs.items():
            if self._is_complete(commit):
                self._git.run("update-ref", name, commit)
        self._repair_own_refs()
        self._repair_branch()
        if not os.path.exists(os.path.join(self._repository.git_dir, "index")):
            head = self._repository.refs().head
            self._git.run("read-tree", *(["--empty"] if head is None else [head]))
        self._repository.forget()

    # Unreadable files

    def _move_objects_away(self) -> None:
        for path in _files_in(os.path.join(self._dir, "objects")):
            name = "".join(path.split(os.sep)[-2:])
            is_object = re.fullmatch(r"[0-9a-f]{40,64}", name) is not None
            if is_object and not _is_intact(path, name, self._repository.algorithm):
                self._move_away(path)

    def _move_packs_away(self) -> None:
        for path in _files_in(os.path.join(self._dir, "objects", "pack")):
            if not path.endswith(".idx"):
                continue
            try:
                self._git.run("verify-pack", "--", path)
            except GitFailed:
                for other in _files_in(os.path.dirname(path)):
                    if other.startswith(path.removesuffix("idx")):
                        self._move_away(other)

    def _move_refs_away(self) -> dict[str, str]:
        """Move broken refs away; return those that name a missing commit, to be restored if the remote has it."""
        named: dict[str, str] = {}
        for path in _files_in(os.path.join(self._dir, "refs")):
            name = os.path.relpath(path, self._dir)
            with open(path, encoding="ascii", errors="replace") as file:
                target = file.read().strip()
            if target.startswith("ref: ") or path.endswith(".lock"):
                continue
            if re.fullmatch(r"[0-9a-f]{40,64}", target) is None:
                self._move_away(path)
            elif not self._exists(target):
                named[name] = target
                self._move_away(path)
        packed = os.path.join(self._dir, "packed-refs")
        if os.path.exists(packed) and not self._succeeds("for-each-ref"):
            self._move_away(packed)
        return named

    def _move_index_away(self) -> None:
        index = os.path.join(self._repository.git_dir, "index")
        if os.path.exists(index) and not self._succeeds("ls-files", "--stage"):
            self._move_away(index)

    def _move_away(self, path: str) -> None:
        to = os.path.join(self._damaged, os.path.relpath(path, self._dir))
        os.makedirs(os.path.dirname(to), exist_ok=True)
        shutil.move(path, to)

    # Replacements

    def _write_blobs(self, files: Iterable[str]) -> None:
        """Write the files of the work tree as blobs: an unpushed commit may need them."""
        paths = "".join(f"{path}\n" for path in files if "\n" not in path)
        if paths:
            self._git.run("hash-object", "-w", "--no-filters", "--stdin-paths", feed=[os.fsencode(paths)])

    def _repair_own_refs(self) -> None:
        """Drop incomplete pending refs: their commits never arrived, or the remote's own ref has them."""
        refs = self._repository.refs()
        for name, commit in zip(refs.pending_names, refs.pending, strict=True):
            if not self._is_complete(commit):
                self._git.run("update-ref", "-d", name)

    def _repair_branch(self) -> None:
        """Move a damaged branch to the last known commit of the remote; if that is lost, too, remove the branch, which
        is then taken from the remote."""
        repository = self._repository
        refs = repository.refs()
        if refs.head is not None and self._is_complete(refs.head):
            return
        name = f"refs/heads/{repository.branch}"
        known = [commit for commit in (refs.base, refs.got) if commit is not None and self._is_complete(commit)]
        if known:
            self._git.run("update-ref", "--no-deref", name, known[0])
        elif refs.head is not None:
            self._git.run("update-ref", "-d", name)

    def _exists(self, commit: str) -> bool:
        return self._succeeds("cat-file", "-e", commit)

    def _is_complete(self, commit: str) -> bool:
        return self._succeeds("rev-list", "--objects", "--quiet", commit)

    def _succeeds(self, *words: str) -> bool:
        try:
            self._git.run(*words)
        except GitFailed:
            return False
        return True


def _is_intact(path: str, name: str, algorithm: str) -> bool:
    try:
        with open(path, "rb") as file:
            data = zlib.decompress(file.read())
    except (OSError, zlib.error):
        return False
    return hashlib.new(algorithm, data, usedforsecurity=False).hexdigest() == name


def _files_in(folder: str) -> Iterator[str]:
    for place, _, names in os.walk(folder):
        yield from (os.path.join(place, name) for name in sorted(names))
