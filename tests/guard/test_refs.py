"""A push is judged for each ref by what is new to that ref, whatever other refs of the remote have."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from dibs.board import Board
from dibs.guard import git, refs, verify
from dibs.worker.worktree.repository import branch_of
from tests.guard.conftest import ANN, BOB, Repository, hub, install_in_hub, lose, pushed

NOBODY = "0" * 40


@pytest.fixture(params=["here", "at the hub"])
def guarded(repository: Repository, request: pytest.FixtureRequest) -> Repository:
    """A clone whose hooks judge, or one whose hub does. The clone knows the default branch of the hub."""
    if request.param == "here":
        repository.dibs("guard", "install")
    else:
        install_in_hub(repository)
    repository.git("remote", "set-head", "origin", "main")
    return repository


@pytest.fixture
def shared(repository: Repository) -> Repository:
    """A clone without hooks, of a hub that judges."""
    install_in_hub(repository)
    return repository


def lost_after_a_push(repository: Repository, board: Board, *targets: str) -> str:
    """Ann pushes a commit in time, then her claim is lost and bob holds the item; return the commit."""
    board.add("x", id="x")
    token = board.claim("x", session=ANN).claim.token
    repository.git("switch", "--quiet", "-c", "work", "main")
    sha = repository.commit("zombie", f"x/{token}")
    for target in targets:
        assert pushed(repository, "origin", f"HEAD:{target}" if "/" in target else f"HEAD:refs/heads/{target}")[0]
    board.force_release("x", reason="gone")
    board.claim("x", session=BOB, ttl_seconds=3600)
    return sha


def refused(repository: Repository, *words: str) -> bool:
    did, output = pushed(repository, "origin", *words)
    assert did or "(zombie) was made under claim" in output, output
    return not did


@pytest.mark.parametrize("early", ["refs/heads/dibs/x", "refs/heads/feature/login"])
def test_what_another_branch_of_the_remote_has_does_not_pass_to_main(
    guarded: Repository, board: Board, early: str
) -> None:
    sha = lost_after_a_push(guarded, board, early)
    assert refused(guarded, f"{sha}:main")
    assert refused(guarded, f"+{sha}:refs/heads/main")
    assert not refused(guarded, f"{sha}:{early}"), "nothing is new to it"
    guarded.commit("more", "x/1")
    assert pushed(guarded, "origin", f"HEAD:{early}")[0] is False, "this commit is new everywhere"


def test_the_branch_of_an_item_lends_its_commits_to_no_new_ref(guarded: Repository, board: Board) -> None:
    sha = lost_after_a_push(guarded, board, "refs/heads/dibs/x")
    guarded.git("tag", "light", sha)
    guarded.git("tag", "-a", "-m", "annotated", "annotated", sha)
    guarded.git("tag", "-a", "-m", "of a tag", "nested", "annotated")
    guarded.git("switch", "--quiet", "-c", "merging", "main")
    guarded.git("merge", "--quiet", "--no-ff", "-m", "merged by somebody", sha)
    for new in ("light", "annotated", "nested", f"{sha}:refs/heads/release", "merging", "merging:main"):
        assert refused(guarded, new), new
    assert refused(guarded, f"{sha}:refs/heads/release", ":refs/heads/dibs/x"), "a branch that is renamed"
    assert refused(guarded, "main:refs/heads/innocent", f"{sha}:refs/heads/release"), "one of several refs"
    assert hub(guarded, "for-each-ref", "--format=%(refname)").split() == ["refs/heads/dibs/x", "refs/heads/main"]
    assert not refused(guarded, f"{sha}:refs/heads/dibs/y"), "a branch of an item, too, and the remote has it"


def test_the_new_holder_takes_it_over_on_the_ref_that_it_pushes(guarded: Repository, board: Board) -> None:
    sha = lost_after_a_push(guarded, board, "refs/heads/dibs/x")
    heir = guarded.commit("bob's", "x/2")
    assert pushed(guarded, "origin", f"{heir}:dibs/x")[0]
    assert refused(guarded, f"{sha}:main"), "the commit of bob is not there"
    assert refused(guarded, f"{sha}:main", f"{heir}:refs/heads/other"), "that it comes to another ref does not help"
    assert refused(guarded, f"{sha}:refs/heads/one", f"{heir}:refs/heads/two"), "nor to another new one"
    assert pushed(guarded, "origin", f"{heir}:main", f"{heir}:refs/heads/release")[0]


def test_what_the_default_branch_has_comes_to_every_ref(guarded: Repository, board: Board) -> None:
    guarded.git("push", "--quiet", "origin", "main:feature", "main:dibs/y")
    sha = lost_after_a_push(guarded, board, "main")
    guarded.git("tag", "-a", "-m", "v1", "v1", sha)
    guarded.git("switch", "--quiet", "-c", "feature", "main")
    guarded.commit("on the feature")
    guarded.git("merge", "--quiet", "--no-ff", "-m", "main is merged", sha)
    guarded.git("switch", "--quiet", "-c", "mend", sha)
    guarded.commit("a mend")
    assert pushed(guarded, "origin", "feature", "feature:dibs/y", "v1", "mend", "mend:main")[0]
    assert pushed(guarded, "origin", ":refs/tags/v1", ":refs/heads/feature")[0], "a deletion brings nothing"


def test_what_a_protected_branch_has_comes_to_new_refs(guarded: Repository, board: Board) -> None:
    sha = lost_after_a_push(guarded, board, "refs/heads/develop")
    guarded.git("switch", "--quiet", "-c", "topic", sha)
    guarded.commit("a topic")
    guarded.git("tag", "v1", sha)
    assert pushed(guarded, "origin", "topic", "v1")[0]
    assert refused(guarded, "topic:main"), "but not to one that is there"


def test_a_branch_that_was_rewound_is_judged_by_what_it_has_now(guarded: Repository, board: Board) -> None:
    before = guarded.head()
    sha = lost_after_a_push(guarded, board, "main")
    assert pushed(guarded, "origin", f"+{before}:refs/heads/main")[0]
    assert refused(guarded, f"{sha}:refs/heads/main")
    guarded.git("commit", "--quiet", "--allow-empty", "-m", "bob's", "--trailer", "Dibs-Claim: x/2")
    assert pushed(guarded, "origin", "HEAD:main")[0]
    assert pushed(guarded, "origin", f"+{before}:refs/heads/main")[0]
    assert pushed(guarded, "origin", "HEAD:main")[0], "what was taken over goes back and forth"


def test_a_run_that_was_ended_properly_or_may_be_recovered_passes_everywhere(guarded: Repository, board: Board) -> None:
    for item, end in (("done", board.done), ("released", board.release)):
        board.add(item, id=item)
        token = board.claim(item, session=ANN).claim.token
        guarded.commit(item, f"{item}/{token}")
        end(item, session=ANN)
    board.add("lapsed", id="lapsed")
    token = board.claim("lapsed", session=ANN, ttl_seconds=0.1).claim.token
    guarded.commit("lapsed", f"lapsed/{token}")
    watch = board.watch(sweeps=True)
    while board.get("lapsed").claim is not None:
        watch.wait(60)
    watch.close()
    guarded.git("tag", "v1")
    assert pushed(guarded, "origin", "HEAD:refs/heads/dibs/lapsed")[0]
    assert pushed(guarded, "origin", "HEAD:main", "v1", "HEAD:refs/heads/release")[0]


@pytest.mark.parametrize("head", ["refs/heads/dibs/x", "refs/heads/none"])
def test_the_branch_of_an_item_is_never_the_default_branch(shared: Repository, board: Board, head: str) -> None:
    sha = lost_after_a_push(shared, board, "refs/heads/dibs/x")
    hub(shared, "symbolic-ref", "HEAD", head)
    assert refused(shared, f"{sha}:refs/heads/main")
    assert refused(shared, f"{sha}:refs/heads/release")


def test_a_worktree_of_the_hub_does_not_lend_its_commits(shared: Repository, board: Board, tmp_path: Path) -> None:
    sha = lost_after_a_push(shared, board, "refs/heads/dibs/x")
    hub(shared, "worktree", "add", "--quiet", str(tmp_path / "tree"), "dibs/x")
    hub(shared, "worktree", "add", "--quiet", "--detach", str(tmp_path / "detached"), sha)
    assert refused(shared, f"{sha}:refs/heads/release")


@pytest.mark.parametrize("ref", ["refs/notes/work", "refs/pull/1/head", "refs/keep-around/one"])
def test_only_branches_and_tags_lend_their_commits(shared: Repository, board: Board, ref: str) -> None:
    sha = lost_after_a_push(shared, board, "refs/heads/dibs/x")
    hub(shared, "update-ref", ref, sha)
    assert refused(shared, f"{sha}:refs/heads/release")
    assert refused(shared, f"{sha}:refs/heads/main")


def test_the_default_branch_is_judged_by_its_own_commits_when_it_is_made(shared: Repository, board: Board) -> None:
    sha = lost_after_a_push(shared, board, "refs/heads/feature")
    hub(shared, "symbolic-ref", "HEAD", "refs/heads/trunk")
    assert refused(shared, f"{sha}:refs/heads/trunk")
    assert pushed(shared, "origin", "main:trunk")[0]


def test_a_clone_that_was_told_of_no_default_branch_judges_what_is_new_to_each_branch(
    repository: Repository, board: Board
) -> None:
    repository.dibs("guard", "install")
    sha = lost_after_a_push(repository, board, "refs/heads/feature")
    assert refused(repository, f"{sha}:refs/heads/main")
    assert pushed(repository, "origin", f"{sha}:refs/heads/other")[0]


@pytest.mark.parametrize("to", ["origin", "the URL of a remote", "a URL of no remote"])
def test_the_remote_head_of_a_clone_may_be_the_branch_of_an_item(repository: Repository, board: Board, to: str) -> None:
    repository.dibs("guard", "install")
    sha = lost_after_a_push(repository, board, "refs/heads/dibs/x")
    url = repository.git("remote", "get-url", "origin")
    repository.git("remote", "set-head", "origin", "dibs/x")
    if to == "a URL of no remote":
        repository.git("config", "remote.origin.url", "../moved.git")
    target = "origin" if to == "origin" else url
    for ref in ("refs/heads/main", "refs/heads/release"):
        did, output = pushed(repository, target, f"{sha}:{ref}")
        assert (did, "was made under claim" in output) == (False, True), (ref, output)
    assert pushed(repository, target, "main:refs/heads/innocent", f"{sha}:refs/heads/dibs/y")[0]


def test_a_clone_trusts_what_the_remote_says_of_a_ref_more_than_what_it_saw_before(
    repository: Repository, board: Board
) -> None:
    repository.dibs("guard", "install")
    repository.git("remote", "set-head", "origin", "main")
    before = repository.head()
    sha = lost_after_a_push(repository, board, "main")
    hub(repository, "update-ref", "refs/heads/main", before)
    assert repository.git("rev-parse", "origin/main") == sha
    assert refused(repository, f"{sha}:refs/heads/main")


def test_a_clone_whose_remote_moved_on_judges_what_it_knows(repository: Repository, board: Board) -> None:
    repository.dibs("guard", "install")
    sha = lost_after_a_push(repository, board, "refs/heads/dibs/x")
    moved = hub(repository, "commit-tree", "-m", "somebody's", "-p", "main", "main^{tree}")
    for branch in ("main", "feature"):
        hub(repository, "update-ref", f"refs/heads/{branch}", moved)
    assert repository.run("git", "cat-file", "-e", moved)[0] != 0
    assert refused(repository, f"+{sha}:refs/heads/main")
    assert pushed(repository, "origin", "+origin/main:refs/heads/feature")[0]


@pytest.mark.parametrize(
    ("ref", "is_protected"),
    [
        ("refs/heads/main", True),
        ("refs/heads/a/b/dibs/c", True),
        ("refs/heads/dibs", True),
        ("refs/heads/dibsy/x", True),
        ("refs/tags/dibs/x", True),
        ("refs/heads/dibs/x", False),
        (f"refs/heads/{branch_of('a..b')}", False),
        ("refs/notes/commits", False),
        ("HEAD", False),
    ],
)
def test_the_table_of_protected_refs(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, ref: str, is_protected: bool
) -> None:
    """The predicate and what git is told agree."""
    assert refs.is_protected(ref) is is_protected
    monkeypatch.chdir(repository.folder)
    sha = repository.commit("there")
    repository.git("switch", "--quiet", "--detach")
    repository.git("update-ref", "refs/heads/main", "HEAD~1")
    repository.git("update-ref", ref, sha)
    (found,) = refs.received([refs.Update(ref="refs/heads/new", old=NOBODY, new=sha)])
    assert ([*git.parents(found)] == []) is is_protected


def test_many_new_refs_are_read_by_one_git(
    repository: Repository, board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository.folder)
    board.add("x", id="x")
    sha = repository.commit("live", f"x/{board.claim('x', session=ANN).claim.token}")
    repository.git("update-ref", "refs/heads/main", "HEAD~1")
    updates = [refs.Update(ref=f"refs/tags/v{number}", old=NOBODY, new=sha) for number in range(10 * verify.RANGES_MAX)]
    asked: list[str] = []
    ask = git.run

    def count(*words: str, **more: Any) -> str:
        asked.append(words[0])
        return ask(*words, **more)

    monkeypatch.setattr(git, "run", count)
    verdict = verify.verify(lambda: nullcontext(board), refs.received(updates))
    assert (verdict.claims, verdict.refused) == (1, ())
    assert asked == ["cat-file", "symbolic-ref", "cat-file", "rev-list", "rev-parse"]


@pytest.mark.parametrize(
    ("bound", "module", "said"),
    [("COMMITS_MAX", git, "over 1 commits name claims"), ("RANGES_MAX", verify, "over 1 refs")],
)
def test_above_a_bound_nothing_is_admitted(
    shared: Repository, board: Board, monkeypatch: pytest.MonkeyPatch, bound: str, module: Any, said: str
) -> None:
    monkeypatch.chdir(shared.folder)
    lost, _ = lose(board)
    shared.git("branch", "start")
    tips = [shared.commit(name, f"x/{lost}") for name in ("one", "two")]
    new = [refs.Update(ref=f"refs/heads/{number}", old=NOBODY, new=tip) for number, tip in enumerate(tips)]
    there = [one.replace(old=old) for one, old in zip(new, (shared.git("rev-parse", "start"), tips[0]), strict=True)]
    monkeypatch.setattr(module, bound, 1)
    shared.git("update-ref", "refs/heads/main", "start")
    for updates in [new, there] if module is verify else [new]:
        with pytest.raises(git.TooMany, match=said):
            verify.verify(lambda: nullcontext(board), refs.received(updates))
