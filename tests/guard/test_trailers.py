"""Which claims a commit names, and whose files it must leave alone."""

from __future__ import annotations

import pytest

from dibs.board import Board
from dibs.guard import trailers
from dibs.guard.authorship import reserved_files, runs_of_commit
from dibs.guard.trailers import Trailer
from tests.guard.conftest import ANN, BOB, Repository, lose


def run(item: str, token: int) -> Trailer:
    return Trailer(item=item, token=token)


def named(board: Board, *files: str, session: str = ANN) -> list[str]:
    return sorted(map(str, runs_of_commit(board, session, files)))


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("subject", []),
        ("subject\n\nDibs-Claim: a/1\n", ["a/1"]),
        ("s\n\nDibs-Claim: a/1\n\nsquashed\n\n    Dibs-Claim: b.c-d_e/22 \r\n", ["a/1", "b.c-d_e/22"]),
        ("s\n\nDibs-Claim: a/1\nDibs-Claim: a/1\nDibs-Claim: a/2", ["a/1", "a/2"]),
        ("s\n\n> Dibs-Claim: a/1\nDibs-Claim: a\nDibs-Claim: /1\nDibs-Claim: a/-1\nNot-Dibs-Claim: a/1", []),
        ("s\n\nDibs-Claim: a/9999999999999999\nDibs-Claim: " + "a" * 129 + "/1", []),
        ("s\n\nDibs-Claim: a/0\nDibs-Claim: -a/1\nDibs-Claim: ../1\nDibs-Claim: _a/1", []),
    ],
)
def test_trailers_are_found_anywhere_in_a_message(message: str, expected: list[str]) -> None:
    assert [str(one) for one in trailers.of(message)] == expected


def test_a_message_that_names_claims_gets_only_that_of_a_successor() -> None:
    claims = (run("a", 3), run("b", 1))
    assert trailers.missing((), claims) == [run("a", 3), run("b", 1)]
    assert trailers.missing((run("a", 3),), claims) == []
    assert trailers.missing((run("a", 2),), claims) == [run("a", 3)]
    assert trailers.missing((run("c", 1),), claims) == []
    assert trailers.missing((run("a", 4),), claims) == [], "an old holder adds nothing"


def test_of_several_items_the_reservation_decides(board: Board) -> None:
    assert named(board, "f") == []
    board.add("t", id="a", resources=["src/a"])
    board.claim("a", session=ANN)
    assert named(board, "anything") == ["a/1"]
    board.add("t", id="b", resources=["src/b", "port:1"])
    board.claim("b", session=ANN)
    board.add("t", id="c")
    board.claim("c", session=ANN)
    assert named(board, "src/b/x.py") == ["b/1"]
    assert named(board, "src/b/x.py", "src/a") == ["a/1", "b/1"]
    assert named(board, "docs/x") == ["a/1", "b/1", "c/1"], "no reservation covers it: all of them"


def test_a_lost_claim_is_named_as_long_as_its_session_may_not_know(board: Board) -> None:
    old, new = lose(board, resources=["src"])
    assert named(board, "f") == [f"x/{old}"]
    assert named(board, "f", session=BOB) == [f"x/{new}"]
    board.add("t", id="other")
    board.claim("other", session=ANN)
    assert named(board, "docs/f") == ["other/1"]
    assert named(board, "src/f") == [f"x/{old}"], "the files of the lost item"
    board.done("other", session=ANN)
    assert named(board, "docs/f") == [], "it has worked on another item since, and ended that itself"


def test_a_parent_commits_for_its_child(board: Board) -> None:
    board.start_session("ann", id="child", parent=ANN)
    board.start_session("ann", id="second", parent=ANN)
    board.add_many([{"title": "t", "id": "a", "resources": ["src"]}, {"title": "t", "id": "b"}])
    board.claim("a", session="child")
    assert named(board, "f") == ["a/1"]
    board.claim("b", session="second")
    assert named(board, "f") == [], "it cannot be told which"
    assert named(board, "src/f") == ["a/1"]


def test_files_that_others_reserve(board: Board) -> None:
    def paths(session: str | None, *files: str) -> list[tuple[str, str]]:
        return [(one.path, one.session) for one in reserved_files(board, session, files)]

    board.start_session("ann", id="child", parent=ANN)
    board.add("t", id="a", resources=["src/api", "pages/[id].tsx", "port:1"])
    board.add("t", id="b", project="another", resources=["src"])
    board.claim("a", session=BOB)
    assert paths(ANN, "src/api/x.py", "src/apis/x.py", "port:1x") == [("src/api/x.py", BOB)]
    assert paths(BOB, "src/api/x.py") == []
    assert paths(None, "src/api/x.py") == [("src/api/x.py", BOB)]
    board.claim("b", session="child")
    assert paths("child", "src/api/x.py") == [], "that item is of another project"
    assert paths(ANN, "src/api/x.py") == [], "and its parent works there too"
    assert paths(None, "src/api/x.py") == [("src/api/x.py", "child"), ("src/api/x.py", BOB)]


def test_the_hooks_write_the_trailer(repository: Repository, board: Board) -> None:
    repository.dibs("guard", "install")
    board.add("t", id="x")
    old = board.claim("x", session=ANN).claim.token
    repository.commit("given", session=ANN)
    assert repository.message() == f"given\n\nDibs-Claim: x/{old}"
    repository.git("commit", "--allow-empty", "--no-verify", "-m", "s\n\nSigned-off-by: a", session=ANN)
    assert repository.message() == f"s\n\nSigned-off-by: a\nDibs-Claim: x/{old}"
    editor = 'f() { echo written > "$1.new"; cat "$1" >> "$1.new"; mv "$1.new" "$1"; }; f'
    repository.git("commit", "--allow-empty", "-v", session=ANN, GIT_EDITOR=editor)
    assert repository.message() == f"written\n\nDibs-Claim: x/{old}"
    before = repository.head()
    code, output = repository.run("git", "commit", "--allow-empty", "-v", session=ANN, GIT_EDITOR="true")
    assert (code, "empty commit message" in output) == (1, True), "the trailer does not hide that nothing was written"
    repository.commit("nobody's")
    assert repository.trailers() == []
    board.force_release("x", reason="gone")
    new = board.claim("x", session=BOB).claim.token
    repository.git("cherry-pick", "--allow-empty", before, session=BOB)
    assert repository.trailers() == [f"x/{old}", f"x/{new}"]


def test_a_command_of_a_worker_commits_for_its_item(repository: Repository, board: Board) -> None:
    repository.dibs("guard", "install")
    for item in ("x", "y"):
        board.add("t", id=item)
    board.claim("y", session=ANN)
    script = "git commit --quiet --allow-empty -m work"
    repository.dibs("exec", "x", "--agent", "ann", "--", "sh", "-c", script)
    assert repository.trailers() == ["x/1"]


def test_a_commit_of_reserved_files_is_refused_where_that_is_installed(repository: Repository, board: Board) -> None:
    repository.dibs("guard", "install", "--pre-commit")
    board.add("t", id="x", resources=["src"])
    board.claim("x", session=BOB)
    (repository.folder / "src").mkdir()
    (repository.folder / "src" / "file name").write_text("1")
    repository.git("add", "src")
    code, output = repository.run("git", "commit", "-m", "m", session=ANN)
    assert (code, f"bob (session {BOB}) reserves src/file name for x" in output) == (1, True)
    repository.git("commit", "-m", "m", session=BOB)
    repository.git("rm", "--quiet", "-r", "src")
    assert repository.run("git", "commit", "-m", "m", session=ANN)[0] == 1, "removing a file touches it"
    repository.git("commit", "--quiet", "--no-verify", "-m", "m", session=ANN)
