"""Installing the hooks: what was there still runs, and removing them restores every byte."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path

import pytest

from tests.guard.conftest import Repository

HOOKS = ["prepare-commit-msg", "commit-msg", "applypatch-msg", "pre-push"]


def tree(folder: Path) -> dict[str, tuple[object, ...]]:
    """Every file below a folder: kind, mode and content."""
    found: dict[str, tuple[object, ...]] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = ("link", os.readlink(path))
        elif path.is_dir():
            found[name] = ("folder", path.stat().st_mode)
        elif "dibs/" not in name:
            found[name] = ("file", path.stat().st_mode, path.read_bytes())
    return found


def write_hook(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o751)


def is_guarded(repository: Repository) -> bool:
    """Whether a commit by a session gets to the hook of dibs: without a board it warns."""
    code, output = repository.run(
        "git", "commit", "--allow-empty", "-m", "m", session="s", DIBS_STORE="http://127.0.0.1:1"
    )
    assert code == 0, output
    return "nothing was checked" in output


def test_former_hooks_run_first_and_removal_restores_every_byte(repository: Repository) -> None:
    git = repository.folder / ".git"
    (git / "config").write_text((git / "config").read_text() + "# a comment\n")
    write_hook(git / "hooks" / "pre-push", 'echo "$1" >ran; cat >>ran')
    (git / "hooks" / "prepare-commit-msg").symlink_to(repository.folder / "tool")
    write_hook(repository.folder / "tool", 'echo "by a tool" >>"$1"')
    before = tree(git / "hooks")
    config = (git / "config").read_bytes()
    for _ in range(2):  # the second changes nothing
        repository.dibs("guard", "install")
    installed = tree(git / "hooks")
    assert sorted(set(installed) - set(before)) == [
        "applypatch-msg",
        "commit-msg",
        "pre-push.before-dibs",
        "prepare-commit-msg.before-dibs",
    ]
    assert is_guarded(repository)
    repository.commit("m")
    assert "by a tool" in repository.message()
    repository.git("push", "--quiet", "origin", "main")
    ran = (repository.folder / "ran").read_text().splitlines()
    assert (ran[0], ran[1].split()[0]) == ("origin", "refs/heads/main")
    assert repository.dibs("guard", "remove").startswith(f"removed {', '.join(HOOKS)}")
    assert tree(git / "hooks") == before
    assert (git / "config").read_bytes() == config
    assert not (git / "dibs-guard").exists()
    assert repository.dibs("guard", "remove") == "no hook of dibs is installed here"


def test_a_former_hook_that_refuses_still_refuses(repository: Repository) -> None:
    write_hook(repository.folder / ".git" / "hooks" / "pre-push", "exit 9")
    repository.dibs("guard", "install")
    repository.commit("m")
    assert repository.run("git", "push", "origin", "main")[0] != 0


def test_a_former_hook_still_goes_by_its_name_and_finds_the_files_beside_it(repository: Repository) -> None:
    hooks = repository.folder / ".git" / "hooks"
    write_hook(hooks / "common", "refuse() { exit 1; }")
    program = repository.folder / "program"
    write_hook(program, 'case "${0##*/}" in pre-push) . "${0%/*}/common"; refuse;; esac')
    (hooks / "pre-push").symlink_to("../../program")
    before = tree(repository.folder / ".git")
    for _ in range(2):
        repository.dibs("guard", "install")
        assert repository.run("git", "push", "--quiet", "origin", "main:other")[0] == 1
    moved = Repository(repository.folder.rename(repository.folder.with_name("moved")), repository.environment)
    assert moved.run("git", "push", "--quiet", "origin", "main:other")[0] == 1
    moved.dibs("guard", "remove")
    assert tree(moved.folder / ".git") == before


def test_a_folder_of_hooks_that_did_not_exist_is_gone_again(repository: Repository) -> None:
    hooks = repository.folder / ".git" / "hooks"
    for sample in hooks.iterdir():
        sample.unlink()
    hooks.rmdir()
    before = tree(repository.folder / ".git")
    done = json.loads(repository.dibs("guard", "install", "--pre-commit", "--json"))
    assert done == {"folder": str(hooks), "hooks": [*HOOKS, "pre-commit"], "former": str(hooks)}
    assert sorted(path.name for path in hooks.iterdir()) == sorted([*HOOKS, "pre-commit"])
    assert json.loads(repository.dibs("guard", "remove", "--json")) == {"hooks": done["hooks"], "left": []}
    assert tree(repository.folder / ".git") == before


@pytest.mark.parametrize("scope", ["--local", "--global"])
def test_a_hooks_path_stays_untouched_and_is_chained(repository: Repository, scope: str, tmp_path: Path) -> None:
    """As husky has it: a relative folder in the work tree, written by a tool, for every worktree."""
    repository.environment["GIT_CONFIG_GLOBAL"] = str(tmp_path / "gitconfig")
    write_hook(repository.folder / ".husky" / "_" / "prepare-commit-msg", 'echo "by husky: $0" >>"$1"')
    write_hook(repository.folder / ".husky" / "_" / "post-commit", "echo post >>ran")
    repository.git("config", scope, "core.hooksPath", ".husky/_")
    config = repository.folder / ".git" / "config"
    config.write_text(config.read_text().replace("hooksPath = .husky/_", "hooksPath =   .husky/_ # as npm wrote it"))
    before = tree(repository.folder)
    for _ in range(2):
        repository.dibs("guard", "install")
    assert tree(repository.folder / ".husky") == {
        name.removeprefix(".husky/"): content for name, content in before.items() if name.startswith(".husky/")
    }
    assert is_guarded(repository)
    assert "by husky: .husky/_/prepare-commit-msg" in repository.message()
    assert (repository.folder / "ran").read_text() == "post\n"
    # A hook that its owner adds later runs as well.
    write_hook(repository.folder / ".husky" / "_" / "pre-commit", "exit 1")
    assert repository.run("git", "commit", "--allow-empty", "-m", "m")[0] == 1
    (repository.folder / ".husky" / "_" / "pre-commit").unlink()
    (repository.folder / "ran").unlink()
    repository.git("reset", "--quiet", "--hard", "origin/main")
    repository.dibs("guard", "remove")
    after = tree(repository.folder)
    changing = ("objects", "logs", "index", "HEAD", "ORIG_HEAD", "COMMIT_EDITMSG")
    outside = {name for name in {*before, *after} if name.startswith(tuple(f".git/{one}" for one in changing))}
    assert {name: after.get(name) for name in after.keys() - outside} == {
        name: before[name] for name in before.keys() - outside
    }


def test_a_setting_that_was_changed_since_is_left_alone(repository: Repository) -> None:
    repository.git("config", "core.hooksPath", "one")
    repository.dibs("guard", "install")
    repository.git("config", "user.name", "somebody")
    repository.dibs("guard", "remove")
    assert repository.git("config", "core.hooksPath") == "one"
    assert repository.git("config", "user.name") == "somebody"
    repository.dibs("guard", "install")
    repository.git("config", "core.hooksPath", "two")
    repository.dibs("guard", "remove")
    assert repository.git("config", "core.hooksPath") == "two"
    assert not (repository.folder / ".git" / "dibs-guard").exists()


def test_an_installation_that_was_killed_can_be_removed(repository: Repository, tmp_path: Path) -> None:
    repository.git("config", "core.hooksPath", "one")
    config = repository.folder / ".git" / "config"
    before = config.read_bytes()
    write_hook(
        tmp_path / "bin" / "git",
        f'{shutil.which("git")} "$@" || exit; case "$*" in *--local*--replace-all*) kill -9 $PPID;; esac',
    )
    path = f"{tmp_path / 'bin'}:{repository.environment['PATH']}"
    assert repository.run("dibs", "guard", "install", PATH=path)[0] == -signal.SIGKILL
    assert config.read_bytes() != before
    repository.dibs("guard", "remove")
    assert config.read_bytes() == before
    assert not (repository.folder / ".git" / "dibs-guard").exists()


def test_a_hook_that_another_program_replaced_is_left_alone(repository: Repository) -> None:
    hook = repository.folder / ".git" / "hooks" / "pre-push"
    write_hook(hook, "echo first")
    repository.dibs("guard", "install")
    write_hook(hook, "echo second")
    code, output = repository.run("dibs", "guard", "install")
    assert (code, "both exist" in output) == (1, True)
    assert "pre-push was changed or replaced since, and stays" in repository.dibs("guard", "remove")
    assert "second" in hook.read_text()
    assert "first" in hook.with_name("pre-push.before-dibs").read_text()


def test_all_worktrees_share_the_hooks(repository: Repository, tmp_path: Path) -> None:
    repository.git("worktree", "add", "--quiet", "-b", "two", str(tmp_path / "two"))
    there = Repository(tmp_path / "two", repository.environment)
    (there.folder / "dibs.toml").write_text("[board]\n")
    there.dibs("guard", "install")
    assert is_guarded(there)
    assert is_guarded(repository)
    there.dibs("guard", "remove")
    assert not is_guarded(repository)


def test_hooks_that_find_no_board_say_so_when_they_are_installed(repository: Repository, tmp_path: Path) -> None:
    assert "no board" not in repository.dibs("guard", "install")
    hub = Repository(tmp_path / "hub.git", repository.environment)
    assert "name the board with: dibs guard install --store URL" in hub.dibs("guard", "install")
    store = str(repository.folder / ".git" / "dibs" / "board.db")
    assert "no board" not in hub.dibs("guard", "install", "--store", store)
    assert "no board" not in hub.dibs("guard", "install"), "the name stays"
    (tmp_path / "new").mkdir()
    new = Repository(tmp_path / "new", repository.environment)
    new.git("init", "--quiet")
    assert "the hooks check nothing yet: no board here or above" in new.dibs("guard", "install")


def test_what_cannot_be_installed_is_refused_and_changes_nothing(repository: Repository, tmp_path: Path) -> None:
    outside = Repository(tmp_path, repository.environment)
    code, output = outside.run("dibs", "guard", "install")
    assert (code, "there is no git repository here" in output) == (1, True)
    before = tree(repository.folder / ".git")
    code, output = repository.run("dibs", "guard", "install", "--store", "postgresql://u:secret@h/d")
    assert (code, "secret" in output, "leave it out" in output) == (1, False, True)
    assert tree(repository.folder / ".git") == before
    repository.git("config", "extensions.worktreeConfig", "true")
    repository.git("config", "--worktree", "core.hooksPath", "elsewhere")
    before = tree(repository.folder / ".git")
    code, output = repository.run("dibs", "guard", "install")
    assert (code, "is set for this worktree" in output) == (1, True)
    assert tree(repository.folder / ".git") == before
    code, output = repository.run("dibs", "guard", "hook", "post-commit")
    assert (code, "unknown hook 'post-commit'" in output) == (2, True)


def test_a_configuration_that_is_a_link_stays_one(repository: Repository, tmp_path: Path) -> None:
    repository.git("config", "core.hooksPath", "one")
    config = repository.folder / ".git" / "config"
    config.rename(tmp_path / "config")
    config.symlink_to("../../config")
    before = config.read_bytes()
    repository.dibs("guard", "install")
    repository.dibs("guard", "remove")
    assert (config.is_symlink(), (tmp_path / "config").read_bytes()) == (True, before)


def test_a_large_configuration_is_restored_whole(repository: Repository) -> None:
    config = repository.folder / ".git" / "config"
    config.write_text(config.read_text() + "# a comment\n" * 100_000 + "[my]\n\tlast = yes\n")
    repository.git("config", "core.hooksPath", "hooks-of-mine")
    before = config.read_bytes()
    repository.dibs("guard", "install")
    repository.dibs("guard", "remove")
    assert config.read_bytes() == before


@pytest.mark.parametrize(("repair", "change"), [("install", ()), ("remove", ("config", "user.name", "somebody"))])
def test_a_moved_repository_gets_its_hooks_back(repository: Repository, repair: str, change: tuple[str, ...]) -> None:
    write_hook(repository.folder / "tool" / "pre-push", "echo ran >>ran")
    repository.git("config", "core.hooksPath", "tool")
    before = (repository.folder / ".git" / "config").read_bytes()
    repository.dibs("guard", "install")
    moved = repository.folder.rename(repository.folder.with_name("moved"))
    there = Repository(moved, repository.environment)
    if change:
        there.git(*change)
    there.dibs("guard", repair)
    assert is_guarded(there) is (repair == "install")
    there.git("push", "--quiet", "origin", "main")
    assert (moved / "ran").read_text() == "ran\n"
    there.dibs("guard", "remove")
    assert there.git("config", "core.hooksPath") == "tool"
    assert change or (moved / ".git" / "config").read_bytes() == before
    assert not (moved / ".git" / "dibs-guard").exists()


def test_a_hook_that_was_edited_is_left_alone(repository: Repository) -> None:
    repository.dibs("guard", "install")
    hook = repository.folder / ".git" / "hooks" / "pre-push"
    hook.write_text(hook.read_text() + "echo mine\n")
    edited = hook.read_text()
    code, output = repository.run("dibs", "guard", "install")
    assert (code, "was edited since it was installed" in output) == (1, True)
    done = json.loads(repository.dibs("guard", "remove", "--json").splitlines()[0])
    assert (done["left"], "pre-push" in done["hooks"]) == (["pre-push"], False)
    assert hook.read_text() == edited


def test_a_hook_that_another_program_renamed_still_runs_the_former_one(repository: Repository) -> None:
    hooks = repository.folder / ".git" / "hooks"
    write_hook(hooks / "pre-push", "echo former >>ran")
    repository.dibs("guard", "install")
    (hooks / "pre-push").rename(hooks / "pre-push.legacy")
    write_hook(hooks / "pre-push", 'exec "$0.legacy" "$@"')
    repository.commit("m")
    repository.git("push", "--quiet", "origin", "main")
    assert (repository.folder / "ran").read_text() == "former\n"


@pytest.mark.parametrize("has_former", [False, True])
@pytest.mark.parametrize("again", [False, True])
def test_a_hook_that_another_program_renamed_is_removed(repository: Repository, has_former: bool, again: bool) -> None:
    """As the program pre-commit does: it takes the place of a hook that it finds, and calls it."""
    hooks = repository.folder / ".git" / "hooks"
    if has_former:
        write_hook(hooks / "pre-push", "echo former >>ran")
    repository.dibs("guard", "install")
    (hooks / "pre-push").rename(hooks / "pre-push.legacy")
    write_hook(hooks / "pre-push", 'echo program >>ran; [ ! -x "$0.legacy" ] || exec "$0.legacy" "$@"')
    program = (hooks / "pre-push").read_bytes()
    ran = "program\nformer\n" if has_former else "program\n"
    if again:
        repository.dibs("guard", "install")
        code, output = repository.run("git", "push", "--quiet", "origin", "main", "main:other")
        assert (code, (repository.folder / "ran").read_text()) == (0, ran), output
        (repository.folder / "ran").unlink()
    assert repository.run("dibs", "guard", "remove")[1].startswith("removed prepare-commit-msg, commit-msg,")
    assert not list(hooks.glob("*.before-dibs"))
    assert (hooks / "pre-push").read_bytes() == program
    repository.git("push", "--quiet", "origin", "main:third")
    assert (repository.folder / "ran").read_text() == ran
    assert (hooks / "pre-push.legacy").exists() is has_former


def test_installing_again_keeps_the_store_and_the_hooks(repository: Repository) -> None:
    hooks = repository.folder / ".git" / "hooks"
    repository.dibs("guard", "install", "--store", "http://127.0.0.1:1", "--pre-commit")
    before = tree(hooks)
    repository.dibs("guard", "install")
    assert tree(hooks) == before
    repository.dibs("guard", "remove")
    repository.dibs("guard", "install")
    assert "--store" not in (hooks / "pre-push").read_text()
    assert not (hooks / "pre-commit").exists()


@pytest.mark.parametrize("place", ["pre-push", ""])
def test_a_place_that_cannot_hold_a_hook_is_refused(repository: Repository, place: str) -> None:
    hooks = repository.folder / ".git" / "hooks"
    if place:
        (hooks / place).mkdir()
    else:
        hooks.rename(hooks.with_name("away"))
        hooks.write_text("")
    before = tree(repository.folder / ".git")
    code, output = repository.run("dibs", "guard", "install")
    assert (code, "move it away, and try again" in output) == (1, True)
    assert tree(repository.folder / ".git") == before
