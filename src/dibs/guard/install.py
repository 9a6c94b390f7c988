"""Puts the hooks into a repository, and removes them to the byte.

Hooks in the repository's own folder are chained in place: the former hook is renamed, and runs first. Where
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
from dibs.value import Value

#: The folder of the guard in the common git directory. It exists as long as the hooks are installed.
FOLDER = "dibs-guard"
#: In it: the scripts, if `core.hooksPath` names them; the former path, and the configuration before and after.
HOOKS, FORMER, CONFIG_BEFORE, CONFIG_AFTER = "hooks", "former-path", "config.before", "config.after"
#: In it: exists if the repository had no folder for hooks.
MADE = "made-hooks-folder"
SETTING = "core.hooksPath"
FILE_BYTES_MAX = 1 << 20


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
        self.config = os.path.join(self.common, "config")
        self.configured = git.setting(SETTING, "--type=path")
        #: The folder in which git runs hooks, and where a relative path begins.
        self.top = self.common if self.is_bare else git.line("rev-parse", "--show-toplevel")

    @property
    def is_redirected(self) -> bool:
        """Whether git finds the hooks elsewhere than in the repository's own folder."""
        if os.path.islink(self.default):
            return True
        return self.configured is not None and not self.leads_to(self.default)

    def leads_to(self, folder: str) -> bool:
        """Whether `core.hooksPath` names this folder."""
        named = None if self.configured is None else os.path.join(self.top, self.configured)
        return named is not None and os.path.realpath(named) == os.path.realpath(folder)

    def own(self, name: str) -> str:
        return os.path.join(self.ours, name)


def install(*, pre_commit: bool = False, store: str | None = None) -> Installed:
    """Install the hooks, or bring them up to date. `store` names the board, where it cannot be found."""
    places = Places()
    if store is not None:
        store = location.absolute(store)
        if location.without_password(store) != store:
            raise Invalid("the password of a URL would be readable in the hooks; leave it out", field="store")
    hooks = HUB if places.is_bare else (*CLIENT, COMMIT) if pre_commit else CLIENT
    program = os.path.abspath(shutil.which(sys.argv[0]) or shutil.which("dibs") or "dibs")
    if places.is_redirected:
        return _redirect(places, hooks, program, store)
    return _chain(places, hooks, program, store)


def remove() -> Removed:
    """Remove the hooks. What other programs put in their place since stays."""
    places = Places()
    removed: list[str] = []
    left: list[str] = []
    if os.path.isdir(places.own_hooks):
        _restore_config(places)
        for name in sorted(os.listdir(places.own_hooks)):
            path = os.path.join(places.own_hooks, name)
            if not _is_ours(path):
                left.append(name)
                continue
            removed += [name] if _calls_dibs(path, name) else []
            os.unlink(path)
    for name in (*CLIENT, *HUB, COMMIT):
        path = os.path.join(places.default, name)
        has_former = os.path.lexists(path + BEFORE)
        if _is_ours(path) or (has_former and not os.path.lexists(path)):
            removed.append(name)
            if has_former:
                os.replace(path + BEFORE, path)
            else:
                os.unlink(path)
        elif has_former:
            left.append(name)
    _remove_folders(places)
    return Removed(hooks=tuple(dict.fromkeys(removed)), left=tuple(left))


def _chain(places: Places, hooks: tuple[str, ...], program: str, store: str | None) -> Installed:
    for name in hooks:
        path = os.path.join(places.default, name)
        if os.path.lexists(path) and not _is_ours(path) and os.path.lexists(path + BEFORE):
            raise Invalid(f"{path} and {path + BEFORE} both exist; keep one of them, and try again", field="hooks")
    os.makedirs(places.ours, exist_ok=True)
    if not os.path.isdir(places.default):
        os.mkdir(places.default)
        _write(places.own(MADE), "", executable=False)
    for name in hooks:
        path = os.path.join(places.default, name)
        if os.path.lexists(path) and not _is_ours(path):
            os.rename(path, path + BEFORE)
        text = scripts.script(name, former=f'"$0{BEFORE}"', path=program, store=store)
        _write(path, text)
    return Installed(folder=places.default, hooks=hooks, former=places.default)


def _redirect(places: Places, hooks: tuple[str, ...], program: str, store: str | None) -> Installed:
    is_ours = places.leads_to(places.own_hooks)
    former = _read(places.own(FORMER)) if is_ours else places.configured or places.default
    os.makedirs(places.own_hooks, exist_ok=True)
    if _calls_dibs(os.path.join(places.own_hooks, COMMIT), COMMIT) and COMMIT not in hooks:
        hooks = (*hooks, COMMIT)
    decisive = [name for name in DECISIVE if os.path.exists(os.path.join(places.top, former, name))]
    for name in (*OTHERS, *CLIENT, *HUB, *decisive):
        before = quote(os.path.join(former, name))
        is_hook = name in hooks
        text = scripts.script(name, former=before, path=program, store=store) if is_hook else scripts.passing_on(before)
        _write(os.path.join(places.own_hooks, name), text)
    if not is_ours:
        _write(places.own(FORMER), former, executable=False)
        _redirect_config(places)
    return Installed(folder=places.own_hooks, hooks=hooks, former=former)


def _redirect_config(places: Places) -> None:
    shutil.copyfile(places.config, places.own(CONFIG_BEFORE))
    git.run("config", "--local", "--replace-all", SETTING, places.own_hooks)
    shutil.copyfile(places.config, places.own(CONFIG_AFTER))
    if git.setting(SETTING, "--type=path") != places.own_hooks:
        remove()
        raise Invalid(
            f"{SETTING} is set for this worktree or on the command line, which comes before the repository's own"
            " setting; unset it, and try again",
            field=SETTING,
        )


def _restore_config(places: Places) -> None:
    """Undo the change of `core.hooksPath`, unless somebody changed it since."""
    if git.setting(SETTING, "--local", "--type=path") != places.own_hooks:
        return
    if _read(places.config) == _read(places.own(CONFIG_AFTER)):
        # A file that git rewrites may come out different: comments and blanks of the changed line are lost.
        lock = places.config + ".lock"
        _write_new(lock, _read(places.own(CONFIG_BEFORE)), 0o600)
        os.chmod(lock, os.stat(places.config).st_mode & 0o777)
        os.replace(lock, places.config)
        return
    before = git.setting(SETTING, "--file", places.own(CONFIG_BEFORE))
    git.run("config", "--local", *(("--unset-all", SETTING) if before is None else ("--replace-all", SETTING, before)))


def _remove_folders(places: Places) -> None:
    """Remove the files of dibs, and the folders that it made, as far as nothing else is in them."""
    was_made = os.path.exists(places.own(MADE))
    for name in (FORMER, CONFIG_BEFORE, CONFIG_AFTER, MADE):
        if os.path.lexists(places.own(name)):
            os.unlink(places.own(name))
    for folder in (places.own_hooks, places.ours, *([places.default] if was_made else [])):
        try:
            os.rmdir(folder)
        except OSError:
            pass  # not there, or something else is in it


def _is_ours(path: str) -> bool:
    return os.path.isfile(path) and not os.path.islink(path) and MARK in _read(path).splitlines()[1:2]


def _calls_dibs(path: str, hook: str) -> bool:
    """Whether this is the script of a hook, and does not only pass on to the former one."""
    return _is_ours(path) and f"guard hook {hook}" in _read(path)


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="surrogateescape", newline="") as file:
        return file.read(FILE_BYTES_MAX)


def _write(path: str, text: str, *, executable: bool = True) -> None:
    half = f"{path}.{os.urandom(4).hex()}.half"
    _write_new(half, text, 0o777 if executable else 0o666)
    os.replace(half, path)


def _write_new(path: str, text: str, mode: int) -> None:
    """Write a file that must not exist."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
        file.write(text)
