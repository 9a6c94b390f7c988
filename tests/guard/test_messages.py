"""The messages that get a trailer, however git makes the commit; and those that git has to judge by itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from dibs.board import Board
from tests.guard.conftest import ANN, BOB, Repository

LONG_AGO = "2020-02-02T02:02:02+00:00"


@pytest.fixture
def held(repository: Repository, board: Board) -> Repository:
    """A guarded repository; ann holds x."""
    repository.dibs("guard", "install")
    board.add("t", id="x")
    board.claim("x", session=ANN, ttl_seconds=3600)
    return repository


def commit(repository: Repository, *words: str, session: str | None = ANN, **variables: str) -> None:
    repository.git("commit", "--quiet", "--allow-empty", *words, session=session, **variables)


def editor(text: str) -> str:
    """An editor that replaces the message."""
    return f"f() {{ printf '{text}' >\"$1\"; }}; f"


def test_a_message_that_looks_like_a_comment_gets_its_trailer(held: Repository) -> None:
    commit(held, "-m", "#42 fix the login")
    assert held.message() == "#42 fix the login\n\nDibs-Claim: x/1"
    commit(held, "-m", "subject\n\n#43 is next")
    assert held.message() == "subject\n\n#43 is next\n\nDibs-Claim: x/1"
    held.git("config", "commit.cleanup", "whitespace")
    commit(held, GIT_EDITOR=editor("#7 fix"))
    assert held.message() == "#7 fix\n\nDibs-Claim: x/1"


def test_a_message_that_nobody_wrote_stays_unwritten(held: Repository) -> None:
    for word, noop in (("--verbose", "true"), ("--signoff", "true"), ("--status", ":")):
        code, output = held.run("git", "commit", "--allow-empty", word, session=ANN, GIT_EDITOR=noop)
        assert (code, "empty commit message" in output) == (1, True), word


def test_a_template_that_nobody_filled_in_stays_so(held: Repository, tmp_path: Path) -> None:
    (tmp_path / "template").write_text("Ticket: \n\n# help\n")
    held.git("config", "commit.template", str(tmp_path / "template"))
    code, output = held.run("git", "commit", "--allow-empty", session=ANN, GIT_EDITOR="true")
    assert (code, "you did not edit the message" in output) == (1, True)
    commit(held, GIT_EDITOR=editor("Ticket: 7\\n\\n# help\\n"))
    assert held.message() == "Ticket: 7\n\nDibs-Claim: x/1"


def test_what_only_looks_like_a_trailer_is_none(held: Repository) -> None:
    commit(held, GIT_EDITOR=editor("subject\\n\\nDibs-Claim: \\nDibs-Claim: ../y\\n"))
    assert held.trailers()[-1] == "x/1"
    (held.folder / "doc").write_text("1\nDibs-Claim: y/1\n2\n")
    held.git("add", "doc")
    commit(held, "-m", "doc")
    (held.folder / "doc").write_text("1\nDibs-Claim: y/1\n3\n")
    held.git("add", "doc")
    write = 'f() { echo written >"$1.new"; cat "$1" >>"$1.new"; mv "$1.new" "$1"; }; f'
    commit(held, "-v", GIT_EDITOR=write)
    assert held.message() == "written\n\nDibs-Claim: x/1", "the diff below the message shows another"


def test_a_merge_keeps_its_subject(held: Repository) -> None:
    held.git("switch", "--quiet", "-c", "topic")
    held.commit("topic's")
    held.git("switch", "--quiet", "main")
    held.git("merge", "--quiet", "--no-ff", "--no-edit", "topic", session=ANN)
    assert held.git("log", "-1", "--format=%s") == "Merge branch 'topic'"
    assert held.message() == "Merge branch 'topic'\n\nDibs-Claim: x/1"
    held.git("reset", "--quiet", "--hard", "HEAD~1")
    held.git("merge", "--quiet", "--no-ff", "-m", "Merge it", "topic", session=ANN)
    assert held.message() == "Merge it\n\nDibs-Claim: x/1"


def test_an_amended_commit_keeps_its_claim_under_a_new_message(held: Repository, board: Board) -> None:
    commit(held, "-m", "of x", GIT_AUTHOR_DATE=LONG_AGO)
    board.force_release("x", reason="gone")
    board.add("t", id="y")
    board.claim("y", session=ANN)
    commit(held, "--amend", "-m", "of x, in other words")
    assert held.message() == "of x, in other words\n\nDibs-Claim: x/1"
    commit(held, "--amend", "-m", "of y, in truth\n\nDibs-Claim: y/1")
    assert held.trailers() == ["y/1"], "who names a claim decides"
    commit(held, "--amend", "-m", "of x", "--trailer", "Dibs-Claim: x/1")
    token = board.claim("x", session=BOB).claim.token
    commit(held, "--amend", "-m", "taken over", session=BOB)
    assert held.trailers() == ["x/1", f"x/{token}"]
    commit(held, "-m", "new")
    assert held.trailers() == ["y/1"], "not an amended one"


def test_claims_are_kept_by_whoever_amends_or_squashes(held: Repository) -> None:
    held.git("switch", "--quiet", "-c", "topic")
    commit(held, "-m", "ann's", GIT_AUTHOR_DATE=LONG_AGO)
    commit(held, "--amend", "-m", "in other words", session=None)
    assert held.message() == "in other words\n\nDibs-Claim: x/1"
    held.commit("a person's")
    held.git("switch", "--quiet", "main")
    held.git("merge", "--quiet", "--squash", "topic")
    commit(held, "-m", "squashed", session=None)
    assert held.message() == "squashed\n\nDibs-Claim: x/1"
    held.commit("next")
    assert held.trailers() == []


def test_an_applied_patch_gets_its_trailer(held: Repository, tmp_path: Path) -> None:
    held.commit("#8 patched")
    (tmp_path / "patch").write_text(held.git("format-patch", "-1", "--stdout") + "\n")
    held.git("reset", "--quiet", "--hard", "HEAD~1")
    held.git("am", "--quiet", "--keep", str(tmp_path / "patch"), session=ANN)
    assert held.trailers() == ["x/1"]


@pytest.mark.parametrize("backend", ["--merge", "--apply"])
def test_a_rebase_does_not_claim_the_commits_of_others(held: Repository, board: Board, backend: str) -> None:
    held.git("switch", "--quiet", "-c", "topic")
    held.commit("a person's")
    held.commit("ann's", session=ANN)
    held.git("switch", "--quiet", "main")
    held.commit("meanwhile")
    board.force_release("x", reason="gone")
    token = board.claim("x", session=BOB).claim.token
    held.git("rebase", "--quiet", backend, "main", "topic", session=BOB)
    assert held.trailers("topic~1") == []
    assert held.trailers("topic") == ["x/1", f"x/{token}"]
    held.git("switch", "--quiet", "--detach", "main")
    held.git("cherry-pick", "topic~1", session=BOB)
    assert held.trailers() == []


def test_dibs_does_not_start_where_nobody_can_have_a_session(held: Repository, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "dibs").write_text(f"#!/bin/sh\necho >>'{tmp_path}/started'\n")
    (tmp_path / "bin" / "dibs").chmod(0o755)
    path = f"{tmp_path}/bin:{held.environment['PATH']}"
    commit(held, "-m", "nobody's", session=None, PATH=path)
    assert not (tmp_path / "started").exists()
    for variable in ("DIBS_SESSION", "DIBS_CLAIM_TOKEN", "CODEX_THREAD_ID"):
        commit(held, "-m", "a session's", session=None, PATH=path, **{variable: "1"})
        (tmp_path / "started").unlink()
