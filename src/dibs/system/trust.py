"""Which files are trusted on a machine that several users share.

A board or a `dibs.toml` that a search found is used only if it belongs to the caller, to root, or to the user for whom
root acts, or if the user's trust file lists it. A board that the caller names is not checked. Git has the same rule
(`safe.directory`): a folder above, such as `/tmp`, may contain files of other users.
"""

from __future__ import annotations

import os
import stat

from dibs.errors import Invalid, NotTrusted

ENV_CONFIG = "XDG_CONFIG_HOME"
ROOT = 0
#: What stands before the path of an entry: nothing if everything in it is trusted, or what it is accepted as.
KINDS = ("", "vault:")
#: The most that is read of a trust file.
BYTES_MAX = 1 << 20
#: How many folders are examined on the way up to the top of a repository.
DEPTH_MAX = 256


def problem(path: str, folder: str, *, link: bool = False) -> str | None:
    """Why a caller in `folder` does not trust `path`; None if it does. With `link`, a symbolic link is judged by its
    owner and by its target; otherwise it is not trusted."""
    found = os.lstat(path)
    if stat.S_ISLNK(found.st_mode):
        if not link:
            return "is a symbolic link"
        if not _is_accepted(found.st_uid, folder):
            return _owned_by(found.st_uid)
        found = os.stat(path)
    if not _is_accepted(found.st_uid, folder):
        return _owned_by(found.st_uid)
    if found.st_mode & stat.S_IWOTH:
        return "can be written by every user of this machine"
    return None


def refusal(path: str, why: str, listing: str) -> NotTrusted:
    """The refusal of `path`, with the command that adds `listing` to the trust file."""
    line = f"dibs trust {quoted(listing)}"
    return NotTrusted(f"{path} {why}, so it is not used; if you trust it, type: {line}", path=path, trust=line)


def no_access(path: str, folder: str) -> NotTrusted:
    """The refusal of an existing board that the caller may not open, such as one that root made."""
    whose = _owned_by(os.lstat(folder).st_uid)
    line = f"sudo chown -R {_name(os.geteuid()) or os.geteuid()} {quoted(folder)}"
    return NotTrusted(f"{path} {whose}, and you have no access to it; if it should be yours, type: {line}", path=path)


def require_file(path: str, folder: str) -> None:
    """Refuse a file that a search from `folder` found, unless it is trusted."""
    why = problem(path, folder, link=True)
    if why is not None and not is_listed(path):
        raise refusal(path, why, path)


# The trust file


def file_path() -> str:
    home = os.environ.get(ENV_CONFIG) or os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(home, "dibs", "trusted")


def listed() -> list[str]:
    """The paths in the user's trust file, which is refused if other users can write it."""
    from dibs.system import bounded_read

    path = file_path()
    try:
        about = os.stat(path)
        if not _is_of_caller(about.st_uid) or about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise NotTrusted(
                f"{path} can be written by other users, so it is ignored; make it yours alone:"
                f" chown {os.geteuid()} {quoted(path)} && chmod go-w {quoted(path)}",
                path=path,
            )
        lines = os.fsdecode(bounded_read.read(path, BYTES_MAX)).split("\n")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise NotTrusted(f"{path} cannot be read: {error.strerror}", path=path) from error
    return [line for line in lines if "/" in line and line.partition("/")[0] in KINDS]


def is_listed(path: str) -> bool:
    """Whether the trust file lists this path or a folder above it."""
    path = canonical(path)
    return any(path == one or path.startswith(one.rstrip("/") + "/") for one in listed())


def has(entry: str) -> bool:
    """Whether the trust file has exactly this entry."""
    return entry in listed()


def add(path: str) -> str:
    """Add a path; returns it as written to the file."""
    path = canonical(path)
    if not os.path.lexists(path):
        raise Invalid(f"there is nothing at {path}", field="path")
    add_entry(path)
    return path


def add_entry(entry: str) -> None:
    if "\n" in entry or "\r" in entry:
        raise Invalid("a path with a line break cannot be listed", field="path")
    if not has(entry):
        _change([*listed(), entry])


def remove(path: str, *others: str) -> str:
    """Remove a path, and other entries about it; at least one of them must be there."""
    path = canonical(path)
    if not remove_entry(path, *others):
        raise Invalid(f"{path} is not on the trust list; to see the list: dibs trust --list", field="path")
    return path


def remove_entry(*entries: str) -> bool:
    """Remove entries; return whether one of them was there."""
    known = listed()
    left = [one for one in known if one not in entries]
    if len(left) < len(known):
        _change(left)
    return len(left) < len(known)


def canonical(path: str) -> str:
    """The canonical name of a path. Links above it are resolved; a link at its end is not."""
    folder, name = os.path.split(os.path.abspath(path))
    return os.path.join(os.path.realpath(folder), name) if name else folder


def quoted(path: str) -> str:
    import shlex

    return shlex.quote(path)


def _change(entries: list[str]) -> None:
    from dibs.system.durable import write_private

    path = file_path()
    data = "".join(f"{one}\n" for one in entries).encode(errors="surrogateescape")
    try:
        write_private(path, data)
    except OSError as error:
        raise Invalid(f"{path} cannot be written: {error.strerror}", field="path") from error


# Owners


def _is_accepted(uid: int, folder: str) -> bool:
    """Every caller trusts root, which can do anything anyway. Root trusts a user only where it acts for that user:
    through sudo, or inside that user's repository, as in a container."""
    return _is_of_caller(uid) or uid == ROOT or (os.geteuid() == ROOT and uid == _owner_of_repository(folder))


def _is_of_caller(uid: int) -> bool:
    caller = os.geteuid()
    return uid == caller or (caller == ROOT and os.environ.get("SUDO_UID") == str(uid))


def _owner_of_repository(folder: str) -> int | None:
    """The owner of the repository around `folder`, if every folder up to its top has the same owner. Otherwise a `.git`
    in a shared folder would make its owner the owner of everything below."""
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


def _owned_by(uid: int) -> str:
    name = _name(uid)
    return f"belongs to uid {uid}" if name is None else f"belongs to {name} (uid {uid})"


def _name(uid: int) -> str | None:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return None
