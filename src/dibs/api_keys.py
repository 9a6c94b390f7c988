"""Keys as their holders know them: secrets of 256 random bits, of which a board keeps only the digest.

A secret reads `dibs_ID_RANDOM`: its holder, and whoever finds one in a file, can tell what it is; the id finds its row.
Not to be mixed up with tokens, which are the fencing numbers of claims.

A browser that signed in has a key of its own, whose secret reads `dibsweb_webID_RANDOM`. It counts in a cookie and
nowhere else, and nothing else counts in a cookie.
"""

from __future__ import annotations

import os
from base64 import urlsafe_b64encode
from hashlib import sha256
from hmac import compare_digest

from dibs.errors import Invalid
from dibs.model import LOGIN, ROLES, Key

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PREFIX, BROWSER_PREFIX = "dibs", "dibsweb"
#: How long a login key is good at most.
LOGIN_SECONDS = 600.0


def made(role: str, agent: str | None) -> tuple[Key, str]:
    """A new key and its secret, which is told once."""
    if role not in (*ROLES, LOGIN):
        raise no_role(role)
    return _made(PREFIX, os.urandom(5).hex(), role, agent)


def made_for_browser(role: str, agent: str | None) -> tuple[Key, str]:
    """The same for a cookie. The digest is that of the whole secret: under the prefix of other keys, it is none."""
    return _made(BROWSER_PREFIX, f"web{os.urandom(5).hex()}", role, agent)


def is_browsers(secret: str) -> bool:
    return secret.startswith(f"{BROWSER_PREFIX}_")


def told(id: str, role: str, agent: str | None, digest: str) -> Key:
    """A key that its maker describes, without the secret."""
    if role not in (*ROLES, LOGIN):
        raise no_role(role)
    if not (id.isalnum() and id.isascii() and len(id) <= 64):
        raise Invalid("the id of a key is letters and digits", field="id")
    if len(digest) != 64 or not set(digest) <= set("0123456789abcdef"):
        raise Invalid("a digest is the SHA-256 of the secret, as 64 hexadecimal digits", field="digest")
    return Key(id=id, role=role, agent=agent, digest=digest)


def shown(key: Key) -> dict[str, Any]:
    """A key as it may be told: without what it is checked by."""
    return {name: value for name, value in key.as_dict().items() if name != "digest"}


def no_role(role: str) -> Invalid:
    return Invalid(f"{role!r} is no role; {', '.join(ROLES)} are", field="role")


def digest(secret: str) -> str:
    return sha256(secret.encode()).hexdigest()


def id_of(secret: str) -> str | None:
    """Which key a secret says it is; None for what is no secret of ours."""
    prefix, _, rest = secret.partition("_")
    id, _, random = rest.partition("_")
    return id if prefix in (PREFIX, BROWSER_PREFIX) and id.isalnum() and id.isascii() and random else None


def lasting_seconds(role: str, asked: float | None) -> float | None:
    """How long a new key is good; None is until it is revoked."""
    return min(asked or LOGIN_SECONDS, LOGIN_SECONDS) if role == LOGIN else asked


def without_secrets(text: str) -> str:
    """A text in which every secret is cut down to the id of its key."""
    import re

    pattern = rf"\b((?:{PREFIX}|{BROWSER_PREFIX})_[0-9A-Za-z]+_)[0-9A-Za-z_-]+"
    return re.sub(pattern, r"\1***", text) if PREFIX in text else text


def fits(key: Key, secret: str) -> bool:
    return compare_digest(key.digest, digest(secret))


def _made(prefix: str, id: str, role: str, agent: str | None) -> tuple[Key, str]:
    secret = f"{prefix}_{id}_{urlsafe_b64encode(os.urandom(32)).rstrip(b'=').decode()}"
    return Key(id=id, role=role, agent=agent, digest=digest(secret)), secret


def may(role: str, needed: str) -> bool:
    return role in ROLES and ROLES.index(role) >= ROLES.index(needed)
