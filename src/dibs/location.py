"""What a working folder decides. `look` finds its board: that of its git repository, else the nearest vault or `.dibs`
above it. `Place.settings_file` is the `dibs.toml` that counts for this board. Every program of dibs asks here. Also how
the URL of a board is printed: never with its password.

In a repository the board is in `<git common dir>/dibs/`: shared by all worktrees, out of reach of `git clean`, and
never committed. Git's files are read to find it, since running git would cost more than a whole claim. That board comes
before one in the work tree. A board that was found is used only if it is trusted: see `trust`. What a clone may bring
is passed over: a `.dibs` of a commit, and a vault until its user has accepted it. A `.git` that is not trusted does not
count as a repository, and its files are read with care, because another user can put anything there.
"""

from __future__ import annotations

import os
from stat import S_ISDIR, S_ISLNK, S_ISREG, S_IWOTH

from dibs.config import ENV_STORE, FILE_NAME
from dibs.errors import Invalid, NotTrusted
from dibs.model import READY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    #: The top of a work tree, and the git directory that has its index.
    Tree = tuple[str, str]

BOARD_FILE = "board.db"
VAULT = "vault:"
#: Stands for a secret in output.
MASK = "***"
HIDDEN_FOLDER = ".dibs"
#: The most bytes that are read of git's files. No path is longer.
LINE_MAX = 8192
#: Parameters of a database URL that are secret.
SECRETS = frozenset({"password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key"})


class Candidate:
    """A place where a board may be: `names` lead to it from the folder `base`. `tree` is the work tree around it, if
    any, with its git directory; `git_paths` are the paths of git's files that led to it."""

    def __init__(
        self, url: str, base: str, names: tuple[str, ...], tree: Tree | None, git_paths: tuple[str, ...] = ()
    ) -> None:
        self.url = url
        #: The path that `dibs trust` lists.
        self.top = os.path.join(base, names[0])
        self._path = os.path.join(base, *names)
        self._git_paths = tuple(dict.fromkeys(git_paths))
        self._tree = tree
        #: The folder with dibs' own files. In a vault without an index it is not `top`, the folder of ready tasks.
        self._own = self.top if git_paths else os.path.join(base, HIDDEN_FOLDER)

    def exists(self) -> bool:
        """True also if access to the folder is denied, because a board may be in it."""
        try:
            os.stat(self._path)
        except PermissionError:
            return os.path.lexists(self.top)
        except OSError:
            return False
        return True

    def is_repository_trusted(self, folder: str) -> bool:
        """Whether a caller in `folder` trusts the files of git that led here."""
        for path in self._git_paths:
            try:
                why = _problem(path, folder, link=True)
            except OSError:
                return False
            if why is not None:
                from dibs.system import trust

                return trust.is_listed(self.top)
        return True

    def refusal(self, folder: str) -> NotTrusted | None:
        """Why a caller in `folder` does not use this board; None if it is trusted."""
        try:
            for path, why, listing in self._problems(folder):
                from dibs.system import trust

                if not trust.is_listed(listing):
                    return trust.refusal(path, why, listing)
        except PermissionError:
            from dibs.system import trust

            return trust.no_access(self._path, self.top)
        return None

    def is_accepted(self) -> bool:
        """Whether the user has accepted this vault, or trusts its files."""
        from dibs.system import trust

        vault = self.url.removeprefix(VAULT)
        return trust.has(acceptance(vault)) or any(map(trust.is_listed, (vault, self.top, self._own)))

    def not_accepted(self) -> NotTrusted:
        from dibs.system import trust

        vault = self.url.removeprefix(VAULT)
        return trust.refusal(vault, "is a vault that you have not accepted", vault)

    def _problems(self, folder: str) -> Iterator[tuple[str, str, str]]:
        """Each path that is not trusted, why, and the path to list. PermissionError without access."""
        for path in dict.fromkeys((*self._git_paths, self.top, self._path, self._own)):
            try:
                why = _problem(path, folder, link=path in self._git_paths)
            except FileNotFoundError:
                continue
            if why is not None:
                yield path, why, self._own if path == self._own else self.top
        why = self.commit_problem()
        if why is not None:
            yield self._own, why, self._own

    def commit_problem(self) -> str | None:
        if self._tree is None:
            return None
        from dibs.system import git_index

        return git_index.problem(self._own, *self._tree)


class Place:
    """What a working folder decides: the URL of the board, and the `dibs.toml` that counts for it. `tell` is called
    once with each line about something that was found and does not count."""

    def __init__(self, url: str, folder: str, tell: Callable[[str], object] | None = None) -> None:
        self.url, self.folder, self._tell = url, folder, tell
        self.passed_over: list[str] = []
        self._file: str | None = None
        self._is_known = False

    @property
    def settings_file(self) -> str | None:
        """The `dibs.toml` that counts for this board, or None. One that is not trusted is refused."""
        if not self._is_known:
            folders = upwards(self.folder)
            home = _home(self.url)
            if home is not None and home not in folders:
                folders += upwards(home)
            files = [path for one in folders if os.path.isfile(path := os.path.join(one, FILE_NAME))]
            if files:
                from dibs import settings_file

                self._file = settings_file.choose(self, home, files)
            self._is_known = True
        return self._file

    def require_trusted(self, table: str, values: Mapping[str, Any]) -> None:
        """Refuse values of this table that need trust, if their file comes from a commit and is not listed."""
        from dibs import settings_file

        settings_file.require_trusted(self, table, values)

    def pass_over(self, line: str) -> None:
        if line not in self.passed_over:
            self.passed_over.append(line)
            if self._tell is not None:
                self._tell(line)


def look(folder: str, named: str | None = None, *, tell: Callable[[str], object] | None = None) -> Place:
    """The board with the name that was given, else that of `DIBS_STORE`, else the one that is found from `folder`."""
    named = named or os.environ.get(ENV_STORE)
    passed: list[str] = []
    try:
        place = Place(named or find(folder, passed), folder, tell)
    finally:
        if tell is not None:
            for line in passed:
                tell(line)
    place.passed_over = passed
    return place


def find(folder: str, passed: list[str] | None = None) -> str:
    """The URL of the board of `folder`. Refused, with the command to type, if there is none or it is not trusted.
    `passed` gets a line for each one that was passed over."""
    told = [] if passed is None else passed
    refused: dict[str, NotTrusted] = {}
    for place in _candidates(folder):
        if place.exists():
            refusal = place.refusal(folder)
            if not place.url.startswith(VAULT):
                is_passed_over = refusal is not None and place.commit_problem() is not None
            elif is_passed_over := not place.is_accepted():
                refusal = refusal or place.not_accepted()
            if refusal is None:
                told += [one.message for one in refused.values()]
                return place.url
            if not is_passed_over:
                raise refusal
            refused.setdefault(place.url, refusal)
    if refused:
        first, *others = refused.values()  # the first may be a clone's, and another one the user's own
        told += [one.message for one in others]
        raise first
    raise Invalid("no board here or above; make one with: dibs init", field="store")


def for_init(folder: str) -> str:
    """The URL of the board that `dibs init` makes in `folder`. An existing one must be trusted."""
    place = new(folder)
    refusal = place.refusal(folder) if os.path.lexists(place.top) else None
    if refusal is not None:
        raise refusal
    return place.url


def new(folder: str) -> Candidate:
    """Where `dibs init` makes a board, whether or not there is one."""
    repositories = (of_git(above, git) for above in upwards(folder) if (git := git_dirs(above)))
    place = next((place for place in repositories if place.is_repository_trusted(folder)), None)
    return place or _of_folder(os.path.abspath(folder), None)


def acceptance(vault: str) -> str:
    """The entry of the trust file by which a vault is accepted."""
    return VAULT + os.path.realpath(vault)


def worktree(folder: str) -> tuple[str, str] | None:
    """The top of the git worktree around `folder`, and the git directory that all worktrees of its repository share."""
    for above in upwards(folder):
        git = git_dirs(above)
        if git is not None:
            return above, os.path.realpath(git[1])
    return None


def absolute(url: str) -> str:
    """The URL that names the board from any folder."""
    url = url.removeprefix("sqlite:")
    if "://" in url:
        return url
    if url.startswith(VAULT):
        return VAULT + os.path.abspath(url.removeprefix(VAULT))
    return os.path.abspath(url)


def folder_of(url: str) -> str | None:
    """The folder with the files of a board; None for a board on a server."""
    file = file_of(url)
    return None if file is None else os.path.dirname(file)


def _home(url: str) -> str | None:
    """The folder that a board belongs to: the top of the work tree if the board is in its `.git`; None for a server."""
    folder = folder_of(url)
    if folder is None:
        return None
    above, name = os.path.split(os.path.realpath(folder))
    if name == "dibs" and os.path.basename(above) == ".git":
        return os.path.dirname(above)
    return above if name == HIDDEN_FOLDER else os.path.join(above, name)


def file_of(url: str) -> str | None:
    """The file of a board, of a vault its index; None for a board on a server."""
    if "://" in url:
        return None
    place = absolute(url)
    if place.startswith(VAULT):
        from dibs.store.vault import layout

        place = os.path.join(place.removeprefix(VAULT), layout.HIDDEN, layout.INDEX)
    return place


def printable(url: str) -> str:
    """An absolute path, or a URL without its password."""
    return without_password(absolute(url)) if "://" in url else absolute(url)


def without_password(text: str) -> str:
    """The text with the password of every URL hidden."""
    return " ".join(_without_password(word) if "://" in word else word for word in text.split(" "))


def _without_password(url: str) -> str:
    scheme, _, rest = url.partition("://")
    rest, mark, query = rest.partition("?")
    rest += mark + "&".join(_without_secret(setting) for setting in query.split("&"))
    # Up to the last @: a password that is not encoded may contain any of / ? : @, and no part of it is to be shown.
    before, at, after = rest.rpartition("@")
    user, colon, _ = before.partition(":")
    return f"{scheme}://{user}{colon}{MASK if colon else ''}{at}{after}"


def _without_secret(setting: str) -> str:
    from urllib.parse import unquote

    name, equals, _ = setting.partition("=")
    return f"{name}{equals}{MASK}" if unquote(name) in SECRETS else setting


def _candidates(folder: str) -> Iterator[Candidate]:
    """The candidates, in the order of the search."""
    passed: list[str] = []
    untrusted: list[Candidate] = []
    for above in upwards(folder):
        passed.append(above)
        git = git_dirs(above)
        if git is None:
            continue
        place = of_git(above, git)
        if not place.is_repository_trusted(folder):
            untrusted.append(place)
            continue
        # First only if it can be used: otherwise the boards of the work tree come before it.
        if place.exists() and place.refusal(folder) is None:
            yield place
        for inner in passed:
            yield from _of_work_tree(inner, (above, git[0]))
        yield place
        passed.clear()
    for above in passed:
        yield from _of_work_tree(above, None)
    # Last, for the refusal with the command that trusts them.
    yield from untrusted


def of_git(above: str, git: tuple[str, str]) -> Candidate:
    common = git[1]
    return Candidate(
        os.path.join(common, "dibs", BOARD_FILE), common, ("dibs", BOARD_FILE), None, (f"{above}/.git", *git)
    )


def _of_work_tree(above: str, tree: Tree | None) -> Iterator[Candidate]:
    """A vault is found by its index, or without one by the folder of ready tasks. Tasks are committed by design, dibs'
    own files are not."""
    from dibs.store.vault import layout

    yield Candidate(VAULT + above, above, (layout.HIDDEN, layout.INDEX), tree)
    yield _of_folder(above, tree)
    yield Candidate(VAULT + above, above, (layout.FOLDERS[READY],), tree)


def _of_folder(above: str, tree: Tree | None) -> Candidate:
    return Candidate(os.path.join(above, HIDDEN_FOLDER, BOARD_FILE), above, (HIDDEN_FOLDER, BOARD_FILE), tree)


def _problem(path: str, folder: str, *, link: bool) -> str | None:
    """Why `path` is not trusted. The usual case, a private file of the caller, is decided without importing `trust`.
    PermissionError if it is trusted and cannot be read."""
    found = os.lstat(path)
    if found.st_uid == os.geteuid() and not found.st_mode & S_IWOTH and not S_ISLNK(found.st_mode):
        return None
    from dibs.system import trust

    why = trust.problem(path, folder, link=link)
    if why is None and not os.access(path, os.R_OK):
        raise PermissionError
    return why


def upwards(folder: str) -> list[str]:
    found = [os.path.abspath(folder)]
    while os.path.dirname(found[-1]) != found[-1]:
        found.append(os.path.dirname(found[-1]))
    return found


def git_dirs(folder: str) -> tuple[str, str] | None:
    """The git directory of the work tree at `folder`, and the common one of all its worktrees."""
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
    """None if it is not a regular file: reading a pipe or a device could block, or never end."""
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
