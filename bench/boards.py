"""Where boards of a measurement are: on each store that this machine has."""

from __future__ import annotations

import contextlib
import itertools
import os
import tempfile
from collections.abc import Callable, Iterator

import dibs
from bench import servers
from tests.kit.postgres_server import LocalServer

#: Makes a new, empty board and tells its URL.
MakeBoard = Callable[[], str]


@contextlib.contextmanager
def stores() -> Iterator[dict[str, MakeBoard]]:
    """By the name of the store, a maker of boards; they are gone in the end."""
    with contextlib.ExitStack() as opened:
        found = {"SQLite": _in_folder(opened.enter_context(tempfile.TemporaryDirectory()))}
        if servers.is_there():
            found["PostgreSQL"] = _on_server(opened.enter_context(servers.durable_server()))
        yield found


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
