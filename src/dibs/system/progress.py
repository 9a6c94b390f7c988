"""How far a long call of a store has come, for a command line that shows it. Without a listener, nothing is counted."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import TypeVar

    T = TypeVar("T")
    #: Called with what is being done, how much of it is done, and how much there is in all.
    Listener = Callable[[str, int, int], None]

#: The reports of a process that runs one command; a server has none.
listener: Listener | None = None


def report(what: str, done: int, total: int) -> None:
    if listener is not None:
        listener(what, done, total)


def counted(values: Iterable[T], what: str, total: Callable[[], int]) -> Iterator[T]:
    """Pass the values on, and report each; `total` is asked only if somebody listens."""
    if listener is None:
        yield from values
        return
    in_all = total()
    for done, value in enumerate(values, start=1):
        listener(what, done, in_all)
        yield value
