"""A terminal for tests: a script that runs as the leader of a session with a terminal, and what it printed there."""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Self

from tests.kit.waiting import PATIENCE_SECONDS

#: Run in the child, which leads a session already: make its stdin the session's terminal, then become the script.
LEAD = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execvp('sh', ['sh', '-c', sys.argv[1]])"
)


class Terminal:
    def __init__(
        self, script: str, folder: Path, environment: dict[str, str], *, columns: int = 80, lines: int = 24
    ) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, "-c", LEAD, script],
            cwd=folder,
            env=environment,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)
        self.text = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.hang_up()
        self.process.kill()
        self.process.wait()

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def hang_up(self) -> None:
        """Close the terminal under whoever runs in it."""
        if self._master >= 0:
            os.close(self._master)
            self._master = -1

    def read_until(self, wanted: str) -> str:
        """Everything printed so far, once the wanted text is among it."""
        end = time.monotonic() + PATIENCE_SECONDS
        while wanted not in self.text:
            assert self._read(end), f"the terminal closed without {wanted!r}: {self.text!r}"
        return self.text

    def read_to_end(self) -> str:
        end = time.monotonic() + PATIENCE_SECONDS
        while self._read(end):
            pass
        self.process.wait(timeout=PATIENCE_SECONDS)
        return self.text

    def read_for(self, seconds: float) -> str:
        """Read what is printed within this time: a program is held up by a terminal that nobody reads."""
        end = time.monotonic() + seconds
        while select.select([self._master], [], [], max(0, end - time.monotonic()))[0]:
            if not self._read(end):
                break
        return self.text

    def _read(self, end: float) -> bool:
        """Read what there is, waiting for it; False once the last process has left the terminal."""
        ready, _, _ = select.select([self._master], [], [], max(0, end - time.monotonic()))
        assert ready, f"nothing came in {PATIENCE_SECONDS} s after: {self.text!r}"
        try:
            data = os.read(self._master, 65536)
        except OSError:
            return False
        self.text = (self.text + self._decoder.decode(data)).replace("\r\n", "\n")
        return bool(data)
