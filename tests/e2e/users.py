"""Several users on one machine: real `dibs` processes that root starts and that then become somebody else.

What such a process imports is imported before it does so: another user may not be able to read this interpreter.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kit.waiting import PATIENCE_SECONDS

ALICE, BOB, MALLORY = 12001, 12002, 12666
TEAM = 12500
#: Becomes a user with one more group, goes to a folder, and does what the line says.
BECOME = """
import os, sys
import json, pwd, shlex, subprocess, selectors, tomllib, difflib, unicodedata, hashlib
import dibs.cli.main, dibs.cli.identity, dibs.cli.items, dibs.cli.admin, dibs.system.trust
import dibs.cli.show, dibs.cli.claim_lines, dibs.cli.who, dibs.cli.claim_commands
import dibs.maintenance.doctor, dibs.location, dibs.system.git_index, dibs.store.sqlite.store, dibs.store.sqlite.schema
user, group, folder, umask, *words = sys.argv[1:]
os.setgroups([int(group)] if int(group) else []), os.setgid(int(user)), os.setuid(int(user)), os.umask(int(umask, 8))
os.chdir(folder)
code = dibs.cli.main.main(words)
sys.stdout.flush()
os._exit(code)
"""

#: Whether other users can import dibs: not if the checkout is in root's own folder.
IS_OPEN = all(folder.stat().st_mode & 0o001 for folder in Path(__file__).resolve().parents)
needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or not IS_OPEN, reason="needs root, to act as several users, and a checkout that they can read"
)


class User:
    """Somebody who calls `dibs`."""

    def __init__(self, uid: int, home: Path, environment: dict[str, str], group: int = 0) -> None:
        self.uid, self.home, self.group = uid, home, group
        self.environment = environment | {"HOME": str(home), "LOGNAME": f"user-{uid}"}

    def __call__(
        self, folder: Path, *words: str, umask: int = 0o022, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        who = [str(self.uid), str(self.group), str(folder), f"{umask:o}"]
        done = subprocess.run(
            [sys.executable, "-c", BECOME, *who, *words],
            cwd="/",
            env=self.environment | environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            start_new_session=True,
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done

    def ok(self, folder: Path, *words: str, **options: Any) -> str:
        done = self(folder, *words, **options)
        assert done.returncode == 0, (words, done.returncode, done.stdout, done.stderr)
        return done.stdout

    def items(self, folder: Path, **options: Any) -> list[str]:
        return [item["id"] for item in json.loads(self.ok(folder, "list", "--json", **options))["items"]]

    def refused(self, folder: Path, *words: str, **options: Any) -> str:
        """What is said of a command that is not trusted."""
        done = self(folder, *words, **options)
        assert (done.returncode, done.stdout) == (6, ""), (done.returncode, done.stdout, done.stderr)
        assert done.stderr.count("\n") == 1
        return done.stderr

    def owns(self, *paths: Path) -> None:
        """Everything at and below these paths is this user's from now on."""
        for path in paths:
            for one in [path, *path.rglob("*")]:
                os.chown(one, self.uid, self.uid, follow_symlinks=False)


class Machine:
    """A folder that everybody can come to, as `/tmp` is, and the users of it."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder = folder
        self._environment = environment

    def user(self, uid: int, group: int = 0) -> User:
        home = self.folder / f"home-{uid}"
        home.mkdir(exist_ok=True)
        os.chown(home, uid, uid)
        return User(uid, home, self._environment, group)

    def folder_of(self, user: User, name: str, mode: int = 0o755) -> Path:
        made = self.folder / name
        made.mkdir(parents=True)
        os.chown(made, user.uid, user.uid)
        made.chmod(mode)
        return made


@pytest.fixture
def machine(environment: dict[str, str]) -> Iterator[Machine]:
    folder = Path(tempfile.mkdtemp(prefix="dibs-users-", dir="/tmp"))
    folder.chmod(0o1777)
    yield Machine(folder, environment)
    shutil.rmtree(folder)
