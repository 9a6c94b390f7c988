"""What an edit of a file is: text that is inserted, and can be found again.

`Insertion`s are applied one after another: the offset of each counts in the text that the ones before it have left.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol


class Insertion(NamedTuple):
    offset: int
    text: str


class Edit(Protocol):
    """One file of a client. A text that cannot be edited is `Invalid`."""

    path: str

    def is_complete(self, text: str) -> bool:
        """Whether the text has all of our entries as they should be, and no others of ours."""

    def insertions(self, text: str | None) -> list[Insertion]:
        """What adds our entries to a text that has none, or makes a file."""

    def stripped(self, text: str) -> str:
        """The text without our entries, found by what they look like."""

    def is_empty(self, text: str) -> bool:
        """Whether a text without our entries says nothing."""

    def theirs(self, text: str) -> Any:
        """All that the text says beside our entries, for comparing texts."""


def insert(text: str, insertions: list[Insertion]) -> str:
    for offset, new in insertions:
        text = text[:offset] + new + text[offset:]
    return text


def take_back(text: str, insertions: list[Insertion]) -> str | None:
    """The text without what was inserted: where it was inserted, or else at the only place where it now is. None if
    that cannot be found."""
    for offset, new in reversed(insertions):
        if not text.startswith(new, offset):
            offset = text.find(new)
            if offset < 0 or text.find(new, offset + 1) >= 0:
                return None
        text = text[:offset] + text[offset + len(new) :]
    return text
