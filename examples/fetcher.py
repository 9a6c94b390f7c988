"""Coroutines as a worker: up to a hundred items at a time, which wait for the network in one event loop.

dibs init
dibs add "Is it up?" --type fetch --payload '{"host": "127.0.0.1", "port": 8377}'
python examples/fetcher.py --once
"""

from __future__ import annotations

import asyncio
import sys

import dibs
from dibs.sdk.async_session import AsyncClaim
from dibs.worker import Worker


def main() -> None:
    with dibs.connect() as board:
        worker = Worker(board, "fetcher")

        @worker.handles("fetch", max_claims=100, timeout_seconds=30)
        async def fetch(claim: AsyncClaim) -> str:
            # Cancelled if the claim is lost or the time is over. The verbs of the claim are awaited, too.
            await claim.progress("asking")
            reader, writer = await asyncio.open_connection(claim.item.payload["host"], claim.item.payload["port"])
            try:
                writer.write(b"GET / HTTP/1.0\r\n\r\n")
                await writer.drain()
                answer = await reader.readline()
            finally:
                writer.close()
            return answer.decode(errors="replace").strip() or "no answer"

        print(dict(worker.run(once="--once" in sys.argv)))


if __name__ == "__main__":
    main()
