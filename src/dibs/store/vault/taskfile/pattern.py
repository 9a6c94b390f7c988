"""Regular expressions that are compiled on first use.

Importing `re` costs a command more than all modules of the vault, and most claims need no expression.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re


class Pattern:
    """With `only_ascii`, `\\w` and the like match ASCII only."""

    __slots__ = ("_compiled", "_only_ascii", "_text")

    def __init__(self, text: str, *, only_ascii: bool = False) -> None:
        self._text, self._only_ascii = text, only_ascii
        self._compiled: re.Pattern[str] | None = None

    def fullmatch(self, text: str) -> re.Match[str] | None:
        return self._ready().fullmatch(text)

    def findall(self, text: str) -> list[str]:
        return self._ready().findall(text)

    def _ready(self) -> re.Pattern[str]:
        if self._compiled is None:
            import re

            self._compiled = re.compile(self._text, re.ASCII if self._only_ascii else 0)
        return self._compiled
