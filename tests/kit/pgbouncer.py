"""A real PgBouncer before a server: transaction pooling, in which a connection is another one after each commit."""

from __future__ import annotations

import os
import shutil
import time
from urllib.parse import urlsplit

import psycopg

from tests.kit.keeper import Place
from tests.kit.postgres_server import POLL_SECONDS, START_SECONDS_MAX, PostgresServer, free_port

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess
    from typing import Self

PLACES = ("/usr/sbin/pgbouncer", "/usr/local/bin/pgbouncer", "/opt/homebrew/bin/pgbouncer")


def available() -> bool:
    return _program() is not None


class PgBouncer:
    """It stands before every database of the server, logs in as its superuser and trusts whoever comes to it."""

    def __init__(self, server: PostgresServer, place: Place | None = None) -> None:
        self.server = server
        self.place = place or Place.new()
        self._is_mine = place is None
        self.log = os.path.join(self.place.folder, "pgbouncer.log")
        self.port = free_port()
        self._keeper: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        program = _program()
        assert program is not None, "there is no pgbouncer on this machine"
        configured = os.path.join(self.place.folder, "pgbouncer.ini")
        with open(configured, "w", encoding="utf-8") as file:
            file.write(self._configuration())
        os.chmod(configured, 0o644)
        self._keeper = self.place.run([program, configured], self.log)
        self._await_ready()

    def close(self) -> None:
        """In a place that is another's it ends with that."""
        if self._is_mine:
            self.place.close()
            if self._keeper is not None:
                self._keeper.wait()

    def _configuration(self) -> str:
        server = urlsplit(self.server.url())
        password = f" password={server.password}" if server.password else ""
        return f"""[databases]
* = host={server.hostname} port={server.port or 5432} user={server.username}{password}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {self.port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
max_client_conn = 1000
default_pool_size = 20
"""

    def _await_ready(self) -> None:
        end = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < end:
            try:
                return psycopg.connect(self.url(), connect_timeout=10).close()
            except psycopg.OperationalError:
                time.sleep(POLL_SECONDS)  # bounded polling: it has nobody to tell
        with open(self.log, encoding="utf-8", errors="replace") as file:
            raise AssertionError(f"pgbouncer did not come up within {START_SECONDS_MAX:g} s\n{file.read()[-4000:]}")


def _program() -> str | None:
    return shutil.which("pgbouncer") or next((place for place in PLACES if os.path.exists(place)), None)
