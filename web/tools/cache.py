"""Folders that are filled once and kept, outside of the checkout."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path


def user_cache(name: str) -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / name


def filled(folder: Path, fill: Callable[[], None]) -> Path:
    """The folder, filled by `fill` unless an earlier call completed. Processes that ask at the same time wait."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "whole").exists():
            fill()
            (folder / "whole").touch()
    return folder
