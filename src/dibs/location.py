"""Where a folder's board is: one for all worktrees of a git repository, else the nearest vault or `.dibs` above. And
how the place of a board is told: never with the password that its URL may hold.

In a repository the board lives in `<git common dir>/dibs/`: shared by every worktree, out of reach of `git clean`,
never committed. Git's own files say where that is; running git would cost more than the whole claim. That board comes
before whatever lies in the work tree, where a commit could have put it. What a search finds is used only if it is
trusted: see `trust`. A `.git` that is not trusted is no repository, and its files are read with care: another user can
put anything there.
"""

from __future__ import annotations

import os
from stat import S_ISDIR, S_ISLNK, S_ISREG, S_IWOTH

from dibs.errors import Invalid
from dibs.model import READY
from dibs.store.vault import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from dibs.errors import NotTrusted

    #: The top of a work tree, and the git directory that has its index.
    Tree = tuple[str, str]

BOARD_FILE = "board.db"
VAULT = "vault:"
HIDDEN = "***"
HIDDEN_FOLDER = ".dibs"
#: Longer than any path that a file of git's holds.
LINE_MAX = 8192
#: What a URL of a database may carry that is nobody else's business.
SECRETS = frozenset({"password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key"})


class Place:
    """A board that may be there: `names` lead to it from the folder `base`. `tree` is the work tree around it, if any,
    and the git directory of it; `way` are the paths in git's files that led to it."""

    def __init__(self, url: str, base: str, names: tuple[str, ...], tree: Tree | None, way: tuple[str, ...] = ()):
        self.url = url
        self.listing = os.path.join(base, names[0])
        self._path = os.path.join(base, *names)
        self._way = tuple(dict.fromkeys(way))
        self._tree = tree
        #: What dibs keeps there: in a vault that lost its index, this is not what it was known by.
        self._own = self.listing if way else os.path.join(base, HIDDEN_FOLDER)

    def is_there(self) -> bool:
        """Also if it lies in a folder that is closed to us, which is not the same as no board."""
        try:
            os.stat(self._path)
        except PermissionError:
            return os.path.lexists(self.listing)
        except OSError:
            return False
        return True

    def is_on_trusted_way(self, folder: str) -> bool:
        """Whether git's files that led to it are believed by a caller who stands in `folder`."""
        for path in self._way:
            try:
                why = _problem(path, folder, link=True)
            except OSError:
                return False
            if why is not None:
                from dibs.files import trust

                return trust.is_listed(self.listing)
        return True

    def refusal(self, folder: str) -> NotTrusted | None:
        """Why a caller who stands in `folder` does not use it; None if it is trusted."""
        try:
            for path, why, listing in self._problems(folder):
                from dibs.files import trust

                if not trust.is_listed(listing):
                    return trust.refusal(path, why, listing)
        except PermissionError:
            from dibs.files import trust

            return trust.closed(self._path, self.listing)
        return None

    def _problems(self, folder: str) -> Iterator[tuple[str, str, str]]:
        """What is not to be believed, why, and what to list if it is all the same; PermissionError if it is closed to
        us."""
        for path in dict.fromkeys((*self._way, self.listing, self._path, self._own)):
            try:
                why = _problem(path, folder, link=path in self._way)
            except FileNotFoundError:
                continue
            if why is not None:
                yield path, why, self._own if path == self._own else self.listing
        if self._tree is None:
            return
        from dibs.files import git_index

        why = git_index.problem(self._own, *self._tree)
        if why is not None:
            yield self._own, why, self._own


def find(folder: str) -> str:
    """The board's file for `folder`, or its vault; refused with the line to type if there is none, or if what is there
    is not trusted."""
    for place in _places(folder):
        if place.is_there():
            refusal = place.refusal(folder)
            if refusal is not None:
                raise refusal
            return place.url
    raise Invalid("no board here or above; make one with: dibs init", field="store")


def home(folder: str) -> str:
    """Where `dibs init` in `folder` puts a new board. What is there already has to be trusted."""
    repositories = (_of_git(above, git) for above in _upwards(folder) if (git := _git_dirs(above)))
    place = next((place for place in repositories if place.is_on_trusted_way(folder)), None)
    place = place or _of_folder(os.path.abspath(folder), None)
    refusal = place.refusal(folder) if os.path.lexists(place.listing) else None
    if refusal is not None:
        raise refusal
    return place.url


def committed(path: str, folder: str) -> str | None:
    """Why a file is not believed by a caller who stands in `folder`: a commit brought it, or may have."""
    for above in _upwards(os.path.dirname(path)):
        git = _git_dirs(above)
        if git is not None and _of_git(above, git).is_on_trusted_way(folder):
            from dibs.files import git_index

            return git_index.problem(path, above, git[0])
    return None


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
        place = os.path.join(place.removeprefix(VAULT), layout.HIDDEN, layout.INDEX)
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


def _places(folder: str) -> Iterator[Place]:
    """In the order in which a board is looked for."""
    passed: list[str] = []
    strange: list[Place] = []
    for above in _upwards(folder):
        passed.append(above)
        git = _git_dirs(above)
        if git is None:
            continue
        place = _of_git(above, git)
        if not place.is_on_trusted_way(folder):
            strange.append(place)
            continue
        # Only if it is trusted: what cannot be used comes before nobody's own board.
        if place.is_there() and place.refusal(folder) is None:
            yield place
        for inner in passed:
            yield from _of_work_tree(inner, (above, git[0]))
        yield place
        passed.clear()
    for above in passed:
        yield from _of_work_tree(above, None)
    # Last, for the refusal that says how to trust them.
    yield from strange


def _of_git(above: str, git: tuple[str, str]) -> Place:
    common = git[1]
    return Place(os.path.join(common, "dibs", BOARD_FILE), common, ("dibs", BOARD_FILE), None, (f"{above}/.git", *git))


def _of_work_tree(above: str, tree: Tree | None) -> Iterator[Place]:
    """A vault is known by its index; one that lost it, by the folder that tasks are taken from. The tasks are committed
    by design, what dibs keeps beside them is not."""
    yield Place(VAULT + above, above, (layout.HIDDEN, layout.INDEX), tree)
    yield _of_folder(above, tree)
    yield Place(VAULT + above, above, (layout.FOLDERS[READY],), tree)


def _of_folder(above: str, tree: Tree | None) -> Place:
    return Place(os.path.join(above, HIDDEN_FOLDER, BOARD_FILE), above, (HIDDEN_FOLDER, BOARD_FILE), tree)


def _problem(path: str, folder: str, *, link: bool) -> str | None:
    """As `trust` says, which is not asked about what is the caller's, no link, and not open to everybody.
    PermissionError if it is believed and closed to us."""
    found = os.lstat(path)
    if found.st_uid == os.geteuid() and not found.st_mode & S_IWOTH and not S_ISLNK(found.st_mode):
        return None
    from dibs.files import trust

    why = trust.problem(path, folder, link=link)
    if why is None and not os.access(path, os.R_OK):
        raise PermissionError
    return why


def _upwards(folder: str) -> list[str]:
    found = [os.path.abspath(folder)]
    while os.path.dirname(found[-1]) != found[-1]:
        found.append(os.path.dirname(found[-1]))
    return found


def _git_dirs(folder: str) -> tuple[str, str] | None:
    """The git directory of the work tree whose top `folder` is, and the one that all its worktrees share."""
    git = os.path.join(folder, ".git")
    try:
        found = os.stat(git)
    except OSError:
        return None
    if S_ISDIR(found.st_mode):
        return (git, git) if os.path.exists(os.path.join(git, "HEAD")) else None
    target = _first_line(git)
    if target is None or not target.startswith("gitdir:"):
        return None
    git = os.path.normpath(os.path.join(folder, target.removeprefix("gitdir:").strip()))
    shared = _first_line(os.path.join(git, "commondir"))
    return git, git if shared is None else os.path.normpath(os.path.join(git, shared))


def _first_line(path: str) -> str | None:
    """None if it is no regular file: whatever else lies there could keep us waiting, or never end."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if not S_ISREG(os.fstat(file).st_mode):
            return None
        line = os.read(file, LINE_MAX).partition(b"\n")[0]
        return None if b"\0" in line else os.fsdecode(line).strip()
    except OSError:
        return None
    finally:
        os.close(file)
