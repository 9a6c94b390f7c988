"""Whose files are believed on a machine that several users share.

A board or a `dibs.toml` that a search found, and nobody named, is used only if it belongs to the caller, to root, or to
somebody for whom root acts; else only if the user's own trust file lists it. Git draws the same line
(`safe.directory`): a folder above, such as `/tmp`, may hold what another user put there.
"""

from __future__ import annotations

import os
import stat

from dibs.errors import Invalid, NotTrusted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

ENV_CONFIG = "XDG_CONFIG_HOME"
ROOT = 0
#: Many times what anybody lists.
BYTES_MAX = 1 << 20
#: So many folders are looked at on the way up to the top of a repository.
DEPTH_MAX = 256


def problem(path: str, folder: str, *, link: bool = False) -> str | None:
    """Why what lies at `path` is not believed by a caller who stands in `folder`; None if it is. With `link`, a link is
    judged by its own owner and by what it leads to."""
    found = os.lstat(path)
    if stat.S_ISLNK(found.st_mode):
        if not link:
            return "is a symbolic link"
        if not _is_accepted(found.st_uid, folder):
            return _whose(found.st_uid)
        found = os.stat(path)
    if not _is_accepted(found.st_uid, folder):
        return _whose(found.st_uid)
    if found.st_mode & stat.S_IWOTH:
        return "can be written by every user of this machine"
    return None


def refusal(path: str, why: str, listing: str) -> NotTrusted:
    """The refusal of what lies at `path`, with the line that makes it trusted by listing `listing`."""
    line = f"dibs trust {quoted(listing)}"
    return NotTrusted(f"{path} {why}, so it is not used; if you trust it, type: {line}", path=path, trust=line)


def closed(path: str, folder: str) -> NotTrusted:
    """The refusal of a board that is there and that the caller may not enter, such as one that root made."""
    whose = _whose(os.lstat(folder).st_uid)
    line = f"sudo chown -R {_name(os.geteuid()) or os.geteuid()} {quoted(folder)}"
    return NotTrusted(f"{path} {whose}, and is closed to you; if it should be yours, type: {line}", path=path)


def require_file(path: str, folder: str) -> None:
    """That a file that a search from `folder` found may be believed."""
    why = problem(path, folder, link=True)
    if why is not None and not is_listed(path):
        raise refusal(path, why, path)


# The trust file


def file_path() -> str:
    home = os.environ.get(ENV_CONFIG) or os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(home, "dibs", "trusted")


def listed() -> list[str]:
    """The paths that the user's trust file lists; refused if others than the user can have written it."""
    path = file_path()
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            about = os.fstat(file.fileno())
            if not _is_of_caller(about.st_uid) or about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                raise NotTrusted(
                    f"{path} can be changed by others, so it lists nothing; make it yours alone:"
                    f" chown {os.geteuid()} {quoted(path)} && chmod go-w {quoted(path)}",
                    path=path,
                )
            lines = file.read(BYTES_MAX).splitlines()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise NotTrusted(f"{path} cannot be read: {error.strerror}", path=path) from error
    return [line for line in lines if line.startswith("/")]


def is_listed(path: str) -> bool:
    """Whether the trust file lists this path, or a folder that it lies in."""
    path = canonical(path)
    return any(path == one or path.startswith(one.rstrip("/") + "/") for one in listed())


def add(path: str) -> str:
    """List a path; how it stands in the file."""
    path = canonical(path)
    if "\n" in path or "\r" in path:
        raise Invalid("a path with a line break cannot be listed", field="path")
    if not os.path.lexists(path):
        raise Invalid(f"there is nothing at {path}", field="path")
    _change(lambda known: [*known, path] if path not in known else known)
    return path


def remove(path: str) -> str:
    path = canonical(path)
    if path not in listed():
        raise Invalid(f"{path} is not listed; dibs trust --list shows what is", field="path")
    _change(lambda known: [one for one in known if one != path])
    return path


def canonical(path: str) -> str:
    """The one name of a path: its last part may be a link, which is then meant itself."""
    folder, name = os.path.split(os.path.abspath(path))
    return os.path.join(os.path.realpath(folder), name) if name else folder


def quoted(path: str) -> str:
    import shlex

    return shlex.quote(path)


def _change(change: Callable[[list[str]], list[str]]) -> None:
    path = file_path()
    paths = change(listed())
    half = f"{path}-{os.getpid()}"
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with open(os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write("".join(f"{one}\n" for one in paths).encode(errors="surrogateescape"))
        os.replace(half, path)
    except OSError as error:
        raise Invalid(f"{path} cannot be written: {error.strerror}", field="path") from error


# Owners


def _is_accepted(uid: int, folder: str) -> bool:
    """Root can do to the caller what it likes, whoever the caller is. The other way round, root believes a user only
    where it acts for one: called through sudo, or standing in that user's repository, as in a container."""
    return _is_of_caller(uid) or uid == ROOT or (os.geteuid() == ROOT and uid == _owner_of_repository(folder))


def _is_of_caller(uid: int) -> bool:
    caller = os.geteuid()
    return uid == caller or (caller == ROOT and os.environ.get("SUDO_UID") == str(uid))


def _owner_of_repository(folder: str) -> int | None:
    """Who owns the repository around `folder`, if everything from there up to its top is theirs as well. Otherwise a
    `.git` that somebody puts into a folder for all would make that user the owner of what lies below."""
    above = os.path.abspath(folder)
    owner = os.stat(above).st_uid
    for _ in range(DEPTH_MAX):
        if os.stat(above).st_uid != owner:
            return None
        try:
            return owner if os.lstat(os.path.join(above, ".git")).st_uid == owner else None
        except OSError:
            pass
        if os.path.dirname(above) == above:
            return None
        above = os.path.dirname(above)
    return None


def _whose(uid: int) -> str:
    name = _name(uid)
    return f"belongs to uid {uid}" if name is None else f"belongs to {name} (uid {uid})"


def _name(uid: int) -> str | None:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return None
