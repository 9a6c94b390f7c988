"""What a `.git` is believed: one that another user put above runs nothing, refuses nothing and holds nobody up, and
what a commit brought decides neither what dibs keeps in a vault nor where a server is reached.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from dibs.system import keyring
from tests.e2e.conftest import Dibs
from tests.e2e.test_finding_the_board import git, repository
from tests.e2e.test_trust import line_of, put_board
from tests.e2e.users import ALICE, MALLORY, Machine, User, machine, needs_root

__all__ = ["machine", "repository"]


def trapped(folder: Path, marker: Path) -> None:
    """A repository in which git, asked what is tracked, runs a command: a folder that the index has as one entry is not
    there, and fetching it is configured to run that command."""
    for path in ("big/f", "in/f", ".dibs-x"):
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(path)
    git(folder, "init")
    git(folder, "add", ".")
    git(folder, "commit", "--message", "all")
    tree = subprocess.check_output(["git", "rev-parse", "HEAD:big"], cwd=folder, text=True).strip()
    git(folder, "sparse-checkout", "set", "--cone", "--sparse-index", "in")
    for name, value in {
        "core.repositoryformatversion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.url": str(folder),
        "remote.origin.promisor": "true",
        "remote.origin.partialclonefilter": "blob:none",
        "remote.origin.uploadpack": f"touch '{marker}'; git-upload-pack",
    }.items():
        git(folder, "config", name, value)
    (folder / ".git" / "objects" / tree[:2] / tree[2:]).unlink()
    (folder / ".git" / "objects").chmod(0o777)


def folder_with_board(machine: Machine, user: User, name: str = "work") -> Path:
    folder = machine.folder_of(user, name)
    user.ok(folder, "init", "--store", ".dibs/board.db")
    return folder


@needs_root
def test_a_repository_of_another_user_runs_nothing(machine: Machine) -> None:
    alice, mallory, root = machine.user(ALICE), machine.user(MALLORY), machine.user(0)
    marker = machine.folder / "ran"
    trapped(machine.folder, marker)
    mallory.owns(machine.folder / ".git")
    checkout = machine.folder_of(root, "checkout")
    trapped(checkout, marker)
    put_board(checkout)
    mallory.owns(checkout)
    marker.unlink(missing_ok=True)
    assert alice.items(folder_with_board(machine, alice)) == []
    assert root.items(checkout) == ["evil"], "as in a container: root stands in a checkout that is all Mallory's"
    assert not marker.exists()


@needs_root
def test_a_repository_of_another_user_cannot_pass_ones_own_board_off_as_committed(machine: Machine) -> None:
    alice, mallory = machine.user(ALICE), machine.user(MALLORY)
    work = folder_with_board(machine, alice)
    git(machine.folder, "init")
    git(machine.folder, "add", "--force", "work/.dibs/board.db")
    mallory.owns(machine.folder / ".git")
    (machine.folder / ".git").chmod(0o755)
    assert alice.items(work) == []
    index = machine.folder / ".git" / "index"
    index.unlink()
    index.mkdir()
    assert alice.items(work) == []


def _fifo(place: Path) -> None:
    os.mkfifo(place, 0o666)


def _endless(place: Path) -> None:
    place.symlink_to("/dev/zero")


def _index(place: Path) -> None:
    place.mkdir()
    (place / "HEAD").touch()
    _fifo(place / "index")


def _commondir(place: Path) -> None:
    place.write_text("gitdir: strange")
    (place.parent / "strange").mkdir()
    _fifo(place.parent / "strange" / "commondir")


def _long(place: Path) -> None:
    place.write_text("gitdir: " + "x" * 100_000)


def _nul(place: Path) -> None:
    place.write_text("gitdir: a\0b")


@needs_root
@pytest.mark.parametrize("put", [_fifo, _endless, _index, _commondir, _long, _nul])
def test_nothing_that_another_user_puts_above_holds_anybody_up(machine: Machine, put: Callable[[Path], None]) -> None:
    alice, mallory = machine.user(ALICE), machine.user(MALLORY)
    work = folder_with_board(machine, alice)
    put(machine.folder / ".git")
    for name in (".git", "strange"):
        if os.path.lexists(machine.folder / name):
            mallory.owns(machine.folder / name)
    assert alice.items(work) == []


@needs_root
def test_a_new_board_below_a_repository_of_another_user_is_in_the_folder(machine: Machine) -> None:
    alice, mallory = machine.user(ALICE), machine.user(MALLORY)
    git(machine.folder, "init")
    mallory.owns(machine.folder / ".git")
    (machine.folder / ".git").chmod(0o777)
    work = machine.folder_of(alice, "work")
    alice.ok(work, "init")
    assert (work / ".dibs" / "board.db").exists()
    assert not (machine.folder / ".git" / "dibs").exists()
    assert alice.items(work) == []


@needs_root
def test_a_repository_of_another_user_counts_once_it_is_trusted(machine: Machine) -> None:
    alice, mallory = machine.user(ALICE), machine.user(MALLORY)
    git(machine.folder, "init")
    mallory.owns(machine.folder / ".git")
    (machine.folder / ".git").chmod(0o777)
    work = machine.folder_of(alice, "work")
    alice.ok(work, "trust", str(machine.folder / ".git"))
    alice.ok(work, "init")
    assert (machine.folder / ".git" / "dibs" / "board.db").exists()
    assert alice.items(work) == []


# What a commit brings


def test_a_committed_dibs_toml_does_not_say_where_others_reach_the_server(bare: Dibs, repository: Path) -> None:
    home = {"XDG_CONFIG_HOME": str(bare.folder / "config")}
    bare.ok("init", folder=repository)
    file = repository / "dibs.toml"
    file.write_text('[server]\nhost = "127.0.0.2"\nnames = ["evil.example"]\ntls_cert = "c.pem"\ntls_key = "k.pem"\n')
    # Ends before it listens, for a reason that comes after the settings: there is nothing to wait for.
    serve = ("serve", "--workers", "2")
    assert bare.refused(*serve, folder=repository, environment=home)[1]["field"] == "workers", "untracked: one's own"
    git(repository, "add", "dibs.toml")
    code, error = bare.refused(*serve, folder=repository, environment=home)
    assert (code, error["code"], error["path"]) == (6, "NOT_TRUSTED", str(file))
    assert "sets host, names, tls_cert, tls_key in [server] and comes from a commit" in error["message"]
    said = ("--host", "127.0.0.1", "--name", "mine.example", "--tls-cert", "c", "--tls-key", "k")
    assert bare.refused(*serve, *said, folder=repository, environment=home)[1]["field"] == "workers"
    bare.ok(*line_of(error["message"]), environment=home)
    assert bare.refused(*serve, folder=repository, environment=home)[1]["field"] == "workers"
    file.write_text('[server]\nhost = "localhost"\nport = 8400\nlog_json = true\n')
    assert bare.refused(*serve, folder=repository)[1]["field"] == "workers", "nothing that others notice"


def test_what_a_commit_put_beside_the_tasks_of_a_vault_is_refused_from_the_start(bare: Dibs, repository: Path) -> None:
    home = {"XDG_CONFIG_HOME": str(bare.folder / "config")}
    for path in ("Needs_Action/t.md", ".dibs/server-key.json"):
        (repository / path).parent.mkdir()
        (repository / path).write_text("# t\n")
    git(repository, "add", "--force", ".")
    git(repository, "commit", "--message", "a vault")
    git(bare.folder, "clone", str(repository), "clone")
    clone = bare.folder / "clone"
    for _ in range(2):
        code, error = bare.refused("list", folder=clone, environment=home)
        assert (code, error["path"]) == (6, str(clone / ".dibs"))
    assert [path.name for path in (clone / ".dibs").iterdir()] == ["server-key.json"]
    bare.ok(*line_of(error["message"]), environment=home)
    assert [item["title"] for item in bare.json("list", folder=clone, environment=home)["items"]] == ["t"]
    shutil.rmtree(clone / ".dibs")
    git(clone, "rm", "-r", "--cached", ".dibs")
    assert [item["title"] for item in bare.json("list", folder=clone, environment=home)["items"]] == ["t"]


def test_only_a_name_that_was_made_here_is_kept_for_the_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    url, own = "http://127.0.0.1:8472", f"{'0123456789abcdef'}.dibs.localhost"
    for pages, is_kept in [
        (f"http://{own}:1", True),
        ("http://evil.example/.dibs.localhost:8472", False),
        (f"http://x{own}:1", False),
        (f"http://{own[1:]}:1", False),
        ("http://0123456789abcdef:1", False),
        (7, False),
    ]:
        file = tmp_path / keyring.FILE_NAME
        file.write_text(json.dumps({"url": url, "key": "k", "pages": pages}))
        file.chmod(0o600)
        keyring.keep(url, "k", str(tmp_path))
        found = keyring.pages(url)
        assert found is not None
        assert (found == f"http://{own}:8472") == is_kept, pages
        assert found.endswith(".dibs.localhost:8472")
        assert "evil" not in found
