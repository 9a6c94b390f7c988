"""A browser for each module, and a board of 5,000 items and 200 sessions for each module."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from dibs.server import pages
from tests.conformance.conftest import folder  # noqa: F401
from tests.dashboard.driving import Shop, board_of, found
from tests.dashboard.fleet import Fleet
from tests.kit import browser as kit
from tests.kit.http import Host

ITEMS, SESSIONS = 5_000, 200


@pytest.fixture(scope="session")
def built() -> None:
    if pages.INDEX not in pages.assets():
        pytest.skip("the dashboard is not built here; python -m web.tools.build says why")


@pytest.fixture(scope="package")
def browser(built: None) -> Iterator[Browser]:
    """Not for longer: while Playwright runs, no other test of this process can run an event loop."""
    with kit.launched(found()) as launched:
        yield launched


def _busy(fleet: Fleet) -> None:
    fleet.add(ITEMS)
    fleet.start(SESSIONS)
    fleet.play(6)
    fleet.settle()


def _small(fleet: Fleet) -> None:
    fleet.add(60)
    fleet.start(12)
    fleet.play(4)
    fleet.settle()


@pytest.fixture(scope="module")
def busy(http_host: Host, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """Shared by the tests of a module, which leave it more or less as it was."""
    yield from _shop(http_host, tmp_path_factory, "busy")


@pytest.fixture
def shop(http_host: Host, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """A small board of a test's own."""
    yield from _shop(http_host, tmp_path_factory, "small")


def _shop(host: Host, factory: pytest.TempPathFactory, name: str) -> Iterator[Shop]:
    base = factory.getbasetemp()
    # Processes of one run share the folder above their own.
    shared: Path = base.parent if base.name.startswith("popen-") else base
    harness, fleet = board_of(factory.mktemp(name), shared, name, {"busy": _busy, "small": _small}[name])
    with harness:
        made = Shop(host, harness, fleet)
        try:
            yield made
        finally:
            made.stop()
