"""The power is cut while agents claim and finish: what was acknowledged is so when the disk is back."""

from __future__ import annotations

import ctypes
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dibs.board import Board
from dibs.testing import sizes
from dibs.testing.actors import Actor, Gone
from dibs.testing.clock import FileClock
from dibs.testing.invariants import assert_sound
from tests.vault import powercut
from tests.vault.conftest import places, put
from tests.vault.powercut import Disk

ITEMS = 60
ROUNDS = 3 if sizes.FACTOR == 1 else 30
TRIES_MAX = 10
SOUND = "tests.kit.vault:open_board"
#: item -> the last thing that was acknowledged, and its token.
Said = dict[str, list[Any]]


@pytest.fixture(scope="module", autouse=True)
def power(tmp_path_factory: pytest.TempPathFactory) -> None:
    lacking = powercut.missing(tmp_path_factory.mktemp("power"))
    if lacking is not None:
        pytest.skip(lacking)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with Disk(tmp_path) as disk:
        yield disk


def test_what_was_acknowledged_is_there_after_a_power_cut(disk: Disk) -> None:
    seed = sizes.seed()
    draw = random.Random(seed)
    acknowledged = 0
    for number in range(ROUNDS):
        wrong, said = cut_off(disk, disk.place / str(number), draw, SOUND)
        acknowledged += len(said)
        assert not wrong, f"seed {seed}, round {number}: {wrong[:5]}"
    print(f"seed {seed}: {acknowledged} items acknowledged before {ROUNDS} cuts")


def test_a_store_that_does_not_bring_it_to_the_disk_is_found_out(disk: Disk) -> None:
    draw = random.Random(sizes.seed())
    tries = (
        cut_off(disk, disk.place / str(number), draw, "tests.vault.broken:volatile") for number in range(TRIES_MAX)
    )
    assert any(wrong for wrong, _ in tries), "every promise was kept"


def cut_off(disk: Disk, root: Path, draw: random.Random, call: str) -> tuple[list[str], Said]:
    """Let an agent work until the power is cut: which of what it had been told is not so afterwards."""
    for number in range(ITEMS):
        put(root, f"Needs_Action/item-{number:02}.md", f"# {number}\n\nby hand\n")
    _bring_to_disk(root)
    with _acting(disk, root, call) as actor:
        actor.play("tests.vault.racing:say_each", agent="ann")
        said = _heard(actor, draw.randrange(1, ITEMS))
        # The moment is what is random here; nothing is waited for.
        time.sleep(draw.random() * 0.01)
        disk.cut()
        said |= _heard(actor, 2 * ITEMS)
    disk.unmount()
    disk.mount()
    assert said
    with _acting(disk, root, SOUND) as actor:
        actor.play("tests.vault.test_power_cuts:broken_promises", root=str(root), said=said)
        return actor.result(), said


def broken_promises(board: Board, root: str, said: Said) -> list[str]:
    """A scene: nothing of this process keeps the disk from being taken out."""
    wrong, files = [], places(Path(root))
    for id, (what, token) in said.items():
        item = board.get(id).item
        # What followed may have reached the disk before it could be said.
        kept = item.status in ("done", "in_progress") if what == "claimed" else item.status == "done"
        if not kept or item.token != token:
            wrong.append(f"{id} was {what} under {token} and is {item.status} under {item.token}")
    if not wrong:
        assert_sound(board)
        assert sorted(file.rpartition("/")[2] for file in files) == [f"item-{n:02}.md" for n in range(ITEMS)]
        assert all("\n\nby hand\n" in (Path(root) / file).read_text() for file in files)
    return wrong


class _acting:
    """A process with a board on that disk, gone in the end."""

    def __init__(self, disk: Disk, root: Path, call: str) -> None:
        outside = disk.place.parent
        clock = FileClock(os.path.join(outside, "clock"))
        recipe = {"call": call, "kwargs": {"path": str(root), "clock": clock.path}}
        self._actor = Actor(recipe, str(outside))

    def __enter__(self) -> Actor:
        self._actor.await_ready()
        return self._actor

    def __exit__(self, *_: object) -> None:
        self._actor.end()


def _heard(actor: Actor, count: int) -> Said:
    """What it says until it has said so much, or nothing more."""
    said: Said = {}
    for _ in range(count):
        try:
            item, what, token = actor.read("said")["said"]
        except (Gone, AssertionError):
            break
        said[item] = [what, token]
    return said


def _bring_to_disk(root: Path) -> None:
    """What people saved is not what this is about."""
    descriptor = os.open(root, os.O_RDONLY)
    try:
        assert ctypes.CDLL(None).syncfs(descriptor) == 0
    finally:
        os.close(descriptor)
