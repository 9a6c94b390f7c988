"""The fence at the push: a zombie's commits do not leave its machine, and a shared repository refuses them too."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from dibs.board import Board
from tests.guard.conftest import ANN, BOB, Repository, hub, install_in_hub, lose, pushed
from tests.kit.waiting import PATIENCE_SECONDS

#: A worker that claims the item, waits for a line, commits and pushes. Its claim is renewed in the background.
ZOMBIE = """
import subprocess, sys
from dibs.board import connect
with connect().session("zed", id="zed-1", ttl_seconds=1) as me:
    with me.claim("x"):
        print("claimed", flush=True)
        sys.stdin.readline()
        subprocess.run(["git", "commit", "--quiet", "--allow-empty", "-m", "too late"], check=True)
        print(subprocess.run(["git", "push", "--quiet", "origin", "HEAD:zombie"]).returncode, flush=True)
"""


@pytest.fixture
def guarded(repository: Repository) -> Repository:
    repository.dibs("guard", "install")
    return repository


@pytest.mark.parametrize("where", ["here", "at the hub"])
def test_a_zombie_cannot_push_and_the_new_holder_can(repository: Repository, board: Board, where: str) -> None:
    repository.dibs("guard", "install")
    if where == "at the hub":
        install_in_hub(repository)
        # Commits get their trailers; nothing else is checked before the hub.
        (repository.folder / ".git" / "hooks" / "pre-push").unlink()
    board.add("t", id="x")
    environment = repository.environment | {"DIBS_SESSION": "zed-1"}
    words = [sys.executable, "-c", ZOMBIE]
    with subprocess.Popen(
        words, cwd=repository.folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as zombie:
        assert zombie.stdin is not None
        assert zombie.stdout is not None
        assert zombie.stdout.readline() == "claimed\n"
        os.kill(zombie.pid, signal.SIGSTOP)
        board.claim("x", session=BOB, ttl_seconds=3600, wait_seconds=PATIENCE_SECONDS)
        os.kill(zombie.pid, signal.SIGCONT)
        zombie.stdin.write("\n")
        zombie.stdin.flush()
        assert zombie.stdout.readline() == "1\n"
        zombie.kill()
    assert repository.trailers() == ["x/1"]
    assert hub(repository, "branch", "--list", "zombie") == ""
    repository.git("switch", "--quiet", "-c", "bob", "origin/main")
    repository.commit("bob's", session=BOB)
    assert repository.trailers() == ["x/2"]
    assert pushed(repository, "origin", "bob")[0]
    assert hub(repository, "rev-parse", "bob") == repository.head()


def test_a_push_is_refused_until_the_new_holder_builds_on_it(guarded: Repository, board: Board) -> None:
    old, new = lose(board)
    guarded.commit("zombie", f"x/{old}")
    for session in (ANN, BOB):
        did, output = pushed(guarded, "origin", "main", session=session)
        assert not did
        assert f"(zombie) was made under claim {old} of x, which bob (session {BOB}) took over" in output
    guarded.commit("bob's", session=BOB)
    assert guarded.trailers() == [f"x/{new}"]
    assert pushed(guarded, "origin", "main", session=BOB)[0]


def test_only_what_the_remote_lacks_is_checked(guarded: Repository, board: Board) -> None:
    board.add("t", id="x")
    board.claim("x", session=ANN)
    guarded.commit("in time", session=ANN)
    assert pushed(guarded, "origin", "main")[0]
    board.force_release("x", reason="gone")
    guarded.commit("later")
    assert pushed(guarded, "origin", "main")[0], "what is there already was pushed while the claim was live"
    assert pushed(guarded, "origin", "main:other")[0], "also under another name"
    url = guarded.git("remote", "get-url", "origin")
    assert pushed(guarded, url, "main:by-url")[0]
    assert pushed(guarded, "origin", ":other")[0], "deleting a branch pushes no commit"
    guarded.git("tag", "of-a-file", "HEAD:" + guarded.git("ls-files").splitlines()[0])
    assert pushed(guarded, "origin", "of-a-file")[0]


def test_a_person_can_pass_and_it_is_recorded(guarded: Repository, board: Board) -> None:
    old, _ = lose(board)
    sha = guarded.commit("zombie", f"x/{old}")
    did, output = pushed(guarded, "origin", "main", session=ANN, DIBS_GUARD_PASS="it is good work")
    assert (did, "only a person" in output) == (False, True)
    did, output = pushed(guarded, "origin", "main", DIBS_GUARD_PASS="it is good work", CLAUDECODE="1")
    assert (did, "only a person" in output) == (False, True)
    did, output = pushed(guarded, "origin", "main", DIBS_GUARD_PASS="it is good work")
    assert (did, "1 lost commit passed, as alice decided" in output) == (True, True)
    event = board.log("x")[-1]
    assert (event.kind, event.actor, event.data["run"]) == ("annotated", "alice", old)
    assert event.data["checks"] == {f"guard {sha[:12]}": {"state": "passed: it is good work"}}


def test_a_person_can_pass_a_hub_with_an_option_of_the_push(repository: Repository, board: Board) -> None:
    install_in_hub(repository)
    hub(repository, "config", "receive.advertisePushOptions", "true")
    old, _ = lose(board)
    repository.commit("zombie", f"x/{old}")
    did, output = pushed(repository, "-o", "ci.skip", "origin", "main")
    assert (did, "took over" in output) == (False, True)
    assert pushed(repository, "-o", "dibs-pass=good work", "origin", "main")[0]
    assert board.log("x")[-1].kind == "annotated"
    repository.commit("more")
    assert pushed(repository, "origin", "main")[0], "what is in the hub is not judged again"


def test_a_hub_refuses_what_it_cannot_verify(repository: Repository, tmp_path: Path) -> None:
    install_in_hub(repository)
    assert pushed(repository, "origin", "main:no-claim")[0], "what names no claim needs no board"
    repository.commit("named", "x/1")
    os.rename(repository.folder / ".git" / "dibs", tmp_path / "away")
    assert not pushed(repository, "origin", "main")[0]


def test_without_a_board_or_an_answer_a_push_passes_with_a_warning(guarded: Repository) -> None:
    guarded.commit("named", "x/1")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        # It accepts connections and says nothing.
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        output = guarded.git("commit", "--allow-empty", "-m", "unanswered", session=ANN, DIBS_STORE=url)
    assert "nothing was checked" in output
    did, output = pushed(guarded, "origin", "main", DIBS_STORE="http://127.0.0.1:1")
    assert (did, "nothing was checked" in output) == (True, True)
    os.rename(guarded.folder / ".git" / "dibs", guarded.folder / ".git" / "away")
    guarded.commit("again", "x/1", session=ANN)
    did, output = pushed(guarded, "origin", "main")
    assert (did, "nothing was checked: no board here" in output) == (True, True)
    guarded.commit("third", "x/1")
    did, output = pushed(guarded, "origin", "main", PATH="/usr/bin:/bin")
    assert did, "dibs is found where it was when the hooks were installed"
    hook = guarded.folder / ".git" / "hooks" / "pre-push"
    hook.write_text(hook.read_text().replace("|| dibs=", "|| dibs=/nowhere"))
    did, output = pushed(guarded, "origin", "main:fourth", PATH="/usr/bin:/bin")
    assert (did, "dibs is not installed" in output) == (True, True)


def test_what_was_typed_as_the_source_of_a_push_does_not_matter(guarded: Repository, board: Board) -> None:
    old, _ = lose(board)
    guarded.commit("two words", f"x/{old}")
    for source in ("HEAD^{/two words}", "HEAD^{/two words\n}"):
        did, output = pushed(guarded, "origin", f"{source}:refs/heads/other")
        assert (did, "took over" in output) == (False, True), source


def test_a_mistake_of_the_guard_is_one_line(repository: Repository) -> None:
    code, output = repository.run("dibs", "guard", "hook", "commit-msg")
    assert (code, output.count("\n"), "guard: nothing was checked: TypeError" in output) == (0, 1, True)
    code, output = repository.run("dibs", "guard", "hook", "pre-receive", input="short\n")
    assert (code, output.count("\n"), "the commits cannot be verified" in output) == (75, 1, True)


def test_a_push_to_a_url_is_judged_by_what_that_remote_has(guarded: Repository, board: Board) -> None:
    url = guarded.git("remote", "get-url", "origin")
    guarded.git("init", "--quiet", "--bare", "../fork.git")
    guarded.git("remote", "add", "fork", "../fork.git")
    sha = guarded.commit("only in the fork", f"x/{lose(board)[0]}")
    guarded.git("push", "--quiet", "--no-verify", "fork", "main")
    for write in ("{}", "{}/", "file://{}"):
        assert not pushed(guarded, write.format(url), "main")[0], write
    assert pushed(guarded, f"file://{url.replace('hub.git', 'fork.git')}", f"{sha}:refs/heads/other")[0]


@pytest.mark.parametrize("text", ["x x", "x=" + "[" * 500, "a." * 100_000 + "a = 1", "[board]\nmax_strikes = 0\n"])
def test_a_dibs_toml_that_cannot_be_used_lets_no_lost_commit_pass(guarded: Repository, board: Board, text: str) -> None:
    token, _ = lose(board)
    guarded.commit("late", f"x/{token}")
    (guarded.folder / "dibs.toml").write_text(text)
    passed, output = pushed(guarded, "origin", "HEAD:late")
    assert not passed, output
    assert f"under claim {token} of x" in output
