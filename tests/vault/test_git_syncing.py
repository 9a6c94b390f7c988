"""Clones and their hub, without a board: what one has, the others get; what a person wrote is not lost."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

import pytest

from dibs.errors import Invalid, StoreUnavailable, StoreUnusable
from dibs.store.vault.disk import Raced
from dibs.store.vault.git import hub, user_git
from dibs.store.vault.git import push as pushing
from dibs.store.vault.git import sync as syncing
from dibs.store.vault.git.repository import Refused, Rejected, Repository, Unreachable
from dibs.system.git import GitFailed
from tests.vault.clones import files, git, make_clone, make_hub, move, on_hub, opened, put

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from dibs.store.vault.git.sync import Sync

BODY = "# A task\n\nfirst line\n\nsecond line\n\nthird line\n"


class Two:
    """Two clones of one hub that has two tasks and a note."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        make_hub(folder)
        self.a = make_clone(folder, "a")
        for name in ("x", "y"):
            put(self.a, f"Needs_Action/{name}.md", BODY)
        put(self.a, "note.md", BODY)
        self.sync_a = opened(self.a)
        self.sync_a.sync()
        self.b = make_clone(folder, "b")
        self.sync_b = opened(self.b)
        self.sync_b.sync()

    def clean(self) -> bool:
        """Whether git itself finds nothing to say about either clone."""
        return not any(git(clone, "status", "--porcelain") + git(clone, "fsck") for clone in (self.a, self.b))


@pytest.fixture
def two(tmp_path: Path) -> Two:
    return Two(tmp_path)


def test_a_vault_is_pushed_and_pulled(two: Two) -> None:
    assert files(two.b) == files(two.a) == on_hub(two.folder)
    assert two.clean()


def test_a_claim_is_confirmed_by_one_push(two: Two) -> None:
    move(two.a, "Needs_Action/x.md", "In_Progress/alice/x.md")
    two.sync_a.confirm()
    assert "In_Progress/alice/x.md" in on_hub(two.folder)
    assert "Needs_Action/x.md" not in on_hub(two.folder)
    told = two.sync_b.sync()
    assert told.news == ("x",)
    assert files(two.b) == files(two.a)
    assert two.clean()


def test_of_two_claims_one_is_confirmed_and_the_other_is_told(two: Two) -> None:
    move(two.a, "Needs_Action/x.md", "In_Progress/alice/x.md")
    move(two.b, "Needs_Action/x.md", "In_Progress/bob/x.md")
    two.sync_a.confirm()
    with pytest.raises(Raced):
        two.sync_b.confirm()
    # What a store does: its own files are put back, and then it decides anew.
    move(two.b, "In_Progress/bob/x.md", "Needs_Action/x.md")
    told = two.sync_b.prepare()
    assert told is not None
    assert told.news == ("x",)
    assert files(two.b) == files(two.a)


def test_even_a_claim_that_was_not_put_back_gives_way(two: Two) -> None:
    move(two.a, "Needs_Action/x.md", "In_Progress/alice/x.md")
    move(two.b, "Needs_Action/x.md", "In_Progress/bob/x.md")
    two.sync_a.confirm()
    two.sync_b.sync()
    assert files(two.b) == files(two.a) == on_hub(two.folder)


def test_who_is_confirmed_again_and_again_lets_others_go_first(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    """They have to fetch before they push, and would never be faster. Without others, it is hardly ever done."""
    paused: list[float] = []
    monkeypatch.setattr(syncing.Sync, "_pause", lambda self, seconds: paused.append(seconds))

    def counted(times: int) -> int:
        paused.clear()
        for number in range(times):
            two.sync_a.confirm({f"In_Progress/alice/n{number}.md": os.urandom(8).hex().encode()})
        return len(paused)

    row = syncing.IN_A_ROW
    assert counted(row) == 0
    assert counted(1) == 1
    assert counted(2 * row) == 1
    assert counted(2 * row) == 0
    two.sync_b.sync()
    move(two.b, "Needs_Action/x.md", "In_Progress/bob/x.md")
    two.sync_b.confirm()
    with pytest.raises(Raced):
        two.sync_a.confirm({"Needs_Action/y.md": None})
    two.sync_a.prepare()
    assert counted(row) == 0
    assert counted(1) == 1


def test_whatever_the_remote_has_new_is_seen_before_anything_is_confirmed(two: Two) -> None:
    """Another item's claim may hold a resource, or fill a limit: it is decided on exactly what it is put on top of."""
    move(two.a, "Needs_Action/x.md", "In_Progress/alice/x.md")
    two.sync_a.confirm()
    move(two.b, "Needs_Action/y.md", "In_Progress/bob/y.md")
    with pytest.raises(Raced):
        two.sync_b.confirm()
    two.sync_b.prepare()
    two.sync_b.confirm()
    assert {"In_Progress/alice/x.md", "In_Progress/bob/y.md"} <= on_hub(two.folder).keys()


def test_edits_at_different_lines_are_both_made(two: Two) -> None:
    for path in ("Needs_Action/x.md", "note.md"):
        put(two.a, path, BODY.replace("first", "FIRST"))
        put(two.b, path, BODY.replace("third", "THIRD"))
    two.sync_a.sync()
    told = two.sync_b.sync()
    both = BODY.replace("first", "FIRST").replace("third", "THIRD")
    assert not told.conflicts
    assert files(two.b)["Needs_Action/x.md"] == files(two.b)["note.md"] == both
    two.sync_a.sync()
    assert files(two.a) == files(two.b)
    assert two.clean()


def test_an_edit_is_put_into_a_task_that_was_claimed_elsewhere(two: Two) -> None:
    move(two.a, "Needs_Action/x.md", "In_Progress/alice/x.md")
    put(two.b, "Needs_Action/x.md", BODY.replace("third", "THIRD"))
    two.sync_a.confirm()
    told = two.sync_b.sync()
    assert not told.conflicts
    assert on_hub(two.folder)["In_Progress/alice/x.md"] == BODY.replace("third", "THIRD")
    assert "Needs_Action/x.md" not in files(two.b)


def test_of_a_task_that_two_edited_at_one_line_the_remote_text_stays_and_the_other_is_kept(two: Two) -> None:
    put(two.a, "Needs_Action/x.md", BODY.replace("first", "Alice's"))
    put(two.b, "Needs_Action/x.md", BODY.replace("first", "Bob's"))
    two.sync_a.sync()
    told = two.sync_b.sync()
    assert told.conflicts == ("Conflicts/x.md",)
    assert "Alice's" in files(two.b)["Needs_Action/x.md"]
    assert "Bob's" in files(two.b)["Conflicts/x.md"]
    two.sync_a.sync()
    assert files(two.a) == files(two.b) == on_hub(two.folder)


def test_of_another_file_the_local_text_stays_and_the_remote_one_is_kept(two: Two) -> None:
    put(two.a, "note.md", BODY.replace("first", "Alice's"))
    put(two.b, "note.md", BODY.replace("first", "Bob's"))
    two.sync_a.sync()
    told = two.sync_b.sync()
    assert told.conflicts == ("Conflicts/note.md",)
    assert "Bob's" in files(two.b)["note.md"]
    assert "Alice's" in files(two.b)["Conflicts/note.md"]


def test_what_dibs_wrote_gives_way_without_a_trace(two: Two) -> None:
    put(two.a, "Needs_Action/x.md", '---\ndibs: {"token": 1, "attempts": 1}\n---\n' + BODY)
    move(two.a, "Needs_Action/x.md", "In_Progress/alice/x.md")
    put(two.b, "Needs_Action/x.md", '---\ndibs: {"token": 1, "attempts": 2}\n---\n' + BODY)
    move(two.b, "Needs_Action/x.md", "In_Progress/bob/x.md")
    two.sync_a.confirm()
    assert not two.sync_b.sync().conflicts
    assert files(two.b) == files(two.a)


def test_a_removal_arrives_and_a_changed_task_outlives_one(two: Two) -> None:
    (two.a / "note.md").unlink()
    (two.a / "Needs_Action/x.md").unlink()
    put(two.b, "Needs_Action/x.md", BODY + "more\n")
    two.sync_a.sync()
    two.sync_b.sync()
    assert "note.md" not in files(two.b)
    assert on_hub(two.folder)["Needs_Action/x.md"] == BODY + "more\n"


def test_line_ends_and_bytes_stay_as_they_are(two: Two) -> None:
    (two.a / ".gitattributes").write_text("* text=auto eol=lf\n")
    git(two.a, "config", "core.autocrlf", "true")
    (two.a / "crlf.txt").write_bytes(b"one\r\ntwo\r\n\x00\xff")
    two.sync_a.sync()
    two.sync_b.sync()
    assert (two.b / "crlf.txt").read_bytes() == b"one\r\ntwo\r\n\x00\xff"


def test_what_is_ignored_stays_here_and_a_task_never_is(two: Two) -> None:
    put(two.a, ".gitignore", "secret*\nbuild/\nNeeds_Action/\n")
    put(two.a, "secret.txt", "s")
    put(two.a, "build/deep/out.txt", "s")
    put(two.a, "docs/deep/in.txt", "t")
    put(two.a, ":(top)odd.txt", "t")
    put(two.a, "Needs_Action/z.md", "t")
    two.sync_a.sync()
    there = on_hub(two.folder)
    assert {"docs/deep/in.txt", ":(top)odd.txt", "Needs_Action/z.md"} <= there.keys()
    assert not {"secret.txt", "build/deep/out.txt"} & there.keys()
    two.sync_b.sync()
    assert files(two.b) == there


def test_what_was_ignored_stays_here_whatever_the_remote_says_about_it(two: Two) -> None:
    put(two.a, ".gitignore", "secret*\n")
    put(two.a, "secret.txt", "s")
    git(two.a, "add", ".gitignore")
    git(two.a, "commit", "--quiet", "-m", "mine alone")
    two.sync_a.sync()
    git(two.b, "pull", "--quiet", "--no-rebase")
    git(two.b, "rm", "--quiet", ".gitignore")
    git(two.b, "commit", "--quiet", "-m", "tidy")
    git(two.b, "push", "--quiet")
    for _ in range(2):
        two.sync_a.sync()
        put(two.a, "secret-too.txt", "s")
    move(two.a, "Needs_Action/x.md", "In_Progress/alice/x.md")
    two.sync_a.confirm()
    there = on_hub(two.folder)
    assert "In_Progress/alice/x.md" in there
    assert not {".gitignore", "secret.txt", "secret-too.txt"} & there.keys()


def test_a_private_file_stays_so_when_the_remote_has_one_of_its_name(two: Two) -> None:
    put(two.a, ".git/info/exclude", "secret*\nbuild/\n")
    put(two.a, "secret.txt", "mine")
    put(two.a, "build/out.txt", "mine")
    for text in ("theirs", "theirs, changed"):
        put(two.b, "secret.txt", text)
        put(two.b, "build/out.txt", text)
        two.sync_b.sync()
        assert len(two.sync_a.sync().findings) == 2
    for sync in (two.sync_a, opened(two.a)):
        put(two.a, "note.md", f"{sync}")
        sync.sync()
    move(two.a, "Needs_Action/x.md", "In_Progress/alice/x.md")
    two.sync_a.confirm()
    there = on_hub(two.folder)
    assert "In_Progress/alice/x.md" in there
    assert there["secret.txt"] == there["build/out.txt"] == "theirs, changed"
    assert files(two.a)["secret.txt"] == files(two.a)["build/out.txt"] == "mine"
    (two.b / "secret.txt").unlink()
    two.sync_b.sync()
    two.sync_a.sync()
    assert "secret.txt" not in on_hub(two.folder)
    assert files(two.a)["secret.txt"] == "mine"


def test_a_hidden_file_is_left_to_its_owners_git(two: Two) -> None:
    put(two.a, ".obsidian/app.json", "{}")
    git(two.a, "add", "-A")
    git(two.a, "commit", "-m", "settings")
    two.sync_a.sync()
    assert ".obsidian/app.json" in on_hub(two.folder), "what was committed is pushed"
    two.sync_b.sync()
    assert not (two.b / ".obsidian").exists()
    move(two.b, "Needs_Action/x.md", "In_Progress/bob/x.md")
    two.sync_b.confirm()
    assert ".obsidian/app.json" in on_hub(two.folder), "that it is not on disk here does not remove it"
    git(two.b, "add", "-A")
    git(two.b, "commit", "-m", "as Obsidian Git does")
    git(two.b, "pull", "--no-rebase", "--no-edit")
    assert (two.b / ".obsidian/app.json").exists()
    assert "In_Progress/bob/x.md" in files(two.b)
    two.sync_b.sync()
    assert two.clean()


def test_commits_of_a_person_that_were_not_pushed_are_kept(two: Two) -> None:
    put(two.b, "note.md", BODY.replace("first", "FIRST"))
    git(two.b, "commit", "-am", "mine")
    mine = git(two.b, "rev-parse", "HEAD").strip()
    move(two.a, "Needs_Action/x.md", "In_Progress/alice/x.md")
    two.sync_a.confirm()
    two.sync_b.sync()
    assert mine in git(two.folder / "hub.git", "rev-list", "main").split()
    assert "FIRST" in on_hub(two.folder)["note.md"]
    assert "In_Progress/alice/x.md" in files(two.b)
    assert two.clean()


def test_commits_alone_are_pushed_as_they_are(two: Two) -> None:
    put(two.b, "note.md", "new\n")
    git(two.b, "commit", "-am", "mine")
    mine = git(two.b, "rev-parse", "HEAD").strip()
    told = two.sync_b.sync()
    assert (told.commit, told.pushed) == (mine, True)
    assert two.sync_b.sync().pushed is False


def test_a_file_that_a_person_stopped_tracking_is_not_tracked_again(two: Two) -> None:
    put(two.a, ".gitignore", "note.md\n")
    git(two.a, "add", ".gitignore")
    git(two.a, "rm", "--quiet", "--cached", "note.md")
    git(two.a, "commit", "-m", "not for everybody")
    two.sync_a.sync()
    assert "note.md" not in on_hub(two.folder)
    assert "note.md" in files(two.a)


def test_the_same_files_edited_while_they_are_brought(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    """A save in the very moment in which the remote's text is put there: both are there in the end."""
    put(two.a, "Needs_Action/x.md", BODY.replace("first", "FIRST"))
    two.sync_a.sync()
    plain = type(two.sync_b.files).exchange
    saves = iter([BODY.replace("third", "THIRD")])

    def save_first(self: object, path: str, *asked: Any) -> None:
        for text in saves:
            put(two.b, path, text)
        plain(two.sync_b.files, path, *asked)

    monkeypatch.setattr(type(two.sync_b.files), "exchange", save_first)
    two.sync_b.sync()
    assert files(two.b)["Needs_Action/x.md"] == BODY.replace("first", "FIRST").replace("third", "THIRD")


def test_more_than_fits_into_memory_at_once_is_brought_in_parts(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dibs.system.git.OUTPUT_MAX", 100_000)
    monkeypatch.setattr("dibs.store.vault.git.apply.BATCH_BYTES_MAX", 50_000)
    for number in range(12):
        put(two.a, f"pictures/{number}.txt", f"{number}" * 20_000)
    put(two.a, "pictures/large.txt", "l" * 70_000)
    put(two.a, "pictures/again.txt", "1" * 20_000)
    two.sync_a.sync()
    two.sync_b.sync()
    assert files(two.b) == files(two.a)
    assert two.clean()


def test_an_answer_without_end_is_told_for_what_it_is(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dibs.system.git.OUTPUT_MAX", 1000)
    put(two.a, "large.txt", "x" * 10_000_000)
    git(two.a, "add", "large.txt")
    with pytest.raises(GitFailed, match="too much output"):
        two.sync_a.repository.git.run("cat-file", "blob", ":large.txt")


# The remote is away, or its answer gets lost


def is_running(pid: int) -> bool:
    """A process that ended and was not yet fetched by its parent does not run."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def lose_answers(monkeypatch: pytest.MonkeyPatch, sync: Sync, *, sent: bool, fetches: bool) -> None:
    repository = sync.repository
    push = repository.push

    def lost(commit: str, base: str | None) -> None:
        if sent:
            push(commit, base)
        raise Unreachable("cut off")

    monkeypatch.setattr(repository, "push", lost)
    if not fetches:

        def fetch() -> None:
            raise Unreachable("cut off")

        monkeypatch.setattr(repository, "fetch", fetch)


def test_a_push_whose_answer_got_lost_is_found_to_be_accepted(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    move(two.a, "Needs_Action/x.md", "In_Progress/alice/x.md")
    lose_answers(monkeypatch, two.sync_a, sent=True, fetches=True)
    two.sync_a.confirm()
    monkeypatch.undo()
    assert two.sync_a.sync().pushed is False
    assert two.clean()


@pytest.mark.parametrize("sent", [True, False])
def test_without_an_answer_nothing_is_confirmed_and_what_was_put_back_stays_so(
    two: Two, monkeypatch: pytest.MonkeyPatch, sent: bool
) -> None:
    move(two.a, "Needs_Action/x.md", "In_Progress/alice/x.md")
    lose_answers(monkeypatch, two.sync_a, sent=sent, fetches=False)
    with pytest.raises(StoreUnavailable, match="cannot be reached"):
        two.sync_a.confirm()
    monkeypatch.undo()
    move(two.a, "In_Progress/alice/x.md", "Needs_Action/x.md")
    assert ("In_Progress/alice/x.md" in on_hub(two.folder)) is sent
    again = opened(two.a)
    again.sync()
    assert "Needs_Action/x.md" in on_hub(two.folder), "the claim that nobody was told of is given back"
    assert files(two.a) == on_hub(two.folder)


def test_what_arrives_late_is_given_back_too(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    """A push that was given up arrives in the middle of the next one."""
    move(two.a, "Needs_Action/x.md", "In_Progress/alice/x.md")
    sent: list[tuple[str, str | None]] = []

    def hold_up(commit: str, base: str | None) -> None:
        sent.append((commit, base))
        raise Unreachable("slow")

    repository = two.sync_a.repository
    monkeypatch.setattr(repository, "push", hold_up)
    with pytest.raises(StoreUnavailable):
        two.sync_a.confirm()
    monkeypatch.undo()
    move(two.a, "In_Progress/alice/x.md", "Needs_Action/x.md")
    put(two.a, "note.md", "other\n")
    plain = Repository.push

    def late(self: Repository, commit: str, base: str | None) -> None:
        for late_one in sent:
            plain(self, *late_one)
        sent.clear()
        plain(self, commit, base)

    monkeypatch.setattr(Repository, "push", late)
    two.sync_a.sync()
    assert "Needs_Action/x.md" in on_hub(two.folder)
    assert on_hub(two.folder)["note.md"] == "other\n"


def test_a_hub_that_is_gone_and_comes_back(two: Two) -> None:
    os.rename(two.folder / "hub.git", two.folder / "away.git")
    put(two.a, "note.md", "meanwhile\n")
    with pytest.raises(StoreUnavailable, match="cannot be reached") as refused:
        two.sync_a.sync()
    assert refused.value.code == "STORE_UNAVAILABLE"
    with pytest.raises(StoreUnavailable, match="cannot be reached"):
        two.sync_a.confirm()
    os.rename(two.folder / "away.git", two.folder / "hub.git")
    assert two.sync_a.sync().pushed
    assert on_hub(two.folder)["note.md"] == "meanwhile\n"


def test_a_hub_without_its_branch_is_away_and_not_new(two: Two) -> None:
    head = git(two.folder / "hub.git", "rev-parse", "main").strip()
    os.rename(two.folder / "hub.git/refs/heads/main", two.folder / "main")
    for ask in (two.sync_a.refresh, two.sync_a.sync):
        with pytest.raises(StoreUnavailable, match=r"cannot be reached.*no refs/heads/main any more"):
            ask()
    git(two.a, "push", "--quiet")
    move(two.a, "Needs_Action/x.md", "In_Progress/alice/x.md")
    two.sync_a.confirm()
    assert git(two.folder / "hub.git", "rev-parse", "main~").strip() == head


def test_a_lock_that_was_left_in_the_hub_is_named(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    """Git says the same of it as of somebody who is faster; but nobody ever is."""
    monkeypatch.setattr(syncing, "PAUSE_SECONDS_MAX", 0.01)
    lock = two.folder / "hub.git/refs/heads/main.lock"
    lock.touch()
    move(two.a, "Needs_Action/x.md", "In_Progress/alice/x.md")
    for _ in range(syncing.STUCK_REJECTIONS):
        with pytest.raises(Raced):
            two.sync_a.confirm()
        two.sync_a.prepare()
    with pytest.raises(StoreUnavailable, match=r"does not accept pushes.*main\.lock"):
        two.sync_a.confirm()
    lock.unlink()
    two.sync_a.prepare()
    two.sync_a.confirm()
    assert "In_Progress/alice/x.md" in on_hub(two.folder)


def test_a_remote_that_refuses_for_good_is_named_at_once(two: Two) -> None:
    hook = two.folder / "hub.git" / "hooks" / "pre-receive"
    hook.write_text(f"#!/bin/sh\necho asked >> {two.folder}/asked\necho not today >&2\nexit 1\n")
    hook.chmod(0o755)
    put(two.a, "note.md", "no\n")
    ways: list[Callable[[], object]] = [two.sync_a.sync, two.sync_a.confirm]
    for number, push in enumerate(ways, 1):
        with pytest.raises(StoreUnavailable, match=r"does not accept pushes.*hook declined.*not today"):
            push()
        assert (two.folder / "asked").read_text() == "asked\n" * number


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("[rejected] (fetch first)", Rejected),
        ("[rejected] (stale info)", Rejected),
        ("[remote rejected] (cannot lock ref 'refs/heads/main': is at 1 but expected 2)", Rejected),
        ("[remote rejected] (failed to update ref)", Rejected),
        ("[remote rejected] (incorrect old value provided)", Rejected),
        ("[remote rejected] (protected branch hook declined)", Refused),
        ("[remote rejected] (shallow update not allowed)", Refused),
    ],
)
def test_who_was_overtaken_and_who_is_not_wanted(
    two: Two, monkeypatch: pytest.MonkeyPatch, words: str, kind: type[Exception]
) -> None:
    def run(*words_: str, **_: object) -> bytes:
        raise GitFailed("push", 1, "error: failed to push", f"To hub\n!\ta:refs/heads/main\t{words}\nDone\n".encode())

    monkeypatch.setattr(two.sync_a.repository.git, "run", run)
    with pytest.raises(kind):
        two.sync_a.repository.push("a", None)


def test_a_push_that_never_ends_is_ended(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    hook = two.folder / "hub.git" / "hooks" / "pre-receive"
    hook.write_text(f"#!/bin/sh\necho $$ > {two.folder}/pid\nexec sleep 600\n")
    hook.chmod(0o755)
    put(two.a, "note.md", "no\n")
    monkeypatch.setattr("dibs.store.vault.git.repository.REMOTE_SECONDS", 1.0)
    began = time.monotonic()
    with pytest.raises(StoreUnavailable):
        two.sync_a.confirm()
    assert time.monotonic() - began < 30
    pid = int((two.folder / "pid").read_text())
    assert not is_running(pid)


# Who else is at the repository


def test_a_merge_that_is_left_open_is_not_pushed(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_git, "WAIT_SECONDS", 0.05)
    (two.a / ".git" / "MERGE_HEAD").write_text(git(two.a, "rev-parse", "HEAD"))
    put(two.a, "note.md", "<<<<<<<\n")
    with pytest.raises(StoreUnavailable, match="git merge --abort"):
        two.sync_a.sync()
    assert on_hub(two.folder)["note.md"] == BODY


def test_another_branch_is_not_the_vaults(two: Two) -> None:
    git(two.a, "checkout", "--quiet", "-b", "other")
    with pytest.raises(StoreUnavailable, match="branch main"):
        two.sync_a.sync()
    assert opened(two.a).has_no_branch


def test_an_index_that_somebody_holds_follows_later(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_git, "WAIT_SECONDS", 0.05)
    lock = two.a / ".git" / "index.lock"
    lock.write_bytes(b"")
    move(two.a, "Needs_Action/x.md", "In_Progress/alice/x.md")
    two.sync_a.confirm()
    assert git(two.a, "rev-parse", "HEAD") != git(two.folder / "hub.git", "rev-parse", "main")
    lock.unlink()
    put(two.a, "In_Progress/alice/x.md", BODY + "more\n")
    two.sync_a.confirm()
    assert git(two.a, "rev-parse", "HEAD") == git(two.folder / "hub.git", "rev-parse", "main")
    two.sync_b.sync()
    assert two.clean()


def test_the_index_stays_where_it_is_if_the_branch_does(two: Two) -> None:
    """Else the next merge of the person's finds changes that nobody made."""
    index = user_git.UserIndex(two.sync_a.repository.git, str(two.a / ".git"))
    old = git(two.a, "rev-parse", "HEAD").strip()
    put(two.a, "note.md", "mine\n")
    git(two.a, "commit", "--quiet", "-a", "-m", "meanwhile")
    assert not index.follow(old, old, "")
    assert git(two.a, "status", "--porcelain") == ""
    assert list((two.a / ".git").rglob("*.lock")) == []


def at_one_moment(monkeypatch: pytest.MonkeyPatch, sync: Sync, what: Callable[[], object]) -> None:
    """The person does this just when their branch is about to follow, which it then cannot."""
    follow = sync.clone.index.follow

    def once(commit: str, was: str | None, refs: str) -> bool:
        monkeypatch.setattr(sync.clone.index, "follow", follow)
        what()
        return follow(commit, was, refs)

    monkeypatch.setattr(sync.clone.index, "follow", once)


def test_a_commit_in_between_is_joined_and_files_that_git_put_back_are_not(
    two: Two, monkeypatch: pytest.MonkeyPatch
) -> None:
    def commit_and_reset() -> None:
        put(two.a, "mine.md", "mine\n")
        git(two.a, "add", "mine.md")
        git(two.a, "commit", "--quiet", "-m", "meanwhile")
        git(two.a, "reset", "--quiet", "--hard")

    move(two.a, "Needs_Action/x.md", "In_Progress/alice/x.md")
    at_one_moment(monkeypatch, two.sync_a, commit_and_reset)
    two.sync_a.confirm()
    for _ in range(2):
        there = on_hub(two.folder)
        assert "In_Progress/alice/x.md" in there
        assert "Needs_Action/x.md" not in there
        two.sync_a.sync()
    assert there["mine.md"] == "mine\n"
    assert files(two.a) == there
    two.sync_b.sync()
    assert two.clean()


@pytest.mark.parametrize("committed", [False, True])
def test_what_came_and_was_reset_by_the_persons_git_comes_again(
    two: Two, monkeypatch: pytest.MonkeyPatch, committed: bool
) -> None:
    """As a merge of theirs does that fails. It is no change of theirs, and does not take back what others did."""
    lock = two.a / ".git" / "index.lock"
    monkeypatch.setattr(user_git, "WAIT_SECONDS", 0.05)
    for number in range(2):
        put(two.b, "note.md", f"{BODY}{number}\n")
        two.sync_b.sync()
        lock.touch()
        two.sync_a.refresh()
        lock.unlink()
        if committed and number == 0:
            git(two.a, "commit", "--quiet", "-a", "-m", "what came is committed as if it were one's own")
    move(two.b, "Needs_Action/x.md", "In_Progress/bob/x.md")
    two.sync_b.sync()
    lock.touch()
    two.sync_a.refresh()
    lock.unlink()
    put(two.a, "Needs_Action/y.md", "mine\n")
    git(two.a, "stash", "--quiet")
    git(two.a, "stash", "apply", "--quiet")
    git(two.a, "checkout", "--quiet", "HEAD", "--", "note.md", "Needs_Action/x.md")
    again = opened(two.a)
    again.prepare()
    assert files(two.a)["note.md"] == f"{BODY}1\n"
    assert "Needs_Action/x.md" not in files(two.a)
    git(two.a, "checkout", "--quiet", "HEAD", "--", "note.md", "Needs_Action/x.md")
    opened(two.a).sync()
    there = on_hub(two.folder)
    assert "Needs_Action/x.md" not in there
    assert there["In_Progress/bob/x.md"] == BODY
    assert there["note.md"] == f"{BODY}1\n"
    assert there["Needs_Action/y.md"] == "mine\n"
    assert files(two.a) == there


def test_a_lock_that_a_killed_dibs_left_is_taken_away(two: Two) -> None:
    """Between the index, which goes first, and the branch."""
    move(two.b, "Needs_Action/x.md", "In_Progress/bob/x.md")
    two.sync_b.confirm()
    before = git(two.a, "rev-parse", "HEAD").strip()
    two.sync_a.sync()
    git(two.a, "update-ref", "HEAD", before)
    (two.a / ".git" / "index.lock").write_bytes(b"dibs\n")
    opened(two.a).sync()
    assert not (two.a / ".git" / "index.lock").exists()
    assert two.clean()


def test_what_a_person_had_staged_does_not_take_back_what_came(two: Two) -> None:
    """`git add` before, `git commit` after a sync: the commit has nothing in it of the time between."""
    move(two.b, "Needs_Action/x.md", "In_Progress/bob/x.md")
    two.sync_b.confirm()
    put(two.a, "note.md", "staged\n")
    git(two.a, "add", "-A")
    two.sync_a.sync()
    assert git(two.a, "status", "--porcelain") == ""
    assert on_hub(two.folder)["note.md"] == "staged\n"
    assert "In_Progress/bob/x.md" in on_hub(two.folder)


@pytest.mark.parametrize("arrived", [None, 0, 3])
@pytest.mark.parametrize("fetches", [True, False])
def test_many_unknown_outcomes_are_not_remembered_for_ever(
    two: Two, monkeypatch: pytest.MonkeyPatch, fetches: bool, arrived: int | None
) -> None:
    """And the one that arrived is not forgotten among them."""
    monkeypatch.setattr(pushing, "PENDING_MAX", 4)
    for number in range(12):
        plan = {"Needs_Action/x.md": None, f"In_Progress/alice/x{number}.md": BODY.encode()}
        lose_answers(monkeypatch, two.sync_a, sent=number == arrived, fetches=fetches and arrived is None)
        with pytest.raises(StoreUnavailable):
            two.sync_a.confirm(plan)
        monkeypatch.undo()
        monkeypatch.setattr(pushing, "PENDING_MAX", 4)
    assert len(git(two.a, "for-each-ref", "refs/dibs").splitlines()) <= 9
    put(two.a, "note.md", "at last\n")
    two.sync_a.sync()
    assert on_hub(two.folder) == files(two.a)
    assert "Needs_Action/x.md" in files(two.a)
    assert len(git(two.a, "for-each-ref", "refs/dibs").splitlines()) == 3


# Whether there is a remote at all


def test_a_folder_without_git_has_no_remote(tmp_path: Path) -> None:
    assert syncing.find(str(tmp_path)) is None


def _no_upstream(clone: Path) -> None:
    git(clone, "config", "--unset", "branch.main.merge")


def _switched_off(clone: Path) -> None:
    git(clone, "config", "dibs.sync", "no")


@pytest.mark.parametrize("change", [_no_upstream, _switched_off])
def test_a_clone_that_follows_nobody_has_none(two: Two, change: Callable[[Path], None]) -> None:
    clone = make_clone(two.folder, "new")
    change(clone)
    assert syncing.find(str(clone)) is None


def test_a_folder_below_the_top_is_not_synced(two: Two) -> None:
    assert syncing.find(str(two.a / "Needs_Action")) is None


def test_a_broken_repository_is_told(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    with pytest.raises(StoreUnusable, match="git"):
        syncing.find(str(tmp_path))


def test_a_machine_without_git_is_told(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(two.folder))
    with pytest.raises(StoreUnusable, match="install"):
        syncing.find(str(two.a))


def test_a_history_that_was_rewritten_costs_no_text(two: Two) -> None:
    """Which a hub of ours refuses, and others do not."""
    two.sync_b.sync()
    git(two.folder / "hub.git", "config", "receive.denyNonFastForwards", "false")
    put(two.a, "note.md", "rewritten\n")
    git(two.a, "commit", "--quiet", "--amend", "-am", "again")
    git(two.a, "push", "--quiet", "--force", "origin", "main")
    put(two.b, "Needs_Action/y.md", BODY + "mine\n")
    two.sync_b.sync()
    assert on_hub(two.folder)["Needs_Action/y.md"] == BODY + "mine\n"
    assert on_hub(two.folder)["note.md"] == "rewritten\n"


# The hub


def test_a_hub_syncs_before_it_answers(two: Two) -> None:
    hook = two.folder / "hub.git" / "hooks" / "post-receive"
    assert hook.read_text() == hub.POST_RECEIVE
    hook.write_text(f"#!/bin/sh\ntouch {two.folder}/ran\n")
    put(two.a, "note.md", "1\n")
    two.sync_a.sync()
    assert (two.folder / "ran").exists(), "our own git does without hooks, the hub's does not"
    for name, value in hub.SETTINGS.items():
        assert git(two.folder / "hub.git", "config", name).strip() == value


def test_a_hub_lets_nobody_rewrite_or_remove(two: Two) -> None:
    import subprocess

    git(two.a, "commit", "--quiet", "--amend", "-m", "another")
    for words in (["--force", "origin", "main"], ["origin", ":main"]):
        with pytest.raises(subprocess.CalledProcessError):
            git(two.a, "push", "--quiet", *words)


def test_a_hub_is_made_once_and_never_over_something_else(tmp_path: Path) -> None:
    assert hub.make(str(tmp_path / "deep" / "hub.git"))
    assert not hub.make(str(tmp_path / "deep" / "hub.git"))
    with pytest.raises(Invalid, match="not a bare repository"):
        hub.make(str(tmp_path))
    (tmp_path / "deep" / "hub.git" / "hooks" / "post-receive").write_text("#!/bin/sh\n")
    with pytest.raises(Invalid, match="post-receive"):
        hub.make(str(tmp_path / "deep" / "hub.git"))
