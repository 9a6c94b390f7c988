"""Packages of npm with all that they depend on, kept in a cache outside of the checkout: pinned, and fetched once."""

from __future__ import annotations

import functools
import shutil
import subprocess
from pathlib import Path

from web.tools import cache

OPTIONS = ("--no-package-lock", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=0")
#: The largest package has 550 MB.
FETCH_SECONDS_MAX = 600


class _NotFetched(Exception):
    pass


@functools.cache
def packages(folder_name: str, *words: str) -> tuple[Path, str]:
    """The folder `node_modules` with the packages `NAME@VERSION`, and why there is none, if there is none."""
    folder = cache.user_cache("dibs-tests") / folder_name
    try:
        return cache.filled(folder, lambda: _install(folder, words)) / "node_modules", ""
    except _NotFetched as error:
        return Path(), str(error)


def _install(folder: Path, words: tuple[str, ...]) -> None:
    if not shutil.which("npm"):
        raise _NotFetched("there is no npm on this machine")
    command = ["npm", "install", *OPTIONS, "--prefix", str(folder), *words]
    try:
        subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=FETCH_SECONDS_MAX)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        raise _NotFetched(f"npm cannot fetch {', '.join(words)} here") from None
