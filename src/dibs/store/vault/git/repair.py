"""A clone whose repository was damaged, by a power cut say, made whole again from its remote.

Objects that cannot be read are set aside and fetched again; refs that name nothing are dropped, and the branch goes
back to the newest commit that is whole. What was never pushed is in the work tree, which is not touched: the next push
has it. Everything that is taken out of the repository is kept in its folder `dibs-damaged`.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import time
import zlib

from dibs.store.vault.git.command import GitFailed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dibs.store.vault.git.repository import Repository

DAMAGED = "dibs-damaged"
FSCK_SECONDS = 600.0
#: How many lines of a finding are told.
TOLD_MAX = 5
#: Whatever git says when it cannot read what it has written.
_SIGNS = re.compile(
    r"is empty|corrupt|bad object|bad signature|bad tree|bad revision|bad index|missing (blob|tree|commit|object)"
    r"|unable to read|invalid object|invalid sha1|index file smaller|broken ref|unable to resolve reference"
    r"|not a valid (object|commit)|could not (parse|read (?!from))|unexpected line|inflate|failed to read object"
    r"|did not send all necessary objects|cannot be read",
    re.IGNORECASE,
)


def is_damage(said: str) -> bool:
    """Whether what git said is about this repository itself."""
    return any(_SIGNS.search(part) for part in said.split("; ") if not part.startswith("remote:"))


def findings(repository: Repository) -> list[str]:
    """What is wrong with a repository, in git's words. It looks at everything."""
    try:
        repository.git.run("fsck", "--no-dangling", "--no-progress", "--no-reflogs", seconds=FSCK_SECONDS)
    except GitFailed as failed:
        if failed.code is None:
            return []  # it is too large to be looked at
        said = failed.said.split("; ") + failed.output.decode(errors="replace").splitlines()
        return [line for line in said if line.strip()][:TOLD_MAX]
    return []


def repair(repository: Repository, files: Iterable[str]) -> bool:
    """Make it whole; whether anything was damaged. `files` are those of the work tree."""
    if not findings(repository):
        return False
    _Repair(repository).run(files)
    return True


class _Repair:
    def __init__(self, repository: Repository) -> None:
        self._repository, self._git = repository, repository.git
        self._dir = repository.common_dir
        self._aside = os.path.join(self._dir, DAMAGED, str(time.time_ns()))

    def run(self, files: Iterable[str]) -> None:
        self._repository.reach()
        self._set_objects_aside()
        self._set_packs_aside()
        refs = self._set_refs_aside()
        self._set_index_aside()
        self._repository.fetch(again=True)
        self._write_blobs(files)
        for name, commit in refs.items():
            if self._is_whole(commit):
                self._git.run("update-ref", name, commit)
        self._mend_own_refs()
        self._mend_branch()
        if not os.path.exists(os.path.join(self._repository.git_dir, "index")):
            head = self._repository.refs().head
            self._git.run("read-tree", *(["--empty"] if head is None else [head]))
        self._repository.forget()

    # What cannot be read

    def _set_objects_aside(self) -> None:
        for path in _files_in(os.path.join(self._dir, "objects")):
            name = "".join(path.split(os.sep)[-2:])
            is_object = re.fullmatch(r"[0-9a-f]{40,64}", name) is not None
            if is_object and not _is_sound(path, name, self._repository.algorithm):
                self._set_aside(path)

    def _set_packs_aside(self) -> None:
        for path in _files_in(os.path.join(self._dir, "objects", "pack")):
            if not path.endswith(".idx"):
                continue
            try:
                self._git.run("verify-pack", "--", path)
            except GitFailed:
                for other in _files_in(os.path.dirname(path)):
                    if other.startswith(path.removesuffix("idx")):
                        self._set_aside(other)

    def _set_refs_aside(self) -> dict[str, str]:
        """Refs that name nothing; those that name what is missing, to be put back if it is found again."""
        named: dict[str, str] = {}
        for path in _files_in(os.path.join(self._dir, "refs")):
            name = os.path.relpath(path, self._dir)
            with open(path, encoding="ascii", errors="replace") as file:
                said = file.read().strip()
            if said.startswith("ref: ") or path.endswith(".lock"):
                continue
            if re.fullmatch(r"[0-9a-f]{40,64}", said) is None:
                self._set_aside(path)
            elif not self._is_there(said):
                named[name] = said
                self._set_aside(path)
        packed = os.path.join(self._dir, "packed-refs")
        if os.path.exists(packed) and not self._agrees("for-each-ref"):
            self._set_aside(packed)
        return named

    def _set_index_aside(self) -> None:
        index = os.path.join(self._repository.git_dir, "index")
        if os.path.exists(index) and not self._agrees("ls-files", "--stage"):
            self._set_aside(index)

    def _set_aside(self, path: str) -> None:
        to = os.path.join(self._aside, os.path.relpath(path, self._dir))
        os.makedirs(os.path.dirname(to), exist_ok=True)
        shutil.move(path, to)

    # What takes its place

    def _write_blobs(self, files: Iterable[str]) -> None:
        """A blob that only an unpushed commit had may lie in the work tree still."""
        paths = "".join(f"{path}\n" for path in files if "\n" not in path)
        if paths:
            self._git.run("hash-object", "-w", "--no-filters", "--stdin-paths", feed=[os.fsencode(paths)])

    def _mend_own_refs(self) -> None:
        """Pending ones that are not whole never arrived, or the remote tells of them by its own."""
        refs = self._repository.refs()
        for name, commit in zip(refs.names, refs.pending, strict=True):
            if not self._is_whole(commit):
                self._git.run("update-ref", "-d", name)

    def _mend_branch(self) -> None:
        """To what the work tree was brought to; without that, to nothing: then the remote's state counts."""
        repository = self._repository
        refs = repository.refs()
        if refs.head is not None and self._is_whole(refs.head):
            return
        name = f"refs/heads/{repository.branch}"
        known = [commit for commit in (refs.base, refs.got) if commit is not None and self._is_whole(commit)]
        if known:
            self._git.run("update-ref", "--no-deref", name, known[0])
        elif refs.head is not None:
            self._git.run("update-ref", "-d", name)

    def _is_there(self, commit: str) -> bool:
        return self._agrees("cat-file", "-e", commit)

    def _is_whole(self, commit: str) -> bool:
        return self._agrees("rev-list", "--objects", "--quiet", commit)

    def _agrees(self, *words: str) -> bool:
        try:
            self._git.run(*words)
        except GitFailed:
            return False
        return True


def _is_sound(path: str, name: str, algorithm: str) -> bool:
    try:
        with open(path, "rb") as file:
            data = zlib.decompress(file.read())
    except (OSError, zlib.error):
        return False
    return hashlib.new(algorithm, data, usedforsecurity=False).hexdigest() == name


def _files_in(folder: str) -> Iterator[str]:
    for place, _, names in os.walk(folder):
        yield from (os.path.join(place, name) for name in sorted(names))
