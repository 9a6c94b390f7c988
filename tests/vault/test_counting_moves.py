"""Agents that only move files, in the figures of the board: what counts as a claim, and what as a conflict avoided."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dibs.errors import ItemAlreadyClaimed
from dibs.store.vault.disk import Disk
from dibs.testing.invariants import assert_sound
from tests.vault.clones import git, make_clone
from tests.vault.conftest import forget_index, move, put
from tests.vault.racing import CLAIMED, COMPLETED
from tests.vault.test_git_store import Pair

if TYPE_CHECKING:
    from pathlib import Path

    from dibs.board import Board

READY, LOCAL = "Needs_Action/x.md", "In_Progress/local/x.md"
AT = "2026-01-01T10:00:00.000Z"


@pytest.fixture
def seen(board: Board, root: Path) -> Board:
    put(root, READY, "# X\n\nwords\n")
    board.get("x")
    return board


def append(root: Path, path: str, text: str) -> None:
    with open(root / path, "a", encoding="utf-8") as file:
        file.write(text)


def take(root: Path, agent: str = "local") -> None:
    """As the claim-by-move contract has it: a rename, then a block."""
    move(root, READY, f"In_Progress/{agent}/x.md")
    append(root, f"In_Progress/{agent}/x.md", CLAIMED.format(id="x", agent=agent, at=AT, note="on it"))


def end(root: Path, folder: str, *, says_so: bool = True) -> None:
    move(root, LOCAL, f"{folder}/x.md")
    if says_so:
        append(root, f"{folder}/x.md", COMPLETED.format(at=AT, state=folder))


def counted(board: Board, agent: str | None = None) -> tuple[int, int, int]:
    stats = board.stats(agent=agent)
    assert_sound(board)
    return stats.total_claims, stats.active_claims, stats.conflicts_avoided


def test_a_move_is_a_claim_and_who_is_refused_for_it_a_conflict_avoided(seen: Board, root: Path) -> None:
    move(root, READY, LOCAL)
    assert counted(seen) == counted(seen, "local") == (1, 1, 0)
    with pytest.raises(ItemAlreadyClaimed):
        seen.claim("x", session=seen.start_session("coder").id)
    assert counted(seen) == (1, 1, 1)
    assert counted(seen, "coder") == (0, 0, 1)


@pytest.mark.parametrize("says_so", [True, False], ids=["completed", "not completed yet"])
@pytest.mark.parametrize(
    ("folder", "outcome"),
    [("Done", "done"), ("Rejected", "rejected"), ("Failed", "failed"), ("Pending_Approval", "submitted")],
)
def test_what_was_taken_and_ended_between_two_looks_is_a_claim(
    seen: Board, root: Path, folder: str, outcome: str, says_so: bool
) -> None:
    take(root)
    end(root, folder, says_so=says_so)
    assert counted(seen, "local") == (1, 0, 0)
    assert seen.stats().outcomes == {outcome: 1}
    detail = seen.get("x")
    assert [(run.agent, run.token, run.outcome) for run in detail.runs] == [("local", 1, outcome)]
    assert places_of(root) == [f"{folder}/x.md"]
    text = (root / folder / "x.md").read_text()
    assert [text.count(part) for part in ("# Claimed Task", "words\n", "- on it\n")] == [1, 1, 1]
    assert counted(seen) == (1, 0, 0)


def test_a_claim_between_two_looks_keeps_its_token_when_the_index_is_lost(seen: Board, root: Path) -> None:
    take(root)
    end(root, "Done")
    assert seen.get("x").item.token == 1
    forget_index(root)
    move(root, "Done/x.md", READY)
    assert seen.claim("x", session=seen.start_session("coder").id).claim.token == 2
    assert_sound(seen)


def test_of_two_that_rename_one_file_the_board_sees_the_one_who_got_it(seen: Board, root: Path) -> None:
    """The other one's rename fails, and nobody hears of that but itself."""
    take(root)
    with pytest.raises(FileNotFoundError):
        take(root, "other")
    end(root, "Done")
    assert counted(seen) == (1, 0, 0)
    assert counted(seen, "other") == (0, 0, 0)


def test_a_file_that_tells_of_no_claim_is_found_where_it_lies(seen: Board, root: Path) -> None:
    move(root, READY, LOCAL)
    move(root, LOCAL, "Done/x.md")
    assert seen.get("x").item.status == "done"
    assert (root / "Done/x.md").read_text() == "# X\n\nwords\n"
    assert counted(seen) == (0, 0, 0)


@pytest.mark.parametrize("says_so", [True, False], ids=["completed", "completed by dibs"])
def test_a_claim_is_counted_once(seen: Board, root: Path, says_so: bool) -> None:
    """Its block stays in the file; who moves that file on later has not taken it again."""
    take(root)
    seen.get("x")
    end(root, "Needs_Action", says_so=says_so)
    seen.get("x")
    move(root, READY, "Done/x.md")
    assert counted(seen) == (1, 0, 0)
    assert seen.stats().outcomes == {"force_released": 1}


def reopened_and_ended_by_a_person(board: Board, root: Path) -> None:
    for before, after in (("Done", "Needs_Action"), ("Needs_Action", "Done")):
        move(root, f"{before}/x.md", f"{after}/x.md")
        board.get("x")


@pytest.mark.parametrize("is_index_lost", [False, True])
@pytest.mark.parametrize("looks", [True, False], ids=["seen in between", "unseen"])
@pytest.mark.parametrize("says_so", [True, False], ids=["completed", "not completed"])
def test_who_reopens_and_ends_an_item_by_hand_makes_no_claim_of_an_old_block(
    seen: Board, root: Path, looks: bool, says_so: bool, is_index_lost: bool
) -> None:
    take(root)
    if looks:
        seen.get("x")
    end(root, "Done", says_so=says_so)
    runs = seen.get("x").runs
    if is_index_lost:
        forget_index(root)
        seen.get("x")
    reopened_and_ended_by_a_person(seen, root)
    assert [(run.token, run.agent, run.outcome) for run in runs] == [(1, "local", "done")]
    assert seen.get("x").runs == (() if is_index_lost else runs)
    assert counted(seen)[0] == (0 if is_index_lost else 1)


def test_a_program_that_takes_an_item_again_tells_so_by_a_block_more(seen: Board, root: Path) -> None:
    """Within the same second, its heading and its time are those of the block before."""
    for _ in range(2):
        take(root)
        end(root, "Done")
        seen.get("x")
        move(root, "Done/x.md", READY)
        seen.get("x")
    assert sorted((run.token, run.agent, run.outcome) for run in seen.get("x").runs) == [
        (1, "local", "done"),
        (2, "local", "done"),
    ]
    assert counted(seen) == (2, 0, 0)


@pytest.mark.parametrize("looks", [True, False], ids=["seen in between", "unseen"])
def test_what_a_program_moves_to_failed_has_failed_for_good(board: Board, root: Path, looks: bool) -> None:
    """The board would try it again, but the file says where it lies."""
    put(root, READY, "---\nretries: 2\n---\n# X\n")
    board.get("x")
    take(root)
    if looks:
        board.get("x")
    end(root, "Failed")
    assert board.get("x").item.status == "failed"
    told = [(event.kind, event.status, event.data.get("final")) for event in board.log("x") if event.kind != "edited"]
    assert told[-2:] == [("claimed", "in_progress", None), ("failed", "failed", True)]
    assert places_of(root) == ["Failed/x.md"]
    assert counted(board) == (1, 0, 0)


def test_what_was_also_made_between_two_looks_is_a_claim(seen: Board, root: Path) -> None:
    put(root, "Needs_Action/y.md", "# Y\n")
    move(root, "Needs_Action/y.md", "In_Progress/local/y.md")
    append(root, "In_Progress/local/y.md", CLAIMED.format(id="y", agent="local", at=AT, note="on it"))
    move(root, "In_Progress/local/y.md", "Done/y.md")
    assert counted(seen, "local") == (1, 0, 0)
    assert seen.get("y").runs[0].outcome == "done"


def test_a_file_that_moves_on_while_dibs_looks_was_not_taken_away(
    seen: Board, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found in the agent's folder, and in the next one by the time its text is read."""
    plain = Disk.scan

    def scan(disk: Disk) -> object:
        found = plain(disk)
        monkeypatch.undo()
        end(root, "Done")
        return found

    take(root)
    monkeypatch.setattr(Disk, "scan", scan)
    assert seen.get("x").item.status == "done"
    assert [event.kind for event in seen.log("x")][-2:] == ["claimed", "done"]
    assert counted(seen) == (1, 0, 0)


def test_what_was_over_before_dibs_came_is_no_claim_of_this_board(board: Board, root: Path) -> None:
    text = f"# X\n{CLAIMED.format(id='x', agent='local', at=AT, note='on it')}{COMPLETED.format(at=AT, state='Done')}"
    put(root, "Done/x.md", text)
    assert board.get("x").item.status == "done"
    assert counted(board) == (0, 0, 0)
    assert (root / "Done/x.md").read_text() == text


# In clones


def synced_twice(pair: Pair) -> None:
    for board in (pair.a, pair.b) * 2:
        board.sync()


def test_a_claim_between_two_looks_is_counted_in_the_clone_where_it_was_made(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    take(pair.here)
    end(pair.here, "Done")
    synced_twice(pair)
    assert [counted(board) for board in (pair.a, pair.b)] == [(1, 0, 0), (0, 0, 0)]
    assert [(one.status, one.token) for board in (pair.a, pair.b) if (one := board.get("x").item)] == [("done", 1)] * 2
    assert pair.sound()


def test_what_a_clone_without_dibs_has_pushed_is_found_in_all_others(tmp_path: Path) -> None:
    """None of them took it: if each counted a claim of its own, all but one would be told that it is lost."""
    pair = Pair(tmp_path)
    plain = make_clone(tmp_path, "plain")
    git(plain, "pull", "-q")
    take(plain)
    end(plain, "Done")
    git(plain, "add", "-A")
    git(plain, "commit", "-qm", "done")
    git(plain, "push", "-q")
    synced_twice(pair)
    assert [counted(board) for board in (pair.a, pair.b)] == [(0, 0, 0)] * 2
    assert [board.get("x").item.status for board in (pair.a, pair.b)] == ["done", "done"]
    assert pair.sound()


def places_of(root: Path) -> list[str]:
    return [str(path.relative_to(root)) for path in root.glob("*/x.md")]
