"""The PostgreSQL store under test: how the suite opens it, in this process and in others, sound or deliberately broken.

Each harness has a database of its own, copied from a template that is made once on a server. In it the store's clock is
one that tests set: see `DatabaseClock`.
"""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from typing import Any, cast

import psycopg

from dibs.board import Board
from dibs.config import DEFAULTS
from dibs.store.postgres.migrating import migrate
from dibs.store.postgres.store import PostgresStore
from dibs.testing.harness import Harness, Wire, open_recipe
from dibs.testing.proxy import CuttingProxy
from tests.kit.broken import BROKEN
from tests.kit.database_clock import DatabaseClock, install

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Protocol

    from dibs.store.contract import Store
    from tests.kit.postgres_server import PostgresServer

    class Way(Protocol):
        """What leads to a database: the server itself, or a PgBouncer before it."""

        def url(self, database: str) -> str: ...


def open_board(*, url: str, broken: str | None = None, settings: dict[str, Any] | None = None) -> Board:
    """A handle on the board in the database at `url`, which has to be there."""
    chosen = DEFAULTS.replace(**(settings or {}))
    store = PostgresStore(url, chosen, look_seconds=0)
    if broken is None:
        return Board(store, chosen, actor="tester")
    mistaken = BROKEN[broken](store, lambda sql, parameters: _behind_its_back(url, sql, parameters))
    return Board(cast("Store", mistaken), chosen, actor="tester")


class PostgresHarness(Harness):
    """A new database on the server. The board comes to it by `way`, the clock always directly."""

    def __init__(
        self,
        server: PostgresServer,
        way: Way,
        folder: str | os.PathLike[str],
        asked: dict[str, Any],
        clock: DatabaseClock | None = None,
    ) -> None:
        self.server, self.way, self.asked = server, way, asked
        self.database = f"{server.prefix}{os.urandom(6).hex()}"
        server.create_database(self.database, server.template("template", make_template))
        if clock is None:
            clock = DatabaseClock(server.url(self.database))
        else:
            clock.set_also(server.url(self.database))
        self._clock = clock
        kwargs = {"url": way.url(self.database), **asked}
        super().__init__("tests.kit.postgres:open_board", kwargs, clock, folder)

    def elsewhere(self) -> PostgresHarness:
        return PostgresHarness(self.server, self.way, self.folder, self.asked, self._clock)

    @contextmanager
    def wire(self) -> Iterator[Wire]:
        recipe = self.recipe()
        url = recipe["kwargs"]["url"]
        with CuttingProxy.before_postgres(url) as proxy:
            far = {**recipe, "kwargs": {**recipe["kwargs"], "url": proxy.url(url)}}
            with open_recipe(far) as board:
                yield Wire(board, proxy)

    def close(self) -> None:
        super().close()
        self._clock.leave(self.server.url(self.database))
        self.server.drop_database(self.database)


def harness(
    server: PostgresServer,
    folder: str | os.PathLike[str],
    broken: str | None = None,
    *,
    way: Way | None = None,
    **settings: Any,
) -> PostgresHarness:
    """A new board on this server, under a clock of its own."""
    return PostgresHarness(server, way or server, folder, {"broken": broken, "settings": settings})


def make_template(url: str) -> None:
    """An empty board whose clock can be set."""
    migrate(url)
    install(url)


def _behind_its_back(url: str, sql: str, parameters: dict[str, Any]) -> None:
    """Change rows past the store. Names are given as `:name`, an empty list as SQLite keeps it."""
    words = re.sub(r"(?<!:):(\w+)", r"%(\1)s", sql).replace("'[]'", "'{}'")
    with psycopg.connect(url, prepare_threshold=None) as connection:
        connection.execute("SET LOCAL search_path = dibs")
        connection.execute(words.encode(), parameters)
