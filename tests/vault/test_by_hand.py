"""What people and programs that know only the folders do to a vault, and what the board makes of it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from dibs.board import Board
from dibs.errors import ClaimExpired, DibsError, ItemNotClaimable, StoreUnavailable
from dibs.maintenance import doctor
from dibs.store.vault import scan, watch
from dibs.store.vault.disk import Disk
from dibs.store.vault.layout import FOLDERS, HELD, MOVES
from dibs.store.vault.reconcile import Reconciler
from dibs.testing.harness import Harness
from dibs.testing.invariants import assert_sound
from tests.vault.conftest import forget_index, move, places, put

CHAIN = 40


def start(board: Board, agent: str = "coder") -> str:
    return board.start_session(agent).id


def kinds(board: Board, item: str) -> list[str]:
    return [event.kind for event in board.log(item)]


# Files that people write


def test_a_file_with_a_heading_is_an_item(board: Board, root: Path) -> None:
    put(root, "Needs_Action/call-bob.md", "# Call Bob\n\nAbout the invoice.\n")
    item = board.get("call-bob").item
    assert (item.title, item.status, item.type, item.priority) == ("Call Bob", "ready", "task", 5)
    assert "About the invoice." in item.body
    assert places(root) == ["Needs_Action/call-bob.md"]
    assert_sound(board)


def test_a_file_without_a_heading_is_an_item_named_after_itself(board: Board, root: Path) -> None:
    put(root, "Needs_Action/buy-milk.md", "two bottles")
    assert board.get("buy-milk").item.title == "buy-milk"


def test_a_foreign_front_matter_is_left_alone_and_ours_is_heeded(board: Board, root: Path) -> None:
    text = "---\ntags: [home, errand]   # mine\npriority: high\ntype: bug\naliases:\n  - milk\n---\n# Milk\n"
    put(root, "Needs_Action/milk.md", text)
    item = board.get("milk").item
    assert (item.priority, item.type) == (8, "bug")
    board.claim("milk", session=start(board))
    now = (root / "In_Progress/coder/milk.md").read_text()
    for line in ("tags: [home, errand]   # mine", "aliases:", "  - milk", "# Milk"):
        assert line in now.splitlines()


def test_a_name_that_is_no_id_still_makes_an_item(board: Board, root: Path) -> None:
    put(root, "Needs_Action/Fix the login 🎉.md", "do it")
    (item,) = board.list()
    assert item.title == "Fix the login 🎉"
    session = start(board)
    board.claim(item.id, session=session)
    board.done(item.id, session=session)
    assert places(root) == ["Done/Fix the login 🎉.md"]


def test_older_files_are_handed_out_first(board: Board, root: Path) -> None:
    import os

    for number, name in enumerate(("new", "old", "middle")):
        os.utime(put(root, f"Needs_Action/{name}.md", "text"), (0, [3000, 1000, 2000][number]))
    session = start(board)
    assert [grant.item.id for grant in board.next(session=session, n=3)] == ["old", "middle", "new"]


def test_a_save_by_a_person_is_an_edit(board: Board, root: Path) -> None:
    put(root, "Needs_Action/x.md", "# X\n\none")
    board.get("x")
    put(root, "Needs_Action/x.md", "---\npriority: 10\n---\n# X again\n\ntwo")
    item = board.get("x").item
    assert (item.title, item.priority, item.body.strip()) == ("X again", 10, "two")
    assert kinds(board, "x") == ["added", "claimable", "edited"]
    assert_sound(board)


def test_a_dependency_by_name_holds_a_file_back_and_moves_it_when_it_is_done(board: Board, root: Path) -> None:
    put(root, "Needs_Action/b.md", "---\ndepends_on: [a]\n---\n# B\n")
    put(root, "Needs_Action/a.md", "# A\n")
    assert board.get("b").item.status == "blocked"
    assert places(root) == ["Blocked/b.md", "Needs_Action/a.md"]
    session = start(board)
    board.claim("a", session=session)
    board.done("a", session=session)
    assert places(root) == ["Done/a.md", "Needs_Action/b.md"]
    assert_sound(board)


# Moves


def test_the_table_names_only_folders_that_there_are() -> None:
    folders = {*FOLDERS.values(), "Approved"}
    assert all(set(row) <= folders for row in MOVES.values())


def test_a_plain_agent_claims_by_moving_and_finishes_by_moving(board: Board, root: Path) -> None:
    put(root, "Needs_Action/x.md", "# X\n")
    board.get("x")
    move(root, "Needs_Action/x.md", "In_Progress/local/x.md")
    with pytest.raises(DibsError, match="claimed by local"):
        board.claim("x", session=start(board))
    assert board.get("x").claim is not None
    assert not board.next(session=start(board, "other"))
    move(root, "In_Progress/local/x.md", "Done/x.md")
    detail = board.get("x")
    assert (detail.item.status, detail.runs[0].outcome, detail.runs[0].agent) == ("done", "done", "local")
    assert_sound(board)


def test_the_holder_of_a_file_that_was_moved_back_is_refused(board: Board, root: Path) -> None:
    put(root, "Needs_Action/x.md", "# X\n")
    session = start(board)
    grant = board.claim("x", session=session)
    move(root, "In_Progress/coder/x.md", "Needs_Action/x.md")
    with pytest.raises(DibsError, match="force_released"):
        board.done("x", session=session, token=grant.claim.token)
    again = board.claim("x", session=start(board, "other"))
    assert again.claim.token == grant.claim.token + 1
    assert_sound(board)


@pytest.mark.parametrize(
    ("folder", "status", "kind"),
    [
        ("Done", "done", "done"),
        ("Rejected", "rejected", "rejected"),
        ("Failed", "failed", "failed"),
        ("Parked", "parked", "force_released"),
        ("Cancelled", "cancelled", "cancelled"),
        ("Pending_Approval", "pending_approval", "submitted"),
        ("Needs_Action", "ready", "force_released"),
        ("Blocked", "ready", "force_released"),
    ],
)
def test_what_somebody_holds_is_moved_on_by_hand(board: Board, root: Path, folder: str, status: str, kind: str) -> None:
    put(root, "Needs_Action/x.md", "# X\n")
    session = start(board)
    board.claim("x", session=session)
    move(root, "In_Progress/coder/x.md", f"{folder}/x.md")
    assert board.get("x").item.status == status
    assert kind in kinds(board, "x")
    assert places(root) == [f"{FOLDERS[status]}/x.md"]
    assert_sound(board)


def test_approved_approves_and_the_file_goes_on(board: Board, root: Path) -> None:
    board.set_agent("mailer", sensitive_actions=["mail"])
    put(root, "Needs_Action/x.md", "---\naction: mail\n---\n# Write\n")
    session = start(board, "mailer")
    board.claim("x", session=session)
    board.submit("x", session=session, draft="Dear customer")
    assert places(root) == ["Pending_Approval/x.md"]
    assert "Dear customer" in (root / "Pending_Approval/x.md").read_text()
    move(root, "Pending_Approval/x.md", "Approved/x.md")
    item = board.get("x").item
    assert (item.status, item.approved) == ("ready", True)
    assert places(root) == ["Needs_Action/x.md"]
    board.set_agent("local", allowed_actions=["mail"])
    grant = board.claim("x", session=start(board, "local"))
    assert grant.approval is not None
    assert grant.approval.run is not None
    assert grant.approval.run.draft == "Dear customer"
    assert_sound(board)


@pytest.mark.parametrize(
    ("folder", "status", "kind"),
    [("Needs_Action", "ready", "sent_back"), ("Done", "done", "approved"), ("Rejected", "rejected", "rejected")],
)
def test_a_draft_is_decided_on_by_hand(board: Board, root: Path, folder: str, status: str, kind: str) -> None:
    put(root, "Needs_Action/x.md", "# X\n")
    session = start(board)
    board.claim("x", session=session)
    board.submit("x", session=session, draft="so")
    move(root, "Pending_Approval/x.md", f"{folder}/x.md")
    assert board.get("x").item.status == status
    assert kind in kinds(board, "x")
    assert_sound(board)


@pytest.mark.parametrize("folder", [one for one in FOLDERS.values() if one not in (HELD, "Scheduled", "Blocked")])
@pytest.mark.parametrize("before", ["Needs_Action", "Parked", "Done", "Failed", "Rejected", "Cancelled"])
def test_what_nobody_holds_is_wherever_its_file_is_put(board: Board, root: Path, before: str, folder: str) -> None:
    put(root, f"{before}/x.md", "# X\n")
    known = {name: status for status, name in FOLDERS.items()}
    assert board.get("x").item.status == known[before]
    if before != folder:
        move(root, f"{before}/x.md", f"{folder}/x.md")
    assert board.get("x").item.status == known[folder]
    assert places(root) == [f"{folder}/x.md"]
    assert_sound(board)


def test_a_file_that_goes_from_one_agent_to_another_changes_hands(board: Board, root: Path) -> None:
    put(root, "Needs_Action/x.md", "# X\n")
    session = start(board)
    grant = board.claim("x", session=session)
    move(root, "In_Progress/coder/x.md", "In_Progress/local/x.md")
    claim = board.get("x").claim
    assert claim is not None
    assert (claim.agent, claim.token) == ("local", grant.claim.token + 1)
    with pytest.raises(DibsError):
        board.done("x", session=session, token=grant.claim.token)
    assert_sound(board)


# Files are the truth


def forget_the_index(root: Path) -> None:
    for name in ("vault.db", "vault.db-wal", "vault.db-shm", "vault.db-lock", "vault.db-bell"):
        (root / ".dibs" / name).unlink(missing_ok=True)


def test_without_its_index_a_vault_loses_no_item_no_claim_and_no_token(
    harness: Harness, board: Board, root: Path
) -> None:
    for name in ("free", "held", "over", "asked", "aside"):
        board.add(title=name.title(), id=name, body=f"about {name}", priority=7, labels=["a"], payload={"x": [1, None]})
    session = start(board)
    for name in ("free", "held", "over", "asked", "aside"):
        board.claim(name, session=session)
    board.release("free", session=session)
    board.done("over", session=session, note="well")
    board.submit("asked", session=session, draft="a draft\nof two lines")
    board.release("aside", session=session, park=True)
    before = {item.id: item for item in board.list()}
    held = board.get("held").claim
    assert held is not None
    forget_the_index(root)

    other = harness.board()
    after = {item.id: item for item in other.list()}
    assert after.keys() == before.keys()
    for id, item in before.items():
        for name in ("title", "body", "priority", "labels", "payload", "status", "token", "attempts", "needs_approval"):
            assert getattr(after[id], name) == getattr(item, name), (id, name)
    claim = other.get("held").claim
    assert claim is not None
    assert (claim.session, claim.token, claim.agent) == (held.session, held.token, held.agent)
    assert other.get("asked").runs[0].draft == "a draft\nof two lines"
    # The holder goes on as if nothing had happened, also with the handle it has.
    board.done("held", session=session, token=held.token)
    assert other.get("held").item.status == "done"
    assert other.claim("free", session=session).claim.token == 2
    assert not list(doctor.examine(other))


def test_a_token_of_what_was_pruned_is_not_given_again_by_a_new_index(
    harness: Harness, board: Board, root: Path
) -> None:
    put(root, "Needs_Action/x.md", "# X\n")
    session = start(board)
    board.claim("x", session=session)
    board.done("x", session=session)
    harness.clock.advance(100)
    assert board.prune(older_than_seconds=10).items == 1
    assert places(root) == ["Archive/x.md"]
    forget_the_index(root)
    put(root, "Needs_Action/x.md", "# X\n")
    other = harness.board()
    assert other.claim("x", session=start(other)).claim.token == 2
    assert_sound(other)


def test_a_claim_that_was_never_acknowledged_is_void_and_its_token_spent(board: Board, root: Path) -> None:
    """What a crash leaves between the writing of a claim and the move."""
    put(root, "Needs_Action/x.md", "# X\n")
    board.claim("x", session=start(board))
    text = (root / "In_Progress/coder/x.md").read_text()
    put(root, "Needs_Action/y.md", text.replace("Claimed Task: x", "Claimed Task: y"))
    item = board.get("y").item
    assert (item.status, item.token) == ("ready", 1)
    assert board.claim("y", session=start(board)).claim.token == 2
    assert_sound(board)


# What is no item


@pytest.mark.parametrize(
    "text",
    [
        b"---\ntitle: [\n---\n# broken\n",
        b"---\na: 1\na: 2\n---\n# twice\n",
        b"---\na: &x [1]\nb: [*x,*x,*x]\n---\n",
        b"\xff\xfe not text",
        b"---\nx: " + b"[" * 5000 + b"]" * 5000 + b"\n---\n",
    ],
)
def test_what_cannot_be_read_is_told_and_the_rest_goes_on(board: Board, root: Path, text: bytes) -> None:
    put(root, "Needs_Action/good.md", "# Good\n")
    (root / "Needs_Action/bad.md").write_bytes(text)
    session = start(board)
    assert [grant.item.id for grant in board.next(session=session, n=5)] == ["good"]
    assert any("bad.md" in finding.what for finding in doctor.examine(board))
    assert (root / "Needs_Action/bad.md").read_bytes() == text
    put(root, "Needs_Action/bad.md", "# Mended\n")
    assert [grant.item.id for grant in board.next(session=session)] == ["bad"]
    assert_sound(board)


def test_an_item_whose_file_was_broken_is_not_handed_out_until_it_is_mended(board: Board, root: Path) -> None:
    put(root, "Needs_Action/x.md", "# X\n")
    session = start(board)
    assert board.get("x").item.status == "ready"
    put(root, "Needs_Action/x.md", "---\nbroken: [\n---\n")
    assert not board.next(session=session)
    assert board.get("x").item.status == "parked"
    with pytest.raises(StoreUnavailable, match="cannot be read"):
        board.claim("x", session=session)
    put(root, "Needs_Action/x.md", "# X\n")
    assert [grant.item.id for grant in board.next(session=session)] == ["x"]
    assert_sound(board)


def test_of_two_files_with_one_id_the_known_one_counts_and_it_is_told(board: Board, root: Path) -> None:
    put(root, "Done/x.md", "# Old\n")
    assert board.get("x").item.status == "done"
    put(root, "Needs_Action/x.md", "# New\n")
    session = start(board)
    assert not board.next(session=session)
    assert any("x.md" in finding.what and "rename one of them" in finding.what for finding in doctor.examine(board))
    move(root, "Needs_Action/x.md", "Needs_Action/x-again.md")
    assert [grant.item.id for grant in board.next(session=session)] == ["x-again"]
    assert_sound(board)


def test_names_that_differ_by_case_only_are_told(board: Board, root: Path) -> None:
    put(root, "Needs_Action/Task.md", "# One\n")
    put(root, "Needs_Action/task.md", "# Two\n")
    assert {item.id for item in board.list()} == {"Task", "task"}
    assert any("case" in finding.what for finding in doctor.examine(board))


def test_an_edit_that_is_not_allowed_waits_for_the_end_of_the_claim(board: Board, root: Path) -> None:
    put(root, "Needs_Action/x.md", "# X\n")
    session = start(board)
    board.claim("x", session=session)
    file = root / "In_Progress/coder/x.md"
    file.write_text(file.read_text().replace("---\n", "---\ntype: bug\n", 1))
    assert board.get("x").item.type == "task"
    assert any("type" in finding.what for finding in doctor.examine(board))
    board.release("x", session=session)
    assert board.get("x").item.type == "bug"
    assert_sound(board)


# What is taken away


def test_of_a_held_file_that_is_gone_it_is_said_that_it_is_gone(board: Board, root: Path, tmp_path: Path) -> None:
    put(root, "Needs_Action/x.md", "# x\n")
    session = start(board)
    board.claim("x", session=session)
    (root / "In_Progress/coder/x.md").rename(tmp_path / "x.md")
    with pytest.raises(StoreUnavailable, match=r"coder/x\.md is missing; put it back"):
        board.done("x", session=session)
    (tmp_path / "x.md").rename(root / "In_Progress/coder/x.md")
    board.done("x", session=session)


def test_a_free_item_whose_file_is_taken_away_is_cancelled_and_comes_back_with_it(board: Board, root: Path) -> None:
    put(root, "Needs_Action/x.md", "# X\n")
    board.get("x")
    (root / "Needs_Action/x.md").unlink()
    assert board.get("x").item.status == "cancelled"
    put(root, "Needs_Action/x.md", "# X\n")
    assert board.get("x").item.status == "ready"
    assert_sound(board)


def test_the_file_of_a_held_item_is_waited_for(harness: Harness, board: Board, root: Path) -> None:
    put(root, "Needs_Action/x.md", "# X\n")
    session = start(board)
    board.claim("x", session=session)
    text = (root / "In_Progress/coder/x.md").read_text()
    (root / "In_Progress/coder/x.md").unlink()
    with pytest.raises(StoreUnavailable):
        board.done("x", session=session)
    put(root, "In_Progress/coder/x.md", text)
    assert board.done("x", session=session).item.status == "done"
    put(root, "Needs_Action/y.md", "# Y\n")
    board.claim("y", session=session)
    (root / "In_Progress/coder/y.md").unlink()
    assert board.get("y").item.status == "in_progress"
    harness.clock.advance(3)
    assert board.get("y").item.status == "cancelled"
    with pytest.raises((ClaimExpired, ItemNotClaimable, DibsError)):
        board.done("y", session=session)
    assert_sound(board)


def test_a_folder_that_became_a_link_takes_no_item_with_it(board: Board, root: Path, tmp_path: Path) -> None:
    put(root, "Needs_Action/x.md", "# X\n")
    put(root, "Parked/y.md", "# Y\n")
    session = start(board)
    assert len(board.list()) == 2
    (root / "Needs_Action").rename(tmp_path / "elsewhere")
    (root / "Needs_Action").symlink_to(tmp_path / "elsewhere")
    assert not board.next(session=session)
    assert {item.id: item.status for item in board.list()} == {"x": "parked", "y": "parked"}
    assert any("Needs_Action" in finding.what for finding in doctor.examine(board))
    assert board.claim("y", session=session).item.id == "y"
    (root / "Needs_Action").unlink()
    (tmp_path / "elsewhere").rename(root / "Needs_Action")
    assert [grant.item.id for grant in board.next(session=session)] == ["x"]
    assert_sound(board)


def test_a_vault_that_is_not_there_loses_nothing(board: Board, root: Path, tmp_path: Path) -> None:
    put(root, "Needs_Action/x.md", "# X\n")
    session = start(board)
    board.get("x")
    (root / "Needs_Action").rename(tmp_path / "elsewhere")
    with pytest.raises(StoreUnavailable, match="Needs_Action"):
        board.next(session=session)
    (tmp_path / "elsewhere").rename(root / "Needs_Action")
    assert [grant.item.id for grant in board.next(session=session)] == ["x"]


# What the kernel does not tell


@pytest.fixture
def blind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is told of any change, as of those that are made through mapped memory."""
    monkeypatch.setattr(watch.InotifyWatch, "changes", lambda self: set())
    monkeypatch.setattr(watch.InotifyWatch, "wait", lambda self, seconds: False)


@pytest.mark.parametrize("seconds", [0.0, 1000.0])
def test_what_is_not_told_is_found_by_a_look_now_and_then(
    board: Board, root: Path, blind: None, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    monkeypatch.setattr(scan, "RESCAN_SECONDS", seconds)
    put(root, "Needs_Action/x.md", "# X\n")
    board.list()
    put(root, "Needs_Action/y.md", "# Y\n")
    found = {item.id for item in board.list()}
    assert found == ({"x", "y"} if seconds == 0 else {"x"}), "and without such a look it is not"


def test_who_waits_finds_it_too(board: Board, root: Path, blind: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "RESCAN_SECONDS", 0.0)
    board.list()
    with closing(board.store.watch()) as watch:
        put(root, "Needs_Action/x.md", "# X\n")
        assert watch.wait(10)
    assert [item.id for item in board.list()] == ["x"]


# Many at once


def test_a_chain_of_new_files_is_taken_in_one_pass(board: Board, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []
    real = Reconciler._try_add

    def told(self: Reconciler, path: str) -> str | None:
        tried.append(path)
        return real(self, path)

    monkeypatch.setattr(Reconciler, "_try_add", told)
    for number in range(CHAIN):
        needs = f"---\ndepends_on: [t{number + 1}, t{CHAIN - 1}]\n---\n" if number < CHAIN - 1 else ""
        put(root, f"Needs_Action/t{number}.md", f"{needs}# T\n")
    assert sorted(item.status for item in board.list()) == ["blocked"] * (CHAIN - 1) + ["ready"]
    assert len(tried) == CHAIN
    assert_sound(board)


def test_a_circle_of_new_files_is_told_and_what_is_beside_it_is_taken(board: Board, root: Path) -> None:
    for name, needs in (("a", "b"), ("b", "c"), ("c", "a"), ("d", "a"), ("f", "e"), ("e", "")):
        put(root, f"Needs_Action/{name}.md", f"---\ndepends_on: [{needs}]\n---\n# {name}\n")
    found = {item.id: item.status for item in board.list()}
    (closing,) = set("abcdef") - found.keys()
    assert closing in "abc"
    assert found == {**dict.fromkeys(set("abcdf") - {closing}, "blocked"), "e": "ready"}
    (told,) = [finding.what for finding in doctor.examine(board)]
    assert f"{closing} would depend on itself" in told


# What is not there


def test_a_file_that_depends_on_what_is_not_there_is_blocked_and_says_by_what(board: Board, root: Path) -> None:
    put(root, "Needs_Action/b.md", "---\ndepends_on: [a]\n---\n# B\n")
    detail = board.get("b")
    assert (detail.item.status, [(one.item, one.status, one.will_move) for one in detail.blockers]) == (
        "blocked",
        [("a", "missing", False)],
    )
    assert places(root) == ["Blocked/b.md"]
    with pytest.raises(ItemNotClaimable, match=r"waits for a \(missing\)"):
        board.claim("b", session=start(board))
    assert_sound(board)
    assert not list(doctor.examine(board))
    forget_index(root)
    assert board.get("b").item.status == "blocked"
    board.add("A", id="a")
    session = start(board)
    board.claim("a", session=session)
    board.done("a", session=session)
    assert places(root) == ["Done/a.md", "Needs_Action/b.md"]
    assert_sound(board)
    assert not list(doctor.examine(board))


def test_an_edit_in_a_file_may_name_what_is_not_there(board: Board, root: Path) -> None:
    put(root, "Needs_Action/b.md", "# B\n")
    assert board.get("b").item.status == "ready"
    put(root, "Needs_Action/b.md", "---\ndepends_on: [a]\n---\n# B\n")
    assert board.get("b").item.status == "blocked"
    put(root, "Blocked/b.md", "---\ndepends_on: [a, c]\n---\n# B\n")
    assert [one.item for one in board.get("b").blockers] == ["a", "c"]
    put(root, "Done/a.md", "# A\n")
    put(root, "Done/c.md", "# C\n")
    assert board.get("b").item.status == "ready"
    assert_sound(board)
    assert not list(doctor.examine(board))


def test_what_was_pruned_is_not_waited_for_when_the_index_is_made_anew(board: Board, root: Path) -> None:
    put(root, "Archive/a.md", "# A\n")
    put(root, "Needs_Action/b.md", "---\ndepends_on: [a]\n---\n# B\n")
    assert board.get("b").item.status == "ready"
    assert_sound(board)


# What comes a moment later


def test_a_late_save_of_what_has_failed_goes_into_its_file(board: Board, root: Path) -> None:
    put(root, "Needs_Action/x.md", "# X\n\none\n")
    session = start(board)
    board.claim("x", session=session)
    text = (root / "In_Progress/coder/x.md").read_text()
    board.fail("x", session=session, reason="red")
    put(root, "In_Progress/coder/x.md", text.replace("one\n", "one\ntwo\n"))
    board.get("x")
    assert places(root) == ["Failed/x.md"]
    assert "one\ntwo\n" in (root / "Failed/x.md").read_text()
    move(root, "Failed/x.md", "Needs_Action/x.md")
    assert board.get("x").item.status == "ready"
    assert_sound(board)


def test_a_stray_of_the_same_name_is_not_taken_for_the_item_that_was_moved(board: Board, root: Path) -> None:
    put(root, "Needs_Action/x.md", "# X\n")
    session = start(board)
    board.claim("x", session=session)
    text = (root / "In_Progress/coder/x.md").read_text()
    board.fail("x", session=session, reason="red")
    put(root, "In_Progress/other/x.md", text)
    assert board.get("x").item.status == "failed"
    move(root, "Failed/x.md", "Needs_Action/x.md")
    item = board.get("x").item
    assert (item.status, item.token) == ("ready", 1)
    assert places(root) == ["In_Progress/other/x.md", "Needs_Action/x.md"]
    assert any("In_Progress/other/x.md" in one.what for one in doctor.examine(board))


@pytest.mark.parametrize("moment", ["move", "exchange"])
def test_what_is_released_is_released_though_somebody_takes_it_at_once(
    board: Board, root: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Right after it lies in Needs_Action, or after its text was written there."""
    put(root, "Needs_Action/x.md", "# X\n")
    session = start(board)
    board.claim("x", session=session)
    plain = getattr(Disk, moment)

    def taken(self: Disk, *words: str | bytes) -> object:
        answer = plain(self, *words)
        if (root / "Needs_Action/x.md").exists():
            monkeypatch.undo()
            move(root, "Needs_Action/x.md", "In_Progress/local/x.md")
        return answer

    monkeypatch.setattr(Disk, moment, taken)
    assert board.release("x", session=session, reason="not mine").run.outcome == "released"
    detail = board.get("x")
    assert detail.claim is not None
    assert (detail.claim.agent, detail.claim.token) == ("local", 2)
    assert [run.outcome for run in detail.runs] == [None, "released"]
    assert places(root) == ["In_Progress/local/x.md"]
    assert_sound(board)


def test_a_line_that_reserves_what_another_session_holds_is_a_finding_and_written_back(
    board: Board, root: Path
) -> None:
    board.add("x", id="x", resources=["src"])
    board.add("y", id="y")
    board.claim("x", session=start(board, "alice"))
    session = start(board, "bob")
    board.claim("y", session=session)
    board.edit("y", add_resources=["docs"], session=session)
    path = root / "In_Progress/bob/y.md"
    before = path.read_text()
    (line,) = (line for line in before.splitlines() if line.startswith("dibs:"))
    put(root, "In_Progress/bob/y.md", before.replace(line, line.replace('"docs"]', '"docs","src/api"]')))
    assert any("y touches" in what and "src" in what for what, _ in board.store.remarks())
    assert {line.item.id: line.item.resources for line in board.who()} == {"x": ("src",), "y": ("docs",)}
    assert '"src/api"' not in path.read_text()
    # What nobody holds is added, as after a crash.
    put(root, "In_Progress/bob/y.md", before.replace(line, line.replace('"docs"]', '"docs","lib"]')))
    assert board.get("y").item.resources == ("docs", "lib")
    assert_sound(board)
