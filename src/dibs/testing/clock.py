"""The store's clock of a test: one for all processes, in a file of eight bytes, set by whoever runs the test.

It either runs (real time plus an offset) or stands still at an instant. Both fit one number, written and read in one
piece: twice the milliseconds, plus one if it stands still.
"""

from __future__ import annotations

import os
import struct
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    class Clock(Protocol):
        """What a suite asks of a store's clock. Instants are milliseconds since the epoch."""

        def now(self) -> int: ...

        def advance(self, seconds: float) -> None:
            """Move it on, or back with a negative number; a clock that stands still stands still again."""

        def freeze(self) -> None: ...

        def run(self) -> None:
            """Let it go on from where it is."""


_WORD = struct.Struct("<q")


class FileClock:
    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
        if os.fstat(self._file).st_size == 0:
            self._set(0, frozen=False)

    def __call__(self) -> int:
        return self.now()

    def now(self) -> int:
        value, frozen = self._word()
        return value if frozen else _real() + value

    def advance(self, seconds: float) -> None:
        value, frozen = self._word()
        self._set(value + round(seconds * 1000), frozen=frozen)

    def freeze(self) -> None:
        self._set(self.now(), frozen=True)

    def run(self) -> None:
        self._set(self.now() - _real(), frozen=False)

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __del__(self) -> None:
        self.close()

    def _word(self) -> tuple[int, bool]:
        (word,) = _WORD.unpack(os.pread(self._file, _WORD.size, 0))
        return word >> 1, bool(word & 1)

    def _set(self, value: int, *, frozen: bool) -> None:
        os.pwrite(self._file, _WORD.pack(value << 1 | frozen), 0)


def _real() -> int:
    return time.time_ns() // 1_000_000
