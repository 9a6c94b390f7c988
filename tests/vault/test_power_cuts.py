"""The power is cut while agents claim and finish: what was acknowledged is so when the disk is back."""

from __future__ import annotations

import ctypes
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dibs.testing import sizes
from dibs.testing.actors import Actor, Gone
from dibs.testing.clock import FileClock
from tests.kit.soak import in_a_soak
from tests.vault import powercut
from tests.vault.acknowledged import Said
from tests.vault.conftest import put
from tests.vault.powercut import Disk

ITEMS = 60
ROUNDS = sizes.rounds(3, 50)
TRIES_MAX = 30
SOUND = "tests.kit.vault:open_board"
#: More than a session is told.
SAID_MAX = 4 * ITEMS
KINDS = ["ext4", *in_a_soak("xfs")]


@pytest.fixture
def disk(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Disk]:
    kind = getattr(request, "param", "ext4")
    lacking = powercut.missing(tmp_path_factory.mktemp("power"), kind)
    if lacking is not None:
        pytest.skip(lacking)
    with Disk(tmp_path, kind) as disk:
        yield disk


@pytest.mark.parametrize("disk", KINDS, indirect=True)
def test_what_was_acknowledged_is_there_after_a_power_cut(disk: Disk) -> None:
    seed = sizes.seed()
    draw = random.Random(seed)
    acknowledged = 0
    for number in range(ROUNDS):
        wrong, said = cut_off(disk, draw, SOUND, is_idle=number % 2 == 1)
        acknowledged += len(said)
        assert not wrong, f"seed {seed}, round {number}: {wrong[:5]}"
    print(f"seed {seed}: {acknowledged} verbs acknowledged before {ROUNDS} cuts of {disk.kind}")


@pytest.mark.parametrize("broken", ["volatile", "unlogged", "unread_log"])
def test_a_store_that_does_not_bring_it_to_the_disk_is_found_out(disk: Disk, broken: str) -> None:
    draw = random.Random(sizes.seed())
    tries = (cut_off(disk, draw, f"tests.vault.broken:{broken}", is_idle=True) for _ in range(TRIES_MAX))
    assert any(wrong for wrong, _ in tries), "every promise was kept"


def cut_off(disk: Disk, draw: random.Random, call: str, *, is_idle: bool = False) -> tuple[list[str], list[Said]]:
    """Let an agent work until the power is cut, with `is_idle` after its last verb, otherwise within the next: which of
    what it had been told is not so afterwards."""
    disk.renew()
    root = disk.place / "vault"
    names = [f"item-{number:02}.md" for number in range(ITEMS)]
    for name in names:
        put(root, f"Needs_Action/{name}", f"# {name}\n\nby hand\n")
    _bring_to_disk(root)
    count = draw.randrange(1, 2 * ITEMS)
    with _acting(disk, root, call) as actor:
        actor.play("tests.vault.acknowledged:work", most=count if is_idle else SAID_MAX)
        said = _heard(actor, count)
        # The moment is what is random here; nothing is waited for.
        time.sleep(draw.random() * 0.01)
        disk.cut()
        if not is_idle:
            said += _heard(actor, SAID_MAX)
    disk.unmount()
    disk.mount()
    assert said
    checks = call if call.endswith(":unread_log") else SOUND
    with _acting(disk, root, checks) as actor:
        actor.play("tests.vault.acknowledged:broken_promises", said=said, is_idle=is_idle)
        wrong = actor.result()
        actor.play("tests.vault.test_power_cuts:files_by_hand", root=str(root), names=names)
        return wrong or actor.result(), said


def files_by_hand(board: object, *, root: str, names: list[str]) -> list[str]:
    """A scene: nothing of this process keeps the disk from being taken out."""
    from tests.vault.acknowledged import names_and_texts

    return names_and_texts(root, names, "\n\nby hand\n")


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


def _heard(actor: Actor, count: int) -> list[Said]:
    """What it says until it has said so much, or nothing more."""
    said: list[Said] = []
    for _ in range(count):
        try:
            said.append(tuple(actor.read("said")["said"]))
        except (Gone, AssertionError):
            break
    return said


def _bring_to_disk(root: Path) -> None:
    """What people saved is not what this is about."""
    descriptor = os.open(root, os.O_RDONLY)
    try:
        assert ctypes.CDLL(None).syncfs(descriptor) == 0
    finally:
        os.close(descriptor)
