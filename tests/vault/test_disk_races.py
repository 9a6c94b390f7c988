"""Real processes at the same files: a file has one owner whoever moves it, and no save of a person is lost."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from dibs.store.vault import late_saves
from dibs.store.vault.disk import Disk
from dibs.testing.sizes import times
from tests.conformance.conftest import folder
from tests.kit.waiting import PATIENCE_SECONDS

__all__ = ["folder"]

X = "Needs_Action/x.md"
#: So many are fought for, so many in a go, before all begin anew.
FILES = 3000
FILES_A_GO = 30
#: A mistake that is not found in one race is found in one of these.
GOES_MAX = 10
SAVES = 300
#: So many exchanges come with each save.
EXCHANGES = 4


def soon() -> str:
    """A moment at which all begin: when all have been told, as near as that can be known."""
    return str(time.monotonic_ns() + 1_000_000)


class Player:
    """A process that plays a scene, round by round."""

    def __init__(self, *scene: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.vault.scenes", *scene],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.answer() == "ready"

    def tell(self, line: str = "") -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def answer(self) -> str:
        assert self.process.stdout is not None
        answer = self.process.stdout.readline()
        assert answer, "a player is gone"
        return answer.strip()


@contextlib.contextmanager
def playing(*scenes: tuple[str, ...]) -> Iterator[list[Player]]:
    players: list[Player] = []
    try:
        for scene in scenes:
            players.append(Player(*scene))
        yield players
    finally:
        for player in players:
            player.process.communicate(timeout=PATIENCE_SECONDS)


@pytest.fixture
def root(folder: Path) -> Path:
    """In memory if the machine has such a place: who wins is decided by the kernel, not by the disk."""
    (folder / "Needs_Action").mkdir()
    return folder


def races(root: Path, ways: tuple[str, ...], files: int) -> tuple[Counter[str], list[str]]:
    """Who won how many files, by way; and the files that do not have one owner who knows it."""
    names = [f"{way}-{number}" for number, way in enumerate(ways)]
    for number in range(files):
        (root / f"Needs_Action/{number}.md").write_bytes(b"%d" % number)
    won: dict[str, set[int]] = {name: set() for name in names}
    with playing(*(("move", str(root), name, way) for name, way in zip(names, ways, strict=True))) as players:
        for first in range(0, files, FILES_A_GO):
            moment = soon()
            # Who is told first differs from go to go, or the same one would win them all.
            turn = first // FILES_A_GO % len(players)
            for player in players[turn:] + players[:turn]:
                player.tell(f"{moment} {first} {first + FILES_A_GO}")
            for name, player in zip(names, players, strict=True):
                won[name] |= set(map(int, player.answer().split()))
    places: dict[int, list[str]] = {number: [] for number in range(files)}
    for path in root.rglob("*.md"):
        # Also under a name that it has on its way.
        places[int(path.stem.rpartition("-")[2])].append(str(path.relative_to(root)))
    wrong = []
    for number, there in places.items():
        owners = [name for name in names if number in won[name]]
        if len(owners) != 1 or there != [f"In_Progress/{owners[0]}/{number}.md"]:
            wrong.append(f"{number}: {owners} think that it is theirs; it is at {there}")
    return Counter({way: sum(len(won[name]) for name in names if name.startswith(way)) for way in ways}), wrong


@pytest.mark.parametrize(
    "ways",
    [("native", "rename") * 3, ("in-steps", "rename") * 3, ("native", "in-steps") * 3],
    ids=["native", "in-steps", "mixed"],
)
def test_of_many_movers_one_owns_the_file(root: Path, ways: tuple[str, ...]) -> None:
    won, wrong = races(root, ways, times(FILES))
    print(dict(won))
    assert not wrong, f"{len(wrong)} of {times(FILES)}:\n" + "\n".join(wrong[:10])
    assert all(won[way] for way in ways), "one of the ways never won: it was no race"


def test_link_then_unlink_would_be_found_out(root: Path) -> None:
    wrong: list[str] = []
    for go in range(GOES_MAX):
        (root / f"{go}/Needs_Action").mkdir(parents=True)
        wrong += races(root / str(go), ("link-then-unlink", "rename") * 3, FILES)[1]
        if wrong:
            break
    print(f"{len(wrong)} of {FILES * (go + 1)} files with more than one owner")
    assert wrong, "this race would not show two owners"


@pytest.mark.parametrize("way", ["native", "in-steps"])
def test_of_two_files_of_one_name_one_gets_the_place_and_both_remain(root: Path, way: str) -> None:
    sources = ["Needs_Action", "Parked", "Blocked", "Approved"]
    for source in sources:
        (root / source).mkdir(exist_ok=True)
    with playing(*(("finish", str(root), source, way) for source in sources)) as players:
        for number in range(times(100)):
            for source in sources:
                (root / source / "x.md").write_bytes(source.encode())
            moment = soon()
            for player in players:
                player.tell(moment)
            answers = [player.answer() for player in players]
            assert Counter(answers) == {"moved": 1, "exists": 3}, f"round {number}: {answers}"
            found, refused = Disk(str(root)).scan()
            assert refused == {}
            assert {(root / path).read_text() for path in found} == set(sources), f"round {number}: a text is lost"
            winner = sources[answers.index("moved")]
            assert (root / "Done/x.md").read_text() == winner
            for path in found:
                (root / path).unlink()


#: Without a swap in one step a save by rename within a few microseconds is overwritten, which is said so.
SAFE_WAYS = {"native": ("in-place", "rename", "early"), "in-steps": ("in-place", "early")}


@pytest.mark.parametrize("way", SAFE_WAYS)
def test_no_save_is_lost_in_an_exchange(root: Path, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(late_saves, "KEEP_SECONDS", 1.0)
    path = root / X
    path.write_bytes(b"save 0\n")
    disk = Disk(str(root), native=way == "native")
    met: Counter[str] = Counter()
    with playing(("exchange", str(root), way), ("edit", str(root))) as (exchanger, editor):
        for number in range(1, times(SAVES) + 1):
            how = SAFE_WAYS[way][number % len(SAFE_WAYS[way])]
            if how == "early":
                editor.tell(f"{number} open")
                assert editor.answer() == "opened"
            exchanger.tell(str(EXCHANGES))
            editor.tell(f"{number} {how}")
            assert editor.answer() == "saved"
            done, raced = map(int, exchanger.answer().split())
            late = disk.late_saves()
            text = b"save %d " % number + b"x" * 3000
            at_its_place = path.read_bytes().startswith(text + b"\n")
            came_late = [now for _, _, now in late if now == text + b"\n"]
            assert at_its_place or came_late, f"save {number} ({how}) is lost: {late}, {path.read_bytes()[:30]!r}"
            for where, _, now in late:
                assert where == X
                # One that was overtaken by a later save while it was put back may be told, never a torn one.
                assert now[:5] + now[-2:] == b"save x\n", f"save {number}: {now[:30]!r}"
                disk.settle_late_save(where, now)
            assert disk.late_saves() == []
            met.update({"exchanged": done, "raced": raced, f"late {how}": len(came_late)})
            assert [one.name for one in path.parent.iterdir()] == ["x.md"]
    print(dict(met))
    assert met["raced"] > 0, "no save came between"
    assert met["late early"] > 0, "no save came late"
    assert met["exchanged"] > times(SAVES)


def test_a_scan_during_moves_forward_misses_no_file(root: Path) -> None:
    names = [f"{number}.md" for number in range(200)]
    (root / "Done").mkdir()
    for name in names:
        (root / "Needs_Action" / name).write_bytes(name.encode())
    disk = Disk(str(root))
    child = os.fork()
    if child == 0:
        try:
            for name in names:
                os.rename(root / "Needs_Action" / name, root / "Done" / name)
        finally:
            os._exit(0)
    ended = False
    while not ended:
        ended = os.waitpid(child, os.WNOHANG) != (0, 0)
        found, _ = disk.scan()
        assert {path.rpartition("/")[2] for path in found} == set(names)
    assert set(disk.scan()[0]) == {f"Done/{name}" for name in names}
