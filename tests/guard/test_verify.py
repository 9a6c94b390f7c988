"""Which commits are refused: those of lost runs, unless a later run of the item builds on them."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from dibs.board import Board
from dibs.guard import git, verify
from tests.guard.conftest import ANN, BOB, Repository, import_commits, lose
from tests.kit.waiting import PATIENCE_SECONDS

COMMITS = 100
#: The commits of a random history.
HISTORY = 40
#: The whole command, its interpreter and git included, in seconds of processor time: another load does not count.
CPU_SECONDS_MAX = 1.0


@pytest.fixture
def refused(repository: Repository, board: Board, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """The commits of a range that are refused, by their subjects."""
    monkeypatch.chdir(repository.folder)
    for name, value in repository.environment.items():
        if name.startswith("GIT_"):
            monkeypatch.setenv(name, value)

    def refused(*ranges: str) -> list[str]:
        asked = [git.resolve(one) for one in ranges or ("origin/main..HEAD",)]
        verdict = verify.verify(lambda: nullcontext(board), asked)
        return sorted(one.subject for one in verdict.refused)

    return refused


Refused = Callable[..., list[str]]


def test_a_commit_is_refused_iff_its_run_was_lost(repository: Repository, board: Board, refused: Refused) -> None:
    def ended(item: str, end: Callable[..., Any], **more: Any) -> None:
        board.add(item, id=item)
        token = board.claim(item, session=ANN).claim.token
        repository.commit(item, f"{item}/{token}")
        end(item, **more)

    by_holder: dict[str, Any] = {"session": ANN}
    ended("live", lambda _: None)
    ended("done", board.done, **by_holder)
    ended("failed", board.fail, **by_holder)
    ended("submitted", board.submit, draft="d", **by_holder)
    ended("released", board.release, **by_holder)
    board.claim("released", session=BOB)
    ended("handed", board.hand, to=BOB, **by_holder)
    ended("forced", board.force_release, reason="gone")
    ended("cancelled", board.cancel, reason="no longer wanted")
    repository.commit("taken", f"taken/{lose(board, 'taken')[0]}")
    repository.commit("nobody")
    assert refused() == ["cancelled", "forced", "taken"]


def test_an_expired_run_is_lost_only_when_another_session_has_the_item(
    repository: Repository, board: Board, refused: Refused
) -> None:
    board.add("x", id="x")
    tokens = [board.claim("x", session=ANN, ttl_seconds=0.1).claim.token]
    repository.commit("expired", f"x/{tokens[0]}")
    watch = board.watch(sweeps=True)
    while board.get("x").claim is not None:
        watch.wait(PATIENCE_SECONDS)
    watch.close()
    assert refused() == []
    board.recover("x", session=ANN, token=tokens[0], ttl_seconds=3600)
    assert refused() == [], "nobody else has had the item"
    board.release("x", session=ANN)
    board.claim("x", session=BOB)
    assert refused() == [], "ann ended the run herself, after she had recovered it"
    board.force_release("x", reason="gone")
    tokens += [board.claim("x", session=ANN).claim.token]
    repository.commit("forced", f"x/{tokens[1]}")
    board.force_release("x", reason="gone")
    assert refused() == ["forced"]


def test_an_expired_run_of_a_cancelled_item_is_lost(repository: Repository, board: Board, refused: Refused) -> None:
    for number in range(verify.ITEMS_SINGLY + 1):
        board.add("t", id=f"i{number}")
        token = board.claim(f"i{number}", session=ANN, ttl_seconds=0.1).claim.token
        repository.commit(f"c{number}", f"i{number}/{token}")
    with_expiry = [f"i{number}" for number in range(verify.ITEMS_SINGLY + 1)]
    watch = board.watch(sweeps=True)
    while any(board.get(item).claim is not None for item in with_expiry):
        watch.wait(PATIENCE_SECONDS)
    watch.close()
    board.cancel("i0", reason="no longer wanted")
    assert refused() == ["c0"]


@pytest.mark.parametrize("form", ["dibs-claim: {}", "DIBS-CLAIM : {}"])
def test_a_trailer_counts_in_every_form_of_its_name(
    repository: Repository, board: Board, refused: Refused, form: str
) -> None:
    claim = f"x/{lose(board)[0]}"
    repository.git("commit", "--quiet", "--allow-empty", "-m", f"zombie\n\n{form.format(claim)}")
    assert refused() == ["zombie"]


def test_a_later_run_that_builds_on_a_commit_saves_it(repository: Repository, board: Board, refused: Refused) -> None:
    old, new = lose(board)
    repository.commit("zombie", f"x/{old}")
    assert refused() == ["zombie"]
    repository.commit("another's", "y/9")
    assert refused() == ["zombie"], "only the same item counts"
    repository.commit("holder's", f"x/{new}")
    assert refused() == []
    repository.commit("zombie again", f"x/{old}")
    assert refused() == ["zombie again"], "nobody has built on this one"


def test_a_token_that_was_never_given_saves_nothing(repository: Repository, board: Board, refused: Refused) -> None:
    old, new = lose(board)
    repository.commit("zombie", f"x/{old}")
    repository.commit("forged", f"x/{new + 7}")
    assert refused() == ["zombie"]


def test_a_merge_by_the_new_holder_saves_and_one_by_others_does_not(
    repository: Repository, board: Board, refused: Refused
) -> None:
    old, new = lose(board)
    repository.git("switch", "--quiet", "-c", "zombie")
    repository.commit("zombie", f"x/{old}")
    repository.git("switch", "--quiet", "main")
    repository.commit("other work")
    repository.git("merge", "--quiet", "--no-ff", "-m", "merge by somebody", "zombie")
    assert refused() == ["zombie"]
    repository.git("commit", "--quiet", "--amend", "-m", f"merge by the holder\n\nDibs-Claim: x/{new}")
    assert refused() == []


def test_what_builds_on_a_commit_has_to_come_with_it(repository: Repository, board: Board, refused: Refused) -> None:
    old, new = lose(board)
    repository.commit("zombie", f"x/{old}")
    repository.git("branch", "zombie")
    repository.commit("holder's", f"x/{new}")
    assert refused("origin/main..main") == []
    assert refused("origin/main..zombie") == ["zombie"], "the holder's commit would stay on its own branch"
    assert refused("origin/main..zombie", "origin/main..main") == ["zombie"], "each range is judged by itself"
    assert refused("origin/main..zombie", "zombie..main") == ["zombie"]
    repository.git("switch", "--quiet", "-c", "beside", "zombie~1")
    repository.commit("zombie again", f"x/{old}")
    assert refused("origin/main..beside", "origin/main..zombie") == ["zombie", "zombie again"]


def test_rebased_amended_and_picked_commits_keep_their_claim(
    repository: Repository, board: Board, refused: Refused
) -> None:
    old, _ = lose(board)
    repository.git("switch", "--quiet", "-c", "zombie")
    picked = repository.commit("zombie", f"x/{old}")
    repository.git("switch", "--quiet", "main")
    repository.commit("meanwhile")
    repository.git("rebase", "--quiet", "main", "zombie")
    assert refused() == ["zombie"]
    repository.git("commit", "--quiet", "--amend", "--no-edit", "--date=2000-01-01T00:00")
    assert refused() == ["zombie"]
    repository.git("switch", "--quiet", "--detach", "main")
    repository.git("cherry-pick", picked)
    assert refused("origin/main..HEAD") == ["zombie"]


def test_a_squash_is_judged_by_every_claim_in_it(repository: Repository, board: Board, refused: Refused) -> None:
    old, new = lose(board)
    board.add("y", id="y")
    live = board.claim("y", session=ANN).claim.token
    repository.git("switch", "--quiet", "-c", "topic")
    repository.commit("one", f"y/{live}")
    repository.commit("two", f"x/{old}")
    repository.git("switch", "--quiet", "main")
    repository.git("merge", "--quiet", "--squash", "topic")
    repository.git("commit", "--quiet", "--no-edit")
    assert repository.trailers() == [f"x/{old}", f"y/{live}"], "git indents the messages of a squash"
    assert len(refused()) == 1
    repository.git("commit", "--quiet", "--amend", "-m", f"{repository.message()}\n\nDibs-Claim: x/{new}")
    assert refused() == [], "the holder squashed the lost work into its own"


def test_old_runs_of_an_item_with_many_are_known(repository: Repository, board: Board, refused: Refused) -> None:
    old, _ = lose(board)
    repository.commit("zombie", f"x/{old}")
    for _ in range(25):
        board.release("x", session=BOB)
        board.claim("x", session=BOB)
    assert refused() == ["zombie"]


def test_a_run_that_the_board_does_not_know_is_not_judged(repository: Repository, board: Board) -> None:
    old, new = lose(board)
    repository.commit("elsewhere", "of-another-board/3")
    repository.commit("before a restore", f"x/{new + 5}")
    repository.commit("not a trailer", "x/one", "../x/1", "x/99999999999999999999", f"> x/{old}")
    code, output = repository.run("dibs", "guard", "verify", "--range", "origin/main..HEAD")
    assert code == 0
    assert f"does not know of-another-board/3, x/{new + 5}" in output
    assert "2 commits with a claim, none refused" in output


def test_the_verdict_is_json_for_programs(repository: Repository, board: Board) -> None:
    old, _ = lose(board)
    sha = repository.commit("zombie", f"x/{old}")
    code, output = repository.run("dibs", "guard", "verify", "--range", "origin/main..HEAD", "--json")
    error = json.loads(output)["error"]
    assert (code, error["code"]) == (4, "NOT_CLAIM_OWNER")
    (one,) = error["refused"]
    assert (one["commit"], one["item"], one["token"], one["how"]) == (sha, "x", old, "taken_over")
    assert one["by"] == {"agent": "bob", "session": BOB}
    repository.git("reset", "--quiet", "--hard", "origin/main")
    code, output = repository.run("dibs", "guard", "verify", "--range", "origin/main..HEAD", "--json")
    assert (code, json.loads(output)) == (0, {"claims": 0, "refused": [], "unknown": []})


@pytest.mark.parametrize("range", ["nowhere..HEAD", "--all", "", "HEAD:first"])
def test_a_range_that_is_none_is_refused(repository: Repository, range: str) -> None:
    code, output = repository.run("dibs", "guard", "verify", f"--range={range}", "--json")
    assert (code, json.loads(output)["error"]["code"]) == (1, "INVALID")


def test_without_an_answer_verify_exits_75(repository: Repository, tmp_path: Path) -> None:
    repository.commit("named", "x/1")
    words = ("dibs", "guard", "verify", "--range", "origin/main..HEAD")
    assert repository.run(*words, DIBS_STORE="http://127.0.0.1:1")[0] == 75
    code, output = repository.run(sys.executable, "-m", "dibs.cli.main", *words[1:], PATH=str(tmp_path))
    assert (code, "git is not installed" in output) == (75, True), output
    os.rename(repository.folder / ".git" / "dibs", repository.folder / ".git" / "away")
    code, output = repository.run(*words)
    assert (code, "no board here" in output) == (75, True)
    # What names no claim needs no board.
    assert repository.run("dibs", "guard", "verify", "--range", "origin/main..origin/main")[0] == 0


def test_a_missing_object_is_not_a_wrong_range(repository: Repository) -> None:
    shas = [repository.commit(name, "x/1") for name in ("one", "two", "three")]
    (repository.folder / ".git" / "objects" / shas[1][:2] / shas[1][2:]).unlink()
    code, output = repository.run("dibs", "guard", "verify", "--range", "HEAD")
    assert (code, "the commits cannot be verified: git rev-list" in output) == (75, True), output


class Counted:
    """A store that notes which verbs are called."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.called = inner, []  # type: ignore[var-annotated]

    def __getattr__(self, name: str) -> Any:
        if name in ("get", "runs", "who", "events", "log"):
            self.called.append(name)
        return getattr(self.inner, name)


def test_the_board_is_asked_once_about_a_hundred_commits(
    repository: Repository, board: Board, refused: Refused
) -> None:
    board.add_many([{"title": "t", "id": f"i{number}"} for number in range(COMMITS)])
    grants = board.next(session=ANN, n=COMMITS)
    board.force_release("i7", reason="gone")
    import_commits(repository, [f"{grant.item.id}/{grant.claim.token}" for grant in grants])
    counted = Counted(board.store)
    board.store = counted  # type: ignore[assignment]
    assert refused("main..many") == ["work"]
    assert counted.called == ["runs"]
    board.store = counted.inner
    words = [sys.executable, "-m", "dibs.cli.main", "guard", "verify", "--range", "main..many", "--json"]
    process = subprocess.Popen(
        words, cwd=repository.folder, env=repository.environment, stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        assert "i7" in process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 4
    assert used.ru_utime + used.ru_stime < CPU_SECONDS_MAX


def test_no_program_of_the_repository_runs_while_it_is_verified(
    repository: Repository, board: Board, tmp_path: Path
) -> None:
    mark = tmp_path / "ran"
    repository.git("config", "core.fsmonitor", f"touch '{mark}'")
    repository.git("config", "log.showSignature", "true")
    repository.git("config", "diff.external", f"touch '{mark}'")
    old, _ = lose(board)
    repository.commit("zombie", f"x/{old}")
    mark.unlink(missing_ok=True)
    assert repository.run("dibs", "guard", "verify", "--range", "origin/main..HEAD")[0] == 4
    assert not mark.exists()


@pytest.mark.parametrize("setting", ["i18n.logOutputEncoding", "i18n.commitEncoding"])
def test_an_encoding_does_not_hide_a_trailer(
    repository: Repository, board: Board, refused: Refused, setting: str
) -> None:
    old, _ = lose(board)
    words = ("commit", "--quiet", "--allow-empty", "-m", f"zombie\n\nDibs-Claim: x/{old}")
    repository.git("-c", f"{setting}=UTF-16", *words)
    repository.git("config", setting, "UTF-16")
    assert refused() == ["zombie"]


def test_a_replaced_commit_is_judged_as_it_is_pushed(repository: Repository, board: Board, refused: Refused) -> None:
    old, _ = lose(board)
    sha = repository.commit("zombie", f"x/{old}")
    repository.git("replace", sha, repository.git("commit-tree", "-m", "harmless", "HEAD^{tree}", "-p", "HEAD~1"))
    assert refused() == ["zombie"]


def test_git_is_asked_as_often_for_many_lost_runs_as_for_one(
    repository: Repository, board: Board, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    board.add_many([{"title": "t", "id": f"i{number}"} for number in range(COMMITS)])
    for _ in range(COMMITS // 50):
        board.next(session=ANN, n=50)
    lost = [f"i{number}/1" for number in range(COMMITS)]
    for number in range(COMMITS):
        board.force_release(f"i{number}", reason="gone")
    heirs = [board.claim(f"i{number}", session=BOB).claim for number in range(0, COMMITS, 2)]
    import_commits(repository, [*lost, *(f"{heir.item}/{heir.token}" for heir in heirs)])
    asked: list[str] = []
    ask = git.run

    def count(*words: str, **more: Any) -> str:
        asked.append(words[0])
        return ask(*words, **more)

    monkeypatch.setattr(git, "run", count)
    assert len(refused("main..many")) == COMMITS - len(heirs)
    assert asked == ["rev-parse", "rev-list", "rev-parse", "rev-list"]


def test_what_builds_on_a_commit_is_found_in_any_history(
    repository: Repository, board: Board, refused: Refused
) -> None:
    """Random histories of merges, against the definition: a descendant names a later run."""
    tokens = {item: lose(board, item) for item in ("x", "y")}
    seed = int(os.environ.get("DIBS_SEED") or random.randrange(1 << 32))
    chance = random.Random(seed)
    lines, above, named = ["reset refs/heads/dag", "from refs/heads/main", ""], [set[int]() for _ in range(HISTORY)], []
    for number in range(HISTORY):
        item = chance.choice("xy")
        named.append((item, tokens[item][chance.random() < 0.2]))
        parents = chance.sample(range(number), min(number, chance.choice((1, 1, 2))))
        message = f"{number}\n\nDibs-Claim: {named[-1][0]}/{named[-1][1]}\n"
        lines += [f"commit refs/heads/dag-{number}", f"mark :{number + 1}", "committer ann <ann> 1700000000 +0000"]
        lines += [f"data {len(message)}", message, f"from :{parents[0] + 1}" if parents else "from refs/heads/main"]
        lines += [f"merge :{parent + 1}" for parent in parents[1:]]
        above[number] = set(parents).union(*(above[parent] for parent in parents))
    repository.run("git", "fast-import", "--quiet", input="\n".join([*lines, ""]))
    heirs = {(one, number) for number in range(HISTORY) for one in above[number]}
    expected = [
        str(number)
        for number, (item, token) in enumerate(named)
        if token == tokens[item][0]
        and not any((number, heir) in heirs and named[heir] == (item, tokens[item][1]) for heir in range(HISTORY))
    ]
    all_branches = git.Revisions(included=(), excluded=("main",), options=("--branches=dag-*",))
    verdict = verify.verify(lambda: nullcontext(board), [all_branches])
    assert expected, f"DIBS_SEED={seed}"
    assert sorted(one.subject for one in verdict.refused) == sorted(expected), f"DIBS_SEED={seed}"
