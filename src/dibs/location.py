"""Where a folder's board is: one for all worktrees of a git repository, else the nearest `.dibs` above.

In a repository the board lives in `<git common dir>/dibs/`: shared by every worktree, out of reach of `git clean`,
never committed. Git's own files say where that is; running git would cost more than the whole claim.
"""

from __future__ import annotations

import os

from dibs.errors import Invalid

BOARD_FILE = "board.db"


def find(folder: str) -> str:
    """The board's file for `folder`; refused with the line to type if there is none."""
    for candidate in _candidates(folder):
        if os.path.exists(candidate):
            return candidate
    raise Invalid("no board here or above; make one with: dibs init", field="store")


def home(folder: str) -> str:
    """Where `dibs init` in `folder` puts a new board."""
    common = _common_dir_above(folder)
    return os.path.join(*((common, "dibs") if common else (os.path.abspath(folder), ".dibs")), BOARD_FILE)


def _candidates(folder: str) -> list[str]:
    found = []
    for above in _upwards(folder):
        found.append(os.path.join(above, ".dibs", BOARD_FILE))
        common = _common_dir(above)
        if common:
            found.append(os.path.join(common, "dibs", BOARD_FILE))
    return found


def _common_dir_above(folder: str) -> str | None:
    return next((common for above in _upwards(folder) if (common := _common_dir(above))), None)


def _upwards(folder: str) -> list[str]:
    found = [os.path.abspath(folder)]
    while os.path.dirname(found[-1]) != found[-1]:
        found.append(os.path.dirname(found[-1]))
    return found


def _common_dir(folder: str) -> str | None:
    """The git directory that all worktrees share, if `folder` is the top of one."""
    git = os.path.join(folder, ".git")
    if os.path.isdir(git):
        return git if os.path.exists(os.path.join(git, "HEAD")) else None
    target = _first_line(git)
    if target is None or not target.startswith("gitdir:"):
        return None
    git = os.path.normpath(os.path.join(folder, target.removeprefix("gitdir:").strip()))
    shared = _first_line(os.path.join(git, "commondir"))
    return git if shared is None else os.path.normpath(os.path.join(git, shared))


def _first_line(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.readline().strip()
    except OSError:
        return None
