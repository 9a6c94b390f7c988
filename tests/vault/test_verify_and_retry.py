"""As the source of claim-by-move has it: verified before work starts, and tried again after 100, 200 and 400 ms."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from dibs.board import Board
from dibs.errors import DibsError, StoreUnavailable
from dibs.sdk.claim_handle import LOSSES
from tests.vault.conftest import move, places, put

PAUSES = (0.1, 0.2, 0.4)


def test_a_claim_is_verified_while_its_file_lies_in_its_agents_folder(board: Board, root: Path) -> None:
    put(root, "Needs_Action/x.md", "# X\n")
    with board.session("cloud") as me:
        claim = me.claim("x")
        assert places(root) == ["In_Progress/cloud/x.md"], "before anything is handed over"
        claim.verify()
        claim.release()


@pytest.mark.parametrize("to", ["Needs_Action", "In_Progress/local", "Done", "Rejected"])
def test_a_claim_whose_file_was_moved_is_not_verified(board: Board, root: Path, to: str) -> None:
    put(root, "Needs_Action/x.md", "# X\n")
    with board.session("cloud") as me:
        claim = me.claim("x")
        move(root, "In_Progress/cloud/x.md", f"{to}/x.md")
        with pytest.raises(LOSSES):
            claim.verify()
        with pytest.raises(DibsError):
            claim.done()
    assert places(root) == [f"{to}/x.md"]


def test_a_claim_is_tried_again_as_the_source_does(board: Board, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(root, "Needs_Action/x.md", "# X\n")
    (root / "In_Progress/cloud/x.md").mkdir(parents=True)
    paused: list[float] = []

    def sleep(seconds: float) -> None:
        paused.append(seconds)
        if len(paused) == len(PAUSES):
            (root / "In_Progress/cloud/x.md").rmdir()

    with board.session("cloud") as me:
        monkeypatch.setattr(time, "sleep", sleep)
        claim = me.claim("x", patience_seconds=5)
        monkeypatch.undo()
        assert claim.token == 1, "what could not be done has spent nothing"
        claim.done()
    assert len(paused) == len(PAUSES)
    # Drawn between half of it and all, so that those who failed together do not come back together.
    assert all(most / 2 <= seconds <= most for seconds, most in zip(paused, PAUSES, strict=True)), paused


def test_what_stays_in_the_way_is_named(board: Board, root: Path) -> None:
    put(root, "Needs_Action/x.md", "# X\n")
    (root / "In_Progress/cloud/x.md").mkdir(parents=True)
    with pytest.raises(StoreUnavailable, match=r"In_Progress/cloud/x\.md is in the way"):
        board.claim("x", session=board.start_session("cloud").id)
    assert places(root) == ["In_Progress/cloud/x.md", "Needs_Action/x.md"]
    assert (root / "Needs_Action/x.md").read_text().count("Claimed Task") == 0, "it is put back as it was"
