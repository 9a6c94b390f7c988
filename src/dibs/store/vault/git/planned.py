"""What a transaction would do to the files, done to none of them: for a remote that has to agree first.

A claim that lies on disk before it is confirmed could be committed by a person's git, and pulled together with the
winner's: a conflict, or worse. So what is to be written is worked out here, sent off, and written once it is accepted.
"""

from __future__ import annotations

from dibs.store.vault.disk import Disk, Raced, Stamp

_NEW = Stamp((0, 0, 0, 0))


class Planned(Disk):
    """A disk on top of another one, which is only read. `files`: what would be there, none for what would not."""

    def __init__(self, disk: Disk) -> None:
        self._under = disk
        self.files: dict[str, bytes | None] = {}

    def read(self, path: str) -> tuple[bytes, Stamp]:
        if path not in self.files:
            return self._under.read(path)
        text = self.files[path]
        if text is None:
            raise FileNotFoundError(path)
        return text, _NEW

    def stamp(self, path: str) -> Stamp | None:
        if path not in self.files:
            return self._under.stamp(path)
        return None if self.files[path] is None else _NEW

    def create(self, path: str, data: bytes) -> Stamp:
        if self.stamp(path) is not None:
            raise FileExistsError(path)
        self.files[path] = data
        return _NEW

    def exchange(self, path: str, data: bytes, was: bytes) -> Stamp:
        if self._text(path) != was:
            raise Raced(f"{path} was saved meanwhile")
        self.files[path] = data
        return _NEW

    def move(self, path: str, to: str) -> None:
        text = self._text(path)
        if self.stamp(to) is not None:
            raise FileExistsError(to)
        self.files[path], self.files[to] = None, text

    def discard(self, path: str, was: bytes) -> None:
        self.files[path] = None

    def sync(self) -> None:
        """Nothing was written."""

    def _text(self, path: str) -> bytes:
        try:
            return self.read(path)[0]
        except FileNotFoundError as error:
            raise Raced(f"{path} is gone") from error
