"""Packages of npm, kept in a cache of the user's outside of the checkout: pinned, and fetched once."""

from __future__ import annotations

import fcntl
import functools
import os
import shutil
import subprocess
from pathlib import Path

OPTIONS = ("--no-package-lock", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=0")
#: The largest package has 550 MB.
FETCH_SECONDS_MAX = 600


@functools.cache
def packages(folder_name: str, *words: str) -> tuple[Path, str]:
    """The folder `node_modules` with the packages `NAME@VERSION`, and why there is none, if there is none."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dibs-tests"
    folder = cache / folder_name
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "whole").exists():
            if not shutil.which("npm"):
                return Path(), "there is no npm on this machine"
            try:
                subprocess.run(
                    ["npm", "install", *OPTIONS, "--prefix", str(folder), *words],
                    cwd=folder,
                    check=True,
                    capture_output=True,
                    timeout=FETCH_SECONDS_MAX,
                )
            except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
                return Path(), f"npm cannot fetch {', '.join(words)} here"
            (folder / "whole").touch()
    return folder / "node_modules", ""
