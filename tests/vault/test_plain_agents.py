"""Agents with dibs race agents that know only the folders: each item is owned by one at a time, and no word is lost."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from dibs.board import Board
from dibs.maintenance import doctor
from dibs.testing import sizes
from dibs.testing.harness import Harness
from dibs.testing.invariants import assert_sound
from tests.conformance.conftest import folder
from tests.kit import vault
from tests.vault.conftest import put
from tests.vault.racing import Hold, overlaps
from tests.vault.settling import settled, texts

__all__ = ["folder"]

ITEMS = 60 if sizes.FACTOR == 1 else 300


def test_overlaps_are_found() -> None:
    first: Hold = ("x", "ann", 10, 20, "done")
    assert not overlaps([first, ("x", "bob", 20, 30, "done"), ("y", "bob", 12, 13, "done")])
    assert overlaps([("x", "bob", 19, 30, "done"), first])


@pytest.mark.parametrize(("plain", "dibs"), [(1, 3), pytest.param(3, 1, marks=pytest.mark.soak)])
def test_each_item_has_one_owner_at_a_time(folder: Path, plain: int, dibs: int) -> None:
    seed = sizes.seed()
    with vault.harness(folder) as harness:
        race(harness, seed, plain=plain, dibs=dibs)


def race(harness: Harness, seed: int, *, plain: int, dibs: int) -> None:
    board, root = harness.board(), Path(harness.folder) / "vault"
    ids = [f"item-{number:03}" for number in range(ITEMS)]
    for id in ids:
        put(root, f"Needs_Action/{id}.md", f"# {id}\n\nA person wrote this about {id}.\n")
    actors = harness.actors(plain + dibs)
    for number, actor in enumerate(actors):
        if number < plain:
            actor.play("tests.vault.racing:by_renaming", root=str(root), agent=f"local-{number}", seed=seed + number)
        else:
            actor.play("tests.vault.racing:with_dibs", agent=f"cloud-{number}", items=ITEMS, seed=seed + number)
    told = [actor.result() for actor in actors]
    holds: list[Hold] = [tuple(hold) for one in told for hold in one["holds"]]
    print(f"seed {seed}: {len(holds)} holds, {Counter((hold[1], hold[4]) for hold in holds)}")
    lost = [line for one in told for line in (*one.get("lost", ()), *one.get("missing", ()))]
    assert not lost, f"seed {seed}: taken away from who had it: {lost[:5]}"
    assert not overlaps(holds), f"seed {seed}: {overlaps(holds)[:5]}"
    ended = Counter(hold[0] for hold in holds if hold[4] != "released")
    assert ended == Counter(ids), f"seed {seed}: ended {ended - Counter(ids)}, not {Counter(ids) - ended}"
    settled(board)
    judge(board, root, holds, {id: notes for one in told for id, notes in one.get("notes", {}).items()}, seed)


def judge(board: Board, root: Path, holds: list[Hold], notes: dict[str, list[str]], seed: int) -> None:
    how = {hold[0]: hold[4] for hold in sorted(holds, key=lambda hold: hold[2])}
    for id, end in how.items():
        (text,) = texts(root, f"{id}.md").values()
        assert f"# {id}\n\nA person wrote this about {id}.\n" in text, f"seed {seed}: {text}"
        missing = [note for note in notes.get(id, ()) if note not in text]
        assert not missing, f"seed {seed}: {id} has lost {missing}:\n{text}"
        assert board.get(id).item.status == end, f"seed {seed}: {id}"
    assert_sound(board, f"seed {seed}:")
    found = [one.what for one in doctor.examine(board) if not one.late]
    assert not found, f"seed {seed}: {found[:5]}"
