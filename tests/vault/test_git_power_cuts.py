"""The power of a clone or of a hub is cut while it is at work: the next sync works without hands, and what was
acknowledged is so."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from dibs.testing import sizes
from tests.vault import powercut
from tests.vault.cutting_power import cut_a_clone, cut_a_hub
from tests.vault.powercut import Disk

CUTS = {"clone": 1 if sizes.FACTOR == 1 else 50, "hub": 1 if sizes.FACTOR == 1 else 20}


@pytest.fixture(scope="module", autouse=True)
def power(tmp_path_factory: pytest.TempPathFactory) -> None:
    lacking = powercut.missing(tmp_path_factory.mktemp("power"))
    if lacking is not None:
        pytest.skip(lacking)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with Disk(tmp_path) as disk:
        yield disk


@pytest.mark.parametrize("which", CUTS)
def test_a_sync_works_after_a_power_cut(disk: Disk, tmp_path: Path, which: str) -> None:
    seed = sizes.seed()
    draw = random.Random(seed)
    cut = cut_a_clone if which == "clone" else cut_a_hub
    wrong = [found for _ in range(CUTS[which]) if (found := cut(disk, tmp_path, draw)) is not None]
    print(f"seed {seed}: {CUTS[which]} cuts of a {which}'s power, {len(wrong)} wrong")
    assert not wrong, f"seed {seed}: {wrong[:5]}"
