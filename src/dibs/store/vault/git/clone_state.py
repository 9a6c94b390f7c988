"""What dibs remembers of a clone, in small files in its git directory."""

from __future__ import annotations

import hashlib
import json
import os

from dibs.files import durable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


class CloneState:
    """`upstream` names the pair of local and remote branch that the state is about."""

    def __init__(self, git_dir: str, upstream: str) -> None:
        self._git_dir = git_dir
        self._skipped = os.path.join(git_dir, f"dibs-skipped-{upstream}.json")
        self._behind = os.path.join(git_dir, f"dibs-trailing-{upstream}")
        self._pushes = os.path.join(git_dir, f"dibs-turns-{upstream}")
        self._checked = os.path.join(git_dir, "dibs-checked")
        self._clone: str | None = None

    def clone(self) -> str:
        """A name that no other clone has, not even one that was copied from this one."""
        if self._clone is None:
            path = os.path.join(self._git_dir, "dibs-clone")
            try:
                with durable.NewFile(path) as new, open(new, "w", encoding="utf-8") as file:
                    file.write(os.urandom(16).hex())
            except FileExistsError:
                pass
            with open(path, encoding="utf-8") as file:
                random = file.read()
            here = os.stat(self._git_dir).st_ino
            self._clone = hashlib.sha256(f"{random} {here}".encode()).hexdigest()[:6]
        return self._clone

    def skipped(self) -> set[str]:
        """Paths of `base` that could not be written here: that they are not on disk does not mean that they were
        removed."""
        try:
            with open(self._skipped, encoding="utf-8") as file:
                return set(json.load(file))
        except FileNotFoundError:
            return set()

    def skip(self, paths: Iterable[str]) -> None:
        """Remember skipped paths, before `base` moves to the commit that has them."""
        skipped = set(paths)
        if skipped != self.skipped():
            with open(f"{self._skipped}.new", "w", encoding="utf-8") as file:
                json.dump(sorted(skipped), file)
                file.flush()
                durable.sync(file.fileno())
            os.replace(file.name, self._skipped)

    def branch_is_behind(self) -> bool:
        """Whether the user's branch may not have reached `base` yet."""
        return os.path.exists(self._behind)

    def set_branch_behind(self, behind: bool) -> None:
        """Remember it, before `base` moves."""
        if behind != self.branch_is_behind():
            if behind:
                os.close(os.open(self._behind, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
            else:
                os.unlink(self._behind)

    def pushes_in_a_row(self) -> tuple[int, int] | None:
        """How often this clone has pushed in a row, and after how many it pauses; None if nothing is remembered."""
        try:
            with open(self._pushes, encoding="utf-8") as file:
                count, most = map(int, file.read().split())
        except (FileNotFoundError, ValueError):
            return None
        return count, most

    def put_pushes_in_a_row(self, count: int, most: int) -> None:
        with open(self._pushes, "w", encoding="utf-8") as file:
            file.write(f"{count} {most}\n")

    def is_checked(self) -> bool:
        """Whether the repository was checked for damage since this machine was booted."""
        try:
            with open(self._checked, encoding="utf-8") as file:
                return file.read() == _boot_id()
        except FileNotFoundError:
            return False

    def set_checked(self, checked: bool) -> None:
        if checked:
            with open(self._checked, "w", encoding="utf-8") as file:
                file.write(_boot_id())
        elif os.path.exists(self._checked):
            os.unlink(self._checked)


def _boot_id() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read()
    except OSError:
        return f"process {os.getpid()}"  # every process checks once
