"""The key for a server: from `DIBS_KEY`, or from a file that a server on this machine wrote for its own user.

A server on loopback writes a key beside its board, readable by its user only, and a pointer to it, by the address of
the server, into the user's state folder. So `DIBS_STORE=http://127.0.0.1:8377 dibs who` works without any set-up. The
key is sent to that address only, also if the URL has a host name of this machine.

The file also has the host name of the server's pages. Browsers send cookies to every port of a host, so pages under
127.0.0.1 would share theirs with all other programs on the machine. No other program knows this name.
"""

from __future__ import annotations

import os

from dibs.config import ENV_KEY
from dibs.errors import Invalid

LOOPBACK = "127.0.0.1"
FILE_NAME = "server-key.json"
#: Browsers resolve every name under localhost to this machine, without DNS.
PAGES_DOMAIN = ".dibs.localhost"
NAME_BYTES = 8
BYTES_MAX = 64_000


def address(host: str) -> str:
    """The address to connect to for a host without TLS. Names of this machine mean the default address of a server:
    DNS may resolve them to [::1] first, where another user may listen."""
    name = host.rstrip(".")
    return LOOPBACK if name == "localhost" or name.endswith(".localhost") else host


def find(url: str) -> str | None:
    """The key for the server at `url`, if this process has one."""
    return os.environ.get(ENV_KEY) or _stored(url).get("key")


def pages(url: str) -> str | None:
    """The URL of the pages of the server at `url`, if it runs on this machine."""
    return _stored(url).get("pages")


def keep(url: str, secret: str, board_folder: str | None) -> str:
    """Write a key for the user of this process; returns the path of the file."""
    pointer = _pointer_path(url)
    kept = {"url": _address(url), "key": secret}
    if url.startswith("http:"):
        # Not over TLS: the certificate is for another name, and no other program can pass for the server.
        kept["pages"] = f"http://{_own_name(url, board_folder)}:{url.rpartition(':')[2]}"
    if board_folder is None:
        _write(pointer, kept)
        return pointer
    path = os.path.join(board_folder, FILE_NAME)
    _write(path, kept)
    _write(pointer, {"file": path})
    return path


def kept(url: str, board_folder: str | None) -> str | None:
    """The key of an earlier server of this board, or at this address."""
    return _stored_before(url, board_folder).get("key")


def served_at(board_folder: str) -> str | None:
    """The URL at which the board in this folder was last served."""
    found = _read(os.path.join(board_folder, FILE_NAME))
    return None if found is None else found.get("url")


def _stored(url: str) -> dict[str, str]:
    """The data of the server at exactly this address."""
    pointer = _read(_pointer_path(url)) or {}
    found = pointer if "key" in pointer else _read(pointer.get("file", "")) or {}
    return found if found.get("url") == _address(url) else {}


def _stored_before(url: str, board_folder: str | None) -> dict[str, str]:
    path = _pointer_path(url) if board_folder is None else os.path.join(board_folder, FILE_NAME)
    return _read(path) or {}


def _own_name(url: str, board_folder: str | None) -> str:
    """A host name that cannot be guessed. An earlier one is kept, so that a browser stays signed in."""
    before = str(_stored_before(url, board_folder).get("pages")).removeprefix("http://").partition(":")[0]
    own = before.removesuffix(PAGES_DOMAIN)
    # Only a name of this form: the file may have come with a clone, and a browser follows it.
    is_ours = before != own and len(own) == 2 * NAME_BYTES and set(own) <= set("0123456789abcdef")
    return before if is_ours else new_pages_name()


def new_pages_name() -> str:
    """A host name for a server's pages that no other program knows."""
    return os.urandom(NAME_BYTES).hex() + PAGES_DOMAIN


def _address(url: str) -> str:
    scheme, _, server = url.rstrip("/").partition("://")
    host, colon, port = server.rpartition(":")
    return f"{scheme}://{address(host)}{colon}{port}"


def _pointer_path(url: str) -> str:
    state = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    name = "".join(char if char.isalnum() or char in ".-" else "_" for char in _address(url))
    return os.path.join(state, "dibs", "servers", f"{name}.json")


def _read(path: str) -> dict[str, str] | None:
    import json

    from dibs.system import bounded_read

    try:
        # A file that others can write could send the key to them; one that they can read is not secret.
        about = os.stat(path)
        if about.st_uid != os.getuid() or about.st_mode & 0o077:
            return None
        found = json.loads(bounded_read.read(path, BYTES_MAX))
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _write(path: str, data: dict[str, str]) -> None:
    import json

    from dibs.system.durable import write_private

    try:
        write_private(path, json.dumps(data).encode())
    except OSError as error:
        raise Invalid(f"the key of the server cannot be written to {path}: {error.strerror}", field="key") from error
