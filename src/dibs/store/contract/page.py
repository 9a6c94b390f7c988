"""One page of a long answer."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TypeVar

    V = TypeVar("V")

if TYPE_CHECKING:

    class Page(tuple[V, ...]):
        more: bool

else:

    class Page(tuple):
        """The first part of an answer. `more`: `bytes_max` cut it short; a read `after` its last entry continues."""

        more = False


def page(found: Iterable[V], *, more: bool = False) -> Page[V]:
    made = Page(found)
    made.more = more
    return made
