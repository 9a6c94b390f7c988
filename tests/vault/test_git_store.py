"""A vault that is a clone, as a board: what is acknowledged the hub has, and without the hub nothing is given out."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from dibs.board import Board
from dibs.config import DEFAULTS
from dibs.errors import (
    ClaimExpired,
    DibsError,
    Invalid,
    ItemAlreadyClaimed,
    ItemNotClaimed,
    NotClaimOwner,
    StoreUnavailable,
)
from dibs.maintenance.doctor import examine
from dibs.rules.sessions import WAS_SILENT
from dibs.store.sqlite.engine import Engine
from dibs.store.vault import reconcile
from dibs.store.vault.git import liveness, user_git
from dibs.store.vault.git.repository import Repository
from dibs.store.vault.store import VaultStore
from dibs.store.vault.write_cycle import WriteCycle
from dibs.system.git import Git, GitFailed
from tests.vault.clones import files, git, make_clone, make_hub, on_hub, put

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Pair:
    """Two boards on two clones, each with a session, and two items."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        make_hub(folder)
        self.here, self.there = make_clone(folder, "here"), make_clone(folder, "there")
        self.a, self.b = self.open(self.here), self.open(self.there)
        self.a.add("one", id="x")
        self.a.add("two", id="y")
        self.a.sync()
        self.b.sync()
        self.alice, self.bob = self.a.start_session("alice").id, self.b.start_session("bob").id

    def open(self, clone: Path) -> Board:
        return Board(VaultStore(str(clone), DEFAULTS, create=True), DEFAULTS, actor="tester")

    def sound(self) -> bool:
        return not [finding for board in (self.a, self.b) for finding in examine(board)]

    def forget(self) -> None:
        """Take the index away, as a person may."""
        self.a.close()
        for name in os.listdir(self.here / ".dibs"):
            if name.startswith("vault.db"):
                os.unlink(self.here / ".dibs" / name)
        self.a = self.open(self.here)

    def away(self) -> None:
        os.rename(self.folder / "hub.git", self.folder / "away.git")

    def back(self) -> None:
        os.rename(self.folder / "away.git", self.folder / "hub.git")


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path)


def test_a_claim_is_on_the_hub_when_it_is_acknowledged(pair: Pair) -> None:
    token = pair.a.claim("x", session=pair.alice).claim.token
    assert f"**Token**: {token}\n" in on_hub(pair.folder)["In_Progress/alice/x.md"]


def test_who_is_later_is_told_who_has_it(pair: Pair) -> None:
    pair.a.claim("x", session=pair.alice)
    with pytest.raises(ItemAlreadyClaimed) as refused:
        pair.b.claim("x", session=pair.bob)
    assert refused.value.facts["holder"]["agent"] == "alice"
    assert "In_Progress/bob/x.md" not in files(pair.there)
    assert pair.sound()


def test_next_gives_another_one_to_who_was_later(pair: Pair) -> None:
    (first,) = pair.a.next(session=pair.alice)
    (second,) = pair.b.next(session=pair.bob)
    assert {first.item.id, second.item.id} == {"x", "y"}
    assert pair.b.next(session=pair.bob) == ()


def test_many_claims_are_one_push(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    pushes = []
    plain = Repository.push

    def push(self: Repository, commit: str, base: str | None) -> None:
        pushes.append(commit)
        plain(self, commit, base)

    monkeypatch.setattr(Repository, "push", push)
    assert len(pair.a.next(session=pair.alice, n=2)) == 2
    assert len(pushes) == 1


def test_a_run_ends_everywhere(pair: Pair) -> None:
    pair.a.claim("x", session=pair.alice)
    pair.a.progress("x", session=pair.alice, note="half")
    pair.a.done("x", session=pair.alice, note="all of it")
    assert "Done/x.md" in on_hub(pair.folder)
    assert pair.b.sync().news == ("x",)
    shown = pair.b.get("x")
    assert shown.item.status == "done"
    assert [run.outcome for run in shown.runs] == ["done"]
    assert pair.sound()


@pytest.mark.parametrize("looking", [True, False])
def test_what_was_said_to_a_draft_is_read_by_who_takes_it_elsewhere(pair: Pair, looking: bool) -> None:
    pair.a.claim("x", session=pair.alice)
    pair.a.submit("x", session=pair.alice, draft="Dear Bob")
    if looking:
        pair.b.sync()
    pair.a.send_back("x", comment="kinder please", actor="ann")
    pair.b.sync()
    previous = pair.b.claim("x", session=pair.bob).previous
    assert previous is not None
    assert (previous.run.draft, previous.comment) == ("Dear Bob", "kinder please")
    assert pair.sound()


def test_while_the_hub_is_away_nothing_is_given_out_and_reading_goes_on(pair: Pair) -> None:
    before = files(pair.here)
    pair.away()
    with pytest.raises(StoreUnavailable, match="cannot be reached") as refused:
        pair.a.claim("x", session=pair.alice)
    assert refused.value.code == "STORE_UNAVAILABLE"
    assert refused.value.exit_code == 75
    assert files(pair.here) == before, "its files were put back"
    assert {item.id for item in pair.a.list()} == {"x", "y"}
    assert pair.a.get("x").item.status == "ready"
    pair.a.add("three", id="z")
    pair.back()
    assert pair.a.claim("x", session=pair.alice).claim.token == 1
    assert "Needs_Action/z.md" in on_hub(pair.folder)
    assert pair.sound()


def test_an_end_that_could_not_be_told_leaves_the_claim(pair: Pair) -> None:
    pair.a.claim("x", session=pair.alice)
    pair.away()
    with pytest.raises(StoreUnavailable):
        pair.a.done("x", session=pair.alice)
    assert pair.a.heartbeat(session=pair.alice).renewed
    pair.back()
    assert pair.a.done("x", session=pair.alice).item.status == "done"


def test_what_was_taken_away_elsewhere_cannot_be_ended_here(pair: Pair) -> None:
    pair.a.claim("x", session=pair.alice)
    pair.b.sync()
    pair.b.force_release("x", reason="needed now")
    pair.b.claim("x", session=pair.bob)
    with pytest.raises((ItemNotClaimed, NotClaimOwner, ClaimExpired)):
        pair.a.done("x", session=pair.alice)
    assert pair.b.get("x").item.status == "in_progress"
    assert pair.b.done("x", session=pair.bob).item.token == 2
    assert pair.sound()


def test_people_and_agents_at_once_lose_nothing(pair: Pair) -> None:
    """An edit that was not pushed is in the file that somebody claimed elsewhere meanwhile."""
    text = files(pair.there)["Needs_Action/x.md"]
    pair.a.claim("x", session=pair.alice)
    put(pair.there, "Needs_Action/x.md", text + "\nPlease hurry.\n")
    told = pair.b.sync()
    assert told.conflicts == ()
    assert "Please hurry." in files(pair.there)["In_Progress/alice/x.md"]
    pair.a.sync()
    assert "Please hurry." in (pair.a.get("x").item.body or "")
    pair.a.done("x", session=pair.alice)
    assert "Please hurry." in on_hub(pair.folder)["Done/x.md"]
    assert pair.sound()


def test_a_session_that_holds_something_shows_that_it_lives(pair: Pair) -> None:
    pair.a.claim("x", session=pair.alice)
    pair.a.sync()
    path = f".dibs-sessions/{pair.alice}.json"
    assert '"counter":' in on_hub(pair.folder)[path]
    pair.a.done("x", session=pair.alice)
    pair.a.sync()
    assert path not in on_hub(pair.folder)


def engine(board: Board) -> Engine:
    assert isinstance(board.store, VaultStore)
    return board.store.engine


def clock_of(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr("dibs.store.vault.git.liveness.time.clock_gettime", lambda _: now[0])
    return now


def test_a_claim_elsewhere_ends_by_silence_and_not_by_the_clock(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    now = clock_of(monkeypatch)
    pair.a.claim("x", session=pair.alice, ttl_seconds=60)
    pair.a.sync()
    pair.b.sync(expire=True)
    monkeypatch.setattr(engine(pair.b), "clock", lambda: 10**12 * 2)
    assert pair.b.sweep().expired == ()
    ended: tuple[str, ...] = ()
    for _ in range(5):
        now[0] += 30
        assert not ended
        ended = pair.b.sync(expire=True).expired
    assert ended == ("x",)
    assert "Needs_Action/x.md" in on_hub(pair.folder)
    with pytest.raises(DibsError, match="x"):
        pair.a.done("x", session=pair.alice)
    assert pair.a.get("x").item.status == "ready"


def test_a_sign_of_life_and_a_hub_that_is_away_begin_the_wait_anew(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    now = clock_of(monkeypatch)
    pair.a.claim("x", session=pair.alice, ttl_seconds=60)
    wall = pair.a.store.engine.clock()  # type: ignore[attr-defined]
    for number in range(6):
        monkeypatch.setattr(engine(pair.a), "clock", lambda at=wall + 10_000 * (number + 1): at)
        pair.a.heartbeat(session=pair.alice)
        pair.a.sync()
        now[0] += 50
        assert pair.b.sync(expire=True).expired == ()
    pair.away()
    for _ in range(6):
        now[0] += 50
        with pytest.raises(StoreUnavailable):
            pair.b.sync(expire=True)
    pair.back()
    now[0] += 10_000  # it slept
    assert pair.b.sync(expire=True).expired == (), "of that time no more counts than a gap"
    assert pair.b.get("x").item.status == "in_progress"


def test_a_claim_here_expires_by_the_clock_as_ever(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    pair.a.claim("x", session=pair.alice, ttl_seconds=60)
    wall = pair.a.store.engine.clock()  # type: ignore[attr-defined]
    monkeypatch.setattr(engine(pair.a), "clock", lambda: wall + 61_000)
    assert pair.a.sweep().expired == ("x",)
    assert "Needs_Action/x.md" in on_hub(pair.folder)


def test_a_new_index_knows_the_claims_of_all(pair: Pair) -> None:
    pair.a.claim("x", session=pair.alice)
    pair.b.claim("y", session=pair.bob)
    pair.a.sync()
    pair.forget()
    pair.a.sync()
    held = {one.item.id: one.claim.agent for one in pair.a.who() if one.claim is not None}
    assert held == {"x": "alice", "y": "bob"}
    assert pair.sound()


def test_a_clone_ends_its_own_silent_sessions_and_no_other_ones(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a session of another clone calls is heard there; its next claim has to be one of a live session."""
    pair.b.claim("y", session=pair.bob)
    pair.a.sync()
    pair.b.release("y", session=pair.bob)
    pair.a.sync()
    later = pair.a.store.engine.clock() + 2 * 86_400_000  # type: ignore[attr-defined]
    monkeypatch.setattr(engine(pair.a), "clock", lambda: later)
    pair.a.sweep()
    assert pair.a.find_session(pair.alice).end_reason == WAS_SILENT
    assert pair.a.find_session(pair.bob).ended_at is None
    pair.b.claim("y", session=pair.bob)
    pair.a.sync()
    held = [(one.item.id, one.claim.session) for one in pair.a.who() if one.claim is not None]
    assert held == [("y", pair.bob)]


def test_a_session_that_speaks_here_is_here_whatever_a_new_index_took_it_for(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = clock_of(monkeypatch)
    pair.a.claim("x", session=pair.alice, ttl_seconds=60)
    pair.b.claim("y", session=pair.bob, ttl_seconds=60)
    pair.a.sync()
    shown = on_hub(pair.folder)[f".dibs-sessions/{pair.alice}.json"]
    pair.forget()
    pair.a.sync(expire=True)
    wall = pair.a.store.engine.clock()  # type: ignore[attr-defined]
    ended: list[str] = []
    for number in range(1, 7):
        monkeypatch.setattr(engine(pair.a), "clock", lambda at=wall + 30_000 * number: at)
        assert [one.item for one in pair.a.heartbeat(session=pair.alice).renewed] == ["x"]
        now[0] += 30
        ended += pair.a.sync(expire=True).expired
    assert ended == ["y"], "bob's machine has no loop"
    assert on_hub(pair.folder)[f".dibs-sessions/{pair.alice}.json"] != shown
    monkeypatch.setattr(engine(pair.a), "clock", lambda: wall + 30_000 * 6 + 61_000)
    assert pair.a.sweep().expired == ("x",), "and like any claim here it expires by the clock"


def test_a_clone_that_is_switched_off_is_a_vault_like_any_other(pair: Pair) -> None:
    git(pair.here, "config", "dibs.sync", "false")
    board = pair.open(pair.here)
    pair.away()
    board.claim("x", session=pair.alice)
    with pytest.raises(Invalid, match="git remote"):
        board.sync()


def test_a_branch_that_comes_to_follow_a_remote_is_noticed_by_who_was_there(pair: Pair) -> None:
    clone = make_clone(pair.folder, "new")
    git(clone, "pull", "--quiet")
    git(clone, "config", "--unset", "branch.main.remote")
    board = pair.open(clone)
    carol = board.start_session("carol").id
    board.claim("y", session=carol)
    with pytest.raises(Invalid, match="git remote"):
        board.sync()
    board.release("y", session=carol)
    git(clone, "config", "branch.main.remote", "origin")
    pair.b.claim("x", session=pair.bob)
    with pytest.raises(ItemAlreadyClaimed):
        board.claim("x", session=carol)


def test_a_branch_that_follows_nothing_gives_nothing_out_where_another_one_did(pair: Pair) -> None:
    pair.a.claim("y", session=pair.alice)
    git(pair.here, "checkout", "--quiet", "-b", "feature")
    late = pair.open(pair.here)
    for board, words in (
        (late, "feature.*check out main again.*push -u.*dibs.sync false"),
        (pair.a, "no longer on the branch main"),
    ):
        with pytest.raises(StoreUnavailable, match=words):
            board.claim("x", session=pair.alice)
        with pytest.raises(StoreUnavailable, match=words):
            board.done("y", session=pair.alice)
        with pytest.raises(StoreUnavailable, match=words):
            board.sync()
        assert board.get("x").item.status == "ready"
    assert pair.b.claim("x", session=pair.bob).claim.token == 1
    git(pair.here, "checkout", "--quiet", "main")
    for board in (late, pair.a):
        with pytest.raises(ItemAlreadyClaimed):
            board.claim("x", session=pair.alice)
    late.done("y", session=pair.alice)
    assert pair.sound()


def test_a_branch_that_follows_nothing_may_go_on_alone_if_it_is_told_to(pair: Pair) -> None:
    git(pair.here, "checkout", "--quiet", "-b", "feature")
    git(pair.here, "config", "dibs.sync", "false")
    pair.open(pair.here).claim("x", session=pair.alice)


def _detach(clone: Path) -> None:
    git(clone, "checkout", "--quiet", "--detach")


def _stop_in_a_rebase(clone: Path) -> None:
    git(clone, "commit", "--quiet", "--allow-empty", "-m", "mine")
    git(clone, "rebase", "--quiet", "-i", "--keep-empty", "HEAD~1", env={"GIT_SEQUENCE_EDITOR": "sed -i s/^pick/edit/"})


STRAYS = [(_detach, ["checkout", "main"]), (_stop_in_a_rebase, ["rebase", "--abort"])]


@pytest.mark.parametrize(("stray", "back"), STRAYS)
def test_on_no_branch_nothing_is_given_out_by_who_was_there_and_who_comes(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, stray: Callable[[Path], None], back: list[str]
) -> None:
    monkeypatch.setattr(user_git, "WAIT_SECONDS", 0.05)
    pair.a.claim("y", session=pair.alice)
    stray(pair.here)
    late = pair.open(pair.here)
    for board in (pair.a, late):
        with pytest.raises(StoreUnavailable, match="repository"):
            board.claim("x", session=pair.alice)
        with pytest.raises(StoreUnavailable, match="repository"):
            board.done("y", session=pair.alice)
        with pytest.raises(StoreUnavailable, match="repository"):
            board.sync()
        assert board.get("x").item.status == "ready"
    late.add("three", id="z")
    assert pair.b.claim("x", session=pair.bob).claim.token == 1
    git(pair.here, *back)
    for board in (late, pair.a):
        with pytest.raises(ItemAlreadyClaimed):
            board.claim("x", session=pair.alice)
    late.done("y", session=pair.alice)
    assert "Done/y.md" in on_hub(pair.folder)
    assert pair.sound()


def test_a_claim_is_not_taken_away_by_a_reset_of_the_persons_git(pair: Pair) -> None:
    """A merge that fails resets the files to their last commit, which does not know of the claim yet."""
    lock = pair.here / ".git" / "index.lock"
    lock.touch()
    token = pair.a.claim("x", session=pair.alice).claim.token
    lock.unlink()
    assert "Needs_Action/x.md" in git(pair.here, "ls-tree", "-r", "--name-only", "HEAD")
    for undo in (("reset", "--quiet", "--hard"), ("clean", "--quiet", "--force", "In_Progress")):
        git(pair.here, "reset", "--quiet", "--hard")
        git(pair.here, *undo)
        (held,) = pair.open(pair.here).who()
        assert held.claim is not None
        assert (held.claim.agent, held.claim.token) == ("alice", token)
    pair.a.done("x", session=pair.alice, token=token)
    assert "Done/x.md" in on_hub(pair.folder)
    pair.b.sync()
    assert pair.sound()


@pytest.mark.parametrize("words", [["--detach", "HEAD~2"], ["-b", "feature", "HEAD~2"]])
def test_a_claim_outlives_a_look_at_an_older_commit(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.setattr(reconcile, "GONE_SECONDS", 0)
    pair.a.add("three", id="z")
    pair.a.sync()
    token = pair.a.claim("z", session=pair.alice).claim.token
    git(pair.here, "checkout", "--quiet", *words)
    assert not (pair.here / "In_Progress" / "alice" / "z.md").exists()
    for board in (pair.a, pair.open(pair.here)):
        assert board.get("z").item.status == "in_progress"
        board.renew("z", session=pair.alice)
        assert any("dibs does not touch the files" in finding.what for finding in examine(board))
    git(pair.here, "checkout", "--quiet", "main")
    pair.a.done("z", session=pair.alice, token=token)
    assert "Done/z.md" in on_hub(pair.folder)
    pair.b.sync()
    assert pair.sound()


UNDONE = [("reset", "--hard", "HEAD~2"), ("reset", "--hard", "HEAD~3"), ("checkout", "--", "."), ("stash",)]


@pytest.mark.parametrize(
    ("undo", "is_new"),
    [
        (UNDONE[0], True),
        *((undo, False) for undo in UNDONE),
        *(pytest.param(undo, True, marks=pytest.mark.soak) for undo in UNDONE[1:]),
    ],
)
def test_what_others_were_told_outlives_a_reset_of_the_branch(pair: Pair, undo: tuple[str, ...], is_new: bool) -> None:
    """Neither the claims here and elsewhere are taken back, nor is an older text sent off over a newer one."""
    token = pair.b.claim("y", session=pair.bob).claim.token
    pair.a.edit("x", body="the newer text")
    pair.a.sync()
    pair.a.add("three", id="z")
    held = pair.a.claim("z", session=pair.alice).claim.token
    git(pair.here, *undo)
    board = pair.open(pair.here) if is_new else pair.a
    board.done("z", session=pair.alice, token=held)
    board.sync()
    on = on_hub(pair.folder)
    assert {"Done/z.md", "Needs_Action/x.md", "In_Progress/bob/y.md"} <= on.keys()
    assert "the newer text" in on["Needs_Action/x.md"]
    pair.b.done("y", session=pair.bob, token=token)
    assert pair.sound()


def test_what_a_person_removes_after_a_reset_is_removed(pair: Pair) -> None:
    pair.a.add("three", id="z")
    pair.a.sync()
    git(pair.here, "reset", "--hard", "HEAD~1")
    assert pair.a.get("z").item.status == "ready"
    os.unlink(pair.here / "Needs_Action" / "z.md")
    pair.a.sync()
    assert pair.a.get("z").item.status == "cancelled"
    assert "Needs_Action/z.md" not in on_hub(pair.folder)


@pytest.mark.parametrize("trailing", [False, True])
def test_what_a_process_had_accepted_and_died_before_writing_is_given_back(pair: Pair, trailing: bool) -> None:
    """Killed between the accepted push and its files: nobody was told of the claim."""
    if trailing:
        (pair.here / ".git" / "index.lock").touch()
        pair.a.claim("y", session=pair.alice)
    pid = os.fork()
    if not pid:
        try:
            WriteCycle._apply = lambda *_, **__: os._exit(9)  # type: ignore[method-assign]
            pair.a.claim("x", session=pair.alice)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9
    assert "In_Progress/alice/x.md" in on_hub(pair.folder)
    assert pair.a.get("x").item.status == "ready"
    pair.a.sync()
    assert "Needs_Action/x.md" in on_hub(pair.folder)
    assert pair.b.claim("x", session=pair.bob).claim.token == 2, "the hub has given 1, if to nobody who knows"
    assert pair.sound()


def test_next_asks_the_hub_before_it_says_that_there_is_nothing(pair: Pair) -> None:
    assert len(pair.b.next(session=pair.bob, n=2)) == 2
    pair.a.add("three", id="z")
    pair.a.sync()
    assert [grant.item.id for grant in pair.b.next(session=pair.bob)] == ["z"]
    assert pair.b.next(session=pair.bob) == ()
    pair.away()
    with pytest.raises(StoreUnavailable):
        pair.b.next(session=pair.bob)


def test_a_missing_object_is_told_as_damage(pair: Pair) -> None:
    blob = "0" * 39 + "1"
    repository = Repository(*_of(pair.here))
    for ask in (repository.sizes, repository.texts):
        with pytest.raises(GitFailed, match=blob):
            ask([blob])


def _of(clone: Path) -> tuple[Git, str, str, str, str, str]:
    return Git(str(clone)), str(clone / ".git"), "main", "origin", "refs/heads/main", "sha1"


def test_claims_of_one_session_are_silent_each_for_itself() -> None:
    """The tokens of two items are often the same. Of two minutes between looks, a claim of one minute counts 20 s."""
    brief = liveness.RemoteClaim(item="x", token=1, session="s", ttl_seconds=60)
    long = liveness.RemoteClaim(item="y", token=1, session="s", ttl_seconds=600)
    now = [0.0]
    monitor = liveness.LivenessMonitor()
    lost: dict[str, float] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dibs.store.vault.git.liveness.time.clock_gettime", lambda _: now[0])
        while len(lost) < 2:
            now[0] += 120
            for held in monitor.silent([(brief, 1), (long, 1)]):
                lost.setdefault(held.item, now[0])
    assert 600 <= lost["x"] <= 720
    assert 900 < lost["y"] <= 1200
