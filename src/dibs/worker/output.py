"""The output of a command: read as it comes, without secrets, shown line by line, with its head and its tail kept."""

from __future__ import annotations

import os
import selectors
import threading

from dibs.worker.redaction import StreamRedaction

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import IO

    from dibs.worker.redaction import Redaction

#: How much is kept of the beginning and of the end. An invalid byte becomes a replacement character of three bytes, and
#: the whole has to fit into a note.
HEAD_BYTES = 4_000
TAIL_BYTES = 16_000
#: How much of the end goes into the reason of a failure.
LAST_LINES = 20
LAST_BYTES = 4_000
#: Stdout may be a JSON object; a longer one is not parsed.
WHOLE_BYTES = 4_000_000
#: A longer line is shown in pieces.
LINE_BYTES = 4_000
CHUNK_BYTES = 65_536
LOOK_SECONDS = 0.2
#: How long to wait for a process that left the group and still has the output open.
LINGER_SECONDS = 0.5
#: How long to wait for the last lines to be shown.
SHOWN_SECONDS = 2.0


class HeadAndTail:
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
        """All bytes, if none were left out."""
        return bytes(self._head) if self.size == len(self._head) else None

    @property
    def last_lines(self) -> str:
        end = (self._head + self._tail)[-LAST_BYTES:] if self.size <= self._head_max else self._tail[-LAST_BYTES:]
        return "\n".join(as_text(end).strip().splitlines()[-LAST_LINES:])


class Output:
    """Reads both streams of a command in a thread, until they end or `finish` is called."""

    def __init__(
        self, stdout: IO[bytes], stderr: IO[bytes], redaction: Redaction, *shows: Callable[[str], None]
    ) -> None:
        """Each of `shows` is called with each line, until it raises."""
        self.both, self.stdout = HeadAndTail(), HeadAndTail(WHOLE_BYTES, 0)
        self._streams = (stdout, stderr)
        self._shows = list(shows)
        # Before anything is cut off: a part of a secret would not be recognised.
        self._redactions = {stream: StreamRedaction(redaction) for stream in self._streams}
        self._lines = {stdout: bytearray(), stderr: bytearray()}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._read, name="dibs output", daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Called after the command has ended: read the rest of its output, within bounded waits."""
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
                        self._add(key.data, self._redactions[key.data].add(data))
                    else:
                        selector.unregister(key.fileobj)
        for stream, line in self._lines.items():
            self._add(stream, self._redactions[stream].end())
            self._show_line(line)

    def _add(self, stream: IO[bytes], data: bytes) -> None:
        self.both.add(data)
        if stream is self._streams[0]:
            self.stdout.add(data)
        if not self._shows:
            return
        *whole, rest = data.split(b"\n")
        for part in whole:
            self._show_line(self._lines[stream] + part)
            self._lines[stream].clear()
        self._lines[stream] += rest
        while len(self._lines[stream]) > LINE_BYTES:
            self._show_line(self._lines[stream][:LINE_BYTES])
            del self._lines[stream][:LINE_BYTES]

    def _show_line(self, line: bytearray) -> None:
        for at in range(0, len(line), LINE_BYTES):
            text = as_text(line[at : at + LINE_BYTES]).rstrip()
            for show in list(self._shows) if text else ():
                try:
                    show(text)
                except Exception:
                    # Reading goes on: a command whose output is not read would block.
                    self._shows.remove(show)


def as_text(data: bytes | bytearray) -> str:
    """Bytes as a text that every store can keep: invalid ones are replaced."""
    return data.decode("utf-8", "replace").replace("\0", "\ufffd")
