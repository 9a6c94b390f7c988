"""A vault, and a board behind a server, against the reference model. Both have the SQLite store inside, which is
compared at every commit."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import Phase

from dibs.testing import sizes
from dibs.testing.harness import Harness
from tests.kit import vault
from tests.kit.http import Host, HttpHarness
from tests.kit.machine.machine import HOT, machine_over
from tests.property.running import run
from tests.property.test_sqlite_machine import TemporaryHarness, new_board, no_dice, temporary_folder

pytestmark = pytest.mark.soak
__all__ = ["no_dice"]

EXAMPLES = sizes.times(4)


@pytest.fixture
def host() -> Iterator[Host]:
    host = Host()
    try:
        yield host
    finally:
        host.close()


def new_vault() -> Harness:
    folder = temporary_folder()
    made = vault.harness(folder)
    return TemporaryHarness(made.recipe()["call"], made.recipe()["kwargs"], made.clock, folder)


@pytest.mark.parametrize("store", ["vault", "http"])
def test_the_store_does_what_the_model_does(store: str, host: Host) -> None:
    machine = machine_over(new_vault if store == "vault" else lambda: HttpHarness(new_board(), [host]))
    run(machine, EXAMPLES, [Phase.generate, Phase.shrink])
    print(f"{machine.steps} steps: {dict(sorted(machine.met.items()))}")
    missing = HOT - set(machine.met)
    assert not missing, f"never met: {missing}"
