"""pgqueuer, a job queue on PostgreSQL: a process with a QueueManager and one connection for each worker.

Its log table, which keeps what became of each job, is written as it is by default.
"""

from __future__ import annotations

import asyncio

import asyncpg
import psycopg
import uvloop
from pgqueuer import AsyncpgDriver, Job, Queries, QueueManager

from bench.contest import fleet
from bench.contest.contestant import Contestant
from bench.contest.result import Result
from bench.contest.window import Window

ENTRYPOINT = "bench"
AT_ONCE = 10_000


class OnPgqueuer(Contestant):
    name = "pgqueuer"

    def __init__(self, url: str) -> None:
        self.url = url
        self._fleet = fleet.Fleet(__name__, url)
        asyncio.run(_install(url))

    def supply(self, count: int) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("TRUNCATE pgqueuer, pgqueuer_log, pgqueuer_statistics")
            asyncio.run(_enqueue(self.url, count))
            connection.execute("VACUUM (ANALYZE)")
            connection.execute("CHECKPOINT")

    def run(self, workers: int, batch: int, seconds: float) -> Result:
        return self._fleet.run(workers, batch, seconds)

    def left(self) -> int:
        with psycopg.connect(self.url) as connection:
            row = connection.execute("SELECT count(*) FROM pgqueuer WHERE status = 'queued'").fetchone()
            assert row is not None
            return int(row[0])

    def close(self) -> None:
        self._fleet.close()


async def _install(url: str) -> None:
    connection = await asyncpg.connect(url)
    await Queries(AsyncpgDriver(connection)).install()
    await connection.close()


async def _enqueue(url: str, count: int) -> None:
    connection = await asyncpg.connect(url)
    queries = Queries(AsyncpgDriver(connection))
    for start in range(0, count, AT_ONCE):
        n = min(AT_ONCE, count - start)
        await queries.enqueue([ENTRYPOINT] * n, [None] * n, [0] * n)
    await connection.close()


async def _work(url: str, batch: int, gate: fleet.Gate) -> None:
    """Work until the time is up. The first job is where it stops until all are ready."""
    connection = await asyncpg.connect(url)
    manager = QueueManager(Queries(AsyncpgDriver(connection)))
    loop = asyncio.get_running_loop()
    started: asyncio.Future[Window] = loop.create_future()

    async def nothing(job: Job) -> None:
        if not started.done():
            started.set_result(gate())
            loop.call_later(started.result().seconds_left, manager.shutdown.set)
        started.result().got_on(1)

    manager.entrypoint(ENTRYPOINT)(nothing)
    await manager.run(batch_size=batch)
    await connection.close()


def main(url: str) -> None:
    for batch, gate in fleet.runs():
        uvloop.run(_work(url, batch, gate))
