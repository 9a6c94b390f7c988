"""Puts the hooks into a repository, and removes them to the byte.

Hooks in the repository's own folder are chained in place: the former hook is renamed, and runs first, by a link that
has its name. Where
`core.hooksPath` leads elsewhere, that folder may belong to a commit, to a tool or to all repositories of the user. It
stays untouched: `core.hooksPath` of this repository then names a folder of dibs, whose scripts lead on to the former.
All worktrees share the hooks.
"""

from __future__ import annotations

import os
import shutil
import sys
from shlex import quote

from dibs import location
from dibs.errors import Invalid
from dibs.guard import git, scripts
from dibs.guard.scripts import BEFORE, CLIENT, COMMIT, DECISIVE, HUB, MARK, OTHERS
from dibs.system import durable
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: The folder of the guard in the common git directory. It exists as long as the hooks are installed.
FOLDER = "dibs-guard"
#: In it: the scripts, if `core.hooksPath` names them; the former path, and the configuration before and after.
HOOKS, FORMER, CONFIG_BEFORE, CONFIG_AFTER = "hooks", "former-path", "config.before", "config.after"
#: In it: exists if the repository had no folder for hooks; the board that was named; links to the former hooks.
MADE, STORE, LINKS = "made-hooks-folder", "store", "before"
SETTING = "core.hooksPath"


class Installed(Value):
    """The folder with the hooks, the hooks of dibs in it, and the folder whose hooks run before them."""

    folder: str
    hooks: tuple[str, ...]
    former: str


class Removed(Value):
    """`left` are hooks that other programs changed or replaced since, and that stay as they are."""

    hooks: tuple[str, ...]
    left: tuple[str, ...]


class Places:
    """Where the hooks of the repository around the current folder are."""

    def __init__(self) -> None:
        try:
            self.common = os.path.abspath(git.line("rev-parse", "--git-common-dir"))
        except git.GitFailed as error:
            raise Invalid("there is no git repository here; make one with: git init", field="git") from error
        self.is_bare = git.line("rev-parse", "--is-bare-repository") == "true"
        self.default = os.path.join(self.common, "hooks")
        self.ours = os.path.join(self.common, FOLDER)
        self.own_hooks = os.path.join(self.ours, HOOKS)
        #: Git follows a link here, too, before it replaces the file.
        self.config = os.path.realpath(os.path.join(self.common, "config"))
        self.configured = git.setting(SETTING, "--type=path")
        #: The folder in which git runs hooks, and where a relative path begins.
        self.top = self.common if self.is_bare else git.line("rev-parse", "--show-toplevel")

    @property
    def is_redirected(self) -> bool:
        """Whether git finds the hooks elsewhere than in the repository's own folder."""
        if os.path.islink(self.default):
            return True
        return self.configured is not None and not self.leads_to(self.default)

    @property
    def is_ours(self) -> bool:
        """Whether `core.hooksPath` names the guard's folder, here or where the repository was before."""
        return _is_own_path(self.configured)

    @property
    def former(self) -> str:
        """Where the hooks would be without the guard, if it redirects them."""
        if not self.is_ours:
            return self.configured or self.default
        return (_read(self.own(FORMER)) if os.path.exists(self.own(FORMER)) else "") or self.default

    def leads_to(self, folder: str) -> bool:
        """Whether `core.hooksPath` names this folder."""
        named = None if self.configured is None else os.path.join(self.top, self.configured)
        return named is not None and os.path.realpath(named) == os.path.realpath(folder)

    def own(self, name: str) -> str:
        return os.path.join(self.ours, name)


def install(*, pre_commit: bool = False, store: str | None = None, variables: Sequence[str] = ()) -> Installed:
    """Install the hooks, or bring them up to date. `store` names the board, where it cannot be found; it and
    `pre_commit` stay until the hooks are removed."""
    places = Places()
    if store is not None:
        store = location.absolute(store)
        if location.without_password(store) != store:
            raise Invalid("the password of a URL would be readable in the hooks; leave it out", field="store")
    folder = places.own_hooks if places.is_redirected else places.default
    hooks = HUB if places.is_bare else CLIENT
    if not places.is_bare and (pre_commit or _calls_dibs(os.path.join(folder, COMMIT), COMMIT)):
        hooks = (*hooks, COMMIT)
    _check(folder, hooks, is_chained=not places.is_redirected)
    os.makedirs(places.ours, exist_ok=True)
    if store is not None:
        _write(places.own(STORE), store, executable=False)
    elif os.path.exists(places.own(STORE)):
        store = _read(places.own(STORE))
    program = os.path.abspath(shutil.which(sys.argv[0]) or shutil.which("dibs") or "dibs")

    def script(name: str, former: str) -> str:
        return scripts.script(name, former=former, path=program, store=store, variables=variables)

    return _redirect(places, hooks, script) if places.is_redirected else _chain(places, hooks, script)


def names_board() -> bool:
    """Whether the hooks name their board, so that it need not be found."""
    return os.path.exists(Places().own(STORE))


def remove() -> Removed:
    """Remove the hooks. What was edited since, or put in their place, stays."""
    places = Places()
    removed: list[str] = []
    left: list[str] = []
    _restore_config(places)
    for name in sorted(os.listdir(places.own_hooks)) if os.path.isdir(places.own_hooks) else ():
        path = os.path.join(places.own_hooks, name)
        if not _is_sealed(path):
            left.append(name)
            continue
        removed += [name] if _calls_dibs(path, name) else []
        os.unlink(path)
    for name in (*CLIENT, *HUB, COMMIT):
        removed += [name] if _unchain(places.default, name) else []
        path = os.path.join(places.default, name)
        left += [name] if _is_ours(path) or os.path.lexists(path + BEFORE) else []
    _remove_folders(places)
    return Removed(hooks=tuple(dict.fromkeys(removed)), left=tuple(left))


def _unchain(folder: str, name: str) -> bool:
    """Remove the scripts of a hook, and put the former hook in their place; whether there was anything to do. Where
    another program took the place of the hook, and renamed the script, the former hook gets the new name."""
    path = os.path.join(folder, name)
    found = _scripts_of(folder, name)
    has_former = os.path.lexists(path + BEFORE)
    if path in found or not os.path.lexists(path):
        place = path
    elif found:
        place = found[0]
    else:
        return False
    for one in found:
        if one != place or not has_former:
            os.unlink(one)
    if has_former:
        os.replace(path + BEFORE, place)
    return bool(found) or has_former


def _scripts_of(folder: str, hook: str) -> list[str]:
    """The scripts of this hook in a folder, under any name: other programs rename the hooks that they find."""
    paths = [os.path.join(folder, name) for name in sorted(os.listdir(folder))] if os.path.isdir(folder) else []
    return [path for path in paths if _calls_dibs(path, hook) and _is_sealed(path)]


def _check(folder: str, hooks: tuple[str, ...], *, is_chained: bool) -> None:
    """Refuse what cannot be installed, before anything is changed."""
    if os.path.lexists(folder) and not os.path.isdir(folder):
        raise Invalid(f"{folder} is not a folder; move it away, and try again", field="hooks")
    for name in hooks:
        path = os.path.join(folder, name)
        if os.path.isdir(path):
            raise Invalid(f"{path} is a folder, and git runs no folder; move it away, and try again", field="hooks")
        if _is_ours(path) and not _is_sealed(path):
            raise Invalid(f"{path} was edited since it was installed; move it away, and try again", field="hooks")
        is_replaced = os.path.lexists(path) and not _is_ours(path) and not _scripts_of(folder, name)
        if is_chained and is_replaced and os.path.lexists(path + BEFORE):
            raise Invalid(f"{path} and {path + BEFORE} both exist; keep one of them, and try again", field="hooks")


def _chain(places: Places, hooks: tuple[str, ...], script: Callable[[str, str], str]) -> Installed:
    if not os.path.isdir(places.default):
        os.mkdir(places.default)
        _write(places.own(MADE), "", executable=False)
    for name in hooks:
        # Behind a program that calls a renamed script, the script would run that program again as the former hook.
        if _scripts_of(places.default, name) not in ([], [os.path.join(places.default, name)]):
            _unchain(places.default, name)
    _link_former(places, hooks)
    for name in hooks:
        path = os.path.join(places.default, name)
        if os.path.lexists(path) and not _is_ours(path):
            os.rename(path, path + BEFORE)
        # Another program may rename this script, and call it.
        _write(path, script(name, f'"${{0%/*}}/../{FOLDER}/{LINKS}/{name}"'))
    return Installed(folder=places.default, hooks=hooks, former=places.default)


def _link_former(places: Places, hooks: tuple[str, ...]) -> None:
    """Link the hooks that were there before under the names that they had: one program may be many hooks, and go by the
    name. The other files of the folder are linked beside them, where such a hook looks for them."""
    _unlink_former(places)
    links: dict[str, str] = {}
    for name in sorted(os.listdir(places.default)):
        link = name.removesuffix(BEFORE)
        if not name.endswith(".sample") and not _is_ours(os.path.join(places.default, name)):
            links[link] = link + BEFORE if link in hooks else name
    if links.keys().isdisjoint(hooks):
        return
    os.makedirs(places.own(LINKS), exist_ok=True)
    for link, name in links.items():
        os.symlink(os.path.join(os.pardir, os.pardir, HOOKS, name), os.path.join(places.own(LINKS), link))


def _unlink_former(places: Places) -> None:
    for name in os.listdir(places.own(LINKS)) if os.path.isdir(places.own(LINKS)) else ():
        link = os.path.join(places.own(LINKS), name)
        if os.path.islink(link):
            os.unlink(link)


def _redirect(places: Places, hooks: tuple[str, ...], script: Callable[[str, str], str]) -> Installed:
    former = places.former
    os.makedirs(places.own_hooks, exist_ok=True)
    decisive = [name for name in DECISIVE if os.path.exists(os.path.join(places.top, former, name))]
    for name in (*OTHERS, *CLIENT, *HUB, *decisive):
        before = quote(os.path.join(former, name))
        text = script(name, before) if name in hooks else scripts.passing_on(before)
        path = os.path.join(places.own_hooks, name)
        if not os.path.lexists(path) or _is_sealed(path):
            _write(path, text)
    if not places.is_ours:
        # Empty for the repository's own folder, which moves with it.
        _write(places.own(FORMER), places.configured or "", executable=False)
    if not places.leads_to(places.own_hooks):
        _redirect_config(places)
    return Installed(folder=places.own_hooks, hooks=hooks, former=former)


def _redirect_config(places: Places) -> None:
    is_repaired = places.is_ours and os.path.exists(places.own(CONFIG_BEFORE))
    change = ("--replace-all", SETTING, places.own_hooks)
    if not is_repaired:
        shutil.copyfile(places.config, places.own(CONFIG_BEFORE))
    if not is_repaired or _is_as_written(places):
        # Written first, so that the change can be undone if this process is killed after it.
        shutil.copyfile(places.config, places.own(CONFIG_AFTER))
        git.configure("--file", places.own(CONFIG_AFTER), *change)
    git.configure("--local", *change)
    if git.setting(SETTING, "--type=path") != places.own_hooks:
        remove()
        raise Invalid(
            f"{SETTING} is set for this worktree or on the command line, which comes before the repository's own"
            " setting; unset it, and try again",
            field=SETTING,
        )


def _restore_config(places: Places) -> None:
    """Undo the change of `core.hooksPath`, unless somebody changed it since."""
    if not _is_own_path(git.setting(SETTING, "--local", "--type=path")):
        return
    if not os.path.exists(places.own(CONFIG_BEFORE)):
        git.configure("--local", "--unset-all", SETTING)
        return
    if _is_as_written(places):
        # A file that git rewrites may come out different: comments and blanks of the changed line are lost.
        former = _read(places.own(CONFIG_BEFORE)).encode("utf-8", "surrogateescape")
        durable.replace(places.config, former, keeps_mode=True, half=places.config + ".lock")
        return
    before = git.setting(SETTING, "--file", places.own(CONFIG_BEFORE))
    git.configure("--local", *(("--unset-all", SETTING) if before is None else ("--replace-all", SETTING, before)))


def _is_as_written(places: Places) -> bool:
    """Whether nobody changed the configuration since the guard did."""
    after = places.own(CONFIG_AFTER)
    return os.path.exists(after) and _read(places.config) == _read(after)


def _remove_folders(places: Places) -> None:
    """Remove the files of dibs, and the folders that it made, as far as nothing else is in them."""
    was_made = os.path.exists(places.own(MADE))
    _unlink_former(places)
    for name in (FORMER, CONFIG_BEFORE, CONFIG_AFTER, MADE, STORE):
        if os.path.lexists(places.own(name)):
            os.unlink(places.own(name))
    for folder in (places.own(LINKS), places.own_hooks, places.ours, *([places.default] if was_made else [])):
        try:
            os.rmdir(folder)
        except OSError:
            pass  # not there, or something else is in it


def _is_own_path(path: str | None) -> bool:
    """Whether this is the path of the guard's folder of hooks, also that of a repository before it was moved."""
    return path is not None and os.path.normpath(path).endswith(os.path.join(os.sep, FOLDER, HOOKS))


def _is_ours(path: str) -> bool:
    return os.path.isfile(path) and not os.path.islink(path) and MARK in _read(path).split("\n")[1:2]


def _is_sealed(path: str) -> bool:
    """Whether this is a script of dibs as it was installed."""
    return _is_ours(path) and scripts.is_sealed(_read(path))


def _calls_dibs(path: str, hook: str) -> bool:
    """Whether this is the script of a hook, and does not only pass on to the former one."""
    return _is_ours(path) and f"guard hook {hook}" in _read(path)


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="surrogateescape", newline="") as file:
        return file.read()


def _write(path: str, text: str, *, executable: bool = True) -> None:
    mode = 0o777 if executable else 0o666
    durable.replace(path, text.encode("utf-8", "surrogateescape"), mode=mode)
