"""Whether a folder was committed to the repository in whose work tree it lies.

Whoever wrote a commit decided what such a folder says, and a checkout makes it the caller's own file. Git's index is
read as bytes: a name that is not in it is not tracked, and that is all that is asked of nearly every repository. Git
itself is run only where the bytes leave it open.
"""

from __future__ import annotations

import os

#: Versions of git's index in which each entry has its whole path.
WHOLE_PATHS = (2, 3)
#: A larger index is left to git.
BYTES_MAX = 1 << 26


def problem(path: str, top: str, git_dir: str) -> str | None:
    """Why a folder is not believed: it is tracked by git, in the work tree `top` with this git directory."""
    inner = os.path.relpath(path, top)
    if not _may_be_named(os.path.basename(path), git_dir) or not _is_tracked(inner, top, git_dir):
        return None
    return "was committed to this repository, by whoever wrote the commit"


def _may_be_named(name: str, git_dir: str) -> bool:
    try:
        with open(os.path.join(git_dir, "index"), "rb") as file:
            data = file.read(BYTES_MAX)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    # Upper case as well: some file systems do not tell the two apart.
    if len(data) == BYTES_MAX or os.fsencode(name).lower() in data.lower():
        return True
    if int.from_bytes(data[4:8]) not in WHOLE_PATHS:
        return True
    return b"link" in data and any(other.startswith("sharedindex.") for other in os.listdir(git_dir))


def _is_tracked(inner: str, top: str, git_dir: str) -> bool:
    """As git says. Where it says nothing, the folder is taken for tracked: the user can still say otherwise."""
    from dibs.store.vault.git import Git, GitFailed

    git = Git(top)
    git.settle(git_dir)
    try:
        return bool(git.run("ls-files", "--cached", "-z", "--", f":(top,literal,icase){inner}"))
    except (GitFailed, OSError):
        return True
