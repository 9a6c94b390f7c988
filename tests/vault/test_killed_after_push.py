"""dibs is killed after the hub has accepted its claims and before their files are written: nobody was told of those
claims, and their tokens are spent. What a person then does to the files takes no token that the hub has given."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from dibs.testing.invariants import assert_sound
from tests.vault.clones import files, move, on_hub, put
from tests.vault.sequences import owners_by_the_hub
from tests.vault.test_git_store import Pair

if TYPE_CHECKING:
    from pathlib import Path

#: In the place of git: it kills the dibs that runs it, once a push is done, or the first command of some kind after it.
WRAPPER = """\
#!/bin/sh
{git} "$@" || exit
for word in "$@"; do
    [ "$word" = push ] && touch {folder}/pushed
    [ "$word" = {last} ] && [ -e {folder}/pushed ] && kill -9 $PPID
done
exit 0
"""
#: What a person does, as moves between which dibs looks, unless it is `unseen`; and how the item stands then.
DEEDS = {
    "unseen": ((("Needs_Action", "In_Progress/local"),), "in_progress", 2),
    "seen": ((("Needs_Action", "In_Progress/local"),), "in_progress", 2),
    "undone": ((("Needs_Action", "In_Progress/local"), ("In_Progress/local", "Needs_Action")) * 2, "ready", 3),
    "finished": ((("Needs_Action", "In_Progress/local"), ("In_Progress/local", "Done")), "done", 2),
}


def claim_all_and_be_killed(pair: Pair, last: str) -> None:
    folder = pair.folder / "bin"
    folder.mkdir()
    (folder / "git").write_text(WRAPPER.format(git=shutil.which("git"), folder=folder, last=last))
    (folder / "git").chmod(0o755)
    words = ("next", "--number", str(len(DEEDS)), "--store", f"vault:{pair.here}", "--session", pair.alice)
    killed = subprocess.run(
        [sys.executable, "-m", "dibs.cli.main", *words],
        env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert {f"Needs_Action/{item}.md" for item in DEEDS} <= files(pair.here).keys()
    assert {f"In_Progress/alice/{item}.md" for item in DEEDS} <= on_hub(pair.folder).keys()


@pytest.mark.parametrize("last", ["push", "update-ref"])
def test_a_move_takes_no_token_of_a_claim_that_nobody_was_told_of(tmp_path: Path, last: str) -> None:
    pair = Pair(tmp_path)
    for item in DEEDS:
        pair.a.add(item, id=item, priority="high")
    pair.a.sync()
    claim_all_and_be_killed(pair, last)
    for item, (moves, _, _) in DEEDS.items():
        for source, target in moves:
            move(pair.here, f"{source}/{item}.md", f"{target}/{item}.md")
            if item != "unseen":
                pair.a.get(item)
    put(pair.here, "Done/finished.md", files(pair.here)["Done/finished.md"] + "\nwhat local found out\n")
    for board in (pair.a, pair.b) * 2:
        board.sync()
    for item, (_, status, token) in DEEDS.items():
        here, there = (board.get(item).item for board in (pair.a, pair.b))
        assert (here.status, here.token) == (there.status, there.token) == (status, token), item
        owners = owners_by_the_hub(tmp_path / "hub.git", f"{item}.md")
        assert owners[1] == pair.alice, (item, owners)
        assert all(owners[later].startswith("files-local-") for later in range(2, token + 1)), (item, owners)
    assert "what local found out" in files(pair.there)["Done/finished.md"]
    for board in (pair.a, pair.b):
        assert_sound(board)
