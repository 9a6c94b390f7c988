"""Whatever two clones do to one item, in any order: one owner by the hub's record, tokens rise, and both agree."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dibs.testing import sizes
from tests.vault import sequences

if TYPE_CHECKING:
    from dibs.store.vault.reconcile import Reconciler
    from dibs.store.vault.taskfile.task_text import Task

#: Those by which claims were once taken away, or two clones came to disagree.
KNOWN = (
    "A.claim B.move B.look B.undo",
    "A.claim B.move B.sync B.done",
    "A.move A.done B.move B.look",
    "A.move B.move A.look B.look A.sync B.sync",
)
SAMPLE = 8


def test_clones_agree_whatever_they_do(tmp_path: Path) -> None:
    """In a soak all of them; `DIBS_SEQUENCES` names the file in which those are noted that were played."""
    if sizes.FACTOR > 1:
        log = Path(os.environ.get("DIBS_SEQUENCES") or tmp_path / "played")
        todo = sequences.left(log)
    else:
        log, seed = tmp_path / "played", sizes.seed()
        fit = [one for one in enumerate(sequences.every()) if not sequences.is_same(one[1])]
        todo = random.Random(seed).sample(fit, SAMPLE)
        print(f"seed {seed}")
    played, wrong = sequences.play(todo, log)
    print(f"{len(todo)} of {len(sequences.every())} sequences, {played} of them played to the end")
    assert not wrong, "\n".join(wrong[:10])


def test_sequences_by_which_clones_came_to_disagree() -> None:
    played, wrong = sequences.play([*enumerate(map(sequences.read, KNOWN))])
    assert not wrong, "\n".join(wrong)
    assert played == len(KNOWN)


def test_a_clone_that_takes_the_hubs_claim_for_an_old_one_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(self: Reconciler, task: Task) -> bool:
        return False

    monkeypatch.setattr("dibs.store.vault.reconcile.Reconciler._is_overruled", never)
    _, wrong = sequences.play([(0, sequences.read(KNOWN[0]))])
    assert "was taken away" in wrong[0]
