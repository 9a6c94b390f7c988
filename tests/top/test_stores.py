"""Every store that a process opens itself is shown live, and acted on; `test_away` has the one behind a server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from dibs.testing.harness import Harness
from tests.kit import postgres, vault
from tests.top.driving import Terminal, drive


@pytest.fixture(params=["postgres", "vault"])
def harness(request: pytest.FixtureRequest, folder: Path) -> Iterator[Harness]:
    if request.param == "vault":
        with vault.harness(folder) as made:
            yield made
    else:
        with postgres.harness(request.getfixturevalue("postgres_server"), folder) as made:
            yield made


@contextmanager
def away(harness: Harness) -> Iterator[None]:
    """The store cannot be reached meanwhile."""
    if isinstance(harness, postgres.PostgresHarness):
        with psycopg.connect(harness.server.url("postgres"), autocommit=True) as server:
            server.execute(f"ALTER DATABASE {harness.database} ALLOW_CONNECTIONS false".encode())
            server.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (harness.database,)
            )
            try:
                yield
            finally:
                server.execute(f"ALTER DATABASE {harness.database} ALLOW_CONNECTIONS true".encode())
    else:
        vault, elsewhere = Path(harness.folder) / "vault", Path(harness.folder) / "elsewhere"
        vault.rename(elsewhere)
        yield
        elsewhere.rename(vault)


def test_a_store_is_shown_live_and_acted_on(harness: Harness) -> None:
    board, other = harness.board(), harness.board()
    board.add("Publish the prices", id="prices", needs_approval=True)

    async def person(shown: Terminal) -> None:
        await shown.shows("prices", "plan waits")
        await shown.press("a")
        await shown.asks("approve prices?")
        await shown.press("y")
        await shown.shows("0 need you", "settled")
        other.start_session("coder", id="s-1")
        other.claim("prices", session="s-1")
        other.progress("prices", "half way", session="s-1")
        await shown.shows("In flight 1", "s-1", "half way", "████")
        other.done("prices", session="s-1")
        await shown.shows("0 in flight", "done")
        with away(harness):
            await shown.shows("✕ away since")
        await shown.shows("● live")
        harness.board().add("Back again", id="back-again")
        await shown.shows("back-again", "1 ready")

    drive(board, person)
