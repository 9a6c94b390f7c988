"""Where a key is found that nobody named: `DIBS_KEY`, or a file that a server on this machine left for its own user.

A server on loopback leaves a key beside its board, readable by its user only, and in the user's state folder a note
where that is, by the server's address. So `DIBS_STORE=http://127.0.0.1:8377 dibs who` works without any set-up. The key
is for that address alone, to which the names of this machine lead, too.

Beside the key stands the host name of the server's pages. Cookies are sent to every port of a host, so pages under
127.0.0.1 would share theirs with all other programs on the machine; this name nobody else knows.
"""

from __future__ import annotations

import os

from dibs.config import ENV_KEY
from dibs.errors import Invalid

LOOPBACK = "127.0.0.1"
FILE_NAME = "server-key.json"
#: Browsers take every name under localhost for this machine, without asking anybody.
PAGES_DOMAIN = ".dibs.localhost"
NAME_BYTES = 8


def address(host: str) -> str:
    """What to connect to for a host without encryption. The names of this machine stand for the address at which a
    server listens unless told otherwise: looked up, they may lead to [::1] first, where another user may listen."""
    name = host.rstrip(".")
    return LOOPBACK if name == "localhost" or name.endswith(".localhost") else host


def find(url: str) -> str | None:
    """The key for the server at `url`, if this process has one."""
    named = os.environ.get(ENV_KEY)
    if named:
        return named
    return _left(url).get("key")


def pages(url: str) -> str | None:
    """Where the pages of the server at `url` are, if that runs on this machine."""
    return _left(url).get("pages")


def keep(url: str, secret: str, board_folder: str | None) -> str:
    """Leave a key for whoever may read it, which is its owner; where it is."""
    note = _note_path(url)
    kept = {"url": _address(url), "key": secret}
    if url.startswith("http:"):
        # A certificate would be for another name; over TLS, nobody else on this machine can pass for the server.
        kept["pages"] = f"http://{_own_name(url, board_folder)}:{url.rpartition(':')[2]}"
    if board_folder is None:
        _write(note, kept)
        return note
    path = os.path.join(board_folder, FILE_NAME)
    _write(path, kept)
    _write(note, {"file": path})
    return path


def kept(url: str, board_folder: str | None) -> str | None:
    """The key that an earlier server of this board, or at this address, left."""
    return _left_before(url, board_folder).get("key")


def served_at(board_folder: str) -> str | None:
    """Where the board in this folder was last served."""
    found = _read(os.path.join(board_folder, FILE_NAME))
    return None if found is None else found.get("url")


def _left(url: str) -> dict[str, str]:
    """What the server at this address has left, and no other."""
    note = _read(_note_path(url)) or {}
    found = note if "key" in note else _read(note.get("file", "")) or {}
    return found if found.get("url") == _address(url) else {}


def _left_before(url: str, board_folder: str | None) -> dict[str, str]:
    path = _note_path(url) if board_folder is None else os.path.join(board_folder, FILE_NAME)
    return _read(path) or {}


def _own_name(url: str, board_folder: str | None) -> str:
    """A host name that nobody can guess: the one from before, so that a browser stays signed in."""
    before = str(_left_before(url, board_folder).get("pages")).removeprefix("http://").partition(":")[0]
    own = before.removesuffix(PAGES_DOMAIN)
    # Nothing but what was made here: the file may have come with a clone, and a browser goes where this leads.
    is_ours = before != own and len(own) == 2 * NAME_BYTES and set(own) <= set("0123456789abcdef")
    return before if is_ours else os.urandom(NAME_BYTES).hex() + PAGES_DOMAIN


def _address(url: str) -> str:
    scheme, _, server = url.rstrip("/").partition("://")
    host, colon, port = server.rpartition(":")
    return f"{scheme}://{address(host)}{colon}{port}"


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
