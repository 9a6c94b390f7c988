"""`dibs setup`: scopes and clients side by side, what a sandbox may write, the MCP server, and `AGENTS.md`."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from dibs.agents.setup import lock
from dibs.text import prime
from tests.agents.person import USER, Person, there_and_back, write


def test_one_scope_and_one_client_go_without_what_another_one_needs(person: Person) -> None:
    before = person.snapshot()
    answers, board = person.home / ".local/state/dibs/answers", person.project / ".git" / "dibs"
    for client, words in (("codex", ()), ("claude", ()), ("gemini", ("--project",))):
        person.setup(client, *words, "--yes")
    for client, words in (("claude", ()), ("gemini", ("--project",))):
        person.setup(client, *words, "--remove", "--yes")
        assert answers.is_dir()
        assert board.is_dir()
    person.setup("codex", "--check")
    person.setup("codex", "--remove", "--yes")
    assert person.snapshot() == before


def test_a_folder_that_two_setups_need_goes_with_the_last(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two projects whose sandboxes name the same folder of answers."""
    other = person.folder / "other"
    subprocess.run(["git", "init", "--quiet", str(other)], check=True)
    before = person.snapshot()
    for project in (person.project, other):
        monkeypatch.chdir(project)
        person.setup("codex", "--project", "--yes")
    for project, others in ((person.project, other), (other, person.project)):
        monkeypatch.chdir(project)
        person.setup("codex", "--project", "--remove", "--yes")
        monkeypatch.chdir(others)
        person.setup("codex", "--project", "--check", code=int(others is person.project))
    assert person.snapshot() == before


@pytest.mark.parametrize("client", ["codex", "cursor", "gemini", "opencode", "copilot"])
def test_hooks_that_would_run_twice_are_refused_and_nothing_changes(person: Person, client: str) -> None:
    for first, second in (((), ("--project",)), (("--project",), ())):
        person.setup(client, *first, "--yes")
        before = person.snapshot()
        advice = f"every hook would run twice; first: dibs setup {client} {' '.join((*first, '--remove'))}"
        assert advice in person.setup(client, *second, "--yes", code=1)
        assert person.snapshot() == before
        person.setup(client, *first, "--remove", "--yes")


def test_a_plugin_in_codex_needs_no_second_hooks_in_a_project(person: Person) -> None:
    write(person.home / ".codex" / "config.toml", '[plugins."dibs@dibs"]\nenabled = true\n')
    person.setup("codex", "--project", "--yes")
    assert [path.name for path in (person.project / ".codex").iterdir()] == ["config.toml"]


def test_the_sandbox_of_codex_lets_commands_write_the_board_and_answers_only(person: Person) -> None:
    person.setup("codex", "--yes")
    config = tomllib.loads((person.home / ".codex" / "config.toml").read_text())
    roots = [str(person.project / ".git" / "dibs"), str(person.home / ".local/state/dibs/answers")]
    assert config["sandbox_workspace_write"]["writable_roots"] == roots


def test_a_repository_that_is_gone_goes_from_the_sandbox(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    """Codex refuses every command if one root does not exist."""
    config, other = person.home / ".codex" / "config.toml", person.folder / "other"
    write(config, '[sandbox_workspace_write]\nwritable_roots = ["/theirs"]\n')
    before = person.snapshot()
    subprocess.run(["git", "init", "--quiet", str(other)], check=True)
    for project in (other, person.project):
        monkeypatch.chdir(project)
        person.setup("codex", "--yes")
    assert str(other / ".git" / "dibs") in config.read_text()
    other.rename(person.folder / "moved")
    assert str(config) in person.setup("codex", "--check", code=1)
    person.setup("codex", "--yes")
    roots = tomllib.loads(config.read_text())["sandbox_workspace_write"]["writable_roots"]
    assert roots == [str(person.project / ".git" / "dibs"), str(person.home / ".local/state/dibs/answers"), "/theirs"]
    person.setup("codex", "--check")
    person.setup("codex", "--remove", "--yes")
    after = person.snapshot()
    assert {name: after[name] for name in after if not name.startswith("moved")} == before


@pytest.mark.parametrize(
    ("text", "is_refused"),
    [
        ('[mcp_servers.other]\ncommand = "x"\n', False),
        ('[mcp_servers.dibs]\ncommand = "mine"\n', True),
        ('mcp_servers = { dibs = { command = "mine" } }\n', True),
        ('mcp_servers.other = { command = "x" }\n', False),
        ("mcp_servers = 1\n", True),
    ],
)
def test_a_server_of_the_person_stays(person: Person, text: str, is_refused: bool) -> None:
    config = person.home / ".codex" / "config.toml"
    write(config, text)
    if is_refused:
        assert f"{config}: " in person.setup("codex", "--yes", code=1)
        assert config.read_text() == text
    else:
        there_and_back(person, "codex", USER)


def test_what_codex_notes_about_our_server_goes_with_it(person: Person) -> None:
    """Without the server, Codex could not read its settings."""
    config = person.home / ".codex" / "config.toml"
    person.setup("codex", "--yes")
    config.write_text(config.read_text() + '\n[mcp_servers.dibs.tools.next]\napproval_mode = "approve"\n\n[x]\ny = 1\n')
    person.setup("codex", "--check")
    person.setup("codex", "--remove", "--yes")
    left = tomllib.loads(config.read_text())
    assert left == {"x": {"y": 1}, "sandbox_workspace_write": {"writable_roots": []}}


SERVER_FILES = {
    "gemini": (".gemini/settings.json", "mcpServers", {}),
    "cursor": (".cursor/mcp.json", "mcpServers", {}),
    "opencode": (".config/opencode/opencode.json", "mcp", {"type": "local", "enabled": True}),
    "copilot": (".copilot/mcp-config.json", "mcpServers", {"type": "local", "tools": ["*"]}),
}


@pytest.mark.parametrize("client", SERVER_FILES)
def test_each_client_gets_the_mcp_server(person: Person, client: str) -> None:
    name, group, more = SERVER_FILES[client]
    person.setup(client, "--yes")
    server = json.loads((person.home / name).read_text())[group]["dibs"]
    command = server.pop("command")
    words = command if isinstance(command, list) else [command, *server.pop("args")]
    assert (Path(words[0]).name, words[1:], server) == ("dibs", ["mcp"], more)


def test_a_link_to_settings_that_do_not_exist_stays_the_persons(person: Person) -> None:
    link, folder = person.home / ".claude" / "settings.json", person.folder / "dotfiles"
    link.parent.mkdir()
    link.symlink_to(folder / "settings.json")
    before = person.snapshot()
    assert f"{link} is a link into {folder}, which does not exist" in person.setup("claude", "--yes", code=1)
    assert person.snapshot() == before
    folder.mkdir()
    before = person.snapshot()
    person.setup("claude", "--yes")
    person.setup("claude", "--check")
    assert (folder / "settings.json").is_file()
    person.setup("claude", "--remove", "--yes")
    assert person.snapshot() == before


def test_setups_and_removals_that_run_at_once_leave_what_was_there(person: Person) -> None:
    write(person.home / ".codex" / "config.toml", 'model = "x"\n')
    before = person.snapshot()
    clients = ("codex", "codex", "gemini", "claude")
    for options in (("--yes",), ("--remove", "--yes")):
        running = [
            subprocess.Popen([sys.executable, "-m", "dibs.cli.main", "setup", client, *options], stdout=subprocess.PIPE)
            for client in clients
        ]
        for process in running:
            process.communicate()
        assert [process.returncode for process in running] == [0] * len(clients)
        for client in set(clients):
            person.setup(client, "--check", code=int("--remove" in options))
    assert person.snapshot() == before


def test_setup_waits_for_another_one_and_says_so(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "LOCK_SECONDS", 0.0)
    with lock.locked(str(person.home)):
        assert "another `dibs setup` is running" in person.setup("claude", "--yes", code=75)


def test_agents_md_has_what_a_model_must_know(person: Person) -> None:
    path = person.project / "AGENTS.md"
    for text in (None, "", "# Rules\n", "# Rules", "# Rules\n\nBe kind.\n\n"):
        if text is not None:
            path.write_text(text)
        there_and_back(person, "agents-md", USER)
        assert (path.read_text() if path.exists() else None) == text
    path.write_text("# Rules\n")
    person.setup("agents-md", "--yes")
    assert prime.TEXT in path.read_text()
    # Another person, without the record, has the file from a commit and wrote below the section.
    shutil.rmtree(person.home / ".local")
    path.write_text(path.read_text() + "\nMine.\n")
    person.setup("agents-md", "--check")
    person.setup("agents-md", "--remove", "--yes")
    assert path.read_text() == "# Rules\n\nMine.\n"
