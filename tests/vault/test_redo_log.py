"""The redo log of a vault: whatever entries of folders a power cut takes back, the next process brings the files to the
state that was acknowledged. What people did since stays.

A state from before is made by writing the file as it was, and by giving its ctime to the log: the system sets the ctime
of a file, and nobody else can.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from dibs.board import Board
from dibs.store.vault import redo_log, removal
from dibs.store.vault.disk import Disk
from dibs.store.vault.layout import CONFLICTS
from dibs.testing import sizes
from dibs.testing.harness import Harness
from dibs.testing.invariants import assert_sound
from tests.vault.conftest import forget_index, move, places, put

#: Path and content of a file at one moment.
State = tuple[str, bytes]
TICKS_MAX = 100_000


def test_from_every_earlier_state_a_file_is_brought_back(harness: Harness, root: Path) -> None:
    vault = Worked(harness, root)
    for item, states in vault.states.items():
        for state in states[:-1]:
            vault.set_back({item: state})
            vault.assert_brought_back()


def test_files_are_brought_back_from_different_moments(harness: Harness, root: Path) -> None:
    seed = sizes.seed()
    draw = random.Random(seed)
    vault = Worked(harness, root)
    for _ in range(sizes.times(5)):
        vault.set_back({item: draw.choice(states) for item, states in vault.states.items()})
        vault.assert_brought_back()


@pytest.mark.parametrize("torn", [b"", b"\0" * 40], ids=["empty", "zeros"])
def test_a_text_that_a_person_saved_just_before_and_that_is_torn_is_brought_back(
    harness: Harness, root: Path, torn: bytes
) -> None:
    vault = Worked(harness, root)
    for item, states in vault.states.items():
        vault.set_back({item: (states[0][0], torn)})
        vault.assert_brought_back()


def test_a_text_that_dibs_never_read_is_kept(harness: Harness, root: Path) -> None:
    vault = Worked(harness, root)
    vault.set_back({"x": (vault.states["x"][0][0], b"# X\n\nsomebody's\n")})
    vault.assert_brought_back(kept=["Conflicts/x.md"])
    assert (root / "Conflicts/x.md").read_bytes() == b"# X\n\nsomebody's\n"


def test_a_file_that_is_gone_after_a_restart_of_the_machine_is_written_again(
    harness: Harness, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vault = Worked(harness, root)
    monkeypatch.setattr(redo_log, "this_boot", lambda: "another")
    for item in vault.states:
        vault.set_back({item: None})
        vault.assert_brought_back()


@pytest.mark.parametrize("verb", ["move", "exchange"])
def test_a_replay_that_is_cut_off_is_finished_by_the_next(
    harness: Harness, root: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    vault = Worked(harness, root)
    plain: Callable[..., Any] = getattr(Disk, verb)

    def fail(self: Disk, *words: Any) -> Any:
        plain(self, *words)
        raise OSError(5, "cut off")

    for item, states in vault.states.items():
        vault.set_back({item: states[0]})
        with monkeypatch.context() as patched:
            patched.setattr(Disk, verb, fail)
            board = harness.board()
            board.list()  # answers from the index as it is
            board.close()
        vault.assert_brought_back()


# What people do stays.


def test_what_people_move_stays_where_they_moved_it(harness: Harness, root: Path) -> None:
    Worked(harness, root).await_tick()
    move(root, "In_Progress/ann/z.md", "Needs_Action/z.md")
    move(root, "Done/x.md", "Needs_Action/x.md")
    board = harness.board()
    assert {board.get(item).item.status for item in ("x", "z")} == {"ready"}
    assert {"Needs_Action/x.md", "Needs_Action/z.md"} <= set(places(root))
    assert_sound(board)


def test_what_people_write_stays(harness: Harness, root: Path) -> None:
    Worked(harness, root).await_tick()
    text = (root / "In_Progress/ann/z.md").read_text()
    put(root, "In_Progress/ann/z.md", text.replace("by hand", "by another hand"))
    board = harness.board()
    assert board.get("z").item.status == "in_progress"
    assert "by another hand" in (root / "In_Progress/ann/z.md").read_text()
    board.close()
    board = harness.board()
    assert "by another hand" in (root / "In_Progress/ann/z.md").read_text()
    assert_sound(board)


def test_an_older_text_that_people_bring_back_stays(harness: Harness, root: Path) -> None:
    """As `git checkout` does: the same bytes at the same place, but written later."""
    vault = Worked(harness, root)
    vault.await_tick()
    (root / "Needs_Action/y.md").unlink()
    put(root, "Needs_Action/y.md", vault.states["y"][0][1].decode())
    board = harness.board()
    assert board.get("y").item.status == "ready"
    assert (root / "Needs_Action/y.md").read_bytes() != vault.states["y"][-1][1]
    assert_sound(board)


def test_what_people_remove_stays_removed(harness: Harness, root: Path) -> None:
    Worked(harness, root).await_tick()
    (root / "Needs_Action/y.md").unlink()
    board = harness.board()
    assert board.get("y").item.status == "cancelled"
    assert "Needs_Action/y.md" not in places(root)
    board.close()


def test_what_people_rename_is_not_written_again(harness: Harness, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Worked(harness, root).await_tick()
    monkeypatch.setattr(redo_log, "this_boot", lambda: "another")
    move(root, "Needs_Action/y.md", "Needs_Action/why.md")
    board = harness.board()
    assert board.get("y").item.status == "ready"
    assert [path for path in places(root) if path.endswith("y.md")] == ["Needs_Action/why.md"]


# The log is short, and folders are synced in its place.


def test_folders_are_synced_before_the_log_is_emptied(
    board: Board, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = board.start_session("ann").id
    for number in range(redo_log.ITEMS_MAX + 5):
        put(root, f"Needs_Action/{number}.md", "# one\n")
    synced = _record_syncs(monkeypatch)
    board.claim("0", session=session)  # makes the folder
    board.done("0", session=session)
    lengths = [len(_log(root))]
    for number in range(1, redo_log.ITEMS_MAX + 5):
        synced.clear()
        board.claim(str(number), session=session)
        lengths.append(len(_log(root)))
        assert bool(synced) == (lengths[-1] < lengths[-2])
        # Also the folder that this write did not touch.
        assert synced in (set(), {"Needs_Action", "In_Progress/ann", "Done"})
    assert max(lengths) == redo_log.ITEMS_MAX
    assert lengths.count(0) == 1


def test_of_one_item_the_log_has_a_bounded_number_of_states(board: Board, root: Path) -> None:
    session = board.start_session("ann").id
    put(root, "Needs_Action/x.md", "# X\n")
    board.claim("x", session=session)
    lengths = []
    for number in range(2 * redo_log.WRITES_MAX):
        board.progress("x", str(number), session=session)
        lengths.append(len(json.loads(_log(root).get("x", "[]"))))
    assert max(lengths) == redo_log.WRITES_MAX
    assert lengths.count(0) == 1


def test_a_long_text_is_not_logged_but_its_folders_are_synced(
    board: Board, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = board.start_session("ann").id
    put(root, "Needs_Action/first.md", "# One\n")
    put(root, "Needs_Action/x.md", "# X\n\n" + "word " * redo_log.TEXT_BYTES_MAX)
    board.claim("first", session=session)  # makes the folder
    synced = _record_syncs(monkeypatch)
    board.claim("x", session=session)
    assert {"Needs_Action", "In_Progress/ann"} <= synced
    assert _log(root) == {}


def test_a_new_index_syncs_the_folders_whose_log_is_lost(
    harness: Harness, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Worked(harness, root)
    forget_index(root)
    synced = _record_syncs(monkeypatch)
    board = harness.board()
    assert board.get("z").item.status == "in_progress"
    assert {"Needs_Action", "In_Progress/ann", "Done"} <= synced


def test_the_folders_are_synced_before_the_index_is_removed(
    harness: Harness, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Worked(harness, root)
    synced = _record_syncs(monkeypatch)
    removal.remove(str(root), 1.0, lambda: None)
    assert {"Needs_Action", "In_Progress/ann", "Done"} <= synced


def test_a_restore_does_not_bring_back_what_was_logged_before_the_backup(
    harness: Harness, root: Path, tmp_path: Path
) -> None:
    Worked(harness, root).await_tick()
    board = harness.board()
    board.backup(str(tmp_path / "backup"))
    logged = _log(root)
    board.restore(str(tmp_path / "backup"))
    assert not [item for item, earlier in _log(root).items() if earlier.startswith(logged[item][:-1])]
    assert_sound(board)


class Worked:
    """A vault in which three items were worked on, with every state of their files, the last one as acknowledged."""

    def __init__(self, harness: Harness, root: Path) -> None:
        self.harness, self.root = harness, root
        self.states: dict[str, list[State]] = {}
        board = harness.board()
        for item in ("first", "x", "y", "z"):
            put(root, f"Needs_Action/{item}.md", f"# {item}\n\nby hand\n")
        session = board.start_session("ann", id="ann").id
        board.claim("first", session=session)  # makes the folders
        board.done("first", session=session)
        for item in ("x", "y", "z"):
            self.states[item] = [self._state(item)]
        with _recorded(self._note):
            for item in ("x", "y", "z"):
                board.claim(item, session=session, request_id=f"claim-{item}")
                board.progress(item, f"a note on {item}", session=session)
            board.done("x", session=session, request_id="done-x")
            board.release("y", session=session)
        assert [len(states) for states in self.states.values()] == [6, 6, 4]
        self._told = self._all_told(board)
        board.close()
        self._keep = root.parent / "index"
        shutil.copytree(root / ".dibs", self._keep)
        assert set(_log(root)) >= set(self.states)

    def set_back(self, states: dict[str, State | None]) -> None:
        """The index as it was when the power was cut, and files as before; None: there is none."""
        for name in ("vault.db", "vault.db-wal", "vault.db-shm"):
            (self.root / ".dibs" / name).unlink(missing_ok=True)
            if (self._keep / name).exists():
                shutil.copy(self._keep / name, self.root / ".dibs" / name)
        for item, state in states.items():
            (self.root / self._state(item)[0]).unlink()
            if state is not None:
                put(self.root, state[0]).write_bytes(state[1])
        latest = max(os.stat(self.root / path).st_ctime_ns for path in places(self.root))
        # One more: the file may have the inode of the one that is in the log.
        _execute(self.root, "UPDATE vault_redo SET changed_ns = ?", latest + 1)
        self.await_tick()

    def assert_brought_back(self, kept: list[str] | None = None) -> None:
        board = self.harness.board()
        assert self._all_told(board) == self._told
        for item, states in self.states.items():
            assert self._state(item) == states[-1]
        assert [path for path in places(self.root) if path.startswith(CONFLICTS)] == (kept or [])
        assert board.claim("z", session="ann", request_id="claim-z").claim.token == 1
        assert board.done("x", session="ann", request_id="done-x").item.status == "done"
        assert self._all_told(board) == self._told
        assert_sound(board)
        board.close()

    def await_tick(self) -> None:
        """Until the file system would give another ctime than that of the last write."""
        latest = max(os.stat(self.root / path).st_ctime_ns for path in places(self.root))
        probe = self.root.parent / "probe"
        for _ in range(TICKS_MAX):
            probe.write_text("")
            if os.stat(probe).st_ctime_ns > latest + 1:
                return
        raise AssertionError("the clock of the file system stands still")

    def _note(self) -> None:
        for item, states in self.states.items():
            state = self._state(item)
            if state != states[-1]:
                states.append(state)

    def _state(self, item: str) -> State:
        (path,) = [
            path for path in places(self.root) if path.endswith(f"/{item}.md") and not path.startswith(CONFLICTS)
        ]
        return path, (self.root / path).read_bytes()

    def _all_told(self, board: Board) -> list[object]:
        details = [board.get(item) for item in self.states]
        return [
            [(one.item.status, one.item.token, one.claim and one.claim.token, one.runs) for one in details],
            [tuple(board.log(item)) for item in self.states],
        ]


class _recorded:
    """Calls `note` after every change that dibs makes to a file."""

    def __init__(self, note: Callable[[], None]) -> None:
        self._note = note
        self._patch = pytest.MonkeyPatch()

    def __enter__(self) -> None:
        for verb in ("move", "exchange"):
            self._patch.setattr(Disk, verb, self._then_note(getattr(Disk, verb)))

    def __exit__(self, *_: object) -> None:
        self._patch.undo()

    def _then_note(self, verb: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*words: Any) -> Any:
            answer = verb(*words)
            self._note()
            return answer

        return noted


def _record_syncs(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The folders that are synced from now on."""
    synced: set[str] = set()
    plain = Disk.sync

    def sync(self: Disk, folders: Any = ()) -> None:
        synced.update(folders := list(folders), self.touched)
        plain(self, folders)

    monkeypatch.setattr(Disk, "sync", sync)
    return synced


def _log(root: Path) -> dict[str, str]:
    """The earlier states of each item in the log."""
    return dict(_execute(root, "SELECT item, earlier FROM vault_redo"))


def _execute(root: Path, statement: str, *values: int) -> list[Any]:
    """With the SQLite that the store has: a second one in this process would drop its locks."""
    index = apsw.Connection(str(root / ".dibs/vault.db"))
    try:
        return index.execute(statement, values).fetchall()
    finally:
        index.close()
