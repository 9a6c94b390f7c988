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
        """What was asked for, from its beginning. `more`: `bytes_max` cut it short, and asking `after` the last of it
        goes on."""

        more = False


def page(found: Iterable[V], *, more: bool = False) -> Page[V]:
    made = Page(found)
    made.more = more
    return made
