"""The clock of a PostgreSQL board under test: `dibs.clock()` replaced by one that reads a row which a test sets.

It either runs (the server's time plus an offset) or stands still at an instant, as `FileClock` does.
"""

from __future__ import annotations

import psycopg

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Connection = psycopg.Connection[tuple[Any, ...]]

# The function is volatile, so each call sees the row as it is then, whenever the transaction around it began.
SETTABLE = """
CREATE SCHEMA dibs_test;
CREATE TABLE dibs_test.clock (value bigint NOT NULL, frozen boolean NOT NULL);
INSERT INTO dibs_test.clock VALUES (0, false);
CREATE FUNCTION dibs_test.real() RETURNS bigint LANGUAGE sql VOLATILE AS
    'SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint';
CREATE OR REPLACE FUNCTION dibs.clock() RETURNS bigint LANGUAGE sql VOLATILE AS
    'SELECT CASE WHEN frozen THEN value ELSE dibs_test.real() + value END FROM dibs_test.clock';
GRANT USAGE ON SCHEMA dibs_test TO PUBLIC;
GRANT SELECT ON dibs_test.clock TO PUBLIC;
"""


def install(url: str) -> None:
    """Give the board in this database a clock that can be set."""
    with psycopg.connect(url) as connection:
        connection.execute(SETTABLE)


class DatabaseClock:
    """The clock of one database, and of all others that it is told to set; the first says what time it is."""

    def __init__(self, url: str) -> None:
        self._connections = {url: _connected(url)}

    def set_also(self, url: str) -> None:
        """From now on the clock in this database shows what this one shows."""
        self._connections[url] = _connected(url)
        self._set(*self._shown())

    def leave(self, url: str) -> None:
        self._connections.pop(url).close()

    def now(self) -> int:
        return int(self._asked("SELECT dibs.clock()")[0])

    def advance(self, seconds: float) -> None:
        value, frozen = self._shown()
        self._set(value + round(seconds * 1000), frozen)

    def freeze(self) -> None:
        self._set(self.now(), True)

    def run(self) -> None:
        self._set(int(self._asked("SELECT dibs.clock() - dibs_test.real()")[0]), False)

    def _shown(self) -> tuple[int, bool]:
        value, frozen = self._asked("SELECT value, frozen FROM dibs_test.clock")
        return value, frozen

    def _asked(self, question: str) -> tuple[Any, ...]:
        answer = self._execute(next(iter(self._connections)), question).fetchone()
        assert answer is not None
        return answer

    def _set(self, value: int, frozen: bool) -> None:
        for url in list(self._connections):
            self._execute(url, "UPDATE dibs_test.clock SET value = %s, frozen = %s", value, frozen)

    def _execute(self, url: str, words: str, *parameters: Any) -> psycopg.Cursor[tuple[Any, ...]]:
        try:
            return self._connections[url].execute(words.encode(), parameters)
        except psycopg.OperationalError:
            # A server that was restarted has cut it off. All that is said here can be said twice.
            self._connections[url].close()
            self._connections[url] = _connected(url)
            return self._connections[url].execute(words.encode(), parameters)


def _connected(url: str) -> Connection:
    return psycopg.connect(url, autocommit=True)
