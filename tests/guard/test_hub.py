"""Lost commits under every form that git gives them, at every place where they can be refused: before the push, and in
a shared repository, whose board is a file or behind a server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dibs.board import Board
from tests.guard.conftest import Repository, lose
from tests.server.process import serving

#: A hook of one's own in a shared repository.
VERIFY = """#!/bin/sh
while read -r old new ref; do ranges="$ranges --range main..$new"; done
exec dibs guard verify $ranges
"""


class Forms:
    """A lost commit as git can make it anew, each on a branch of its own, and what the new holder made of each."""

    def __init__(self, repository: Repository, old: int, new: int) -> None:
        repository.git("switch", "--quiet", "-c", "meanwhile")
        repository.commit("meanwhile")
        repository.git("switch", "--quiet", "-c", "lost", "main")
        lost = repository.commit("zombie", f"x/{old}")
        makes: dict[str, tuple[str, list[str]]] = {
            "rebased": ("lost", ["rebase --quiet meanwhile"]),
            "amended": ("lost", ["commit --quiet --amend --no-edit --date=2000-01-01T00:00"]),
            "picked": ("meanwhile", ["cherry-pick lost"]),
            "squashed": ("meanwhile", ["merge --quiet --squash lost", "commit --quiet --no-edit"]),
            "merged": ("meanwhile", ["merge --quiet --no-ff -m merged lost"]),
        }
        #: The refused commit of each form.
        self.lost: dict[str, str] = {}
        for form, (start, commands) in makes.items():
            repository.git("switch", "--quiet", "-c", form, start)
            for command in commands:
                repository.git(*command.split())
            self.lost[form] = lost if form == "merged" else repository.head()
            repository.git("switch", "--quiet", "-c", f"{form}-by-holder")
            claim = ("--trailer", f"Dibs-Claim: x/{new}")
            is_built_upon = form in ("rebased", "picked")
            how = ("--allow-empty", "-m", "go on") if is_built_upon else ("--amend", "--no-edit")
            repository.git("commit", "--quiet", *how, *claim)

    def of_holder(self) -> list[str]:
        return [f"{form}-by-holder" for form in self.lost]


def before_the_push(repository: Repository) -> None:
    repository.dibs("guard", "install")


def in_the_hub(repository: Repository) -> None:
    store = repository.environment["DIBS_STORE"]
    code, output = repository.run("git", "-C", "../hub.git", "-c", "alias.x=!dibs guard install", "x", "--store", store)
    assert code == 0, output


def in_a_hook_of_its_own(repository: Repository) -> None:
    hook = repository.folder.parent / "hub.git" / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(VERIFY)
    hook.chmod(0o755)


@pytest.fixture(params=["a file", "a server"])
def found(repository: Repository, board: Board, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Repository]:
    """The repository, with the variables by which its hooks and those of the hub find the board."""
    store = str(repository.folder / ".git" / "dibs" / "board.db")
    repository.environment["DIBS_STORE"] = store
    if request.param == "a file":
        yield repository
        return
    folder = tmp_path / "server"
    folder.mkdir()
    with serving(folder, "--quiet", store=store) as server:
        key = json.loads(Path(server.told["key_file"]).read_text())["key"]
        repository.environment |= {"DIBS_STORE": server.url, "DIBS_KEY": key}
        yield repository


@pytest.mark.parametrize("guard", [before_the_push, in_the_hub, in_a_hook_of_its_own])
def test_a_lost_commit_is_refused_in_every_form_until_the_new_holder_has_it(
    found: Repository, board: Board, guard: Callable[[Repository], None]
) -> None:
    forms = Forms(found, *lose(board))
    guard(found)
    code, output = found.run("git", "push", "--quiet", "origin", *forms.lost)
    assert code != 0
    # A rebase and a cherry-pick in the same second make the same commit.
    assert f"and {len(set(forms.lost.values())) - 1} more commits" in output
    assert found.git("ls-remote", "--heads", "origin", *forms.lost) == ""
    found.git("push", "--quiet", "origin", *forms.of_holder())
    assert len(found.git("ls-remote", "--heads", "origin", *forms.of_holder()).splitlines()) == len(forms.lost)
