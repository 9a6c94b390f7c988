"""A command looks at all files once, and what is done to them meanwhile is still not written over."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from dibs.board import Board
from dibs.config import DEFAULTS
from dibs.errors import DibsError, ItemAlreadyClaimed
from dibs.store.vault import scan as module
from dibs.store.vault.disk import Disk
from dibs.store.vault.store import VaultStore
from dibs.testing.invariants import assert_sound
from tests.vault.conftest import move, places, put


@pytest.fixture
def command(board: Board, root: Path) -> Iterator[Board]:
    """A board as a command opens it."""
    with Board(VaultStore(str(root), DEFAULTS, lean=True), actor="tester") as command:
        yield command


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is asked about all files, from now on."""
    asked: list[str] = []
    for name in ("scan", "scan_unlocked", "checksum_unlocked"):
        monkeypatch.setattr(Disk, name, _recorded(name, asked))
    return asked


def _recorded(name: str, asked: list[str]) -> object:
    real = getattr(Disk, name)

    def tell(disk: Disk) -> object:
        asked.append(name)
        return real(disk)

    return tell


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """One look counts for as long as a test takes."""
    monkeypatch.setattr(module, "SCAN_VALID_SECONDS", 1000.0)


def test_reading_and_writing_take_one_look(command: Board, root: Path, unhurried: None, looks: list[str]) -> None:
    put(root, "Needs_Action/x.md", "# X\n")
    session = command.start_session("ann").id
    looks.clear()
    command.store.cycle.policy.expire()  # type: ignore[attr-defined]
    command.get("x")
    command.claim("x", session=session)
    command.list()
    command.done("x", session=session)
    assert looks == ["checksum_unlocked"]


def test_a_look_is_good_for_a_moment_only(
    command: Board, root: Path, monkeypatch: pytest.MonkeyPatch, looks: list[str]
) -> None:
    monkeypatch.setattr(module, "SCAN_VALID_SECONDS", 0.0)
    command.list()
    put(root, "Needs_Action/x.md", "# X\n")
    assert [item.id for item in command.list()] == ["x"]


def test_a_file_that_was_taken_since_the_look_is_not_given(command: Board, root: Path, unhurried: None) -> None:
    put(root, "Needs_Action/x.md", "# X\n")
    put(root, "Needs_Action/y.md", "# Y\n")
    session = command.start_session("ann").id
    assert len(command.list()) == 2
    move(root, "Needs_Action/x.md", "In_Progress/local/x.md")
    with pytest.raises(ItemAlreadyClaimed, match="local"):
        command.claim("x", session=session)
    assert [grant.item.id for grant in command.next(session=session, n=2)] == ["y"]
    assert_sound(command)


def test_a_text_that_was_saved_since_the_look_is_kept_and_heeded(command: Board, root: Path, unhurried: None) -> None:
    put(root, "Needs_Action/x.md", "# X\n")
    session = command.start_session("ann").id
    assert command.get("x").item.title == "X"
    put(root, "Needs_Action/x.md", "# Another\n")
    assert command.claim("x", session=session).item.title == "Another"
    assert "# Another" in (root / "In_Progress/ann/x.md").read_text()


def test_a_claim_that_was_taken_away_since_the_look_is_refused(command: Board, root: Path, unhurried: None) -> None:
    put(root, "Needs_Action/x.md", "# X\n")
    session = command.start_session("ann").id
    command.claim("x", session=session)
    move(root, "In_Progress/ann/x.md", "Needs_Action/x.md")
    with pytest.raises(DibsError, match="force_released"):
        command.done("x", session=session)
    assert places(root) == ["Needs_Action/x.md"]


def test_who_waits_looks_each_time(command: Board, root: Path, unhurried: None) -> None:
    session = command.start_session("ann").id
    assert not command.next(session=session)
    with closing(command.store.watch()) as watch:
        put(root, "Needs_Action/x.md", "# X\n")
        assert watch.wait(10)
        assert [grant.item.id for grant in command.next(session=session)] == ["x"]
        put(root, "Needs_Action/y.md", "# Y\n")
        assert [grant.item.id for grant in command.next(session=session)] == ["y"]
