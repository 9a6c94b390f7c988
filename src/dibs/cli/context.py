"""What a command works with: its arguments, the board they name, and a way to answer."""

from __future__ import annotations

import sys
import time

from dibs.errors import StoreUnavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from dibs.board import Board
    from dibs.cli.parser import Args
    from dibs.cli.render import Paint


#: Calls that are made once: they read what cannot be read again, or take long by themselves.
MADE_ONCE = frozenset({"load", "export", "backup", "restore", "sync", "close"})


def patiently(ask: Callable[..., Any], *args: Any, **said: Any) -> Any:
    """Ask, and a few times more if the store is away for a moment."""
    began = time.monotonic()
    try:
        return ask(*args, **said)
    except StoreUnavailable as error:
        from dibs import patience

        is_repeatable = said.get("request") is not None
        return patience.ask_again(lambda: ask(*args, **said), error, began=began, repeatable=is_repeatable)


class PatientStore:
    """The store of a command: each verb is asked patiently."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)
        if name in MADE_ONCE or not callable(found):
            return found
        return lambda *args, **said: patiently(found, *args, **said)


class Cli:
    """One call of `dibs`. The board is opened when a command first asks for it."""

    def __init__(self, args: Args) -> None:
        self.args = args
        self.json: bool = args.json
        self._board: Board | None = None
        self._paint: Paint | None = None

    @property
    def board(self) -> Board:
        if self._board is None:
            from dibs.board import connect

            self._board = patiently(connect, self.args.store, lean=True)
            self._board.store = PatientStore(self._board.store)
            if hasattr(self.args, "actor"):
                from dibs import check
                from dibs.cli import identity

                actor = identity.actor(self)
                self._board.actor = self._board.actor if actor is None else check.name(actor, "actor")
        return self._board

    @property
    def paint(self) -> Paint:
        """Colours for stdout, if it is a terminal that wants them."""
        if self._paint is None:
            from dibs.cli.render import Paint

            self._paint = Paint.for_stream(sys.stdout, plain=self.args.no_color)
        return self._paint

    def close(self) -> None:
        if self._board is not None:
            self._board.close()

    def answer(self, value: Any) -> None:
        """Print a value as one line of JSON. Plain ASCII, so that no terminal can be steered by it."""
        from dibs import jsontext, wire

        sys.stdout.write(jsontext.line(wire.encode(value)) + "\n")

    def say(self, *lines: str) -> None:
        """Print lines for people. What came from a board was cleaned before; whatever was forgotten is cleaned here."""
        from dibs.cli.render import clean_line

        sys.stdout.writelines(clean_line(line) + "\n" for line in lines)

    def remark(self, line: str) -> None:
        """Something worth knowing beside the answer, for people: one line on stderr."""
        from dibs.cli.render import clean

        sys.stdout.flush()
        sys.stderr.write(f"dibs: {clean(line)}\n")
