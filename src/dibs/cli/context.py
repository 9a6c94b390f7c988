"""The context of one command: its arguments, the board that they name, and its output."""

from __future__ import annotations

import sys
import time

from dibs.errors import StoreUnavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from dibs.board import Board
    from dibs.cli.parser import Args
    from dibs.cli.render import Paint
    from dibs.location import Place


#: Store methods that are never retried: they consume a stream, or run long by themselves.
NOT_RETRIED = frozenset({"load", "export", "backup", "restore", "sync", "close"})


def call_with_retries(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call, and retry a few times with backoff while the store is unavailable."""
    began = time.monotonic()
    try:
        return call(*args, **kwargs)
    except StoreUnavailable as error:
        from dibs.sdk import retries

        is_repeatable = kwargs.get("request") is not None
        return retries.retry(lambda: call(*args, **kwargs), error, began=began, repeatable=is_repeatable)


class RetryingStore:
    """The store of a command, with every verb retried while the store is unavailable."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)
        if name in NOT_RETRIED or not callable(found):
            return found
        return lambda *args, **kwargs: call_with_retries(found, *args, **kwargs)


class Cli:
    """One call of `dibs`. The board is opened on first use."""

    def __init__(self, args: Args) -> None:
        self.args = args
        #: Whether the answer is JSON, full or brief.
        self.json: bool = args.json or args.brief
        self._board: Board | None = None
        self._place: Place | None = None
        self._told: set[str] = set()
        self._paint: Paint | None = None

    @property
    def place(self) -> Place:
        """The board of this command, and the `dibs.toml` that counts for it. What was passed over is printed once."""
        if self._place is None:
            from dibs import location

            self._place = location.look(".", self.args.store, tell=self.notice_once)
        return self._place

    @property
    def board(self) -> Board:
        if self._board is None:
            from dibs.board import open_board

            self._board = call_with_retries(open_board, self.place, lean=True)
            self._board.store = RetryingStore(self._board.store)
            if hasattr(self.args, "actor"):
                from dibs import check
                from dibs.cli import identity

                actor = identity.actor(self)
                if actor is not None:
                    self._board.actor = check.name(actor, "actor")
        return self._board

    def board_within(self, seconds: float) -> Board:
        """The board for a hook, while another program waits: it is not retried, and gets this time for each answer."""
        if self._board is None:
            from dibs.board import open_board

            self._board = open_board(self.place, lean=True, seeded=False, lenient=True, lock_wait_seconds=seconds)
        return self._board

    def accept_vault(self, url: str) -> None:
        """Record that the user accepts the vault with this URL, if it is one: a search then finds it."""
        from dibs import location

        if url.startswith(location.VAULT):
            from dibs.errors import Invalid, NotTrusted
            from dibs.system import trust

            try:
                trust.add_entry(location.acceptance(url.removeprefix(location.VAULT)))
            except (Invalid, NotTrusted) as error:
                self.notice(f"{error.message}; so name the vault: export DIBS_STORE={location.absolute(url)}")

    @property
    def has_board(self) -> bool:
        """Whether the board could be opened."""
        return self._board is not None

    @property
    def paint(self) -> Paint:
        """Colours for stdout if it is a terminal, else none."""
        if self._paint is None:
            from dibs.cli.render import Paint

            self._paint = Paint.for_stream(sys.stdout, plain=self.args.no_color)
        return self._paint

    def close(self) -> None:
        if self._board is not None:
            self._board.close()

    def reply(self, value: Any, *lines: str) -> None:
        """Print the value with `--json` or `--brief`, else the lines."""
        if self.json:
            self.print_json(value)
        else:
            self.print(*lines)

    def encode(self, value: Any) -> Any:
        """A value as plain data: brief with `--brief`, else in full."""
        if self.args.brief:
            from dibs.text import brief

            return brief.encode(value)
        from dibs.text import wire

        return wire.encode(value)

    def print_json(self, value: Any) -> None:
        """Print one line of JSON, in ASCII, so that it cannot send control sequences to a terminal."""
        from dibs.text import json_text

        sys.stdout.write(json_text.line(self.encode(value), compact=self.args.brief) + "\n")

    def print(self, *lines: str) -> None:
        """Print lines, with every control character replaced that `Paint` did not add."""
        from dibs.cli.render import clean_line

        sys.stdout.writelines(clean_line(line) + "\n" for line in lines)

    def table(self, rows: Sequence[Sequence[str]], **layout: Any) -> list[str]:
        """`render.table` in the colours and the width of stdout."""
        from dibs.cli.render import table, terminal_columns

        return table(rows, columns=terminal_columns(sys.stdout), paint=self.paint, **layout)

    def notice_once(self, line: str) -> None:
        if line not in self._told:
            self._told.add(line)
            self.notice(line)

    def notice(self, line: str) -> None:
        """Print a line for people on stderr, beside the answer."""
        from dibs.cli.render import clean

        sys.stdout.flush()
        sys.stderr.write(f"dibs: {clean(line)}\n")
