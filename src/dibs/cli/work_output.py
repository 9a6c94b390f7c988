"""The output of `dibs work` and `dibs exec`: on a terminal one redrawn line for each claim, below all events; elsewhere
plain lines; with `--json` a line of JSON for each event.

A thread writes to stdout, so that no worker blocks on a reader. A slow reader slows the command's own output down. A
reader that stops reading (`| less`, a stopped terminal) loses further lines, which are counted. After a reader has
gone, nothing is written any more.
"""

from __future__ import annotations

import os
import select
import sys
import threading
import time

from dibs.cli.event_lines import OUTCOME_COLOURS
from dibs.cli.render import clean, cut, number_of, terminal_columns
from dibs.text import json_text, times

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.cli.context import Cli
    from dibs.sdk.claim_handle import ClaimHandle

#: How often the claims' lines are redrawn, because their ages change.
REDRAW_SECONDS = 0.25
#: When an idle worker says what it waits for, and how often it asks that again. Where nothing is redrawn, how often it
#: looks whether it is idle.
SHOWN_SECONDS, ASKED_SECONDS, IDLE_SECONDS = 1.0, 5.0, 5.0
#: The most lines of claims on a terminal; further claims are counted.
LINES_MAX = 12
#: The most columns of an event's text; the run has all of it.
TEXT_COLUMNS = 200

#: How much text may be queued. Events, which matter more than output, may take as much again.
QUEUED_CHARACTERS_MAX = 500_000
CHUNK_BYTES = 4096
#: A reader that has read nothing for this long counts as stopped.
STALLED_SECONDS = 1.0
#: How long `close` waits for the reader.
CLOSE_SECONDS = 5.0


class _LiveClaim:
    """A claim that is being worked on, and the line that shows it."""

    def __init__(self, claim: ClaimHandle) -> None:
        self.claim, self.began, self.last_output = claim, time.monotonic(), ""

    @property
    def age(self) -> str:
        return times.span(time.monotonic() - self.began)

    @property
    def line(self) -> str:
        output = clean(self.last_output.rpartition("\r")[2])
        return f"  {clean(self.claim.item.id)}  {self.age}  {clean(self.claim.item.title)}  {output}"


class Idle:
    """A worker without a claim: since when, and what it waits for, asked now and then."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._asked_at = -ASKED_SECONDS
        self._text = ""
        self._is_said = False

    def line(self, waits_for: Callable[[], str] | None) -> str:
        """`  idle 2m: waits for ...`; empty in the first moments."""
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        if waits_for is None or now - self._since < SHOWN_SECONDS:
            return ""
        if now - self._asked_at >= ASKED_SECONDS:
            self._text, self._asked_at = clean(waits_for()), now
        return f"  idle {times.span(now - self._since)}: {self._text}"

    def first_line(self, waits_for: Callable[[], str] | None) -> str:
        """The line once, for an output that is not redrawn."""
        line = "" if self._is_said else self.line(waits_for)
        self._is_said = self._is_said or bool(line)
        return f"{line.strip()}\n" if line else ""

    def forget(self) -> str:
        self._since, self._is_said = None, False
        return ""


class WorkOutput:
    def __init__(self, cli: Cli) -> None:
        self._cli = cli
        #: Says what a worker without a claim waits for.
        self.waits_for: Callable[[], str] | None = None
        self._idle = Idle()
        self._lines_drawn = 0
        self._live: dict[ClaimHandle, _LiveClaim] = {}
        self._is_closing = False
        self._lock = threading.Lock()
        self._redraws = not cli.json and terminal_columns(sys.stdout) is not None
        frame, every = (self._frame, REDRAW_SECONDS) if self._redraws else (self._plain, IDLE_SECONDS)
        self._writer = Writer(frame, self._dropped_line, every)

    def event(self, kind: str, claim: ClaimHandle | None, text: str = "") -> None:
        """Print an event of this claim, or of the worker as a whole."""
        with self._lock:
            if claim is not None and kind == "claimed":
                self._live[claim] = _LiveClaim(claim)
            live = None if claim is None else self._live.get(claim)
            if kind != "claimed" and claim is not None:
                self._live.pop(claim, None)
        self._writer.put(self._json_line(kind, claim, text) if self._cli.json else self._event_line(kind, live, text))

    def line(self, claim: ClaimHandle, line: str) -> None:
        """Print a line that the claim's command has written."""
        if self._cli.json:
            self._writer.put(self._json_line("output", claim, line), blocks=True)
        elif not self._redraws:
            self._writer.put(f"{clean(claim.item.id)} | {clean(line)}\n", blocks=True)
        elif (live := self._live.get(claim)) is not None:
            live.last_output = line

    def close(self) -> None:
        with self._lock:
            self._live.clear()
            self._is_closing = True
        self._writer.close()

    def _plain(self, text: str) -> str:
        """The text; and once, after a while without a claim, what the worker waits for."""
        with self._lock:
            is_idle = not self._live and not self._is_closing
        said = self._idle.first_line(self.waits_for) if is_idle and not self._cli.json else self._idle.forget()
        return f"{text}{said}"

    def _frame(self, text: str) -> str:
        """The text, and the claims' lines redrawn below it; without a claim, what the worker waits for."""
        with self._lock:
            live = list(self._live.values())
            is_idle = not live and not self._is_closing
        waiting = self._idle.line(self.waits_for) if is_idle else self._idle.forget()
        if not (text or live or waiting or self._lines_drawn):
            return ""
        # One column short: a terminal would wrap a full line, and a wrapped line cannot be erased.
        columns = (terminal_columns(sys.stdout) or 80) - 1
        lines = [cut(one.line, columns) + "\n" for one in live[:LINES_MAX]]
        lines += [f"  and {len(live) - LINES_MAX} more\n"] if len(live) > LINES_MAX else []
        lines += [self._cli.paint(cut(waiting, columns), "dim") + "\n"] if waiting else []
        up = f"\x1b[{self._lines_drawn}A" if self._lines_drawn else ""
        self._lines_drawn = len(lines)
        return f"\r{up}\x1b[J{text}{''.join(lines)}"

    def _dropped_line(self, count: int) -> str:
        if self._cli.json:
            return json_text.line({"event": "left_out", "lines": count}) + "\n"
        return f"{number_of(count, 'line')} dropped: the reader had stopped reading\n"

    def _event_line(self, kind: str, live: _LiveClaim | None, text: str) -> str:
        paint, first = self._cli.paint, cut(clean(text.partition("\n")[0]), TEXT_COLUMNS)
        if live is None:
            return f"{paint(kind, 'yellow')}  {first}\n"
        item = live.claim.item
        if kind == "claimed":
            return f"{paint(kind, 'green')} {paint(item.id, 'bold')}  {clean(item.title)}\n"
        colour = OUTCOME_COLOURS.get(kind, "yellow")
        return f"{paint(kind, colour)} {paint(item.id, 'bold')}  after {live.age}{': ' if first else ''}{first}\n"

    def _json_line(self, kind: str, claim: ClaimHandle | None, text: str) -> str:
        fields: dict[str, str | int] = {"event": kind}
        if claim is not None:
            fields |= {"item": claim.item.id, "token": claim.token, "session": claim.session.id}
        return json_text.line(fields | ({"text": text} if text else {})) + "\n"


class Writer:
    """Writes to stdout from its own thread."""

    def __init__(
        self, frame: Callable[[str], str], dropped_line: Callable[[int], str], every_seconds: float | None
    ) -> None:
        """`frame` turns queued text into what is written; with `every_seconds` it is also called when there is none.
        `dropped_line` reports the number of dropped texts. The writing thread calls both."""
        self._frame, self._dropped_line, self._every_seconds = frame, dropped_line, every_seconds
        self._changed = threading.Condition()
        self._texts: list[str] = []
        self._size = self._dropped = 0
        self._last_read_at = time.monotonic()
        self._is_closing = self._reader_gone = False
        self._fd = sys.stdout.fileno()
        self._encoding = sys.stdout.encoding or "utf-8"
        self._thread = threading.Thread(target=self._write_until_closed, name="dibs writer", daemon=True)
        self._thread.start()

    def put(self, text: str, *, blocks: bool = False) -> None:
        """Queue the text; with `blocks`, wait for room first, as long as the reader makes progress."""
        with self._changed:
            while blocks and self._is_full() and not self._reader_gone and (left := self._stalls_in()) > 0:
                self._changed.wait(left)
            if self._size >= QUEUED_CHARACTERS_MAX * (1 if blocks else 2):
                self._dropped += 1
            elif not self._reader_gone:
                self._texts.append(text)
                self._size += len(text)
                self._changed.notify_all()

    def close(self) -> None:
        """Write what is queued, for as long as the reader takes, up to a limit."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        self._thread.join(CLOSE_SECONDS)

    def _is_full(self) -> bool:
        return self._size >= QUEUED_CHARACTERS_MAX

    def _stalls_in(self) -> float:
        return self._last_read_at + STALLED_SECONDS - time.monotonic()

    def _write_until_closed(self) -> None:
        is_last = False
        while not is_last:
            with self._changed:
                if not self._texts and not self._is_closing:
                    self._changed.wait(self._every_seconds)
                text, is_last = self._take_queued(), self._is_closing
            try:
                self._write(self._frame(text))
            except OSError:
                with self._changed:
                    self._reader_gone = is_last = True
                    self._changed.notify_all()

    def _take_queued(self) -> str:
        text = "".join(self._texts) + (self._dropped_line(self._dropped) if self._dropped else "")
        self._texts.clear()
        self._size = self._dropped = 0
        self._note_progress()
        return text

    def _write(self, text: str) -> None:
        data = memoryview(text.encode(self._encoding, "replace"))
        while data:
            try:
                data = data[os.write(self._fd, data[:CHUNK_BYTES]) :]
            except BlockingIOError:  # another process that shares the descriptor made it non-blocking
                select.select([], [self._fd], [], STALLED_SECONDS)
                continue
            with self._changed:
                self._note_progress()

    def _note_progress(self) -> None:
        self._last_read_at = time.monotonic()
        self._changed.notify_all()
