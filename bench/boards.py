"""Where boards of a measurement are: on each store that this machine has."""

from __future__ import annotations

import atexit
import contextlib
import functools
import itertools
import os
import tempfile
from collections.abc import Callable, Iterator

import dibs
from bench import servers
from tests.kit.postgres_server import LocalServer

#: Makes a new, empty board and tells its URL.
MakeBoard = Callable[[], str]
#: The stores that this machine has.
NAMES = ("SQLite", "PostgreSQL") if servers.is_there() else ("SQLite",)


@contextlib.contextmanager
def stores() -> Iterator[dict[str, MakeBoard]]:
    """By the name of the store, a maker of boards; they are gone in the end."""
    with contextlib.ExitStack() as opened:
        found = {"SQLite": _in_folder(opened.enter_context(tempfile.TemporaryDirectory()))}
        if servers.is_there():
            found["PostgreSQL"] = _on_server(opened.enter_context(servers.durable_server()))
        yield found


@functools.cache
def with_ended(store: str, ended: int) -> str:
    """A board with so many ended items, for all parts of a run: on PostgreSQL a million take a minute to make."""
    from bench import dashboard

    return dashboard.made(store, _shared_stores()[store](), dashboard.Size(ended, 0, 0))


@functools.cache
def _shared_stores() -> dict[str, MakeBoard]:
    opened = contextlib.ExitStack()
    atexit.register(opened.close)
    return opened.enter_context(stores())


def _in_folder(folder: str) -> MakeBoard:
    numbers = itertools.count()

    def make() -> str:
        return _made(os.path.join(folder, f"board{next(numbers)}.db"))

    return make


def _on_server(server: LocalServer) -> MakeBoard:
    numbers = itertools.count()

    def make() -> str:
        name = f"board{next(numbers)}"
        server.create_database(name)
        return _made(server.url(name))

    return make


def _made(url: str) -> str:
    dibs.connect(url, create=True).close()
    return url
