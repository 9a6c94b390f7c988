"""Histories that a clone has only in part: what is missing cannot be judged, and does not pass for innocent."""

from __future__ import annotations

import pytest

from dibs.board import Board
from tests.guard.conftest import Repository, lose


@pytest.fixture
def topic(repository: Repository, board: Board) -> Repository:
    """A pushed branch with a lost commit below a commit without a claim."""
    repository.environment["DIBS_STORE"] = str(repository.folder / ".git" / "dibs" / "board.db")
    repository.git("switch", "--quiet", "-c", "topic")
    repository.commit("zombie", f"x/{lose(board)[0]}")
    repository.commit("on top")
    repository.git("push", "--quiet", "origin", "topic")
    return repository


def cloned(repository: Repository, name: str, *options: str) -> Repository:
    folder = repository.folder.parent / name
    url = f"file://{repository.folder.parent / 'hub.git'}"
    repository.git("clone", "--quiet", "--no-single-branch", "--branch=topic", *options, url, str(folder))
    return Repository(folder, repository.environment)


def test_a_shallow_clone_does_not_pass_what_it_does_not_have(topic: Repository) -> None:
    verify = ("dibs", "guard", "verify", "--range", "origin/main..HEAD")
    shallow = cloned(topic, "shallow", "--depth=1")
    code, output = shallow.run(*verify)
    boundary = shallow.head()[:12]
    assert (code, f"a shallow clone left out the commits before {boundary}" in output) == (75, True), output
    code, output = shallow.run("dibs", "guard", "verify", "--range", "origin/topic..HEAD")
    assert (code, "none refused" in output) == (0, True), "the range does not reach what is missing"
    shallow.git("fetch", "--quiet", "--deepen=1")
    assert shallow.run(*verify)[0] == 4, "what is there is judged"
    shallow.git("fetch", "--quiet", "--unshallow")
    assert shallow.run(*verify)[0] == 4


def test_a_push_from_a_shallow_clone_is_judged_by_what_it_brings(topic: Repository) -> None:
    shallow = cloned(topic, "shallow", "--depth=1")
    shallow.dibs("guard", "install")
    shallow.commit("more")
    assert "guard" not in shallow.git("push", "origin", "topic"), "the remote has what is missing"
    fork = topic.folder.parent / "fork.git"
    topic.git("init", "--quiet", "--bare", str(fork))
    topic.git("push", "--quiet", "--no-verify", str(fork), "main")
    topic.git("-C", str(fork), "config", "receive.shallowUpdate", "true")
    store = topic.environment["DIBS_STORE"]
    code, output = topic.run("sh", "-c", f"cd '{fork}' && dibs guard install --store '{store}'")
    assert code == 0, output
    shallow.git("remote", "add", "fork", str(fork))
    code, output = shallow.run("git", "push", "fork", "topic")
    assert (code, "guard: not everything was checked: a shallow clone" in output) == (1, True), output
    assert "remote: dibs: guard: the commits cannot be verified: a shallow clone" in output


def test_a_graft_does_not_hide_a_commit(topic: Repository) -> None:
    grafts = topic.folder / ".git" / "info" / "grafts"
    grafts.write_text(f"{topic.head()} {topic.git('rev-parse', 'origin/main')}\n")
    assert topic.git("rev-list", "--count", "origin/main..HEAD").splitlines()[-1] == "1"
    assert topic.run("dibs", "guard", "verify", "--range", "origin/main..HEAD")[0] == 4
