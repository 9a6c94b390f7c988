"""Editors save all the time while dibs claims, notes and releases: every line is in the file, or in Conflicts."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest

from dibs.board import Board
from dibs.store.vault.disk import Disk
from dibs.testing import sizes
from dibs.testing.harness import Harness
from dibs.testing.invariants import assert_sound
from tests.conformance.conftest import folder
from tests.kit import vault
from tests.vault.conftest import put
from tests.vault.editing import WAYS
from tests.vault.settling import settled, texts

__all__ = ["folder"]

FILES = 3
TRIES_MAX = 5
SAVES = 60 if sizes.FACTOR == 1 else 334


@pytest.mark.parametrize("way", WAYS)
def test_no_line_is_lost(folder: Path, way: str) -> None:
    seed = sizes.seed()
    with vault.harness(folder) as harness:
        lines = race(harness, way, seed)
        board, root = harness.board(), folder / "vault"
        settled(board)
        assert not (lost := missing(root, lines)), f"seed {seed}: {lost[:3]}"
        for name in lines:
            inside = [path for path in texts(root, f"{name}.md") if not path.startswith("Conflicts/")]
            assert len(inside) == 1, f"seed {seed}: {name} lies at {inside}"
        assert_sound(board, f"seed {seed}:")
        assert_rebuilt_the_same(board, root, folder)


@pytest.mark.parametrize("in_place", [True, False], ids=["written in place", "renamed over"])
@pytest.mark.parametrize("is_logged", [True, False], ids=["logged", "synced"])
def test_a_save_right_after_ours_is_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch, in_place: bool, is_logged: bool
) -> None:
    with vault.harness(folder) as harness:
        board, root = harness.board(), folder / "vault"
        put(root, "Needs_Action/first.md", "# Another\n")
        put(root, "Needs_Action/x.md", "# Do it\n\nas before\n")
        session = board.start_session("coder").id
        move = Disk.move
        if is_logged:
            board.claim("first", session=session)  # makes the folder; nothing has to be synced for the next claim

        def saved_after(disk: Disk, path: str, to: str) -> None:
            move(disk, path, to)
            file = root / "In_Progress/coder/x.md"
            draft = file if in_place else file.with_name(".x.md.tmp")
            draft.write_text(file.read_text().replace("as before", "another way, which is longer"))
            draft.rename(file)
            monkeypatch.undo()

        monkeypatch.setattr(Disk, "move", saved_after)
        board.claim("x", session=session)
        assert board.get("x").item.body == "another way, which is longer\n"


def test_a_store_that_writes_over_saves_is_found_out(folder: Path) -> None:
    seed = sizes.seed()
    for number in range(TRIES_MAX):
        (place := folder / str(number)).mkdir()
        with vault.harness(place) as harness:
            harness.recipe()["call"] = "tests.vault.broken:overwriting"
            lines = race(harness, "held open", seed + number)
            settled(harness.board())
            if missing(place / "vault", lines):
                return
    pytest.fail(f"seed {seed}: nothing is missing")


def missing(root: Path, lines: dict[str, list[str]]) -> list[str]:
    """Lines that were saved and are nowhere."""
    found = {name: texts(root, f"{name}*.md") for name in lines}
    print({name: f"{len(saved)} lines, {len(found[name]) - 1} texts in Conflicts" for name, saved in lines.items()})
    everything = {name: "\n".join(of.values()) for name, of in found.items()}
    return [f"{name}: {line}" for name, saved in lines.items() for line in saved if line not in everything[name]]


def race(harness: Harness, way: str, seed: int) -> dict[str, list[str]]:
    board, root = harness.board(), Path(harness.folder) / "vault"
    names = [f"note-{number}" for number in range(FILES)]
    for name in names:
        put(root, f"Needs_Action/{name}.md", f"# {name}\n\nwritten by hand\n")
    board.list()
    stop = Path(harness.folder) / "stop"
    workers, editors = harness.actors(2), harness.actors(FILES)
    for number, worker in enumerate(workers):
        agent = ("cloud", "local")[number]
        worker.play("tests.vault.racing:take_and_give_back", agent=agent, stop=str(stop), seed=seed + number)
    for number, (name, editor) in enumerate(zip(names, editors, strict=True)):
        asked = {"root": str(root), "name": f"{name}.md", "way": way, "saves": SAVES // FILES, "who": f"p{number}"}
        editor.play("tests.vault.editing:edit", seed=seed + 10 + number, **asked)
    told = [editor.result() for editor in editors]
    stop.touch()
    did = Counter[str]()
    for worker in workers:
        did.update(worker.result())
    figures = {name: sum(one[name] for one in told) for name in ("saves", "misses", "overwritten")}
    print(f"seed {seed}: {way}: {figures}, {dict(did)}")
    assert did["released"] > 0, f"seed {seed}: nobody raced the editors"
    return {name: one["lines"] for name, one in zip(names, told, strict=True)}


def assert_rebuilt_the_same(board: Board, root: Path, folder: Path) -> None:
    """The files alone say what the index says: so it can be taken away."""
    copy = folder / "copy"
    copy.mkdir()
    shutil.copytree(root, copy / "vault", ignore=shutil.ignore_patterns(".dibs"))
    with vault.harness(copy) as harness:
        again = harness.board()
        assert_sound(again, "without its index")
        for item in board.list():
            other = again.get(item.id).item
            assert (other.status, other.token, other.body) == (item.status, item.token, item.body), item.id
