"""`dibs setup`: by files alone, every line shown first, and taken back to the byte."""

from __future__ import annotations

import json
import os
import shlex
import stat
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from dibs.agents.setup import clients, events, plan
from dibs.agents.setup.place import Place
from dibs.errors import Invalid
from tests.agents.person import PROJECT, SCOPES, USER, Person, options, there_and_back, write
from tests.agents.settings_files import BROKEN, JSON_FILES, TOML_FILES
from tests.e2e.terminal import Terminal
from tests.kit.soak import in_a_soak

CLIENTS = tuple(clients.CLIENTS)
#: Clients with a JSON file that may hold more than what is ours.
JSON_CLIENTS = ("claude", "codex", "cursor", "gemini", "copilot", "opencode")
#: Both kinds of entries: named values, and lists of hooks.
JSON_AT_EVERY_COMMIT = ["claude", "codex", *in_a_soak("cursor", "gemini", "copilot", "opencode")]

MINE = {"command": "mine.sh"}


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("client", CLIENTS)
def test_without_earlier_files_nothing_is_left_behind(person: Person, client: str, scope: str) -> None:
    there_and_back(person, client, scope)


@pytest.mark.parametrize("content", JSON_FILES)
@pytest.mark.parametrize("client", JSON_AT_EVERY_COMMIT)
def test_earlier_json_stays_to_the_byte(person: Person, client: str, content: str) -> None:
    for scope in SCOPES:
        write(person.settings(client, scope), JSON_FILES[content])
        person.settings(client, scope).chmod(0o640)
        there_and_back(person, client, scope)


@pytest.mark.parametrize("content", TOML_FILES)
def test_earlier_toml_stays_to_the_byte(person: Person, content: str) -> None:
    for scope, folder in ((USER, person.home), (PROJECT, person.project)):
        config = folder / ".codex" / "config.toml"
        write(config, TOML_FILES[content])
        there_and_back(person, "codex", scope)
        person.setup("codex", *options(scope), "--yes")
        roots = tomllib.loads(config.read_text())["sandbox_workspace_write"]["writable_roots"]
        assert str(person.project / ".git" / "dibs") in roots
        assert ("/data" in roots) == ("/data" in TOML_FILES[content])
        person.setup("codex", *options(scope), "--remove", "--yes")


def test_all_clients_at_once_go_in_any_order(person: Person) -> None:
    before = person.snapshot()
    for client in CLIENTS:
        person.setup(client, "--yes")
    for client in CLIENTS:
        person.setup(client, "--remove", "--yes")
    assert person.snapshot() == before


@pytest.mark.parametrize("client", JSON_CLIENTS)
def test_what_a_person_changed_since_survives(person: Person, client: str) -> None:
    """Also when the client has written the whole file anew, in its own style."""
    path = person.settings(client, USER)
    write(path, '{\n  "mine": 1\n}\n')
    person.setup(client, "--yes")
    changed = json.loads(path.read_text())
    for group in changed.values():
        if isinstance(group, dict):
            for value in group.values():
                if isinstance(value, list):
                    value.insert(0, MINE)
            group["mine"] = [MINE]
    changed["also mine"] = True
    path.write_text(json.dumps(changed, indent=4))
    person.setup(client, "--check")
    person.setup(client, "--remove", "--yes")
    left = json.loads(path.read_text())
    assert "dibs" not in path.read_text()
    assert (left["mine"], left["also mine"]) == (1, True)
    for name, group in changed.items():
        if isinstance(group, dict):
            assert left[name]["mine"] == [MINE]
            assert all(value == [MINE] for value in left[name].values())
    assert [each for each in person.home.rglob("*dibs*") if each != path] == []


@pytest.mark.parametrize("client", ["codex", "gemini"])
def test_a_hook_that_was_added_to_our_entry_stays(person: Person, client: str) -> None:
    path = person.settings(client, USER)
    person.setup(client, "--yes")
    changed = json.loads(path.read_text())
    changed["hooks"]["SessionStart"][0]["hooks"].append(MINE)
    path.write_text(json.dumps(changed, indent=2))
    person.setup(client, "--remove", "--yes")
    assert json.loads(path.read_text()) == {"hooks": {"SessionStart": [{"hooks": [MINE]}]}}


def test_a_line_that_was_added_beside_ours_is_all_that_stays(person: Person) -> None:
    path = person.settings("claude", USER)
    write(path, '{\n  "model": "opus"\n}\n')
    person.setup("claude", "--yes")
    path.write_text(path.read_text().replace('"opus"', '"sonnet" /* cheaper */'))
    person.setup("claude", "--remove", "--yes")
    assert path.read_text() == '{\n  "model": "sonnet" /* cheaper */\n}\n'


def test_what_codex_adds_to_its_settings_stays_when_ours_go(person: Person) -> None:
    config = person.home / ".codex" / "config.toml"
    added = '\n[projects."/x"]\ntrust_level = "trusted"\n'
    write(config, 'model = "o"\n')
    person.setup("codex", "--yes")
    config.write_text(config.read_text() + added)
    person.setup("codex", "--remove", "--yes")
    assert config.read_text() == 'model = "o"\n' + added


def test_a_setting_that_was_added_to_our_table_keeps_its_table(person: Person) -> None:
    config = person.home / ".codex" / "config.toml"
    write(config, "[features]\nhooks = true\n")
    person.setup("codex", "--yes")
    config.write_text(config.read_text() + "network_access = true\n")
    person.setup("codex", "--remove", "--yes")
    left = tomllib.loads(config.read_text())
    assert left == {
        "features": {"hooks": True},
        "sandbox_workspace_write": {"writable_roots": [], "network_access": True},
    }


def test_a_skill_that_was_changed_since_is_the_person_s(person: Person) -> None:
    person.setup("cursor", "--yes")
    skill = person.home / ".cursor" / "skills" / "dibs" / "SKILL.md"
    skill.write_text(skill.read_text() + "and mine\n")
    assert f"{skill} is not as setup leaves it" in person.setup("cursor", "--check", code=1)
    assert "move it away" in person.setup("cursor", "--yes", code=1)
    assert "stays" in person.setup("cursor", "--remove", "--yes")
    assert skill.exists()
    assert not (person.home / ".cursor" / "hooks.json").exists()


@pytest.mark.parametrize("client", JSON_CLIENTS)
def test_without_its_record_setup_finds_its_entries_by_what_they_are(person: Person, client: str) -> None:
    path = person.settings(client, USER)
    write(path, '{\n  "mine": 1\n}\n')
    person.setup(client, "--yes")
    for record in (person.home / ".local" / "state" / "dibs" / "setup").iterdir():
        record.write_text("{")
    person.setup(client, "--check")
    assert "set up already" in person.setup(client, "--yes")
    person.setup(client, "--remove", "--yes")
    assert "dibs" not in path.read_text()
    assert json.loads(path.read_text())["mine"] == 1


@pytest.mark.parametrize("client", ["codex", "cursor", "gemini", "copilot", "opencode"])
def test_what_another_version_wrote_is_replaced(person: Person, client: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = person.snapshot()
    with monkeypatch.context() as older:
        older.setattr(Place, "hook", lambda self, client, event: f"sh /old/dibs-hook.sh {event}")
        older.setattr(Place, "read", lambda self, *path: "an older text\n")
        person.setup(client, "--yes")
    assert "✗" in person.setup(client, "--check", code=1)
    person.setup(client, "--yes")
    person.setup(client, "--check")
    assert not any(b"/old/" in (data or b"") or data == b"an older text\n" for _, data in person.snapshot().values())
    person.setup(client, "--remove", "--yes")
    assert person.snapshot() == before


@pytest.mark.parametrize("content", BROKEN)
@pytest.mark.parametrize("client", JSON_AT_EVERY_COMMIT)
def test_a_file_that_cannot_be_edited_is_named_with_its_line_and_nothing_changes(
    person: Person, client: str, content: str
) -> None:
    text, line = BROKEN[content]
    path = person.settings(client, USER)
    write(path, text)
    before = person.snapshot()
    said = person.setup(client, "--yes", code=1)
    assert f"{path}, line {line or ''}" in said
    assert person.snapshot() == before
    person.setup(client, "--check", code=1)
    assert person.snapshot() == before


@pytest.mark.parametrize(
    ("data", "line"), [(b"a = 1\nb = \n", 2), (b"a = 1\n\nb = '\xff'\n", 3), (b"[sandbox_workspace_write", 1)]
)
def test_toml_that_cannot_be_read_is_named_with_its_line_and_nothing_changes(
    person: Person, data: bytes, line: int
) -> None:
    config = person.home / ".codex" / "config.toml"
    config.parent.mkdir()
    config.write_bytes(data)
    before = person.snapshot()
    assert f"{config}, line {line}: " in person.setup("codex", "--yes", code=1)
    assert person.snapshot() == before


def test_roots_of_another_type_are_refused_and_nothing_changes(person: Person) -> None:
    config = person.home / ".codex" / "config.toml"
    write(config, 'sandbox_workspace_write = "no"\n')
    before = person.snapshot()
    assert str(config) in person.setup("codex", "--yes", code=1)
    assert person.snapshot() == before


def test_a_plugin_that_the_person_switched_off_is_not_switched_on(person: Person) -> None:
    path = person.settings("claude", USER)
    write(path, '{\n  "enabledPlugins": {"dibs@dibs": false}\n}\n')
    before = person.snapshot()
    assert 'line 2: "enabledPlugins.dibs@dibs" is false' in person.setup("claude", "--yes", code=1)
    assert person.snapshot() == before


def test_without_a_person_and_without_yes_the_lines_are_shown_and_nothing_changes(person: Person) -> None:
    before = person.snapshot()
    said = person.setup("claude", code=2)
    assert '+    "dibs@dibs": true\n' in said
    assert "--yes" in said
    assert person.snapshot() == before


@pytest.mark.parametrize(("typed", "is_written"), [("n", False), ("y", True)])
def test_a_person_is_shown_the_lines_and_asked(person: Person, typed: str, is_written: bool) -> None:
    environment = {"HOME": str(person.home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8", "TERM": "xterm"}
    command = shlex.join([sys.executable, "-m", "dibs.cli.main", "setup", "claude", "--no-color"])
    with Terminal(command, person.project, environment) as terminal:
        assert '+    "dibs@dibs": true\n' in terminal.read_until("[y/N]")
        assert not person.settings("claude", USER).exists()
        terminal.type(f"{typed}\n")
        assert ("written" if is_written else "nothing was changed") in terminal.read_to_end()
    assert person.settings("claude", USER).exists() == is_written


def test_a_client_that_is_not_known_is_refused_with_those_that_are(person: Person) -> None:
    assert "claude, codex, cursor, gemini, opencode, copilot" in person.setup("emacs", "--yes", code=1)
    person.setup("claude", "--check", "--remove", code=2)


def test_a_change_that_fails_undoes_those_before_it(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is full at the last of three files."""
    before = person.snapshot()
    replace = plan._replace

    def full(path: str, text: str | None) -> None:
        if path.endswith("SKILL.md") and text:
            raise OSError(28, "No space left on device", path)
        replace(path, text)

    monkeypatch.setattr(plan, "_replace", full)
    assert "No space left" in person.setup("codex", "--yes", code=1)
    assert person.snapshot() == before


def test_a_file_that_changes_while_the_person_reads_is_not_overwritten(person: Person) -> None:
    client = clients.Client("claude", Place.here(str(person.project), os.environ, project=False))
    planned = client.plan(remove=False)
    path = person.settings("claude", USER)
    write(path, "{}")
    before = person.snapshot()
    with pytest.raises(Invalid, match="changed meanwhile"):
        client.carry_out(planned, remove=False)
    assert person.snapshot() == before


def test_what_is_no_file_is_refused(person: Person) -> None:
    path = person.settings("claude", USER)
    path.parent.mkdir()
    os.mkfifo(path)
    assert "not a regular file" in person.setup("claude", "--yes", code=1)


def test_a_linked_file_is_changed_where_it_is(person: Person) -> None:
    real = person.folder / "dotfiles" / "settings.json"
    write(real, "{}\n")
    link = person.settings("claude", USER)
    link.parent.mkdir()
    link.symlink_to(real)
    before = person.snapshot()
    person.setup("claude", "--yes")
    assert link.is_symlink()
    assert "dibs@dibs" in real.read_text()
    person.setup("claude", "--remove", "--yes")
    assert person.snapshot() == before


def test_the_sandbox_of_codex_keeps_the_boards_of_all_repositories(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = person.snapshot()
    other = person.folder / "other"
    subprocess.run(["git", "init", "--quiet", str(other)], check=True)
    subprocess.run(["git", "-C", str(other), *COMMIT], check=True)
    subprocess.run(["git", "-C", str(other), "worktree", "add", "--quiet", str(person.folder / "tree")], check=True)
    boards = [person.project / ".git" / "dibs", other / ".git" / "dibs"]
    person.setup("codex", "--yes")
    monkeypatch.chdir(person.folder / "tree")
    assert str(boards[1]) in person.setup("codex", "--check", code=1)
    person.setup("codex", "--yes")
    config = tomllib.loads((person.home / ".codex" / "config.toml").read_text())
    roots = config["sandbox_workspace_write"]["writable_roots"]
    assert {str(board) for board in boards} < set(roots)
    assert all(stat.S_IMODE(Path(root).stat().st_mode) == 0o700 for root in roots)
    (boards[0] / "board.db").touch()
    person.setup("codex", "--remove", "--yes")
    assert not boards[1].exists()
    assert (boards[0] / "board.db").exists(), "a board stays"
    (boards[0] / "board.db").unlink()
    boards[0].rmdir()
    assert {name: before[name] for name in before} == {
        name: found for name, found in person.snapshot().items() if name in before
    }
    assert list(person.home.iterdir()) == []


COMMIT = ("-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "--allow-empty", "--message", "x")


def test_a_plugin_that_the_person_installed_in_codex_needs_no_second_hooks(person: Person) -> None:
    config = person.home / ".codex" / "config.toml"
    write(config, '[plugins."dibs@dibs"]\nenabled = true\n')
    there_and_back(person, "codex", USER)
    person.setup("codex", "--yes")
    assert [path.name for path in config.parent.iterdir()] == ["config.toml"]


def test_what_claude_notes_about_the_plugin_goes_with_it(person: Person) -> None:
    plugins = person.home / ".claude" / "plugins"
    other = {"scope": "user", "version": "1"}
    for name, given in {
        "installed_plugins.json": {"version": 2, "plugins": {"dibs@dibs": [other], "x@y": [other]}},
        "known_marketplaces.json": {"dibs": {"source": {}}, "y": {}},
    }.items():
        write(plugins / name, json.dumps(given, indent=2))
    person.setup("claude", "--yes")
    person.setup("claude", "--remove", "--yes")
    left: Any = json.loads((plugins / "installed_plugins.json").read_text())
    assert left == {"version": 2, "plugins": {"x@y": [other]}}
    assert json.loads((plugins / "known_marketplaces.json").read_text()) == {"y": {}}
    assert "nothing to remove" in person.setup("claude", "--remove", "--yes")


def test_json_says_the_same_to_programs(person: Person) -> None:
    said = json.loads(person.setup("claude", "--yes", "--json"))
    assert said["written"] is True
    assert [file["path"] for file in said["files"]] == [str(person.settings("claude", USER))]
    assert json.loads(person.setup("claude", "--check", "--json"))["problems"] == []


def test_the_wheel_has_the_plugin_where_setup_looks_for_it() -> None:
    top = Path(Place.here(os.getcwd(), os.environ, project=False).tree)
    build = tomllib.loads((top / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]
    for source, target in build["wheel"]["force-include"].items():
        assert (top / source).exists()
        assert target == f"dibs/plugin/{source}"


def test_the_plugin_has_the_version_of_dibs_and_the_events_of_setup() -> None:
    tree = Path(Place.here(os.getcwd(), os.environ, project=False).tree)
    plugin = tree / "plugins" / "dibs"
    # Codex copies a plugin, and takes another copy only for another version.
    assert json.loads((plugin / ".claude-plugin" / "plugin.json").read_text())["version"] == version("calldibs")
    hooks = json.loads((plugin / "hooks" / "hooks.json").read_text())["hooks"]
    assert {event: entry[0]["hooks"][0]["timeout"] for event, entry in hooks.items()} == (
        events.EVENTS | events.TASK_EVENTS
    )
    for event, entry in hooks.items():
        assert entry[0]["hooks"][0]["command"] == f'sh "${{CLAUDE_PLUGIN_ROOT}}/hooks/dibs-hook.sh" {event}'
