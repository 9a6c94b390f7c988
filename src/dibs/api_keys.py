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
    from collections.abc import Iterable, Sequence
    from typing import Any

PREFIX, BROWSER_PREFIX, BROWSER_ID = "dibs", "dibsweb", "web"
#: Keys that were made for a shorter time are not meant to be replaced.
LASTING_SECONDS = 14 * 86400.0
#: From when on a key is about to expire, and until when one that has expired is still told.
ENDING_SECONDS, EXPIRED_SECONDS = 7 * 86400.0, 86400.0
#: What a key is for, in so many characters.
NAME_LENGTH_MAX = 128
#: How long a login key is valid at most.
LOGIN_SECONDS = 600.0


def new(role: str, agent: str | None, name: str | None = None) -> tuple[Key, str]:
    """A new key and its secret, which is shown only once."""
    if role not in (*ROLES, *LOGINS):
        raise unknown_role(role)
    key, secret = _new(PREFIX, os.urandom(5).hex(), role, agent)
    return key.replace(name=_checked_name(name)), secret


def new_for_browser(role: str, agent: str | None, mark: str = "") -> tuple[Key, str]:
    """A new key for a browser's cookie. The digest covers the prefix, so its secret is valid in cookies only. Its id
    begins with `web` and the mark of the server."""
    return _new(BROWSER_PREFIX, f"{BROWSER_ID}{mark}{os.urandom(5).hex()}", role, agent)


def is_for_browser(secret: str) -> bool:
    return secret.startswith(f"{BROWSER_PREFIX}_")


def registered(id: str, role: str, agent: str | None, digest: str, name: str | None = None) -> Key:
    """A key whose secret the client generated and keeps to itself."""
    if role not in (*ROLES, *LOGINS):
        raise unknown_role(role)
    if not (id.isalnum() and id.isascii() and len(id) <= 64):
        raise Invalid("the id of a key must be letters and digits", field="id")
    if len(digest) != 64 or not set(digest) <= set("0123456789abcdef"):
        raise Invalid("digest must be the SHA-256 of the secret, as 64 hexadecimal digits", field="digest")
    return Key(id=id, role=role, agent=agent, digest=digest, name=_checked_name(name))


def to_replace(keys: Sequence[Key], now: float) -> tuple[Key, ...]:
    """The keys that somebody has to replace before they expire, or should have, those that expire first. `now`: in
    milliseconds."""
    #: When the last key of each line was made.
    made_at: dict[str, int] = {}
    for key in keys:
        if key.line is not None and key.revoked_at is None:
            made_at[key.line] = max(key.created_at, made_at.get(key.line, 0))

    def has_successor(key: Key) -> bool:
        return made_at.get(key.line or key.id, 0) > key.created_at

    def has_to_be_replaced(key: Key) -> bool:
        if key.expires_at is None or key.revoked_at is not None or key.role in LOGINS or key.id.startswith(BROWSER_ID):
            return False
        is_lasting = key.expires_at - key.created_at >= LASTING_SECONDS * 1000
        return is_lasting and key.expires_at > now - EXPIRED_SECONDS * 1000 and not has_successor(key)

    return tuple(sorted(filter(has_to_be_replaced, keys), key=lambda key: key.expires_at or 0))


def ending(keys: Sequence[Key], now: float) -> tuple[Key, ...]:
    """Those of them that end soon."""
    return tuple(key for key in to_replace(keys, now) if (key.expires_at or 0) < now + ENDING_SECONDS * 1000)


def require_lasting(keys: Iterable[Key], id: str) -> Key:
    """The key with this id, whose holder can be given another one: the keys of browsers and logins are not handed."""
    key = next((key for key in keys if key.id == id), None)
    if key is None:
        raise Invalid(f"the key {id} is not known", field="key", key=id)
    if key.role in LOGINS or key.id.startswith(BROWSER_ID):
        raise Invalid(f"the key {id} is that of a browser, which signs in again", field="key", key=id)
    return key


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


def _checked_name(name: str | None) -> str | None:
    if name is not None and not (name.isprintable() and name.strip() and len(name) <= NAME_LENGTH_MAX):
        raise Invalid(f"the name of a key is one line of 1 to {NAME_LENGTH_MAX} characters", field="name")
    return name


def _new(prefix: str, id: str, role: str, agent: str | None) -> tuple[Key, str]:
    secret = f"{prefix}_{id}_{urlsafe_b64encode(os.urandom(32)).rstrip(b'=').decode()}"
    return Key(id=id, role=role, agent=agent, digest=digest(secret)), secret


def may(role: str, needed: str) -> bool:
    return role in ROLES and ROLES.index(role) >= ROLES.index(needed)
