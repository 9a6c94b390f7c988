"""Deprecated names work and print one line; with tables of this test, because few names are deprecated."""

from __future__ import annotations

from pathlib import Path

import pytest

from dibs import config, deprecated
from dibs.cli.commands import COMMANDS
from dibs.cli.main import main
from dibs.deprecated import Renamed
from dibs.errors import Invalid


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("DIBS_STORE", raising=False)
    monkeypatch.setattr(deprecated, "_warned", set())
    monkeypatch.setattr(deprecated, "COMMANDS", {"insert": Renamed(to="add", since="0.2.0")})
    monkeypatch.setattr(deprecated, "OPTIONS", {("add", "--kind-of"): Renamed(to="--type", since="0.2.0")})
    monkeypatch.setattr(deprecated, "SETTINGS", {("board", "ttl"): Renamed(to="ttl_seconds", since="0.3.0")})
    return tmp_path


def test_an_old_command_and_an_old_option_work_and_say_what_to_type(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init"]) == 0
    assert main(["insert", "Fix login", "--kind-of", "bug", "--id", "x"]) == 0
    assert main(["insert", "Fix logout", "--kind-of=bug", "--id", "y"]) == 0
    out, err = capsys.readouterr()
    assert "added x  bug" in out
    assert err.splitlines() == [
        "dibs: dibs insert is deprecated since 0.2.0; use dibs add",
        "dibs: --kind-of of dibs add is deprecated since 0.2.0; use --type",
    ], "each once in a process"


def test_an_old_setting_holds_and_is_named_with_its_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / config.FILE_NAME).write_text("[board]\nttl = 900\n")
    for _ in range(2):
        assert config.load(str(folder / config.FILE_NAME))[0].ttl_seconds == 900
    (line,) = capsys.readouterr().err.splitlines()
    path = folder / config.FILE_NAME
    assert line == f"dibs: ttl in [board] of {path} is deprecated since 0.3.0; use ttl_seconds"


def test_an_old_name_beside_the_new_one_is_refused(folder: Path) -> None:
    (folder / config.FILE_NAME).write_text("[board]\nttl = 900\nttl_seconds = 1200\n")
    with pytest.raises(Invalid, match="ttl is the old name of ttl_seconds; remove it"):
        config.load(str(folder / config.FILE_NAME))


def test_every_old_name_leads_to_one_that_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert {renamed.to.split(" --")[0] for renamed in deprecated.COMMANDS.values()} <= set(COMMANDS)
    assert not set(deprecated.COMMANDS) & set(COMMANDS), "an old name is no command"
    for table, name in deprecated.SETTINGS:
        defaults = {"board": config.DEFAULTS, "server": config.SERVER_DEFAULTS}[table]
        assert deprecated.SETTINGS[table, name].to in defaults._fields
        assert name not in defaults._fields
