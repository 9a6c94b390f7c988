"""What a power cut or a kill leaves in repositories: a damaged clone is named and made whole from its hub, with what
was never pushed; and locks that nobody holds any more stop nobody."""

from __future__ import annotations

import os
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from dibs.errors import DibsError, StoreUnavailable
from dibs.maintenance.doctor import examine
from dibs.testing.invariants import assert_sound
from tests.kit.soak import in_a_soak, nightly
from tests.vault.clones import files, git, move, on_hub, put
from tests.vault.test_git_store import Pair

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    pair = Pair(tmp_path)
    yield pair
    pair.a.close()
    pair.b.close()


def loose(clone: Path) -> list[Path]:
    return [path for path in (clone / ".git/objects").glob("??/*") if len(path.name) == 38]


def emptied(paths: list[Path]) -> None:
    for path in paths:
        path.chmod(0o600)
        path.write_bytes(b"")


def own_ref(clone: Path, name: str) -> Path:
    (path,) = (clone / ".git/refs/dibs").glob(f"*/{name}")
    return path


def all_objects(clone: Path) -> None:
    emptied(loose(clone))


def newest_objects(clone: Path) -> None:
    """The last commit with its trees. Not the files of the latest time: several may be of one tick of the clock, and a
    sync that has nothing to send reads no blob."""
    names = git(clone, "rev-parse", "HEAD", "HEAD^{tree}", "HEAD:Needs_Action").split()
    emptied([clone / ".git/objects" / name[:2] / name[2:] for name in names])


def garbled_object(clone: Path) -> None:
    for path in loose(clone)[:2]:
        path.chmod(0o600)
        path.write_bytes(path.read_bytes()[:-7] + b"garbage")


def missing_objects(clone: Path) -> None:
    for path in loose(clone)[::2]:
        path.unlink()


def packed_and_cut(clone: Path) -> None:
    git(clone, "repack", "-adq")
    for path in (clone / ".git/objects/pack").glob("*.pack"):
        path.chmod(0o600)
        os.truncate(path, path.stat().st_size // 2)


def branch(clone: Path) -> None:
    (clone / ".git/refs/heads/main").write_bytes(b"")


def base(clone: Path) -> None:
    own_ref(clone, "base").write_bytes(b"")


def hub(clone: Path) -> None:
    own_ref(clone, "hub").write_bytes(b"\0" * 41)


def index(clone: Path) -> None:
    (clone / ".git/index").write_bytes(b"")


def everything(clone: Path) -> None:
    for damage in (all_objects, branch, base, hub, index):
        damage(clone)


DAMAGES = [newest_objects, everything]
AT_NIGHT = [packed_and_cut, branch]
MORE_DAMAGES = [all_objects, garbled_object, missing_objects, base, hub, index]


@pytest.mark.parametrize(
    "damage", [*DAMAGES, *nightly(*AT_NIGHT), *in_a_soak(*MORE_DAMAGES)], ids=lambda damage: damage.__name__
)
def test_a_damaged_clone_is_named_and_made_whole(pair: Pair, damage: Callable[[Path], None]) -> None:
    """With a text, a move and a claim that were not pushed yet, and news on the hub."""
    pair.b.add("three", id="z")
    pair.b.sync()
    pair.a.sync()
    pair.b.claim("z", session=pair.bob)
    put(pair.here, "Notes/mine.md", "never pushed\n")
    if damage is not everything:
        move(pair.here, "Needs_Action/x.md", "In_Progress/local/x.md")
        pair.a.get("x")
    damage(pair.here)
    pair.a.close()
    pair.a = pair.open(pair.here)
    assert any("damaged" in one.what for one in examine(pair.a)), [one.what for one in examine(pair.a)]
    assert pair.a.sync().repaired
    assert not [one.what for one in examine(pair.a)]
    git(pair.here, "fsck", "--no-dangling")
    assert not git(pair.here, "status", "--porcelain").strip()
    assert files(pair.here)["Notes/mine.md"] == on_hub(pair.folder)["Notes/mine.md"] == "never pushed\n"
    pair.b.sync()
    pair.a.sync()
    assert files(pair.here) == files(pair.there)
    for board in (pair.a, pair.b):
        claim = board.get("x").claim
        assert (claim is not None and claim.agent == "local") == (damage is not everything)
        assert_sound(board)
    pair.a.claim("y", session=pair.alice)
    pair.b.done("z", session=pair.bob)


def test_a_claim_in_a_damaged_clone_says_what_to_do(pair: Pair) -> None:
    all_objects(pair.here)
    with pytest.raises(StoreUnavailable, match="dibs vault sync"):
        pair.a.claim("x", session=pair.alice)
    pair.a.sync()
    assert pair.a.claim("x", session=pair.alice).claim.token == 1


def test_a_repair_without_the_remote_changes_nothing(pair: Pair) -> None:
    newest_objects(pair.here)
    pair.away()
    with pytest.raises(StoreUnavailable):
        pair.a.sync()
    assert not (pair.here / ".git/dibs-damaged").exists()
    pair.back()
    assert pair.a.sync().repaired


def test_commits_that_were_never_pushed_are_kept_if_they_can_be_read(pair: Pair) -> None:
    put(pair.here, "Notes/mine.md", "mine\n")
    git(pair.here, "add", "-A")
    git(pair.here, "commit", "-qm", "my own words")
    commit = git(pair.here, "rev-parse", "HEAD").strip()
    blob = git(pair.here, "rev-parse", "HEAD:Notes/mine.md").strip()
    emptied([pair.here / ".git/objects" / blob[:2] / blob[2:]])
    index(pair.here)
    assert pair.a.sync().repaired
    assert "my own words" in git(pair.folder / "hub.git", "log", "--format=%s", "main")
    git(pair.folder / "hub.git", "merge-base", "--is-ancestor", commit, "main")


# Locks


def every_lock(clone: Path) -> dict[str, str]:
    return {
        "base": f"{own_ref(clone, 'base')}.lock",
        "hub": f"{own_ref(clone, 'hub')}.lock",
        "packed-refs": f"{clone}/.git/packed-refs.lock",
        "branch": f"{clone}/.git/refs/heads/main.lock",
        "HEAD": f"{clone}/.git/HEAD.lock",
        "our index": f"{clone}/.git/dibs-index.lock",
    }


def left_behind(path: str, seconds: float = 60.0) -> None:
    with open(path, "w", encoding="utf-8"):
        pass
    at = time.time() - seconds
    os.utime(path, (at, at))


def test_locks_of_killed_gits_stop_nobody(pair: Pair) -> None:
    """Those on refs of our own as soon as they are found, the others once they are old enough."""
    locks = every_lock(pair.here)
    pair.b.edit("y", body="news")
    pair.b.sync()
    for name, lock in locks.items():
        left_behind(lock, seconds=0 if name in ("base", "hub") else 60)
    pair.a.claim("x", session=pair.alice)
    pair.a.sync()
    assert not [lock for lock in locks.values() if os.path.exists(lock)]
    assert git(pair.here, "rev-parse", "HEAD") == git(pair.folder / "hub.git", "rev-parse", "main")
    git(pair.here, "commit", "-q", "--allow-empty", "-m", "a person's")


@pytest.fixture
def living(pair: Pair) -> Iterator[Callable[[Path], None]]:
    """A git that lives and holds the lock of the branch."""
    processes: list[subprocess.Popen[str]] = []

    def live(repository: Path) -> None:
        git_process = subprocess.Popen(
            ["git", "-C", str(repository), "update-ref", "--stdin"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        processes.append(git_process)
        assert git_process.stdin is not None
        assert git_process.stdout is not None
        commit = git(repository, "rev-parse", "refs/heads/main").strip()
        git_process.stdin.write(f"start\nupdate refs/heads/main {commit}\nprepare\n")
        git_process.stdin.flush()
        while "prepare: ok" not in git_process.stdout.readline():
            pass

    yield live
    for process in processes:
        process.kill()
        process.communicate()


def test_a_lock_of_a_git_that_lives_is_left_alone(
    pair: Pair, living: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    living(pair.here)
    lock = every_lock(pair.here)["branch"]
    monkeypatch.setattr("dibs.store.vault.git.user_git.OLD_SECONDS", 0.0)
    pair.a.claim("x", session=pair.alice)
    assert os.path.exists(lock)


def test_locks_of_gits_that_were_killed_on_the_hub_stop_no_push(pair: Pair) -> None:
    locks = [pair.folder / "hub.git" / f"{name}.lock" for name in ("refs/heads/main", "packed-refs", "HEAD")]
    for lock in locks:
        left_behind(str(lock))
    pair.a.claim("x", session=pair.alice)
    assert not [lock for lock in locks if lock.exists()]


def test_a_lock_of_a_git_that_lives_on_the_hub_is_left_alone(pair: Pair, living: Callable[[Path], None]) -> None:
    hub_path = pair.folder / "hub.git"
    git(hub_path, "config", "dibs.lockSeconds", "0")
    living(hub_path)
    with pytest.raises(DibsError):
        pair.a.claim("x", session=pair.alice)
    assert (hub_path / "refs/heads/main.lock").exists()
