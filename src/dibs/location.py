"""Where a folder's board is: the vault it lies in, one for all worktrees of a git repository, else the nearest `.dibs`
above. And how the place of a board is told: never with the password that its URL may hold.

In a repository the board lives in `<git common dir>/dibs/`: shared by every worktree, out of reach of `git clean`,
never committed. Git's own files say where that is; running git would cost more than the whole claim.
"""

from __future__ import annotations

import os

from dibs.errors import Invalid
from dibs.model import READY
from dibs.store.vault import folders

BOARD_FILE = "board.db"
VAULT = "vault:"
HIDDEN = "***"
#: What a URL of a database may carry that is nobody else's business.
SECRETS = frozenset({"password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key"})


def find(folder: str) -> str:
    """The board's file for `folder`, or its vault; refused with the line to type if there is none."""
    for candidate in _candidates(folder):
        if os.path.exists(candidate.removeprefix(VAULT)):
            return candidate
    raise Invalid("no board here or above; make one with: dibs init", field="store")


def home(folder: str) -> str:
    """Where `dibs init` in `folder` puts a new board."""
    common = _common_dir_above(folder)
    return os.path.join(*((common, "dibs") if common else (os.path.abspath(folder), ".dibs")), BOARD_FILE)


def anywhere(url: str) -> str:
    """The same board, by words that name it from any folder."""
    url = url.removeprefix("sqlite:")
    if "://" in url:
        return url
    if url.startswith(VAULT):
        return VAULT + os.path.abspath(url.removeprefix(VAULT))
    return os.path.abspath(url)


def folder(url: str) -> str | None:
    """Where the file of a board lies, with all that belongs to it; None if it is no file."""
    if "://" in url:
        return None
    place = anywhere(url)
    if place.startswith(VAULT):
        place = os.path.join(place.removeprefix(VAULT), folders.HIDDEN, folders.INDEX)
    return os.path.dirname(place)


def shown(url: str) -> str:
    """The place of a board as it may be printed: an absolute path, or a URL without its password."""
    return without_password(anywhere(url)) if "://" in url else anywhere(url)


def without_password(text: str) -> str:
    """A text in which every word that is a URL has lost its password."""
    return " ".join(_without_password(word) if "://" in word else word for word in text.split(" "))


def same(one: str, other: str) -> bool:
    """Whether two URLs name the same board, as far as their words tell."""
    return _place(one) == _place(other)


def _place(url: str) -> str:
    if "://" not in url:
        return os.path.realpath(url.removeprefix("sqlite:").removeprefix(VAULT))
    server, slash, database = url.partition("://")[2].partition("/")
    return server.rpartition("@")[2] + slash + database


def _without_password(url: str) -> str:
    scheme, _, rest = url.partition("://")
    rest, mark, query = rest.partition("?")
    rest += mark + "&".join(_without_secret(setting) for setting in query.split("&"))
    # Up to the last @, and whatever stands between: a password that was not encoded may hold any of / ? : @, and it is
    # better to show too little than a part of it.
    before, at, after = rest.rpartition("@")
    user, colon, _ = before.partition(":")
    return f"{scheme}://{user}{colon}{HIDDEN if colon else ''}{at}{after}"


def _without_secret(setting: str) -> str:
    from urllib.parse import unquote

    name, equals, _ = setting.partition("=")
    return f"{name}{equals}{HIDDEN}" if unquote(name) in SECRETS else setting


def _candidates(folder: str) -> list[str]:
    """A vault is known by its index; one that lost it, by the folder that tasks are taken from."""
    found = []
    for above in _upwards(folder):
        if os.path.exists(os.path.join(above, folders.HIDDEN, folders.INDEX)):
            found.append(VAULT + above)
        found.append(os.path.join(above, ".dibs", BOARD_FILE))
        common = _common_dir(above)
        if common:
            found.append(os.path.join(common, "dibs", BOARD_FILE))
        if os.path.isdir(os.path.join(above, folders.FOLDERS[READY])):
            found.append(VAULT + above)
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
