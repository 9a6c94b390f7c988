"""What a worker shows while it works: on a terminal one line per claim that is redrawn, below all that has happened;
elsewhere plain lines; with `--json` a line of JSON for each event.

Nobody waits for whoever reads it; how that is done is told in `writer`.
"""

from __future__ import annotations

import sys
import threading
import time

from dibs.cli.render import OUTCOME_COLOURS, clean, cut, number_of, terminal_columns
from dibs.cli.stdout_writer import Writer
from dibs.text import json_text, times

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.cli.context import Cli
    from dibs.sdk.claim_handle import ClaimHandle

#: How often the lines are drawn anew; their times go on by seconds.
REDRAW_SECONDS = 0.25
#: No more lines than fit on a small screen; the others are counted.
LINES_MAX = 12
#: The first line of what there is to say of an end; all of it is in the run.
TEXT_COLUMNS = 200


class Shown:
    """A claim that is being worked on, as its line tells it."""

    def __init__(self, claim: ClaimHandle) -> None:
        self.claim, self.began, self.last = claim, time.monotonic(), ""

    @property
    def age(self) -> str:
        return times.span(time.monotonic() - self.began)

    @property
    def line(self) -> str:
        last = clean(self.last.rpartition("\r")[2])
        return f"  {clean(self.claim.item.id)}  {self.age}  {clean(self.claim.item.title)}  {last}"


class Live:
    def __init__(self, cli: Cli) -> None:
        self._cli = cli
        self._drawn = 0
        self._shown: dict[ClaimHandle, Shown] = {}
        self._lock = threading.Lock()
        self._redraws = not cli.json and terminal_columns(sys.stdout) is not None
        self._writer = Writer(
            self._frame if self._redraws else str, self._left_out, REDRAW_SECONDS if self._redraws else None
        )

    def tell(self, word: str, claim: ClaimHandle | None, text: str = "") -> None:
        """Something happened: to this claim, or to the worker as a whole."""
        with self._lock:
            if claim is not None and word == "claimed":
                self._shown[claim] = Shown(claim)
            shown = None if claim is None else self._shown.get(claim)
            if word != "claimed" and claim is not None:
                self._shown.pop(claim, None)
        self._writer.put(self._as_json(word, claim, text) if self._cli.json else self._as_line(word, shown, text))

    def output(self, claim: ClaimHandle, line: str) -> None:
        if self._cli.json:
            self._writer.put(self._as_json("output", claim, line), waits=True)
        elif not self._redraws:
            self._writer.put(f"{clean(claim.item.id)} | {clean(line)}\n", waits=True)
        elif (shown := self._shown.get(claim)) is not None:
            shown.last = line

    def close(self) -> None:
        with self._lock:
            self._shown.clear()
        self._writer.close()

    def _frame(self, text: str) -> str:
        """The text, and below it the lines anew; nothing if there is none of both."""
        with self._lock:
            shown = list(self._shown.values())
        if not (text or shown or self._drawn):
            return ""
        lines = _lines(shown)
        up = f"\x1b[{self._drawn}A" if self._drawn else ""
        self._drawn = len(lines)
        return f"\r{up}\x1b[J{text}{''.join(lines)}"

    def _left_out(self, count: int) -> str:
        if self._cli.json:
            return json_text.line({"event": "left_out", "lines": count}) + "\n"
        return f"{number_of(count, 'line')} left out: nobody read on\n"

    def _as_line(self, word: str, shown: Shown | None, text: str) -> str:
        paint, first = self._cli.paint, cut(clean(text.partition("\n")[0]), TEXT_COLUMNS)
        if shown is None:
            return f"{paint(word, 'yellow')}  {first}\n"
        item = shown.claim.item
        what = paint(word, "green" if word == "claimed" else OUTCOME_COLOURS.get(word, "yellow"))
        if word == "claimed":
            return f"{what} {paint(item.id, 'bold')}  {clean(item.title)}\n"
        return f"{what} {paint(item.id, 'bold')}  after {shown.age}{': ' if first else ''}{first}\n"

    def _as_json(self, word: str, claim: ClaimHandle | None, text: str) -> str:
        told: dict[str, str | int] = {"event": word}
        if claim is not None:
            told |= {"item": claim.item.id, "token": claim.token, "session": claim.session.id}
        return json_text.line(told | ({"text": text} if text else {})) + "\n"


def _lines(shown: list[Shown]) -> list[str]:
    # One column short, so that no terminal wraps a line that is going to be erased.
    columns = (terminal_columns(sys.stdout) or 80) - 1
    lines = [cut(one.line, columns) + "\n" for one in shown[:LINES_MAX]]
    return lines + ([f"  and {len(shown) - LINES_MAX} more\n"] if len(shown) > LINES_MAX else [])
