"""Scripts run by pgbench, PostgreSQL's own load generator: what the database itself can do, with next to no client.

A script is one claim + end of a batch. Its log has every transaction of every client, which gives the same figures as
those of the other contestants.
"""

from __future__ import annotations

import glob
import math
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping

from bench.contest import rows
from bench.contest.contestant import Contestant
from bench.contest.result import Result, of_windows
from bench.contest.window import WARM_UP_SECONDS, Window
from dibs.config import DEFAULTS
from dibs.store.postgres.calls import settings_row
from tests.kit.postgres_server import LocalServer

#: By the name in the table: the file in scripts/.
SCRIPTS = {
    "pgbench": "pgbench.sql",
    "pgbench by statement": "pgbench_by_statement.sql",
    "dibs functions": "dibs_functions.sql",
}
#: Which client, and from when to when.
Line = tuple[int, float, float]
#: What the scripts start with; `low`, `lanes` and `lows` are remembered from one claim to the next.
VARIABLES = {"low": "0", "lanes": "{}", "lows": "{}", "settings": settings_row(DEFAULTS)}


class OnPgbench(Contestant):
    """A script that takes items from a board."""

    def __init__(self, program: str, url: str, name: str) -> None:
        self.program, self.url, self.name = program, url, name

    def supply(self, count: int) -> None:
        rows.refill(self.url, count)

    def run(self, workers: int, batch: int, seconds: float) -> Result:
        variables = {"lane": str(rows.only_lane(self.url)), **VARIABLES}
        lines = run(self.program, self.url, script(self.name, batch), variables, workers, seconds)
        return of_windows(_windows(lines, workers, batch, seconds), seconds)

    def left(self) -> int:
        return rows.ready_left(self.url)


def find(server: LocalServer) -> str | None:
    """Beside the server's own programs, or wherever there is one."""
    beside = server.programs.path("pgbench")
    return beside if os.path.exists(beside) else shutil.which("pgbench")


def script(name: str, batch: int) -> str:
    """Its text for batches of this size, which is known when the statements are planned."""
    with open(os.path.join(os.path.dirname(__file__), "scripts", SCRIPTS[name]), encoding="utf-8") as file:
        return file.read().replace(":batch", str(batch))


def run(program: str, url: str, text: str, variables: Mapping[str, str], clients: int, seconds: float) -> list[Line]:
    """Every time that a client went through the script, over the warm-up and the run."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "script.sql")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        command = [program, "--no-vacuum", "--protocol=prepared", f"--file={path}", f"--client={clients}"]
        command += [f"--jobs={min(clients, os.cpu_count() or 1)}", f"--time={math.ceil(WARM_UP_SECONDS + seconds)}"]
        command += ["--log", f"--log-prefix={os.path.join(folder, 'log')}"]
        command += [f"--define={name}={value}" for name, value in variables.items()]
        done = subprocess.run([*command, url], capture_output=True, text=True, check=False)
        # It goes on without a client that failed, and says so.
        assert "aborted" not in done.stderr, done.stderr
        done.check_returncode()
        return [line for log in glob.glob(os.path.join(folder, "log.*")) for line in _lines(log)]


def _lines(log: str) -> list[Line]:
    with open(log, encoding="ascii") as file:
        words = (line.split() for line in file)
        return [_line(int(client), int(took), int(s), int(us)) for client, _, took, _, s, us, *_ in words]


def _line(client: int, took_us: int, seconds: int, us: int) -> Line:
    at = seconds + us / 1e6
    return client, at - took_us / 1e6, at


def _windows(lines: list[Line], clients: int, batch: int, seconds: float) -> list[Window]:
    """Each client's, all of them beginning when the warm-up of the first was over."""
    assert lines, "pgbench did nothing"
    begin = min(since for _, since, _ in lines) + WARM_UP_SECONDS
    windows = [Window(seconds, begin) for _ in range(clients)]
    for client, since, at in sorted(lines, key=lambda line: line[2]):
        # A batch may take longer than the whole window.
        windows[client].got_on_from(since, batch, at)
    return windows
