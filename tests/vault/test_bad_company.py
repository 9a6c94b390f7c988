"""One bad file, folder or name is no matter of the others: each is told of, and the board goes on."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dibs.board import Board
from dibs.config import DEFAULTS
from dibs.errors import StoreUnavailable, StoreUnusable
from dibs.maintenance import doctor
from dibs.store.vault.safe_fs import FILE_BYTES_MAX
from dibs.store.vault.store import VaultStore
from dibs.testing.harness import Harness
from dibs.testing.invariants import assert_sound
from tests.vault.conftest import places, put
from tests.vault.test_by_hand import forget_the_index, start

BLOCK = """# X

<!-- dibs: runs -->

# Claimed Task: bad

**Claimed By**: z
**Claimed At**: 2026-01-01T00:00:00.000Z
**Status**: done
**Session**: z-1
**Token**: 1

## Completion

**Completed At**: 2026-01-01T00:00:01.000Z
**Outcome**: done
**Reason**: "\\ud800"
"""
FACTS = 'dibs: {"token": 1, "attempts": 1, "created_by": "z", "created_at": 1}'


def told(board: Board) -> str:
    return "\n".join(finding.what for finding in doctor.examine(board))


@pytest.mark.parametrize(
    "text",
    [
        "---\nlabels: [1e999]\n---\n# X\n",
        "---\ndepends_on: [.inf]\n---\n# X\n",
        "---\npayload: {a: .nan}\n---\n# X\n",
        f"---\n{FACTS}\n---\n{BLOCK}",
        '---\ndibs: {"token": 9007199254740992, "created_by": "z", "created_at": 1}\n---\n# X\n',
    ],
)
def test_a_text_that_was_made_to_go_wrong_is_about_its_file_alone(board: Board, root: Path, text: str) -> None:
    put(root, "Needs_Action/good.md", "# Good\n")
    put(root, "Needs_Action/bad.md", text)
    session = start(board)
    assert "good" in [grant.item.id for grant in board.next(session=session, n=5)]
    assert board.get("good").item.status == "in_progress"
    assert all(item.token < 100 for item in board.list())
    board.done("good", session=session)
    list(doctor.examine(board))


def test_a_held_file_that_was_broken_holds_up_nobody_when_its_claim_expires(
    harness: Harness, board: Board, root: Path
) -> None:
    for name in ("a", "b"):
        put(root, f"Needs_Action/{name}.md", f"# {name}\n")
    board.claim("a", session=start(board, "z"), ttl_seconds=60)
    held = root / "In_Progress/z/a.md"
    whole = held.read_text()
    held.write_text("---\nbroken: [\n---\n")
    harness.clock.advance(61)
    session = start(board)
    assert [grant.item.id for grant in board.next(session=session, n=5)] == ["b"]
    assert board.get("a").item.status == "ready", "by the record; nobody is given it"
    assert "a.md" in told(board)
    board.sweep()
    held.write_text(whole)
    assert [grant.item.id for grant in board.next(session=session, n=5)] == ["a"]
    assert places(root) == ["In_Progress/coder/a.md", "In_Progress/coder/b.md"]
    assert_sound(board)


def test_a_broken_file_is_no_reason_not_to_finish_what_it_waits_for(board: Board, root: Path) -> None:
    put(root, "Needs_Action/a.md", "# A\n")
    put(root, "Needs_Action/b.md", "---\ndepends_on: [a]\n---\n# B\n")
    session = start(board)
    board.claim("a", session=session)
    whole = (root / "Blocked/b.md").read_text()
    put(root, "Blocked/b.md", "---\nbroken: [\n---\n")
    assert board.done("a", session=session).item.status == "done"
    assert not board.next(session=session)
    put(root, "Blocked/b.md", whole)
    assert [grant.item.id for grant in board.next(session=session)] == ["b"]
    assert_sound(board)


def test_a_name_in_the_way_is_told_and_the_rest_goes_on(board: Board, root: Path) -> None:
    put(root, "Needs_Action/good.md", "# Good\n")
    put(root, "Blocked/x.md", "---\nid: b1\ndepends_on: [good]\n---\n# B\n")
    put(root, "Needs_Action/x.md", "---\nid: a1\ndepends_on: [good]\n---\n# A\n")
    session = start(board)
    assert {item.id for item in board.list()} == {"good", "a1", "b1"}
    assert "in the way" in told(board)
    board.claim("good", session=session)
    board.done("good", session=session)
    assert board.get("b1").item.status == "ready"


@pytest.mark.parametrize("folder", ["Blocked", "Done", "Conflicts"])
def test_a_folder_that_is_a_link_is_never_written_through(
    board: Board, root: Path, tmp_path: Path, folder: str
) -> None:
    (tmp_path / "outside").mkdir()
    if (root / folder).exists():
        (root / folder).rmdir()
    (root / folder).symlink_to(tmp_path / "outside")
    put(root, "Needs_Action/a.md", "# A\n")
    put(root, "Needs_Action/b.md", "---\ndepends_on: [a]\n---\n# B\n")
    session = start(board)
    assert [grant.item.id for grant in board.next(session=session, n=5)] == ["a"]
    if folder == "Done":
        with pytest.raises(StoreUnavailable):
            board.done("a", session=session)
        assert board.get("a").item.status == "in_progress"
    else:
        board.done("a", session=session)
    assert not list((tmp_path / "outside").iterdir())


def test_a_file_with_no_room_for_another_block_is_not_handed_out(board: Board, root: Path) -> None:
    put(
        root,
        "Needs_Action/big.md",
        "---\npriority: 10\n---\n# X\n\n<!-- dibs: runs -->\n" + "x" * (FILE_BYTES_MAX - 60),
    )
    put(root, "Needs_Action/good.md", "# Good\n")
    session = start(board)
    assert [grant.item.id for grant in board.next(session=session)] == ["good"]
    assert "big.md" in told(board)


def test_of_files_with_one_id_a_new_index_takes_the_one_that_is_held(
    harness: Harness, board: Board, root: Path
) -> None:
    put(root, "Needs_Action/x.md", "# X\n")
    session = start(board, "z")
    board.claim("x", session=session)
    board.release("x", session=session)
    token = board.claim("x", session=session).claim.token
    put(root, "Needs_Action/y.md", "---\nid: x\n---\n# Y\n")
    forget_the_index(root)
    other = harness.board()
    claim = other.get("x").claim
    assert claim is not None
    assert (claim.session, claim.token) == (session, token)


def test_a_task_made_anew_after_its_end_does_not_vanish(board: Board, root: Path) -> None:
    put(root, "Needs_Action/daily.md", "# Daily\n")
    session = start(board)
    board.claim("daily", session=session)
    board.done("daily", session=session)
    put(root, "Needs_Action/daily.md", "# Daily\n")
    assert board.get("daily").item.status == "done"
    assert places(root) == ["Done/daily.md", "Needs_Action/daily.md"]
    assert "daily.md" in told(board)


# What a clone or a copy brings along


@pytest.mark.parametrize("name", ["late-saves-looked-for", "vault.db", "vault.db-lock", ".gitignore"])
def test_a_link_in_the_folder_of_the_index_is_refused(tmp_path: Path, name: str) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / "vault" / "Needs_Action").mkdir(parents=True)
    (tmp_path / "vault" / ".dibs").mkdir()
    (tmp_path / "vault" / ".dibs" / name).symlink_to(victim)
    with pytest.raises(StoreUnusable, match="link"):
        VaultStore(str(tmp_path / "vault"), DEFAULTS)
    assert victim.read_text() == "mine"


def test_the_folder_of_the_index_is_no_link(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "vault" / "Needs_Action").mkdir(parents=True)
    (tmp_path / "vault" / ".dibs").symlink_to(tmp_path / "outside")
    with pytest.raises(StoreUnusable, match="link"):
        VaultStore(str(tmp_path / "vault"), DEFAULTS)
    assert not list((tmp_path / "outside").iterdir())


def test_an_index_that_was_made_elsewhere_is_not_believed(tmp_path: Path) -> None:
    for name in ("theirs", "mine"):
        VaultStore(str(tmp_path / name), DEFAULTS, create=True).close()
    theirs = Board(VaultStore(str(tmp_path / "theirs"), DEFAULTS), DEFAULTS, actor="they")
    theirs.set_agent("evil")
    theirs.close()
    put(tmp_path / "mine", "Needs_Action/x.md", "# X\n")
    for name in ("vault.db", "vault.db-wal"):
        shutil.copy(tmp_path / "theirs" / ".dibs" / name, tmp_path / "mine" / ".dibs" / name)
    mine = Board(VaultStore(str(tmp_path / "mine"), DEFAULTS), DEFAULTS, actor="me")
    assert not mine.agents()
    assert [item.id for item in mine.list()] == ["x"]
    mine.close()


def test_an_index_that_says_nothing_of_where_it_was_made_is_not_believed(tmp_path: Path) -> None:
    """It came with a clone, and with it somebody's admin key."""
    for name in ("theirs", "mine"):
        VaultStore(str(tmp_path / name), DEFAULTS, create=True).close()
    theirs = VaultStore(str(tmp_path / "theirs"), DEFAULTS)
    board = Board(theirs, DEFAULTS, actor="they")
    board.create_key("admin", agent="evil")
    theirs.engine.connection().execute("DELETE FROM vault_place")
    theirs.engine.connection().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    board.close()
    put(tmp_path / "mine", "Needs_Action/x.md", "# X\n")
    shutil.copy(tmp_path / "theirs" / ".dibs" / "vault.db", tmp_path / "mine" / ".dibs" / "vault.db")
    for name in ("vault.db-wal", "vault.db-shm"):
        (tmp_path / "mine" / ".dibs" / name).unlink(missing_ok=True)
    mine = Board(VaultStore(str(tmp_path / "mine"), DEFAULTS), DEFAULTS, actor="me")
    assert mine.keys() == ()
    assert [item.id for item in mine.list()] == ["x"]
    mine.close()


def test_many_processes_may_make_one_index_at_once(tmp_path: Path) -> None:
    """None of them takes what another has just made for an index of elsewhere."""
    (tmp_path / "vault" / "Needs_Action").mkdir(parents=True)
    put(tmp_path / "vault", "Needs_Action/x.md", "# X\n")
    script = (
        "import sys; from dibs.config import DEFAULTS; from dibs.store.vault.store import VaultStore;"
        "sys.stdin.read(1); store = VaultStore(sys.argv[1], DEFAULTS); store.look(); print(len(store.list(limit=9)))"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "vault")]
    makers = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(4)]
    assert [maker.communicate(b"!", timeout=60)[0] for maker in makers] == [b"1\n"] * 4
