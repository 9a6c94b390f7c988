"""Files that a tool is about to write, as the resources of items name them.

An item names the files it touches as `resources`, relative to the top of the repository. All worktrees of a repository
share its board, so a path in any of them is compared by its place below the top of its own worktree.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.agents.payload import Payload

#: The inputs of tools that name a file.
PATH_FIELDS = ("file_path", "notebook_path", "path", "filePath")
#: What stands before a path in a patch of `apply_patch`.
PATCH_LINES = ("*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: ")
PATHS_MAX = 1000


def written(payload: Payload) -> list[str]:
    """The absolute paths that an edit tool is about to write."""
    named = [payload.input[field] for field in PATH_FIELDS if isinstance(payload.input.get(field), str)]
    patch = payload.input.get("command", payload.input.get("input", payload.input.get("patch")))
    if not named and isinstance(patch, str):
        for line in patch.splitlines():
            named += [line.removeprefix(start).strip() for start in PATCH_LINES if line.startswith(start)]
    return [os.path.normpath(os.path.join(payload.cwd, path)) for path in named[:PATHS_MAX]]


def below_top(path: str, folder: str) -> str | None:
    """The path relative to the top of its worktree, if that belongs to the repository of `folder`; outside of git,
    relative to the folder itself. None for a file that no resource of this board can name."""
    # The tool writes through links; the file itself may not exist yet.
    path = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
    home = _worktree(os.path.realpath(folder))
    if home is None:
        top = os.path.realpath(folder)
    else:
        found = _worktree(os.path.dirname(path))
        if found is None or found[1] != home[1]:
            return None
        top = found[0]
    below = os.path.relpath(path, top)
    if below == os.pardir or below.startswith(os.pardir + os.sep):
        return None
    return below


def _worktree(folder: str) -> tuple[str, str] | None:
    """The top of the worktree around a folder, and the git directory that all worktrees of its repository share."""
    from dibs import location

    return location.worktree(folder)
