"""What a working folder decides: a clone that lies below a board neither replaces the board nor its settings, and
every program that looks for a board from there uses the same one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dibs.board import connect
from tests.e2e.conftest import Dibs
from tests.e2e.test_finding_the_board import git, repository
from tests.e2e.test_postgres_cli import database
from tests.e2e.test_trust import items, line_of
from tests.server.process import Serving

__all__ = ["database", "repository"]

#: As a stranger would have them: an item fails at its first strike, a claim lasts a second, and agents may do nothing.
HOSTILE = """
[board]
max_strikes = 1
ttl_seconds = 1
ttl_seconds_min = 1
ttl_seconds_max = 2

[agents.newbie]
max_claims_total = 1
sensitive_actions = ["task"]
"""


def committed(folder: Path, files: dict[str, str]) -> Path:
    """A repository with these files in its first commit."""
    folder.mkdir(parents=True)
    git(folder, "init")
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    git(folder, "add", "--force", ".")
    git(folder, "commit", "--message", "all")
    return folder


def sources(dibs: Dibs, folder: Path, **environment: str) -> dict[str, tuple[Any, str]]:
    """Each setting with its value and its source, as `dibs config` says them."""
    told = dibs.json("config", folder=folder, environment=environment)
    return {one["name"]: (one["value"], one["source"]) for one in told["settings"]}


def strikes(dibs: Dibs, folder: Path, **environment: str) -> int:
    found: int = sources(dibs, folder, **environment)["board.max_strikes"][0]
    return found


def with_strikes(folder: Path, number: int) -> Path:
    path = folder / "dibs.toml"
    path.write_text(f"[board]\nmax_strikes = {number}\n")
    return path


# Settings


def test_the_settings_of_a_clone_decide_nothing_about_a_board_above_it(dibs: Dibs) -> None:
    clone = committed(dibs.folder / "clone", {"dibs.toml": HOSTILE, "src/code": "x"})
    for folder in (clone, clone / "src"):
        done = dibs("list", "--json", folder=folder)
        assert json.loads(done.stdout) == {"items": []}
        assert done.stderr.count("\n") == 1
        assert f"{clone}/dibs.toml is passed over" in done.stderr
    assert sources(dibs, clone)["board.max_strikes"] == (5, "default")
    assert dibs.json("agent", "list")["agents"] == []
    dibs.ok("add", "x", "--id", "x", folder=clone)
    assert dibs.json("claim", "x", folder=clone)["claim"]["ttl_seconds"] == 1800
    with_strikes(dibs.folder, 3)
    assert strikes(dibs, clone) == strikes(dibs, dibs.folder) == 3


@pytest.mark.parametrize("named", ["{}/.dibs/board.db", "sqlite:{}/.dibs/board.db"])
def test_a_board_that_is_named_has_the_settings_of_its_own_folder_wherever_the_caller_stands(
    dibs: Dibs, named: str
) -> None:
    clone = committed(dibs.folder / "clone", {"dibs.toml": HOSTILE})
    beside = committed(dibs.folder.parent / f"{dibs.folder.name}-beside", {"dibs.toml": HOSTILE})
    with_strikes(dibs.folder, 3)
    url = named.format(dibs.folder)
    for folder in (clone, beside):
        assert strikes(dibs, folder, DIBS_STORE=url) == 3
        dibs.ok("list", "--store", url, folder=folder)
    with pytest.warns(UserWarning, match="is passed over"), connect(url, folder=str(clone)) as board:
        assert board.settings.max_strikes == 3
    assert dibs.json("agent", "list")["agents"] == []


def test_config_names_the_file_of_the_working_folder_that_a_named_board_does_not_use(dibs: Dibs) -> None:
    own = committed(dibs.folder.parent / f"{dibs.folder.name}-own", {"dibs.toml": "[board]\nmax_strikes = 2\n"})
    board = {"DIBS_STORE": str(dibs.folder / ".dibs" / "board.db")}
    for words in (("config",), ("config", "--check")):
        done = dibs(*words, folder=own, environment=board)
        assert (done.returncode, done.stderr.count("\n")) == (0, 1), done.stderr
        assert f"{own}/dibs.toml is passed over" in done.stderr
        assert "here or above" not in done.stdout
    assert dibs("list", "--json", folder=own, environment=board).stderr == "", "a named board"


def test_the_nearest_file_of_the_boards_own_repository_counts(bare: Dibs, repository: Path) -> None:
    bare.ok("init", folder=repository)
    below = repository / "a" / "b"
    below.mkdir(parents=True)
    with_strikes(repository.parent, 2)
    assert strikes(bare, below) == 5, "a file above the repository is not its own"
    with_strikes(repository, 3)
    assert strikes(bare, below) == 3
    with_strikes(repository / "a", 4)
    assert (strikes(bare, below), strikes(bare, repository)) == (4, 3)
    named = str(repository / ".git" / "dibs" / "board.db")
    assert strikes(bare, below, DIBS_STORE=named) == 4
    assert strikes(bare, bare.folder, DIBS_STORE=named) == 3


def test_a_worktree_has_its_own_file_and_else_that_of_the_work_tree_around_it(bare: Dibs, repository: Path) -> None:
    bare.ok("init", folder=repository)
    inner = repository / ".worktrees" / "one"
    git(repository, "worktree", "add", str(inner))
    with_strikes(repository, 3)
    assert strikes(bare, inner) == 3
    with_strikes(inner, 4)
    assert strikes(bare, inner) == 4
    clone = committed(inner / "clone", {"dibs.toml": HOSTILE})
    done = bare("list", folder=clone)
    assert "is passed over" in done.stderr
    assert strikes(bare, clone) == 4


def test_a_board_in_a_folder_of_a_repository_has_the_settings_of_the_repository(bare: Dibs, repository: Path) -> None:
    folder = repository / "tasks"
    folder.mkdir()
    bare.ok("init", "--store", ".dibs/board.db", folder=folder)
    with_strikes(repository, 3)
    assert strikes(bare, folder) == 3
    assert strikes(bare, bare.folder, DIBS_STORE=str(folder / ".dibs" / "board.db")) == 3


def test_before_there_is_a_board_the_file_counts_that_will_count(bare: Dibs, repository: Path) -> None:
    with_strikes(repository, 3)
    assert strikes(bare, repository) == 3
    bare.ok("init", folder=repository)
    assert strikes(bare, repository) == 3


def test_on_a_database_a_file_counts_that_no_commit_has_brought(bare: Dibs, database: str) -> None:
    home = {"XDG_CONFIG_HOME": str(bare.folder / "config")}
    clone = committed(bare.folder / "clone", {"dibs.toml": HOSTILE})
    store = home | {"DIBS_STORE": database}
    bare.ok("init", environment=store)
    done = bare("list", folder=clone, environment=store)
    assert (done.returncode, done.stderr.count("so it is not used")) == (0, 1)
    assert "comes from a commit" in done.stderr
    assert sources(bare, clone, **store)["board.max_strikes"] == (5, "default")
    with_strikes(bare.folder, 3)
    assert strikes(bare, clone, **store) == 3, "one of the user's own, further up"
    bare.ok(*line_of(done.stderr.splitlines()[0]), environment=home)
    assert strikes(bare, clone, **store) == 1


# What reaches out


REACHING = {
    "host": ("server", 'host = "0.0.0.0"', ("serve", "--port", "0")),
    "names": ("server", 'names = ["evil.example"]', ("serve", "--port", "0")),
    "out": ("github", "out = { comment = true }", ("github", "watch", "o/r", "--once")),
    "secrets_file": ("github", 'secrets_file = "/etc/passwd"', ("serve", "--port", "0")),
}


@pytest.mark.parametrize("setting", REACHING)
def test_a_committed_setting_that_reaches_out_is_refused_also_in_its_own_repository(bare: Dibs, setting: str) -> None:
    table, line, words = REACHING[setting]
    folder = committed(bare.folder / "own", {"dibs.toml": f"[{table}]\n{line}\n"})
    bare.ok("init", folder=folder)
    code, error = bare.refused(*words, folder=folder)
    assert (code, error["code"]) == (6, "NOT_TRUSTED")
    assert f"sets {setting} in [{table}]" in error["message"]
    assert error["trust"] == f"dibs trust {folder}/dibs.toml"
    bare.ok("list", folder=folder)


# Vaults


@pytest.fixture
def home(bare: Dibs) -> dict[str, str]:
    """A trust file of this test's own."""
    return {"XDG_CONFIG_HOME": str(bare.folder.parent / f"{bare.folder.name}-config")}


def vault(folder: Path, item: str = "evil") -> Path:
    return committed(folder, {f"Needs_Action/{item}.md": f"# {item}\n"})


def test_a_vault_that_a_clone_brings_is_passed_over_until_it_is_accepted(bare: Dibs, home: dict[str, str]) -> None:
    bare.ok("init")
    bare.ok("add", "mine", "--id", "mine")
    clone = vault(bare.folder / "clone")
    done = bare("list", "--json", folder=clone, environment=home)
    assert [item["id"] for item in json.loads(done.stdout)["items"]] == ["mine"]
    assert done.stderr.count("\n") == 1
    bare.ok("add", "secret", "--id", "secret", folder=clone, environment=home)
    assert sorted(path.name for path in (clone / "Needs_Action").iterdir()) == ["evil.md"]
    bare.ok(*line_of(done.stderr), environment=home)
    assert items(bare, clone, **home) == ["evil"]
    bare.ok("trust", "--remove", str(clone), environment=home)
    assert items(bare, clone, **home) == ["mine", "secret"]


def test_where_there_is_no_other_board_the_refusal_has_the_line_that_accepts_the_vault(
    bare: Dibs, home: dict[str, str]
) -> None:
    clone = vault(bare.folder / "clone")
    code, error = bare.refused("list", folder=clone, environment=home)
    assert (code, error["code"], error["trust"]) == (6, "NOT_TRUSTED", f"dibs trust {clone}")
    assert not (clone / ".dibs").exists()
    bare.ok("trust", str(clone), environment=home)
    assert items(bare, clone / "Needs_Action", **home) == ["evil"]


@pytest.mark.parametrize("is_link", [False, True])
def test_a_board_that_a_clone_brings_does_not_hide_the_one_above_it(bare: Dibs, is_link: bool) -> None:
    """Otherwise a commit with a `.dibs` would switch the fence off for the sessions that work in the clone."""
    bare.ok("init")
    bare.ok("add", "mine", "--id", "mine")
    clone = committed(bare.folder / "clone", {"code": "x"} if is_link else {".dibs/board.db": "x"})
    if is_link:
        (clone / ".dibs").symlink_to("../.dibs")
        git(clone, "add", "--force", ".dibs")
    done = bare("list", "--json", folder=clone)
    assert [item["id"] for item in json.loads(done.stdout)["items"]] == ["mine"]
    assert done.stderr.count("\n") == 1
    assert line_of(done.stderr) == ["trust", str(clone / ".dibs")]


def test_a_refusal_in_a_clone_also_names_the_vault_further_up_that_is_not_accepted(
    bare: Dibs, home: dict[str, str]
) -> None:
    own = vault(bare.folder / "own", "mine")
    clone = vault(own / "clone")
    done = bare("list", folder=clone, environment=home)
    assert done.returncode == 6
    assert [line_of(line) for line in done.stderr.splitlines()] == [["trust", str(own)], ["trust", str(clone)]]
    bare.ok("trust", str(own), environment=home)
    assert items(bare, clone, **home) == ["mine"]


def test_accepting_a_vault_trusts_nothing_else_in_its_folder(bare: Dibs, home: dict[str, str]) -> None:
    clone = committed(
        bare.folder / "clone", {"Needs_Action/a.md": "# a\n", "dibs.toml": '[server]\nnames = ["e.org"]\n'}
    )
    bare.ok("trust", str(clone), environment=home)
    assert items(bare, clone, **home) == ["a"]
    assert bare.refused("serve", "--port", "0", folder=clone, environment=home)[1]["code"] == "NOT_TRUSTED"


@pytest.mark.parametrize("words", [("vault", "init", "tasks"), ("init", "--store", "vault:tasks")])
def test_who_makes_a_vault_has_accepted_it_for_as_long_as_it_is_one(
    bare: Dibs, home: dict[str, str], words: tuple[str, ...]
) -> None:
    bare.ok(*words, environment=home)
    folder = bare.folder / "tasks"
    (folder / "Needs_Action" / "a.md").write_text("# a\n")
    assert items(bare, folder, **home) == ["a"]
    for path in sorted((folder / ".dibs").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    (folder / ".dibs").rmdir()
    assert items(bare, folder, **home) == ["a"], "the index is only an index"
    assert bare.json("trust", "--list", environment=home)["trusted"] == [f"vault:{folder}"]


@pytest.mark.parametrize("named", ["{}", "vault:{}"])
def test_the_entry_of_a_vault_that_was_moved_can_be_removed(bare: Dibs, home: dict[str, str], named: str) -> None:
    old, new = bare.folder / "old", bare.folder / "new"
    bare.ok("vault", "init", "old", environment=home)
    old.rename(new)
    code, error = bare.refused("list", folder=new, environment=home)
    assert (code, error["trust"]) == (6, f"dibs trust {new}")
    bare.ok(*line_of(error["message"]), environment=home)
    told = bare.json("trust", "--remove", named.format(old), environment=home)
    assert (told["path"], told["trusted"]) == (str(old), False)
    assert bare.json("trust", "--list", environment=home)["trusted"] == [f"vault:{new}"]


def test_an_empty_line_of_the_trust_file_lists_nothing(bare: Dibs, home: dict[str, str]) -> None:
    clone = vault(bare.folder / "clone")
    (bare.folder / "other").mkdir()
    bare.ok("trust", "other", environment=home)
    file = Path(home["XDG_CONFIG_HOME"]) / "dibs" / "trusted"
    file.write_text(file.read_text() + "\n\n")
    assert bare.refused("list", folder=clone, environment=home)[1]["code"] == "NOT_TRUSTED"


def test_a_copy_into_a_vault_is_found_there(bare: Dibs, home: dict[str, str]) -> None:
    bare.ok("init")
    bare.ok("add", "x", "--id", "x")
    target = bare.folder.parent / f"{bare.folder.name}-copy"
    bare.ok("copy", ".", f"vault:{target}", environment=home)
    assert items(bare, target, **home) == ["x"]


def test_a_vault_that_is_named_needs_no_acceptance(bare: Dibs, home: dict[str, str]) -> None:
    clone = vault(bare.folder / "clone")
    assert items(bare, bare.folder, **home, DIBS_STORE=f"vault:{clone}") == ["evil"]
    bare.ok("list", "--store", f"vault:{clone}", environment=home)
    assert not Path(home["XDG_CONFIG_HOME"]).exists()


def test_a_vault_is_made_also_where_its_acceptance_cannot_be_kept(bare: Dibs) -> None:
    done = bare("vault", "init", "tasks", environment={"XDG_CONFIG_HOME": "/dev/null/x"})
    assert done.returncode == 0
    assert f"export DIBS_STORE=vault:{bare.folder}/tasks" in done.stderr


HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}


def test_every_program_uses_the_board_above_a_clone(bare: Dibs, home: dict[str, str]) -> None:
    """One function decides for all of them; here each is asked what it has found."""
    bare.ok("init")
    bare.ok("add", "mine", "--id", "mine")
    clone = committed(bare.folder / "clone", {"Needs_Action/evil.md": "# evil\n", "dibs.toml": HOSTILE})
    board, state = str(bare.folder / ".dibs" / "board.db"), {"XDG_STATE_HOME": str(bare.folder.parent / "state")}
    environment = home | state
    assert sources(bare, clone, **environment)["store"][0] == board
    assert bare.json("config", "--check", folder=clone, environment=environment)["file"] is None
    for words in (("who",), ("doctor",), ("sweep",)):
        done = bare(*words, folder=clone, environment=environment)
        assert (done.returncode, done.stderr.count("passed over"), done.stderr.count("accepted")) == (0, 1, 1), words
    copied = bare("copy", ".", str(bare.folder / "copy.db"), folder=clone, environment=environment)
    assert (copied.returncode, copied.stderr.count("accepted")) == (0, 1)
    assert f"{board} is unchanged" in copied.stdout
    asked = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "list", "arguments": {}}},
    ]
    lines = "".join(json.dumps(one) + "\n" for one in asked)
    told = bare("mcp", "--session", "s", "--agent", "a", folder=clone, input=lines, environment=environment)
    assert "mine" in told.stdout
    assert "evil" not in told.stdout
    payload = json.dumps({"session_id": "agent-1", "cwd": str(clone), "source": "startup"})
    hook = bare("hook", "SessionStart", folder=clone, input=payload, environment=environment)
    assert (hook.stderr, "1 item" in hook.stdout) == ("", True), hook.stdout
    record = json.loads((Path(state["XDG_STATE_HOME"]) / "dibs" / "agents" / "agent-1" / "session.json").read_text())
    assert record["folder"] == str(clone)
    bare.ok("hook", "SessionEnd", folder=clone, input=payload, environment=environment)
    with Serving(clone) as server:
        assert server.told["store"] == board
    bare.ok("open", "--print", folder=clone, environment=environment)
    assert bare.json("open", "--stop", environment=environment) == {"stopped": True}
    assert not (clone / ".dibs").exists()
    with pytest.warns(UserWarning, match=str(clone)) as warned, connect(folder=str(clone)) as opened:
        assert [item.id for item in opened.list()] == ["mine"]
    assert {one.filename for one in warned} == {__file__}, "the line of the caller"
    assert len(warned) == 2
