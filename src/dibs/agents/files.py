"""Files that a tool is about to write, and who reserves them.

An item names the files it touches as `resources`, relative to the top of the repository. All worktrees of a repository
share its board, so a path in any of them is compared by its place below the top of its own worktree.
"""

from __future__ import annotations

import os

from dibs import location
from dibs.config import ENV_STORE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.agents.payload import Payload

#: The inputs of tools that name a file.
PATH_FIELDS = ("file_path", "notebook_path", "path", "filePath", "target_file")
#: The inputs of tools that hold a patch, and what stands before a path in it. Lines of a file begin with `+`, `-` or a
#: space, lines of the patch itself may be indented.
PATCH_FIELDS = ("command", "input", "patch", "patchText")
PATCH_LINES = ("*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: ")
PATHS_MAX = 1000


def written(payload: Payload) -> list[str]:
    """The absolute paths that an edit tool is about to write."""
    named = [payload.input[field] for field in PATH_FIELDS if isinstance(payload.input.get(field), str)]
    for patch in (payload.input.get(field) for field in PATCH_FIELDS):
        for line in map(str.strip, patch.splitlines()) if isinstance(patch, str) else ():
            named += [line.removeprefix(start).strip() for start in PATCH_LINES if line.startswith(start)]
    return [os.path.normpath(os.path.join(payload.cwd, path)) for path in named[:PATHS_MAX]]


class Reach:
    """The files that resources on the board of a session can name: those of the repository in which the session has
    started, as far as the board is found from there.

    `is_shared`: the board is not the repository's own, so that it may have items of other repositories.
    """

    def __init__(self, folder: str, url: str) -> None:
        tree = location.worktree(os.path.realpath(folder))
        kept = None if os.environ.get(ENV_STORE) else location.folder_of(url)
        above = None if kept is None else os.path.dirname(os.path.realpath(kept))
        self._repository = None if tree is None else tree[1]
        #: The folder with the board, which is not found from elsewhere. One in the git directory has every worktree.
        self._board = None if above == self._repository else above
        #: The top of everything outside of git.
        self._top = above or os.path.realpath(folder)
        self.is_shared = above is None or (tree is not None and above != tree[1] and not _is_below(above, tree[0]))

    def places(self, path: str) -> list[str]:
        """Where a file lies below the top of its worktree; empty if no resource can name it. A tool writes through
        links, and an item may reserve a link or what it leads to, so that a file can have several places."""
        target = os.path.realpath(path)
        entry = (
            path if target == path else os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
        )
        found = (self._place(name) for name in dict.fromkeys((path, entry, target)))
        return list(dict.fromkeys(place for place in found if place is not None))

    def _place(self, path: str) -> str | None:
        top = self._top
        if self._repository is not None:
            tree = location.worktree(os.path.dirname(path))
            if tree is None or tree[1] != self._repository:
                return None
            top = tree[0]
        if not _is_below(path, top) or (self._board is not None and not _is_below(path, self._board)):
            return None
        return os.path.relpath(path, top)


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)
