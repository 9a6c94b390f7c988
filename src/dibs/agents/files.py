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
#: What a command begins with that Codex takes for a patch, also behind `cd FOLDER &&`.
PATCH_COMMANDS = ("apply_patch", "applypatch")
PATHS_MAX = 10_000


def written(payload: Payload) -> list[str]:
    """The absolute paths that an edit tool, or a patch in a command, is about to write. They are not normalised: behind
    a link, `..` is the folder above what the link leads to."""
    if payload.is_shell:
        folder = _patched_folder(payload.command)
        named = [] if folder is None else [os.path.join(folder, path) for path in _in_patch(payload.command)]
    else:
        named = [payload.input[field] for field in PATH_FIELDS if isinstance(payload.input.get(field), str)]
        for field in PATCH_FIELDS:
            named += _in_patch(payload.input.get(field))
    return [os.path.join(payload.cwd, path) for path in dict.fromkeys(named[:PATHS_MAX])]


def _in_patch(patch: object) -> list[str]:
    """The paths that a patch names. The words of a command may stand in a list, the last of them the patch."""
    text = patch[-1] if isinstance(patch, list) and patch else patch
    lines = map(str.strip, text.splitlines()) if isinstance(text, str) else ()
    return [line.removeprefix(start).strip() for line in lines for start in PATCH_LINES if line.startswith(start)]


def _patched_folder(command: str) -> str | None:
    """The folder that a patch in a command counts from, empty if that is the command's; None if it has no patch."""
    folder, joint, rest = command.strip().removeprefix("cd ").partition("&&")
    if not (joint and command.strip().startswith("cd ")):
        folder, rest = "", command
    return folder.strip().strip("'\"") if rest.strip().startswith(PATCH_COMMANDS) else None


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
        # Some tools shorten `d/..` before they follow the link `d`, and others do not.
        plain = os.path.normpath(path)
        names = [plain]
        for one in dict.fromkeys((plain, path)):
            folder, name = os.path.split(one)
            target = os.path.realpath(one)
            names += [target] if name in ("", ".", "..") else [os.path.join(os.path.realpath(folder), name), target]
        found = (self._place(name) for name in dict.fromkeys(names))
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
