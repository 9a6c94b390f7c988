"""API keys of a server: secrets of 256 random bits, of which a board keeps only the digest.

A secret has the form `dibs_ID_RANDOM`, so that one found in a file can be recognised; the id finds its row. Keys are
not tokens, which are the fencing numbers of claims.

A browser that signed in has a key of its own, of the form `dibsweb_webID_RANDOM`. It is accepted only in a cookie, and
cookies accept no other key.
"""

from __future__ import annotations

import os
from base64 import urlsafe_b64encode
from hashlib import sha256
from hmac import compare_digest

from dibs.errors import Invalid
from dibs.model import LOGINS, ROLES, Key

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PREFIX, BROWSER_PREFIX, BROWSER_ID = "dibs", "dibsweb", "web"
#: How long a login key is valid at most.
LOGIN_SECONDS = 600.0


def new(role: str, agent: str | None) -> tuple[Key, str]:
    """A new key and its secret, which is shown only once."""
    if role not in (*ROLES, *LOGINS):
        raise unknown_role(role)
    return _new(PREFIX, os.urandom(5).hex(), role, agent)


def new_for_browser(role: str, agent: str | None, mark: str = "") -> tuple[Key, str]:
    """A new key for a browser's cookie. The digest covers the prefix, so its secret is valid in cookies only. Its id
    begins with `web` and the mark of the server."""
    return _new(BROWSER_PREFIX, f"{BROWSER_ID}{mark}{os.urandom(5).hex()}", role, agent)


def is_for_browser(secret: str) -> bool:
    return secret.startswith(f"{BROWSER_PREFIX}_")


def registered(id: str, role: str, agent: str | None, digest: str) -> Key:
    """A key whose secret the client generated and keeps to itself."""
    if role not in (*ROLES, *LOGINS):
        raise unknown_role(role)
    if not (id.isalnum() and id.isascii() and len(id) <= 64):
        raise Invalid("the id of a key must be letters and digits", field="id")
    if len(digest) != 64 or not set(digest) <= set("0123456789abcdef"):
        raise Invalid("digest must be the SHA-256 of the secret, as 64 hexadecimal digits", field="digest")
    return Key(id=id, role=role, agent=agent, digest=digest)


def shown(key: Key) -> dict[str, Any]:
    """A key for display, without its digest."""
    return {name: value for name, value in key.as_dict().items() if name != "digest"}


def unknown_role(role: str) -> Invalid:
    return Invalid(f"unknown role {role!r}; choose one of {', '.join(ROLES)}", field="role")


def digest(secret: str) -> str:
    return sha256(secret.encode()).hexdigest()


def id_of(secret: str) -> str | None:
    """The id in a secret; None if it does not have the form of one."""
    prefix, _, rest = secret.partition("_")
    id, _, random = rest.partition("_")
    return id if prefix in (PREFIX, BROWSER_PREFIX) and id.isalnum() and id.isascii() and random else None


def validity_seconds(role: str, asked: float | None) -> float | None:
    """How long a new key is valid; None means until it is revoked."""
    return min(asked or LOGIN_SECONDS, LOGIN_SECONDS) if role in LOGINS else asked


def without_secrets(text: str) -> str:
    """The text with every secret cut to the id of its key."""
    import re

    pattern = rf"\b((?:{PREFIX}|{BROWSER_PREFIX})_[0-9A-Za-z]+_)[0-9A-Za-z_-]+"
    return re.sub(pattern, r"\1***", text) if PREFIX in text else text


def matches(key: Key, secret: str) -> bool:
    return compare_digest(key.digest, digest(secret))


def _new(prefix: str, id: str, role: str, agent: str | None) -> tuple[Key, str]:
    secret = f"{prefix}_{id}_{urlsafe_b64encode(os.urandom(32)).rstrip(b'=').decode()}"
    return Key(id=id, role=role, agent=agent, digest=digest(secret)), secret


def may(role: str, needed: str) -> bool:
    return role in ROLES and ROLES.index(role) >= ROLES.index(needed)
