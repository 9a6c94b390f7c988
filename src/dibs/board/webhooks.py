"""Checks what a caller says about a webhook, and makes its secret."""

from __future__ import annotations

import os
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from urllib.parse import urlsplit

from dibs import check
from dibs.errors import Invalid
from dibs.model.webhooks import NewWebhook, Webhook
from dibs.rules import webhooks as rules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from dibs.store.contract import Store

#: Of the secrets of webhooks, by the specification of standard webhooks, and how many bytes of a secret it allows.
PREFIX = "whsec_"
SECRET_BYTES = 32
SECRET_BYTES_MIN, SECRET_BYTES_MAX = 24, 64
URL_LENGTH_MAX = 2000
GIVE_UP_SECONDS_MAX = 30 * 86400.0


def new_secret() -> str:
    return PREFIX + b64encode(os.urandom(SECRET_BYTES)).decode()


def checked_secret(given: str) -> str:
    try:
        size = len(b64decode(check.text(given, "secret", 200).removeprefix(PREFIX), validate=True))
    except (NotBase64, ValueError):
        size = 0
    if not given.startswith(PREFIX) or not SECRET_BYTES_MIN <= size <= SECRET_BYTES_MAX:
        wanted = f"{SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} bytes in base64"
        raise Invalid(f"a secret is {PREFIX} and {wanted}; leave it out to have one made", field="secret")
    return given


def checked(
    url: str,
    kinds: Iterable[str],
    projects: Iterable[str],
    format: str,
    allow_private: bool,
    give_up_seconds: float | None,
    id: str | None,
) -> Webhook:
    allow_private = check.flag(allow_private, "allow_private")
    if format not in rules.FORMATS:
        raise Invalid(f"unknown format {format!r:.60}; choose one of {', '.join(rules.FORMATS)}", field="format")
    wanted = check.names(kinds, "kinds")
    for kind in wanted:
        if kind not in rules.KINDS:
            raise rules.unknown_kind(kind)
    if not wanted:
        raise Invalid(f"name at least one kind: {', '.join(sorted(rules.KINDS))}", field="kinds")
    seconds = Webhook._defaults["give_up_seconds"] if give_up_seconds is None else give_up_seconds
    return Webhook(
        id=f"wh-{os.urandom(5).hex()}" if id is None else check.item_id(id),
        url=checked_url(url, allow_private),
        kinds=wanted,
        projects=check.names(projects, "projects"),
        format=format,
        allow_private=allow_private,
        give_up_seconds=check.number(seconds, "give_up_seconds", low=1, high=GIVE_UP_SECONDS_MAX),
    )


def checked_url(given: str, allow_private: bool) -> str:
    """The URL, if a message can be sent there at all. Which addresses its host has is checked at each delivery."""
    url = check.text(given, "url", URL_LENGTH_MAX)
    if not url.isascii() or not url.isprintable() or any(char in url for char in ' \\"<>'):
        raise Invalid("a URL has printable ASCII characters only; write others percent-encoded", field="url")
    try:
        parts = urlsplit(url)
        is_whole = bool(parts.hostname) and parts.port != 0 and parts.scheme in ("https", "http")
    except ValueError:
        is_whole = False
    if not is_whole:
        raise Invalid("write the URL like https://example.org/hook", field="url")
    if parts.username is not None or parts.fragment:
        raise Invalid("the URL of a webhook has no user name, no password and no fragment", field="url")
    if parts.scheme == "http" and not allow_private:
        raise Invalid(
            "use https: http is for receivers in your own network, with allow_private (--allow-private)", field="url"
        )
    return url


def checked_changes(enabled: bool | None, secret: str | None) -> dict[str, Any]:
    if enabled is None and secret is None:
        raise Invalid("there is nothing to change; give enabled or secret", field="enabled")
    return {
        "enabled": None if enabled is None else check.flag(enabled, "enabled"),
        "secret": None if secret is None else checked_secret(secret),
    }


def add(store: Store, webhook: Webhook, secret: str | None) -> NewWebhook:
    """Add a webhook that begins at the end of the feed."""
    secret = new_secret() if secret is None else checked_secret(secret)
    latest = store.events(newest=True, limit=1)
    begun = webhook.replace(cursor=latest[-1].id if latest else 0)
    return NewWebhook(webhook=store.add_webhook(begun, secret=secret), secret=secret)
