"""What a command says: read as it comes, shown line by line, and its head and tail kept."""

from __future__ import annotations

import os
import selectors
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import IO

#: What is kept of the beginning and of the end. A byte that is no text takes three as the sign for that, and the whole
#: still has to fit into a note.
HEAD_BYTES = 4_000
TAIL_BYTES = 16_000
#: How much of the end is told of a failure.
LAST_LINES = 20
LAST_BYTES = 4_000
#: What stands alone on stdout may be a JSON object; a longer one is not looked at.
WHOLE_BYTES = 4_000_000
#: A line that is longer is shown in pieces.
LINE_BYTES = 4_000
CHUNK_BYTES = 65_536
LOOK_SECONDS = 0.2
#: Whoever left the group and kept its output open is not waited for longer.
LINGER_SECONDS = 0.5
#: Nor is who shows a line.
SHOWN_SECONDS = 2.0


class Kept:
    """The head and the tail of a stream of bytes."""

    def __init__(self, head: int = HEAD_BYTES, tail: int = TAIL_BYTES) -> None:
        self._head_max, self._tail_max = head, tail
        self._head, self._tail = bytearray(), bytearray()
        self.size = 0

    def add(self, data: bytes) -> None:
        self.size += len(data)
        room = self._head_max - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        if len(self._tail) > 2 * self._tail_max + CHUNK_BYTES:
            del self._tail[: len(self._tail) - self._tail_max]

    @property
    def text(self) -> str:
        tail = self._tail[-self._tail_max :] if self._tail_max else bytearray()
        left_out = self.size - len(self._head) - len(tail)
        if not left_out:
            return as_text(self._head + tail).strip()
        return f"{as_text(self._head)}\n[... {left_out} bytes left out ...]\n{as_text(tail)}".strip()

    @property
    def whole(self) -> bytes | None:
        """All of it, if nothing had to be left out."""
        return bytes(self._head) if self.size == len(self._head) else None

    @property
    def last_lines(self) -> str:
        end = (self._head + self._tail)[-LAST_BYTES:] if self.size <= self._head_max else self._tail[-LAST_BYTES:]
        return "\n".join(as_text(end).strip().splitlines()[-LAST_LINES:])


class Output:
    """Reads both streams of a command in a thread, until they end or nobody is left who should write to them."""

    def __init__(self, stdout: IO[bytes], stderr: IO[bytes], show: Callable[[str], None] | None = None) -> None:
        self.both, self.stdout = Kept(), Kept(WHOLE_BYTES, 0)
        self._streams = (stdout, stderr)
        self._show = show
        self._lines = {stdout: bytearray(), stderr: bytearray()}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._read, name="dibs output", daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """The command is over: what it has written is read, and nothing is waited for."""
        self._thread.join(LINGER_SECONDS)
        self._over.set()
        self._thread.join(SHOWN_SECONDS)

    def _read(self) -> None:
        with self._streams[0], self._streams[1], selectors.DefaultSelector() as selector:
            for stream in self._streams:
                selector.register(stream, selectors.EVENT_READ, stream)
            while selector.get_map() and not self._over.is_set():
                for key, _ in selector.select(LOOK_SECONDS):
                    data = os.read(key.fd, CHUNK_BYTES)
                    if data:
                        self._heard(key.data, data)
                    else:
                        selector.unregister(key.fileobj)
        for line in self._lines.values():
            self._tell(line)

    def _heard(self, stream: IO[bytes], data: bytes) -> None:
        self.both.add(data)
        if stream is self._streams[0]:
            self.stdout.add(data)
        if self._show is None:
            return
        *whole, rest = data.split(b"\n")
        for part in whole:
            self._tell(self._lines[stream] + part)
            self._lines[stream].clear()
        self._lines[stream] += rest
        while len(self._lines[stream]) > LINE_BYTES:
            self._tell(self._lines[stream][:LINE_BYTES])
            del self._lines[stream][:LINE_BYTES]

    def _tell(self, line: bytearray) -> None:
        for at in range(0, len(line), LINE_BYTES):
            text = as_text(line[at : at + LINE_BYTES]).rstrip()
            if not text or self._show is None:
                continue
            try:
                self._show(text)
            except Exception:
                # Whoever shows it is not to keep the command from going on: it would, with nobody reading.
                self._show = None


def as_text(data: bytes | bytearray) -> str:
    """Bytes as a text that every store can keep."""
    return data.decode("utf-8", "replace").replace("\0", "\ufffd")
