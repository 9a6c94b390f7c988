"""What is believed on a machine that several users share: whose boards, whose settings, and what a clone brings.

Each test is an attack or a mishap: what another user put into a folder above, what a commit put into a work tree, what
root left behind. A refusal is one line, and the line to type in it works.
"""

from __future__ import annotations

import os
import shlex
import shutil
import stat
import subprocess
from pathlib import Path

import apsw
import pytest

from dibs.board import connect
from tests.e2e.conftest import Dibs
from tests.e2e.test_finding_the_board import git, repository
from tests.e2e.users import ALICE, BOB, MALLORY, TEAM, Machine, machine, needs_root

__all__ = ["machine", "repository"]


def line_of(refusal: str) -> list[str]:
    """The line to type that a refusal tells, without the name of the program."""
    _, _, line = refusal.partition("type: ")
    program, *words = shlex.split(line)
    assert program in ("dibs", "sudo")
    return words


def items(dibs: Dibs, folder: Path, **environment: str) -> list[str]:
    return [item["id"] for item in dibs.json("list", folder=folder, environment=environment)["items"]]


def put_board(folder: Path, item: str = "evil") -> Path:
    """A board with one item, in one file, so that git can carry it."""
    path = folder / ".dibs" / "board.db"
    with connect(str(path), folder=str(folder), create=True) as board:
        board.add(item, id=item)
    into_one_file(path)
    return path


def into_one_file(path: Path) -> None:
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    connection.close()
    for suffix in ("-lock", "-bell"):
        path.with_name(path.name + suffix).unlink()
    assert [other.name for other in path.parent.iterdir()] == [path.name]


@pytest.fixture
def clone(bare: Dibs, repository: Path) -> Path:
    """A clone of a repository in which somebody committed a board."""
    put_board(repository)
    (repository / "src").mkdir()
    (repository / "src" / "code").write_text("x")
    git(repository, "add", "--force", ".")
    git(repository, "commit", "--message", "a board")
    git(bare.folder, "clone", str(repository), "clone")
    return bare.folder / "clone"


# What a commit brings


def test_a_committed_board_is_refused_and_the_line_that_is_told_trusts_it(bare: Dibs, clone: Path) -> None:
    home = {"XDG_CONFIG_HOME": str(bare.folder / "config")}
    for words in (("list",), ("next", "--session", "s", "--agent", "a")):
        code, error = bare.refused(*words, folder=clone / "src", environment=home)
        assert (code, error["code"]) == (6, "NOT_TRUSTED")
        assert error["path"] == str(clone / ".dibs")
        assert error["trust"] == f"dibs trust {clone}/.dibs"
    refusal = bare("list", folder=clone / "src", environment=home)
    assert refusal.stderr.count("\n") == 1
    assert "comes from a commit" in refusal.stderr
    bare.ok(*line_of(refusal.stderr), environment=home)
    assert items(bare, clone / "src", **home) == ["evil"]
    assert bare.json("trust", "--list", environment=home)["trusted"] == [f"{clone}/.dibs"]
    bare.ok("trust", "--remove", f"{clone}/.dibs", environment=home)
    bare.refused("list", folder=clone, environment=home)


@pytest.mark.parametrize("setting", ["index.version=4", "core.splitIndex=true"])
def test_a_committed_board_is_noticed_whatever_form_the_index_has(bare: Dibs, clone: Path, setting: str) -> None:
    git(clone, "config", *setting.split("="))
    (clone / "other").write_text("x")
    git(clone, "add", "other")
    git(clone, "update-index", *(["--split-index"] if "split" in setting else ["--index-version", "4"]))
    assert bare.refused("list", folder=clone)[1]["code"] == "NOT_TRUSTED"


def test_a_committed_link_to_a_board_is_refused(bare: Dibs, repository: Path) -> None:
    put_board(bare.folder / "elsewhere")
    (repository / ".dibs").symlink_to(bare.folder / "elsewhere" / ".dibs")
    git(repository, "add", "--force", ".dibs")
    git(repository, "commit", "--message", "a link")
    git(bare.folder, "clone", str(repository), "clone")
    code, error = bare.refused("list", folder=bare.folder / "clone")
    assert (code, error["code"]) == (6, "NOT_TRUSTED")


def test_the_board_in_the_git_folder_comes_before_whatever_lies_in_the_work_tree(bare: Dibs, clone: Path) -> None:
    for place in (".dibs", "src/.dibs"):
        if not (clone / place).exists():
            shutil.copytree(clone / ".dibs", clone / place)
    (clone / "src" / "Needs_Action").mkdir()
    bare.ok("init", folder=clone)
    bare.ok("add", "mine", "--id", "mine", folder=clone)
    assert items(bare, clone) == items(bare, clone / "src") == ["mine"]


def test_a_board_in_a_work_tree_that_nobody_committed_is_used(bare: Dibs, repository: Path) -> None:
    put_board(repository, item="mine")
    (repository / "code").write_text("x")
    git(repository, "add", "code")
    git(repository, "commit", "--message", "code")
    assert items(bare, repository) == ["mine"]


def test_a_linked_board_is_used_once_it_is_trusted(bare: Dibs) -> None:
    put_board(bare.folder / "elsewhere", item="mine")
    folder = bare.folder / "here"
    folder.mkdir()
    (folder / ".dibs").symlink_to(bare.folder / "elsewhere" / ".dibs")
    home = {"XDG_CONFIG_HOME": str(bare.folder / "config")}
    refusal = bare("list", folder=folder, environment=home)
    assert "is a symbolic link" in refusal.stderr
    bare.ok(*line_of(refusal.stderr), environment=home)
    assert items(bare, folder, **home) == ["mine"]


def test_a_new_board_is_not_made_through_a_link(bare: Dibs) -> None:
    (bare.folder / ".dibs").symlink_to(bare.folder / "outside")
    assert bare.refused("init")[1]["code"] == "NOT_TRUSTED"
    assert not (bare.folder / "outside").exists()


def test_what_is_named_is_the_users_own_decision(bare: Dibs, clone: Path) -> None:
    assert items(bare, clone, DIBS_STORE=str(clone / ".dibs" / "board.db")) == ["evil"]
    bare.ok("list", "--store", str(clone / ".dibs" / "board.db"), folder=clone)


def test_settings_of_a_file_cannot_drop_encryption(bare: Dibs) -> None:
    bare.ok("init")
    (bare.folder / "dibs.toml").write_text('[server]\nhost = "0.0.0.0"\ninsecure = true\n')
    done = bare("serve", "--port", "0")
    assert done.returncode == 1
    assert "dibs serve --insecure" in done.stderr


def test_a_path_that_is_not_there_and_one_that_is_not_listed_are_refused(bare: Dibs) -> None:
    home = {"XDG_CONFIG_HOME": str(bare.folder / "config")}
    assert bare.refused("trust", "nowhere", environment=home)[1]["field"] == "path"
    assert bare.refused("trust", "--remove", ".", environment=home)[1]["field"] == "path"
    assert not (bare.folder / "config").exists()


def test_a_trust_file_that_others_can_write_lists_nothing(bare: Dibs, clone: Path) -> None:
    home = {"XDG_CONFIG_HOME": str(bare.folder / "config")}
    bare.ok("trust", str(clone), environment=home)
    assert items(bare, clone, **home) == ["evil"]
    file = bare.folder / "config" / "dibs" / "trusted"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.chmod(0o666)
    error = bare.refused("list", folder=clone, environment=home)[1]
    assert error["path"] == str(file)
    assert "chmod go-w" in error["message"]


# What another user put above


@needs_root
def test_a_board_of_another_user_in_a_folder_above_is_refused(machine: Machine) -> None:
    alice, mallory = machine.user(ALICE), machine.user(MALLORY)
    mallory.ok(machine.folder, "init")
    mallory.ok(machine.folder, "add", "evil", "--id", "evil")
    for path in (machine.folder / ".dibs").rglob("*"):
        path.chmod(0o644)
    (machine.folder / ".dibs").chmod(0o755)
    work = machine.folder_of(alice, "work")
    refusal = alice.refused(work, "list")
    assert f"{machine.folder}/.dibs belongs to uid {MALLORY}" in refusal
    assert line_of(refusal) == ["trust", f"{machine.folder}/.dibs"]
    assert mallory.items(machine.folder) == ["evil"]


@needs_root
def test_a_repository_of_another_user_above_comes_before_nobodys_own_board(machine: Machine) -> None:
    alice, mallory = machine.user(ALICE), machine.user(MALLORY)
    (machine.folder / ".git").mkdir()
    (machine.folder / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    mallory.owns(machine.folder / ".git")
    mallory.ok(machine.folder, "init")
    (machine.folder / ".git" / "dibs").chmod(0o755)
    root = machine.user(0)
    for who, name in ((alice, "work"), (root, "roots")):
        work = machine.folder_of(who, name)
        (work / ".dibs").mkdir()
        who.owns(work)
        assert "belongs to" in who.refused(work, "list")
        who.ok(work, "init", "--store", ".dibs/board.db")
        assert who.items(work) == []


@needs_root
def test_settings_of_another_user_do_not_count_above_the_board_and_are_refused_beside_it(machine: Machine) -> None:
    alice, mallory = machine.user(ALICE), machine.user(MALLORY)
    work = machine.folder_of(alice, "work")
    for folder in (machine.folder, work):
        (folder / "dibs.toml").write_text("[board]\nttl_seconds = 60\nttl_seconds_min = 60\n")
        mallory.owns(folder / "dibs.toml")
    refusal = alice.refused(work, "init")
    assert line_of(refusal) == ["trust", f"{work}/dibs.toml"]
    assert not (work / ".dibs").exists()
    alice.ok(work, *line_of(refusal))
    alice.ok(work, "init")
    (work / "dibs.toml").unlink()
    alice.ok(work, "list")


@needs_root
def test_a_link_of_another_user_to_ones_own_board_is_refused(machine: Machine) -> None:
    alice, mallory = machine.user(ALICE), machine.user(MALLORY)
    own = machine.folder_of(alice, "own")
    alice.ok(own, "init")
    (machine.folder / ".dibs").symlink_to(own / ".dibs")
    mallory.owns(machine.folder / ".dibs")
    assert "is a symbolic link" in alice.refused(machine.folder_of(alice, "work"), "list")


# Root


@needs_root
def test_root_in_a_checkout_of_another_user_works_and_leaves_nothing_of_its_own(machine: Machine) -> None:
    """As in a container, whose checkout belongs to a user outside."""
    alice, root = machine.user(ALICE), machine.user(0)
    checkout = machine.folder_of(alice, "checkout")
    (checkout / "src").mkdir()
    git(checkout, "init")
    (checkout / "dibs.toml").write_text("[board]\nttl_seconds = 60\n")
    alice.owns(checkout)
    alice.ok(checkout, "init")
    root.ok(checkout / "src", "add", "roots", "--id", "roots")
    root.ok(checkout, "claim", "roots", "--session", "s", "--agent", "a")
    alice.ok(checkout, "add", "mine", "--id", "mine")
    assert alice.items(checkout) == root.items(checkout) == ["roots", "mine"]
    owners = {path.name: path.stat().st_uid for path in (checkout / ".git" / "dibs").iterdir()}
    assert set(owners.values()) == {ALICE}, owners


@needs_root
def test_what_root_makes_in_a_users_repository_is_refused_with_the_line_that_gives_it_back(machine: Machine) -> None:
    alice, root = machine.user(ALICE), machine.user(0)
    checkout = machine.folder_of(alice, "checkout")
    git(checkout, "init")
    alice.owns(checkout)
    root.ok(checkout, "init", SUDO_UID=str(ALICE))
    refusal = alice.refused(checkout, "list")
    assert "belongs to root (uid 0), and you have no access to it" in refusal
    chown, recursive, who, path = line_of(refusal)
    assert (chown, recursive, who) == ("chown", "-R", str(ALICE))
    subprocess.run([chown, recursive, who, path], check=True)
    assert alice.items(checkout) == []


@needs_root
def test_root_called_through_sudo_believes_who_called_it_and_nobody_else(machine: Machine) -> None:
    alice, mallory, root = machine.user(ALICE), machine.user(MALLORY), machine.user(0)
    folder = machine.folder_of(alice, "folder")
    alice.ok(folder, "init")
    alice.ok(folder, "add", "mine", "--id", "mine")
    assert root.items(folder, SUDO_UID=str(ALICE)) == ["mine"]
    assert "belongs to" in root.refused(folder, "list", SUDO_UID=str(MALLORY))
    assert "belongs to" in root.refused(folder, "list")
    assert "belongs to" in mallory.refused(folder, "list", SUDO_UID=str(ALICE)), "only root is called through sudo"


# A board that several share


@needs_root
def test_a_group_shares_a_board_that_each_of_them_trusts(machine: Machine) -> None:
    alice, bob = machine.user(ALICE, TEAM), machine.user(BOB, TEAM)
    folder = machine.folder_of(alice, "shared")
    board = put_board(folder, "first")
    alice.owns(folder)
    # As the guide says it.
    os.chown(folder / ".dibs", ALICE, TEAM)
    (folder / ".dibs").chmod(0o2770)
    os.chown(board, ALICE, TEAM)
    board.chmod(0o660)
    refusal = bob.refused(folder, "list")
    bob.ok(folder, *line_of(refusal))
    # Whoever comes first makes what lies beside the board, here with a umask that would shut the others out.
    bob.ok(folder, "add", "t", "--id", "bobs", umask=0o077)
    alice.ok(folder, "add", "t", "--id", "alices", umask=0o077)
    assert bob.items(folder) == ["first", "bobs", "alices"]
    owners = {path.name: path.stat().st_uid for path in board.parent.iterdir()}
    assert owners == {"board.db": ALICE, **{f"board.db-{one}": BOB for one in ("lock", "bell", "wal", "shm")}}


@needs_root
def test_a_board_that_everybody_can_write_is_refused(machine: Machine) -> None:
    alice = machine.user(ALICE)
    folder = machine.folder_of(alice, "open")
    alice.ok(folder, "init")
    (folder / ".dibs" / "board.db").chmod(0o666)
    assert "can be written by every user" in alice.refused(folder, "list")
