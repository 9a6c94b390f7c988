"""How far a long command has come: one line on stderr, redrawn while it runs, with the total and the time left.

The line is drawn by a thread, so that counting costs next to nothing, and only on a terminal. A command that is over
at once shows none.
"""

from __future__ import annotations

import sys
import threading
import time

from dibs.cli.render import cut, terminal_columns
from dibs.errors import DibsError
from dibs.system import progress as reports
from dibs.text import times

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self

    from dibs.board import Board

#: When the line is drawn first, and how often it is drawn again.
FIRST_SECONDS, REDRAW_SECONDS = 0.4, 0.2
#: It is also drawn after so many records, however fast they come.
DRAWN_CALLS = 1000
#: The time left is guessed from this much of the work on.
GUESSED_SECONDS = 1.0
#: Steps take different times, so that the time left is a rough guess.
STEP = "step"
ERASE_LINE = "\r\x1b[K"


class Progress:
    """Counts, and shows the count while the `with` block runs. Without a total, it shows the time that has passed."""

    def __init__(
        self,
        what: str,
        total: int | None = None,
        *,
        unit: str = "record",
        is_estimate: bool = False,
        is_shown: bool = True,
    ) -> None:
        self.what, self.total, self.unit, self.is_estimate = what, total, unit, is_estimate
        self.count = self._calls = 0
        self._began = self._all_began = time.monotonic()
        self._over = threading.Event()
        self._is_shown = is_shown and sys.stderr.isatty()
        self._is_drawn = False
        self._drawing = threading.Lock()
        self._thread = threading.Thread(target=self._draw_until_over, name="dibs progress", daemon=True)

    def __enter__(self) -> Self:
        if self._is_shown:
            reports.listener = self.hear
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        reports.listener = None
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()
        self.clear()

    def draw(self) -> None:
        if not self._is_shown or self._over.is_set():
            return
        columns = terminal_columns(sys.stderr) or 80
        # One column short: a terminal would wrap a full line, and a wrapped line cannot be erased.
        line = cut(self.line(time.monotonic() - self._began), columns - 1)
        with self._drawing:
            sys.stderr.write(ERASE_LINE + line)
            sys.stderr.flush()
            self._is_drawn = True

    def clear(self) -> None:
        """Remove the line before something else is printed."""
        with self._drawing:
            if self._is_drawn:
                sys.stderr.write(ERASE_LINE)
                sys.stderr.flush()
                self._is_drawn = False

    def advance(self, count: int = 1) -> None:
        self.count += count
        self._calls += 1
        if self._calls % DRAWN_CALLS == 0:
            self.draw()

    def begin(self, what: str, total: int | None, *, is_estimate: bool = False) -> None:
        """The next part of the work."""
        self.what, self.total, self.is_estimate = what, total, is_estimate
        self.count = self._calls = 0
        self._began = time.monotonic()

    def hear(self, what: str, done: int, total: int) -> None:
        """What a store reports."""
        if what != self.what:
            self.begin(what, total)
        self.count, self.total = done, total
        if self.unit == STEP or done % DRAWN_CALLS == 0:
            self.draw()

    def line(self, seconds: float) -> str:
        """`copied 12,000 of about 50,000 records, 24%, 8s left`, after this many seconds."""
        done, total = self.count, self.total
        if total is None or done > total:
            counted = f" {_figure(done)} {self.unit}s" if done else ""
            return f"{self.what}{counted}, {times.span(seconds)}"
        if self.unit == STEP:
            line = f"{self.what} (step {done} of {total}), {times.span(seconds)}"
            before = time.monotonic() - self._all_began - seconds
            if done > 1 and before + seconds >= GUESSED_SECONDS:
                line += f", about {times.span(before / (done - 1) * (total - done + 1))} left"
            return line
        about = "about " if self.is_estimate else ""
        line = f"{self.what} {_figure(done)} of {about}{_figure(total)} {self.unit}s"
        line += f", {done * 100 // max(1, total)}%"
        if done and seconds >= GUESSED_SECONDS:
            line += f", {times.span(seconds / done * (total - done))} left"
        return line

    def _draw_until_over(self) -> None:
        pause = FIRST_SECONDS
        while not self._over.wait(pause):
            pause = REDRAW_SECONDS
            self.draw()


def records_of(board: Board) -> int | None:
    """About how many records an export of the board has. None if nobody sees the progress."""
    if not sys.stderr.isatty():
        return None
    try:
        figures = board.stats()
        oldest, newest = board.events(after=0, limit=1), board.events(newest=True, limit=1)
    except DibsError:
        return None  # `doctor` is for boards that cannot be read, too
    events = newest[0].id - oldest[0].id + 1 if newest and oldest else 0
    return sum(figures.items.values()) + sum(figures.outcomes.values()) + figures.active_claims * 2 + events


def _figure(number: int) -> str:
    return f"{number:,}"
