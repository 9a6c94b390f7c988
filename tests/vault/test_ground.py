"""The folder of a vault: where one may be made. And without Needs_Action: made again if its files are accounted for,
and else no reason to believe them gone."""

from __future__ import annotations

import contextlib
import os
import threading
from typing import TYPE_CHECKING

import pytest

from dibs.board import Board, connect, make
from dibs.config import DEFAULTS
from dibs.errors import DibsError, Invalid, StoreUnavailable, StoreUnusable
from dibs.store.vault import store
from dibs.store.vault.folders import INDEX
from dibs.store.vault.store import VaultStore
from tests.sqlite.test_file import files_open
from tests.vault.clones import git, make_clone, make_hub
from tests.vault.test_git_store import Pair

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path)


def _pull(clone: Path) -> None:
    git(clone, "pull", "--quiet")


def _found(clone: Path) -> Board:
    """By a process that comes now, and makes no vault of what is none."""
    return Board(VaultStore(str(clone), DEFAULTS, lean=True), DEFAULTS, actor="tester")


def test_a_pull_that_takes_the_last_file_away_leaves_a_vault(pair: Pair) -> None:
    held = pair.b.claim("y", session=pair.bob).claim.token
    pair.a.sync()
    pair.a.claim("x", session=pair.alice)
    _pull(pair.there)
    assert not (pair.there / "Needs_Action").exists()
    late = _found(pair.there)
    for board in (late, pair.b):
        assert board.get("x").item.status == "in_progress"
    pair.b.done("y", session=pair.bob, token=held)
    assert (pair.there / "Needs_Action").is_dir()
    late.add("three", id="z")
    late.sync()
    assert pair.sound()


def test_a_process_that_stays_goes_on_when_the_folder_is_back(pair: Pair) -> None:
    with contextlib.closing(pair.b.watch()) as watch:
        for item in ("x", "y"):
            pair.a.claim(item, session=pair.alice)
        _pull(pair.there)
        pair.b.add("three", id="z")
        for _ in range(100):
            if not watch.wait(0):
                break
        (pair.there / "Needs_Action" / "w.md").write_text("# by hand\n")
        assert watch.wait(5)
    assert pair.b.get("w").item.status == "ready"
    assert pair.b.get("x").item.status == "in_progress"


def test_files_that_were_removed_by_a_commit_are_believed_gone(pair: Pair) -> None:
    git(pair.here, "rm", "--quiet", "-r", "Needs_Action")
    git(pair.here, "commit", "--quiet", "-m", "all is well")
    git(pair.here, "push", "--quiet")
    _pull(pair.there)
    assert not (pair.there / "Needs_Action").exists()
    for clone in (pair.here, pair.there):
        board = _found(clone)
        board.sync()
        assert board.get("x").item.status == "cancelled"


def test_files_that_are_found_nowhere_are_waited_for(pair: Pair) -> None:
    os.rename(pair.here / "Needs_Action", pair.folder / "drive")
    late = _found(pair.here)
    for board in (pair.a, late):
        with pytest.raises(StoreUnavailable, match=r"x\.md, y\.md; .*mkdir"):
            board.claim("x", session=pair.alice)
        with pytest.raises(StoreUnavailable, match=r"x\.md, y\.md; .*mkdir"):
            board.sync()
        assert board.get("x").item.status == "ready"
    os.rename(pair.folder / "drive", pair.here / "Needs_Action")
    pair.a.claim("x", session=pair.alice)
    late.claim("y", session=pair.alice)


def test_who_makes_the_folder_says_that_the_files_were_taken_away(pair: Pair) -> None:
    os.rename(pair.here / "Needs_Action", pair.folder / "drive")
    (pair.here / "Needs_Action").mkdir()
    assert _found(pair.here).get("x").item.status == "cancelled"


def test_without_a_folder_and_without_an_index_it_is_no_vault(pair: Pair) -> None:
    """The whole drive is away: nothing is made in its place, by who was there or who comes."""
    os.rename(pair.here, pair.folder / "drive")
    pair.here.mkdir()
    with pytest.raises(StoreUnusable, match="no vault"):
        _found(pair.here)
    with pytest.raises(DibsError):
        pair.a.claim("x", session=pair.alice)
    assert not list(pair.here.iterdir())


def test_a_fresh_clone_of_an_empty_hub_is_made_a_vault(tmp_path: Path) -> None:
    make_hub(tmp_path)
    clone = make_clone(tmp_path, "here")
    assert make(f"vault:{clone}")
    assert not make(f"vault:{clone}")
    os.rmdir(clone / "Needs_Action")
    _found(clone).add("one", id="x")
    assert (clone / "Needs_Action" / "x.md").exists()


def test_no_vault_is_made_in_a_bare_repository_or_in_another_vault(tmp_path: Path) -> None:
    hub, vault = make_hub(tmp_path), tmp_path / "tasks"
    make(f"vault:{vault}")
    before = sorted(os.listdir(hub))
    for place in (hub, hub / "sub"):
        with pytest.raises(Invalid, match="bare git repository"):
            make(f"vault:{place}")
    assert sorted(os.listdir(hub)) == before
    for place in (vault / "Needs_Action", vault / "Needs_Action" / "sub", vault / "notes"):
        with pytest.raises(Invalid, match="lies in a vault"):
            make(f"vault:{place}")
        assert place.exists() == (place.name == "Needs_Action")
    assert not make(f"vault:{vault}")
    assert make(f"vault:{tmp_path / 'beside'}")


def test_a_vault_that_is_named_like_a_file_is_told_how_it_is_named(tmp_path: Path) -> None:
    make(f"vault:{tmp_path}")
    with pytest.raises(StoreUnusable, match=f"name it vault:{tmp_path}"):
        connect(str(tmp_path))
    (tmp_path / "other").mkdir()
    with pytest.raises(StoreUnusable, match="a board is a file"):
        connect(str(tmp_path / "other"))


def test_a_vault_that_is_refused_or_dropped_without_being_closed_leaves_no_file_open(tmp_path: Path) -> None:
    before = files_open()
    board = connect(f"vault:{tmp_path / 'vault'}", create=True)
    board.add("do it", id="x")
    watch = board.watch()
    assert files_open() > before
    del watch, board
    assert files_open() == before
    for name in os.listdir(tmp_path / "vault" / ".dibs"):
        if name.startswith("vault.db"):
            (tmp_path / "vault" / ".dibs" / name).write_text("no board " * 1000)
    with pytest.raises(StoreUnusable, match="no board"):
        connect(f"vault:{tmp_path / 'vault'}")
    assert files_open() == before


def test_a_journal_that_comes_and_goes_is_not_taken_for_a_link(tmp_path: Path) -> None:
    """Two processes that open a new index at once: SQLite makes and removes a journal beside it."""
    journal, ended = tmp_path / f"{INDEX}-journal", threading.Event()

    def come_and_go() -> None:
        while not ended.is_set():
            journal.touch()
            journal.unlink()

    thread = threading.Thread(target=come_and_go)
    thread.start()
    try:
        for _ in range(20_000):
            store._refuse_links(str(tmp_path))
    finally:
        ended.set()
        thread.join()
