"""The state that dibs keeps about a clone, in small files in the git directory."""

from __future__ import annotations

import hashlib
import json
import os

from dibs.system import durable, owner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


class CloneState:
    """`upstream` names the pair of local and remote branch that the state is about."""

    def __init__(self, git_dir: str, upstream: str) -> None:
        self._git_dir, self._upstream = git_dir, upstream
        self._clone_name: str | None = None

    def clone_name(self) -> str:
        """A name that no other clone has, not even one that was copied from this one."""
        if self._clone_name is None:
            path = self._path("clone")
            try:
                with durable.NewFile(path) as new, open(new, "w", encoding="utf-8") as file:
                    file.write(os.urandom(16).hex())
            except FileExistsError:
                pass
            inode = os.stat(self._git_dir).st_ino
            self._clone_name = hashlib.sha256(f"{self._read('clone')} {inode}".encode()).hexdigest()[:6]
        return self._clone_name

    def skipped(self) -> set[str]:
        """Paths of `base` that could not be written here. Their absence from the disk is not a removal."""
        return set(json.loads(self._read(f"skipped-{self._upstream}.json") or "[]"))

    def skip(self, paths: Iterable[str]) -> None:
        """Record skipped paths; called before `base` moves to the commit that has them."""
        skipped = set(paths)
        if skipped != self.skipped():
            durable.replace(
                self._path(f"skipped-{self._upstream}.json"), json.dumps(sorted(skipped)).encode(), mode=0o666
            )

    def branch_is_behind(self) -> bool:
        """Whether the user's branch may not have reached `base` yet."""
        return os.path.exists(self._path(f"trailing-{self._upstream}"))

    def set_branch_behind(self, behind: bool) -> None:
        """Record whether the branch may be behind; called before `base` moves."""
        if behind != self.branch_is_behind():
            self._write(f"trailing-{self._upstream}", "" if behind else None)

    def pushes_in_a_row(self) -> tuple[int, int] | None:
        """The number of pushes of this clone in a row, and the number after which it pauses; None if not recorded."""
        try:
            count, most = map(int, (self._read(f"turns-{self._upstream}") or "").split())
        except ValueError:
            return None
        return count, most

    def put_pushes_in_a_row(self, count: int, most: int) -> None:
        self._write(f"turns-{self._upstream}", f"{count} {most}\n")

    def is_checked(self) -> bool:
        """Whether the repository was checked for damage since this machine was booted."""
        return self._read("checked") == _boot()

    def set_checked(self, checked: bool) -> None:
        self._write("checked", _boot() if checked else None)

    def _path(self, name: str) -> str:
        return os.path.join(self._git_dir, f"dibs-{name}")

    def _read(self, name: str) -> str | None:
        try:
            with open(self._path(name), encoding="utf-8") as file:
                return file.read()
        except FileNotFoundError:
            return None

    def _write(self, name: str, text: str | None) -> None:
        """Write a file, or remove it."""
        if text is not None:
            with open(self._path(name), "w", encoding="utf-8") as file:
                file.write(text)
        elif os.path.exists(self._path(name)):
            os.unlink(self._path(name))


def _boot() -> str:
    return owner.boot_id() or f"process {os.getpid()}"  # every process checks once
