"""A database as docs/operations/postgresql.md has it: its roles and grants, made by the very lines that stand there.

Roles belong to a whole server, which other tests use as well, so they get names of their own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, urlsplit

import psycopg

from dibs.board import Board
from dibs.config import DEFAULTS
from dibs.store.postgres.migrating import migrate
from dibs.store.postgres.store import PostgresStore
from tests.docs.markdown import blocks, read, section
from tests.kit.database_clock import DatabaseClock, install
from tests.kit.postgres_server import PostgresServer

Connection = psycopg.Connection[tuple[Any, ...]]

OPERATIONS = read("docs/operations/postgresql.md")
ROLES = ("dibs_owner", "dibs_app", "dibs_reader", "dibs_sql")
#: What the documents call the database and its server.
DATABASE = "work"
CALLED = "db.example.org/work"


class Production:
    def __init__(self, server: PostgresServer) -> None:
        self.server = server
        self.tail = os.urandom(4).hex()
        self.database = f"{server.prefix}{self.tail}"

    def make(self, text: str) -> None:
        """Roles, the database, the board, the grants: what stands under "Roles"."""
        by_superuser, in_the_database, by_owner = blocks(section(text, "## Roles"), "sql")
        with self.server.connect() as connection:
            for statement in statements(by_superuser):
                connection.execute(self.named(statement).encode())
        with self.server.connect(self.database) as connection:
            connection.execute("GRANT CREATE ON SCHEMA public TO PUBLIC")  # as up to PostgreSQL 14
            connection.execute(self.named(in_the_database).encode())
        migrate(self.url("dibs_owner"))
        install(self.server.url(self.database))
        with self.connect("dibs_owner") as connection:
            connection.execute(self.named(by_owner).encode())

    def drop(self) -> None:
        self.server.drop_database(self.database)
        with self.server.connect() as connection:
            for role in ROLES:
                connection.execute(f"DROP ROLE IF EXISTS {self.role(role)}".encode())

    def empty(self) -> None:
        """Leave no items and sessions, and no figures of those that were there."""
        with self.connect("dibs_owner") as connection:
            connection.execute("TRUNCATE dibs.items, dibs.claims, dibs.runs, dibs.events, dibs.sessions, dibs.activity")
            connection.execute("TRUNCATE dibs.agents, dibs.dependencies, dibs.uncounted_runs")
            connection.execute("DELETE FROM dibs.figures WHERE kind <> 'upto'")

    def role(self, name: str) -> str:
        return f"{name}_{self.tail}"

    def url(self, role: str) -> str:
        """As this role. Not by logging in, since a server elsewhere may want a password of it."""
        return f"{self.server.url(self.database)}?options={quote(f'-c role={self.role(role)}')}"

    def connect(self, role: str) -> Connection:
        return psycopg.connect(self.url(role), autocommit=True)

    def login(self, role: str) -> str:
        """As this role by logging in, with the limits and the settings of the role."""
        secret = os.urandom(16).hex()
        with self.server.connect() as connection:
            connection.execute(f"ALTER ROLE {self.role(role)} PASSWORD '{secret}'".encode())
        parts = urlsplit(self.server.url(self.database))
        place = parts.netloc.rpartition("@")[2]
        return parts._replace(netloc=f"{self.role(role)}:{secret}@{place}").geturl()

    def board(self, role: str) -> Board:
        return Board(PostgresStore(self.url(role), DEFAULTS, look_seconds=0), DEFAULTS, actor="you")

    @contextmanager
    def clock(self) -> Iterator[DatabaseClock]:
        """The board's clock, standing still."""
        url = self.server.url(self.database)
        clock = DatabaseClock(url)
        try:
            clock.freeze()
            yield clock
        finally:
            clock.leave(url)

    def named(self, words: str) -> str:
        """Words of a document, about this database and these roles."""
        for role in ROLES:
            words = re.sub(rf"postgresql://{role}@{CALLED}", self.url(role), words)
            words = re.sub(rf"\b{role}\b", self.role(role), words)
        return re.sub(rf"\bDATABASE {DATABASE}\b", f"DATABASE {self.database}", words)


@contextmanager
def production(server: PostgresServer, text: str = OPERATIONS) -> Iterator[Production]:
    made = Production(server)
    try:
        made.make(text)
        yield made
    finally:
        made.drop()


def statements(block: str) -> list[str]:
    """The statements of a block, one by one: some cannot be in a transaction with others."""
    without_comments = re.sub(r"--.*$", "", block, flags=re.MULTILINE)
    return [words.strip() for words in without_comments.split(";") if words.strip()]
