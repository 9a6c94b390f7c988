"""What was approved is what is carried out: the draft in the file and the draft that counts are one."""

from __future__ import annotations

from pathlib import Path

import pytest

from dibs.board import Board
from dibs.testing.harness import Harness
from dibs.testing.invariants import assert_sound
from tests.vault.conftest import forget_index, move, places, put

TEN, MORE = "Pay Bob 10 EUR", "Pay Bob 99 EUR"
PENDING, FREE = "Pending_Approval/mail.md", "Needs_Action/mail.md"


def drafted(board: Board, root: Path, draft: str = TEN) -> None:
    put(root, FREE, "# Mail\n\nTo Bob.\n")
    session = board.start_session("cloud").id
    board.claim("mail", session=session)
    board.progress("mail", session=session, note="asked Bob")
    board.submit("mail", session=session, draft=draft)


def edit(root: Path, path: str, old: str = TEN, new: str = MORE) -> str:
    text = (root / path).read_text().replace(old, new)
    (root / path).write_text(text)
    return text


def carried_out(board: Board) -> str | None:
    approval = board.claim("mail", session=board.start_session("local").id).approval
    assert approval is not None
    assert approval.run is not None
    return approval.run.draft


def shown(root: Path) -> str:
    (path,) = (path for path in places(root) if not path.startswith("Conflicts"))
    return (root / path).read_text()


@pytest.mark.parametrize("to", ["Approved", "Done", "In_Progress/local"])
def test_who_changes_a_draft_and_moves_it_on_has_not_approved_what_counts(board: Board, root: Path, to: str) -> None:
    drafted(board, root)
    theirs = edit(root, PENDING)
    move(root, PENDING, f"{to}/mail.md")
    assert board.get("mail").item.status == "pending_approval"
    assert places(root) == ["Conflicts/mail.md", PENDING]
    assert (root / "Conflicts/mail.md").read_text() == theirs
    assert (TEN in shown(root), MORE in shown(root), "Approved By" in shown(root)) == (True, False, False)
    assert_sound(board)
    move(root, PENDING, "Approved/mail.md")
    assert carried_out(board) == TEN


def test_a_draft_that_was_changed_is_put_back_before_it_can_be_approved(board: Board, root: Path) -> None:
    drafted(board, root)
    theirs = edit(root, PENDING)
    board.approve("mail", actor="ann", token=1)
    assert (root / "Conflicts/mail.md").read_text() == theirs
    assert MORE not in shown(root)
    assert "asked Bob" in shown(root)
    assert carried_out(board) == TEN


def test_one_that_was_changed_after_it_was_approved_is_put_back_too(board: Board, root: Path) -> None:
    drafted(board, root)
    board.approve("mail", actor="ann")
    edit(root, FREE)
    assert carried_out(board) == TEN
    edit(root, "In_Progress/local/mail.md")
    assert board.get("mail").item.status == "in_progress"
    assert MORE not in shown(root)
    assert places(root) == ["Conflicts/mail 2.md", "Conflicts/mail.md", "In_Progress/local/mail.md"]
    assert_sound(board)


@pytest.mark.parametrize("to", ["Needs_Action", "Rejected", "Parked"])
def test_what_is_no_approval_is_taken_with_any_draft(board: Board, root: Path, to: str) -> None:
    drafted(board, root)
    edit(root, PENDING)
    move(root, PENDING, f"{to}/mail.md")
    assert board.get("mail").item.status == {"Needs_Action": "ready"}.get(to, to.lower())
    assert MORE not in shown(root)


@pytest.mark.parametrize("old", [TEN, f"```\n{TEN}\n```", f"{TEN}\n```", "## Draft", "## Completion", "**Token**: 1"])
def test_a_draft_is_put_back_whatever_was_done_to_it(board: Board, root: Path, old: str) -> None:
    drafted(board, root)
    edit(root, PENDING, old, "")
    assert board.get("mail").item.status == "pending_approval"
    text = shown(root)
    forget_index(root)
    assert board.get("mail").runs[-1].draft == TEN
    assert shown(root) == text
    assert board.get("mail").item.body == "To Bob.\n"


def test_a_draft_is_put_back_into_a_file_that_lost_all_that_dibs_wrote(board: Board, root: Path) -> None:
    drafted(board, root)
    put(root, PENDING, "# Mail\n\nTo Bob.\n")
    board.get("mail")
    assert TEN in shown(root)
    forget_index(root)
    assert board.get("mail").runs[-1].draft == TEN


def test_other_line_ends_are_no_other_draft(board: Board, root: Path) -> None:
    drafted(board, root, "Dear Bob,\r\nten EUR\r\nfor you\nand yours")
    text = (root / PENDING).read_bytes().replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
    (root / PENDING).write_bytes(text)
    move(root, PENDING, "Approved/mail.md")
    assert carried_out(board) == "Dear Bob,\r\nten EUR\r\nfor you\nand yours"
    assert not (root / "Conflicts").exists()


def test_one_text_is_in_conflicts_once(board: Board, root: Path) -> None:
    drafted(board, root)
    theirs = edit(root, PENDING)
    board.list()
    put(root, PENDING, theirs)
    board.list()
    assert MORE not in shown(root)
    assert places(root) == ["Conflicts/mail.md", PENDING]


def test_a_text_beside_the_draft_is_no_change_of_it(board: Board, root: Path) -> None:
    drafted(board, root)
    edit(root, PENDING, "To Bob.", "To Bob, please.")
    (root / PENDING).write_text((root / PENDING).read_text() + "\nFine with me.\n")
    move(root, PENDING, "Approved/mail.md")
    assert carried_out(board) == TEN
    assert "Fine with me." in shown(root)
    assert not (root / "Conflicts").exists()


def test_without_an_index_an_approval_of_another_draft_is_void(board: Board, root: Path, harness: Harness) -> None:
    drafted(board, root)
    board.approve("mail", actor="ann")
    edit(root, FREE)
    forget_index(root)
    again = harness.board()
    assert again.get("mail").item.status == "pending_approval"
    assert places(root) == [PENDING]
    assert_sound(again)
    again.approve("mail", actor="ann")
    assert carried_out(again) == MORE


def test_without_an_index_an_approval_of_this_draft_holds(board: Board, root: Path, harness: Harness) -> None:
    drafted(board, root)
    board.approve("mail", actor="ann", comment="go")
    forget_index(root)
    assert carried_out(harness.board()) == TEN


def test_without_an_index_who_holds_it_still_does_and_what_follows_needs_approval(board: Board, root: Path) -> None:
    drafted(board, root)
    board.approve("mail", actor="ann")
    grant = board.claim("mail", session=board.start_session("local").id)
    edit(root, "In_Progress/local/mail.md")
    forget_index(root)
    detail = board.get("mail")
    assert detail.claim is not None
    assert (detail.claim.token, detail.item.approved) == (grant.claim.token, False)


def test_the_doctor_tells_of_texts_in_conflicts(board: Board, root: Path) -> None:
    drafted(board, root)
    edit(root, PENDING)
    assert any("1 in Conflicts: mail.md" in what for what, _ in board.store.remarks())


# What was said to a draft


def test_without_an_index_who_takes_it_next_reads_why_it_was_sent_back(board: Board, root: Path) -> None:
    drafted(board, root)
    board.send_back("mail", comment="kinder\nplease", actor="ann")
    text = shown(root)
    forget_index(root)
    assert board.get("mail").item.status == "ready"
    assert shown(root) == text
    previous = board.claim("mail", session=board.start_session("local").id).previous
    assert previous is not None
    assert (previous.run.draft, previous.comment) == (TEN, "kinder\nplease")
    forget_index(root)
    detail = board.get("mail")
    assert detail.claim is not None
    assert (detail.claim.token, detail.claim.agent) == (2, "local")
    assert shown(root).count("**Sent Back By**: ann") == 1
    assert_sound(board)


def test_a_run_is_as_long_as_it_was_whatever_became_of_the_index(board: Board, root: Path, harness: Harness) -> None:
    put(root, FREE, "# Mail\n")
    session = board.start_session("cloud").id
    begun = board.claim("mail", session=session).claim
    harness.clock.advance(28)
    forget_index(root)
    found = board.get("mail").claim
    assert found is not None
    assert (found.claimed_at, found.expires_at > begun.expires_at) == (begun.claimed_at, True)
    assert_sound(board)
    harness.clock.advance(2)
    board.done("mail", session=session)
    (run,) = board.get("mail").runs
    assert run.ended_at is not None
    assert 30_000 <= run.ended_at - run.started_at < 60_000
    assert f"**Duration**: {(run.ended_at - run.started_at) / 1000:.15g}\n" in shown(root)
    assert_sound(board)
