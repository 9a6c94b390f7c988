"""A person with a home and a project, who calls `dibs setup`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dibs.agents.setup import clients
from dibs.agents.setup.json_edit import JsonEdit
from dibs.agents.setup.place import Place
from dibs.cli.main import main

USER, PROJECT = SCOPES = ("user", "project")

Snapshot = dict[str, tuple[int, bytes | None]]


class Person:
    """A person with a home and a project, who calls `dibs setup`."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.home, self.project = folder / "home", folder / "project"
        self._capsys = capsys

    def setup(self, *words: str, code: int = 0) -> str:
        found = main(["setup", *words])
        out, err = self._capsys.readouterr()
        assert found == code, out + err
        return out + err

    def snapshot(self) -> Snapshot:
        return {
            str(path.relative_to(self.folder)): (path.lstat().st_mode, path.read_bytes() if path.is_file() else None)
            for path in sorted(self.folder.rglob("*"))
        }

    def settings(self, client: str, scope: str) -> Path:
        """The JSON file of a client that setup adds to."""
        place = Place.here(str(self.project), os.environ, project=scope == PROJECT)
        edits = clients.CLIENTS[client](place).edits
        return Path(next(edit.path for edit in edits if isinstance(edit, JsonEdit)))


def options(scope: str) -> tuple[str, ...]:
    return ("--project",) if scope == PROJECT else ()


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())


def there_and_back(person: Person, client: str, scope: str) -> None:
    """Setup twice and removal twice, twice over: what was there before is there again, to the byte."""
    before = person.snapshot()
    for _ in range(2):
        person.setup(client, *options(scope), "--check", code=1)
        shown = person.setup(client, *options(scope), "--yes")
        after = person.snapshot()
        changed = [name for name in after if after[name][1] != before.get(name, (0, None))[1]]
        assert all(f"+++ {person.folder / name}\n" in shown for name in changed if "/state/dibs/" not in name)
        assert "set up already" in person.setup(client, *options(scope), "--yes")
        assert person.snapshot() == after
        person.setup(client, *options(scope), "--check")
        person.setup(client, *options(scope), "--remove", "--yes")
        assert person.snapshot() == before
        assert "nothing to remove" in person.setup(client, *options(scope), "--remove")
        assert person.snapshot() == before
