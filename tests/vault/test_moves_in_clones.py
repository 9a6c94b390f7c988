"""Claims by a move, which only this clone knows of until it has pushed them: the hub's record counts, whatever number
it gave; and what was given once is remembered by the file."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from dibs.errors import DibsError, ItemAlreadyClaimed
from dibs.maintenance.doctor import examine
from dibs.store.vault.git.repository import Repository
from dibs.testing.invariants import assert_sound
from tests.vault.clones import files, move, on_hub, opened, put
from tests.vault.conftest import forget_index
from tests.vault.conftest import move as moved
from tests.vault.test_git_store import Pair

if TYPE_CHECKING:
    from pathlib import Path

    from dibs.board import Board

READY, LOCAL = "Needs_Action/x.md", "In_Progress/local/x.md"


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path)


def holder(board: Board) -> tuple[str, int] | None:
    claim = board.get("x").claim
    return None if claim is None else (claim.agent, claim.token)


def synced_twice(pair: Pair) -> None:
    for _ in range(2):
        pair.b.sync()
        pair.a.sync()


def assert_alices(pair: Pair, token: int) -> None:
    """The claim that the hub acknowledged is what both clones know, and its holder can end it."""
    synced_twice(pair)
    assert holder(pair.a) == holder(pair.b) == ("alice", token)
    assert_sound(pair.a)
    assert_sound(pair.b)
    pair.a.done("x", session=pair.alice, token=token)
    pair.b.sync()
    assert [pair.b.get("x").item.status, pair.b.get("x").runs[0].agent] == ["done", "alice"]
    assert_sound(pair.b)


def test_an_undone_move_takes_no_claim_from_another_clone(pair: Pair) -> None:
    token = pair.a.claim("x", session=pair.alice).claim.token
    move(pair.there, READY, LOCAL)
    assert holder(pair.b) == ("local", 1)
    move(pair.there, LOCAL, READY)
    assert holder(pair.b) is None
    assert_alices(pair, token)


def test_moves_that_were_undone_more_often_than_the_hub_counts_take_nothing(pair: Pair) -> None:
    token = pair.a.claim("x", session=pair.alice).claim.token
    for _ in range(3):
        move(pair.there, READY, LOCAL)
        pair.b.get("x")
        move(pair.there, LOCAL, READY)
        pair.b.get("x")
    assert pair.b.get("x").item.token == 3
    assert_alices(pair, token)


@pytest.mark.parametrize("looks", [True, False], ids=["looked at", "not looked at"])
def test_a_move_that_comes_second_is_lost_and_says_so(pair: Pair, looks: bool) -> None:
    token = pair.a.claim("x", session=pair.alice).claim.token
    move(pair.there, READY, LOCAL)
    if looks:
        assert [line.health for line in pair.b.who()] == ["tentative"]
    pair.b.sync()
    (won, lost) = pair.b.who()
    assert won.claim is not None
    assert (won.claim.session, won.claim.token) == (pair.alice, token)
    assert (lost.health, lost.soft is not None and lost.soft.agent) == ("lost", "local")
    (finding,) = [one.what for one in examine(pair.b)]
    assert "local" in finding
    assert "alice" in finding
    text = files(pair.there)["In_Progress/alice/x.md"]
    assert "**Status**: lost" in text
    assert text.count("**Token**") == 1
    assert pair.b.stats(agent="local").conflicts_avoided == 1
    with pytest.raises(DibsError):
        pair.b.done("x", session=lost.soft.session if lost.soft else "")
    assert_alices(pair, token)


def test_a_done_by_moves_that_comes_second_ends_nothing(pair: Pair) -> None:
    token = pair.a.claim("x", session=pair.alice).claim.token
    move(pair.there, READY, LOCAL)
    pair.b.get("x")
    put(pair.there, LOCAL, files(pair.there)[LOCAL] + "\nwhat local found out\n")
    move(pair.there, LOCAL, "Done/x.md")
    assert pair.b.get("x").item.status == "done"
    pair.b.sync()
    assert any("what local found out" in text for path, text in files(pair.there).items() if path.startswith("Conf"))
    assert_alices(pair, token)


def test_of_two_moves_to_one_agent_the_first_pushed_counts(pair: Pair) -> None:
    for clone, board in ((pair.here, pair.a), (pair.there, pair.b)):
        move(clone, READY, LOCAL)
        board.get("x")
    pair.a.sync()
    pair.b.sync()
    first, second = pair.a.get("x").claim, pair.b.get("x").claim
    assert first is not None
    assert second is not None
    assert (first.session, first.token) == (second.session, second.token)
    assert [line.health for line in pair.a.who()] == ["healthy"]
    assert [line.health for line in pair.b.who()][1:] == ["lost"]
    move(pair.here, LOCAL, "Done/x.md")
    pair.a.sync()
    pair.b.sync()
    assert pair.b.get("x").item.status == "done"
    assert_sound(pair.a)
    assert_sound(pair.b)


def test_a_move_that_was_pushed_counts_everywhere(pair: Pair) -> None:
    move(pair.there, READY, LOCAL)
    pair.b.sync()
    assert LOCAL in on_hub(pair.folder)
    assert [line.health for line in pair.b.who()] == ["healthy"]
    with pytest.raises(ItemAlreadyClaimed):
        pair.a.claim("x", session=pair.alice)
    assert holder(pair.a) == holder(pair.b) == ("local", 1)
    move(pair.there, LOCAL, "Done/x.md")
    pair.b.sync()
    pair.a.sync()
    assert pair.a.get("x").runs[0].agent == "local"
    assert_sound(pair.a)


def test_an_edit_elsewhere_leaves_a_move_here_as_it_is(pair: Pair) -> None:
    move(pair.there, READY, LOCAL)
    pair.b.get("x")
    pair.a.edit("x", body="with more words")
    pair.a.sync()
    pair.b.sync()
    assert holder(pair.b) == ("local", 1)
    assert pair.b.get("x").item.body.strip() == "with more words"
    pair.a.sync()
    assert holder(pair.a) == ("local", 1)
    assert_sound(pair.a)
    assert_sound(pair.b)


def test_a_lost_index_forgets_no_tentative_claim(pair: Pair) -> None:
    move(pair.here, READY, LOCAL)
    before = pair.a.get("x").claim
    assert before is not None
    pair.forget()
    after = pair.a.get("x").claim
    assert after is not None
    assert (after.session, after.token) == (before.session, before.token)
    assert pair.a.who()[0].health == "tentative"


def test_a_token_of_an_undone_move_does_not_come_again_after_the_index_is_lost(board: Board, root: Path) -> None:
    moved_back(board, root)
    forget_index(root)
    assert board.claim("x", session=board.start_session("coder").id).claim.token == 2
    assert_sound(board)


def moved_back(board: Board, root: Path) -> None:
    put(root, READY, "# X\n")
    board.get("x")
    moved(root, READY, LOCAL)
    assert holder(board) == ("local", 1)
    moved(root, LOCAL, READY)
    assert holder(board) is None


def test_a_claim_by_a_move_is_one_line_and_its_end_a_block(board: Board, root: Path) -> None:
    put(root, READY, "# X\n\nwords\n")
    board.get("x")
    moved(root, READY, LOCAL)
    board.get("x")
    text = (root / LOCAL).read_text()
    assert [text.count(part) for part in ("dibs: {", "# Claimed Task", "# X\n\nwords\n")] == [1, 0, 1]
    moved(root, LOCAL, "Done/x.md")
    board.get("x")
    text = (root / "Done/x.md").read_text()
    assert [text.count(part) for part in ("# Claimed Task", "**Token**: 1", "## Completion")] == [1, 1, 1]
    assert_sound(board)


BLOCK = "\n# Claimed Task: x\n\n**Claimed By**: local\n**Status**: processing\n\n## Progress\n"
END = "\n## Completion\n\n**Result**: success\n"


@pytest.mark.parametrize("to", ["Done", "Needs_Action"])
def test_a_block_that_another_program_wrote_gets_no_second_one(board: Board, root: Path, to: str) -> None:
    """Who moves the file on tells of the end; where the run ended in another way, dibs does."""
    put(root, READY, "# X\n")
    board.get("x")
    moved(root, READY, LOCAL)
    board.get("x")
    with open(root / LOCAL, "a", encoding="utf-8") as file:
        file.write(BLOCK)
    board.get("x")
    moved(root, LOCAL, f"{to}/x.md")
    board.get("x")
    if to == "Done":
        with open(root / "Done/x.md", "a", encoding="utf-8") as file:
            file.write(END)
    board.get("x")
    text = (root / to / "x.md").read_text()
    assert [text.count(part) for part in ("# Claimed Task", "## Completion")] == [1, 1]
    assert_sound(board)


def test_what_was_written_over_is_not_pushed_without_its_token(pair: Pair) -> None:
    """By a program that had read the file before dibs wrote to it, after dibs has looked."""
    move(pair.here, READY, LOCAL)
    pair.a.sync()
    put(pair.here, LOCAL, "# one\n\nwritten over\n")
    with closing(opened(pair.here)) as sync:
        sync.sync()
    text = on_hub(pair.folder)[LOCAL]
    assert "written over" in text
    assert '"token": 1' in text
    synced_twice(pair)
    assert holder(pair.a) == holder(pair.b) == ("local", 1)


def test_what_the_hub_has_accepted_stands_though_somebody_takes_the_file_at_once(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = Repository.push

    def push(self: Repository, commit: str, base: str | None) -> None:
        plain(self, commit, base)
        monkeypatch.undo()
        move(pair.here, READY, LOCAL)
        put(pair.here, LOCAL, "# one\n\nlocal is at it\n")

    monkeypatch.setattr(Repository, "push", push)
    (grant,) = pair.a.next(session=pair.alice)
    assert (grant.item.id, grant.claim.token) == ("x", 1)
    assert LOCAL not in files(pair.here)
    assert any("local is at it" in text for text in files(pair.here).values())
    assert_alices(pair, 1)
