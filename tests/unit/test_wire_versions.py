"""A client and a server of different versions: what the newer one says beyond what is known is passed over."""

from __future__ import annotations

import pytest

from dibs.model import Heartbeat, Renewal
from dibs.text import wire

RENEWAL = {
    "item": "x",
    "token": 1,
    "expires_at": "2026-11-15T12:00:00.000Z",
    "remaining_seconds": 60.0,
    "heartbeat_count": 1,
    "warning": None,
    "heartbeat_seconds": 20.0,
    "news": 1,
}
BEAT = {"session": "s", "renewed": [RENEWAL], "lost": [], "forgotten": [], "heartbeat_seconds": 20.0, "more_news": {}}


def test_a_client_passes_over_what_a_newer_server_says() -> None:
    found = wire.decode(Heartbeat, BEAT, lenient=True)
    assert isinstance(found.renewed[0], Renewal)
    assert (found.renewed[0].item, found.event) == ("x", None)


def test_an_import_does_not() -> None:
    with pytest.raises(TypeError):
        wire.decode(Heartbeat, BEAT)
