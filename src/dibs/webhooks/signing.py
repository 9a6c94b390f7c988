"""The headers of a signed message, by the specification of standard webhooks (https://www.standardwebhooks.com)."""

from __future__ import annotations

import hmac
from base64 import b64decode, b64encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

PREFIX = "whsec_"


def headers(secrets: Sequence[str], id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """With several secrets there is a signature by each, so that a receiver may still know the one before."""
    return {
        "webhook-id": id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(_signature(secret, id, timestamp, body) for secret in secrets),
    }


def _signature(secret: str, id: str, timestamp: int, body: bytes) -> str:
    key = b64decode(secret.removeprefix(PREFIX))
    digest = hmac.digest(key, f"{id}.{timestamp}.".encode() + body, "sha256")
    return f"v1,{b64encode(digest).decode()}"
