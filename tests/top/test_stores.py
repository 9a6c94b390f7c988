"""Every store that a process opens itself is shown live, and acted on; `test_away` has the one behind a server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

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

    drive(board, person)
