"""What a demo prints: headings, lines with the time since its start, and statements that are true or false.

Everything can be recorded with its time, for `demo.svg`.
"""

from __future__ import annotations

import sys
import time

from dibs.cli.render import Paint, agent_colour, clean, cut, terminal_columns, without_colours

#: The column at which the text of a line begins.
TEXT_COLUMN = 28
RECORDED_COLUMNS = 100


class Screen:
    def __init__(self, paint: Paint, *, silent: bool = False, records: bool = False) -> None:
        #: The lines with their colours, and when each was printed.
        self.recording: list[tuple[float, str]] = []
        self.checks: dict[str, bool] = {}
        self.columns = RECORDED_COLUMNS if records else terminal_columns(sys.stdout)
        #: Whether somebody reads the lines as they come.
        self.is_paced = self.columns is not None
        self.paint = Paint(True) if records else paint
        self._has_colours = paint.enabled
        self._silent = silent
        self._started = time.monotonic()

    @property
    def seconds(self) -> float:
        """The time since the start."""
        return time.monotonic() - self._started

    def line(self, text: str) -> None:
        self.recording.append((self.seconds, text))
        if not self._silent:
            sys.stdout.write((text if self._has_colours else without_colours(text)) + "\n")
            sys.stdout.flush()

    def heading(self, title: str, rest: str) -> None:
        self.line("")
        self.line(f"{self.paint(title, 'bold')}  {self.paint(clean(rest), 'dim')}")

    def act(self, name: str, what: str, text: str, colour: str) -> None:
        """A line about what somebody did, with the time."""
        text = clean(text) if self.columns is None else cut(clean(text), self.columns - TEXT_COLUMN)
        who, verb = self.paint(f"{name:<5}", agent_colour(name)), self.paint(f"{what:<11}", colour)
        self.line(f"  {self.paint(f'{self.seconds:5.1f}s', 'dim')}  {who}  {verb}{text}")

    def check(self, sentence: str, holds: bool) -> None:
        self.checks[sentence] = holds
        self.line(f"  {self.paint('✓', 'green') if holds else self.paint('✗', 'red')} {clean(sentence)}")

    @property
    def shown(self) -> bool:
        """Whether every statement was true."""
        return all(self.checks.values())
