"""procrastinate, a task queue on PostgreSQL: a process with a Worker and one connection for each worker.

It takes one job at a time from the database; a batch is so many in flight.
"""

from __future__ import annotations

import asyncio
import contextlib

import psycopg
from procrastinate import App, PsycopgConnector

from bench.contest import fleet
from bench.contest.contestant import Contestant
from bench.contest.result import Result
from bench.contest.window import Window

TASK = "bench"
AT_ONCE = 1_000


class OnProcrastinate(Contestant):
    name = "procrastinate"

    def __init__(self, url: str) -> None:
        self.url = url
        self._fleet = fleet.Fleet(__name__, url)
        with App(connector=PsycopgConnector(conninfo=url)).open() as app:
            app.schema_manager.apply_schema()

    def supply(self, count: int) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("TRUNCATE procrastinate_jobs, procrastinate_events, procrastinate_workers CASCADE")
            asyncio.run(_defer(self.url, count))
            connection.execute("VACUUM (ANALYZE)")
            connection.execute("CHECKPOINT")

    def run(self, workers: int, batch: int, seconds: float) -> Result:
        return self._fleet.run(workers, batch, seconds)

    def left(self) -> int:
        with psycopg.connect(self.url) as connection:
            row = connection.execute("SELECT count(*) FROM procrastinate_jobs WHERE status = 'todo'").fetchone()
            assert row is not None
            return int(row[0])

    def close(self) -> None:
        self._fleet.close()


def _app(url: str) -> App:
    return App(connector=PsycopgConnector(conninfo=url, min_size=1, max_size=1))


async def _defer(url: str, count: int) -> None:
    async with _app(url).open_async() as app:
        task = app.configure_task(TASK, allow_unknown=True)
        for start in range(0, count, AT_ONCE):
            await task.batch_defer_async(*[{}] * min(AT_ONCE, count - start))


async def _work(url: str, batch: int, gate: fleet.Gate) -> None:
    """Work until the time is up. The first job is where it stops until all are ready."""
    app = _app(url)
    started: asyncio.Future[Window] = asyncio.get_running_loop().create_future()

    async def nothing() -> None:
        if not started.done():
            started.set_result(gate())
        started.result().got_on(1)

    app.task(name=TASK)(nothing)
    async with app.open_async():
        worker = asyncio.create_task(app.run_worker_async(concurrency=batch, install_signal_handlers=False))
        await asyncio.sleep((await started).seconds_left)
        worker.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await worker


def main(url: str) -> None:
    for batch, gate in fleet.runs():
        asyncio.run(_work(url, batch, gate))
