"""Copying a board from one store to another, with a check that the copy is complete.

Each record goes from the export of one board into the load of the other, and is counted and digested on the way. Then
the copy is exported and digested as well. Nothing is kept in memory. The digest of a kind of record is a sum, so the
order of the records does not matter. The first board may be in use: its export is one snapshot.
"""

from __future__ import annotations

import hashlib
import json

from dibs import board_url, location
from dibs.board import open_board
from dibs.errors import Invalid, StoreUnusable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, Protocol

    from dibs.board import Board

    class Watcher(Protocol):
        """Sees how far a copy has come."""

        def begin(self, what: str, total: int | None, *, is_estimate: bool = False) -> None: ...

        def advance(self) -> None: ...

    Record = tuple[str, dict[str, Any]]

DIGEST_MODULUS = 2**256


class Tally:
    """The number of records of each kind, and a digest of their content."""

    def __init__(self, on_record: Callable[[], object]) -> None:
        self.counts: dict[str, int] = {}
        self._digests: dict[str, int] = {}
        self._on_record = on_record

    def counting(self, records: Iterable[Record]) -> Iterator[Record]:
        """Pass the records on, and count them."""
        for kind, value in records:
            self.counts[kind] = self.counts.get(kind, 0) + 1
            # A sum, because in an exclusive or two equal records would cancel out.
            self._digests[kind] = (self._digests.get(kind, 0) + _digest(value)) % DIGEST_MODULUS
            self._on_record()
            yield kind, value

    def differences(self, other: Tally) -> list[str]:
        """The kinds of record in which the two differ."""
        kinds = self._digests.keys() | other._digests.keys()
        return sorted(
            kind
            for kind in kinds
            if (self.counts.get(kind), self._digests.get(kind)) != (other.counts.get(kind), other._digests.get(kind))
        )


def copy(source: str, target: str, *, progress: Watcher, total: Callable[[Board], int | None]) -> dict[str, int]:
    """Copy the board at one URL into an empty one at another; returns the number of records of each kind.

    `total` estimates the number of records. The agents of a `dibs.toml` are added to neither board, so that the copy
    equals the first one.
    """
    if board_url.is_same(source, target):
        raise Invalid(f"{location.printable(source)} is both the source and the target; name another", field="to")
    with (
        open_board(location.look(".", source), seeded=False) as board,
        open_board(location.look(".", target), create=True, seeded=False) as new,
    ):
        progress.begin("copied", total(board), is_estimate=True)
        read = Tally(progress.advance)
        _load(new, read.counting(board.export()), location.printable(target))
        progress.begin("checked", sum(read.counts.values()))
        written = Tally(progress.advance)
        for _ in written.counting(new.export()):
            pass
    wrong = read.differences(written)
    if wrong:
        raise StoreUnusable(
            f"the copy at {location.printable(target)} differs in {', '.join(wrong)}; do not use it, unless it was "
            "changed during the copy",
            kinds=wrong,
        )
    return read.counts


def _load(board: Board, records: Iterator[Record], place: str) -> None:
    try:
        board.load(records)
    except Invalid as error:
        if error.facts.get("field") == "store":
            raise Invalid(f"{place} is not empty; copy the board into an empty one", field="to") from error
        raise


def _digest(value: dict[str, Any]) -> int:
    text = json.dumps(value, sort_keys=True)
    return int.from_bytes(hashlib.sha256(text.encode()).digest())
