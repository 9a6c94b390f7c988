"""A clock that suspends the process which reads it, to test holders that stop inside a transaction."""

from __future__ import annotations

import os
import signal

from dibs.testing.clock import FileClock


class StoppingClock(FileClock):
    """A clock that suspends its process when it is next read after `arm`: a store reads it with its locks in hand."""

    def arm(self) -> None:
        os.close(os.open(self._armed, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC))

    def now(self) -> int:
        if os.path.exists(self._armed):
            os.unlink(self._armed)
            os.kill(os.getpid(), signal.SIGSTOP)
        return super().now()

    @property
    def _armed(self) -> str:
        return self.path + "-armed"
