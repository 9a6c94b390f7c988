"""A whole board from one store to another, and the proof that nothing was lost on the way.

Each record goes straight from the export of one board into the load of the other, and is counted and digested as it
passes; then the copy is exported and digested, too. Nothing is held in memory. The digest of a kind is a sum, so the
order in which a store gives its records does not matter. The first board may be in full use: its export is of one
instant, and it is that instant which is copied and compared.
"""

from __future__ import annotations

import hashlib
import json

from dibs import location
from dibs.board import connect
from dibs.errors import Invalid, StoreUnusable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from dibs.board import Board

    Record = tuple[str, dict[str, Any]]

DIGEST_MODULUS = 2**256


class Tally:
    """How many records of each kind there are, and what they say."""

    def __init__(self, on_record: Callable[[], object]) -> None:
        self.counts: dict[str, int] = {}
        self._digests: dict[str, int] = {}
        self._on_record = on_record

    def of(self, records: Iterable[Record]) -> Iterator[Record]:
        """The records as they are, each taken note of as it passes."""
        for kind, value in records:
            self.counts[kind] = self.counts.get(kind, 0) + 1
            # A sum, not an exclusive or: two equal records would cancel each other out.
            self._digests[kind] = (self._digests.get(kind, 0) + _digest(value)) % DIGEST_MODULUS
            self._on_record()
            yield kind, value

    def differences(self, other: Tally) -> list[str]:
        """The kinds of which the two do not tell the same."""
        kinds = self._digests.keys() | other._digests.keys()
        return sorted(
            kind
            for kind in kinds
            if (self.counts.get(kind), self._digests.get(kind)) != (other.counts.get(kind), other._digests.get(kind))
        )


def copy(
    source: str, target: str, *, on_read: Callable[[], object], on_checked: Callable[[], object]
) -> dict[str, int]:
    """Copy the board at one URL to another, where nothing is yet; how many records of each kind that were.

    Neither board is given the agents of a `dibs.toml`: the copy is to be what the first one is.
    """
    if location.is_same(source, target):
        raise Invalid(f"{location.printable(source)} is both; a board is copied to another place", field="to")
    with connect(source, seeded=False) as board, connect(target, create=True, seeded=False) as new:
        read = Tally(on_read)
        _load(new, read.of(board.export()), location.printable(target))
        written = Tally(on_checked)
        for _ in written.of(new.export()):
            pass
    wrong = read.differences(written)
    if wrong:
        raise StoreUnusable(
            f"the copy at {location.printable(target)} does not say the same about {', '.join(wrong)}: do not use it, "
            "unless somebody worked on it during the copy",
            kinds=wrong,
        )
    return read.counts


def _load(board: Board, records: Iterator[Record], place: str) -> None:
    try:
        board.load(records)
    except Invalid as error:
        if error.facts.get("field") == "store":
            raise Invalid(f"{place} has something on it; a board is copied into an empty one", field="to") from error
        raise


def _digest(value: dict[str, Any]) -> int:
    text = json.dumps(value, sort_keys=True)
    return int.from_bytes(hashlib.sha256(text.encode()).digest())
