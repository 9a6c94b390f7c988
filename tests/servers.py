"""The servers of a test run: one PostgreSQL, and one PgBouncer before it, for all its processes.

The first test that wants one starts it; it ends with the run, also if that is killed. `DIBS_TEST_POSTGRES` says which
server: a superuser's URL for one that is there, `wheel` for the wheel's programs, or a folder of other programs.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.kit import pgbouncer as bouncing
from tests.kit.http import Host
from tests.kit.keeper import Place
from tests.kit.pgbouncer import PgBouncer
from tests.kit.postgres_server import LocalServer, PostgresServer

WANTED = os.environ.get("DIBS_TEST_POSTGRES", "")
ELSEWHERE = "://" in WANTED
#: Sixty-four racing processes in each of several workers.
CONNECTIONS_MAX = 400
RUN = pytest.StashKey["Run"]()


class Run:
    """What the processes of a run share: a place, and what was started there."""

    def __init__(self, place: Place) -> None:
        self.place = place
        # A name of its own for each run, since others may use the same server.
        self.prefix = os.path.basename(place.folder).replace("-", "_") + "_"
        self._started: list[object] = []

    def postgres(self) -> PostgresServer:
        return PostgresServer(WANTED if ELSEWHERE else self._once("postgres", self._start_postgres), self.prefix)

    def pgbouncer(self) -> str:
        return self._once("pgbouncer", self._start_pgbouncer)

    def end(self) -> None:
        if ELSEWHERE and os.path.exists(os.path.join(self.place.folder, "used")):
            self.postgres().drop_all()
        self.place.close()

    def note_use(self) -> None:
        with open(os.path.join(self.place.folder, "used"), "w", encoding="ascii"):
            pass

    def _start_postgres(self) -> str:
        server = LocalServer(self.place, max_connections=CONNECTIONS_MAX)
        self._started.append(server)
        server.create()
        return server.url()

    def _start_pgbouncer(self) -> str:
        bouncer = PgBouncer(self.postgres(), self.place)
        self._started.append(bouncer)
        bouncer.start()
        return bouncer.url()

    def _once(self, name: str, start: Callable[[], str]) -> str:
        """The URL of what is started under this name, by whichever process comes first."""
        path = os.path.join(self.place.folder, f"{name}.url")
        with _alone(f"{path}-lock"):
            if not os.path.exists(path):
                url = start()
                with open(path, "w", encoding="utf-8") as file:
                    file.write(url)
            with open(path, encoding="utf-8") as file:
                return file.read()


@contextmanager
def _alone(path: str) -> Iterator[None]:
    lock = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def pytest_configure(config: pytest.Config) -> None:
    shared = getattr(config, "workerinput", {}).get("servers")
    config.stash[RUN] = Run(Place.of(shared) if shared else Place.new())


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: pytest.Session) -> None:
    """Tell a worker of xdist where the run's servers are."""
    node.workerinput["servers"] = node.config.stash[RUN].place.folder  # type: ignore[attr-defined]


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput") and RUN in config.stash:
        config.stash[RUN].end()


@pytest.fixture(scope="session")
def postgres_server(pytestconfig: pytest.Config) -> PostgresServer:
    run = pytestconfig.stash[RUN]
    run.note_use()
    return run.postgres()


@pytest.fixture(scope="session")
def pgbouncer(pytestconfig: pytest.Config) -> PostgresServer:
    """A way to the databases of `postgres_server`, for clients that share its connections."""
    if not bouncing.available():
        pytest.skip("there is no pgbouncer on this machine")
    return PostgresServer(pytestconfig.stash[RUN].pgbouncer())


@pytest.fixture(scope="session")
def http_host() -> Iterator[Host]:
    """A process that serves boards over HTTP."""
    host = Host()
    yield host
    host.close()


@pytest.fixture(scope="session")
def second_http_host() -> Iterator[Host]:
    host = Host()
    yield host
    host.close()
