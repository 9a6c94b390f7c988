"""Where a key is found that nobody named: `DIBS_KEY`, or a file that a server on this machine left for its own user.

A server on loopback leaves a key beside its board, readable by its user only, and in the user's state folder a note
where that is, by the server's address. So `DIBS_STORE=http://127.0.0.1:8377 dibs who` works without any set-up.
"""

from __future__ import annotations

import os

from dibs.config import ENV_KEY
from dibs.errors import Invalid

FILE_NAME = "server-key.json"


def find(url: str) -> str | None:
    """The key for the server at `url`, if this process has one."""
    named = os.environ.get(ENV_KEY)
    if named:
        return named
    note = _read(_note_path(url))
    if note is None:
        return None
    found = note if "key" in note else _read(note.get("file", ""))
    if found is None or found.get("url") != _address(url):
        return None
    return found.get("key")


def keep(url: str, secret: str, board_folder: str | None) -> str:
    """Leave a key for whoever may read it, which is its owner; where it is."""
    note = _note_path(url)
    kept = {"url": _address(url), "key": secret}
    if board_folder is None:
        _write(note, kept)
        return note
    path = os.path.join(board_folder, FILE_NAME)
    _write(path, kept)
    _write(note, {"file": path})
    return path


def kept(url: str, board_folder: str | None) -> str | None:
    """The key that an earlier server of this board, or at this address, left."""
    path = _note_path(url) if board_folder is None else os.path.join(board_folder, FILE_NAME)
    found = _read(path)
    return None if found is None else found.get("key")


def served_at(board_folder: str) -> str | None:
    """Where the board in this folder was last served."""
    found = _read(os.path.join(board_folder, FILE_NAME))
    return None if found is None else found.get("url")


def _address(url: str) -> str:
    return url.rstrip("/").replace("//localhost:", "//127.0.0.1:")


def _note_path(url: str) -> str:
    state = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    name = "".join(sign if sign.isalnum() or sign in ".-" else "_" for sign in _address(url))
    return os.path.join(state, "dibs", "servers", f"{name}.json")


def _read(path: str) -> dict[str, str] | None:
    import json

    try:
        with open(path, encoding="utf-8") as file:
            # A file that others can write could send our key to them; one that they can read is no secret.
            about = os.fstat(file.fileno())
            if about.st_uid != os.getuid() or about.st_mode & 0o077:
                return None
            found = json.load(file)
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _write(path: str, data: dict[str, str]) -> None:
    """In one step, and never readable by others, not for a moment."""
    import json

    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        half = f"{path}-{os.getpid()}"
        file = os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.write(file, json.dumps(data).encode())
        finally:
            os.close(file)
        os.replace(half, path)
    except OSError as error:
        raise Invalid(f"the server's key cannot be left at {path}: {error.strerror}", field="key") from error
