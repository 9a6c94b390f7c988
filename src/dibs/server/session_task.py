"""The session-task contract: its seven endpoints, bodies, codes and events, word for word.

camelCase, ISO times and milliseconds; an item is a task. Everything that it does not say is the board's.
"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from dibs.model import Event
from dibs.server.service import Service

#: Which of the contract's events an event of the feed is.
EVENTS = {
    "claimed": "task:claimed",
    "expired": "task:claim-expired",
    "owner_died": "task:claim-orphaned",
    **dict.fromkeys(
        ("released", "done", "failed", "submitted", "rejected", "forgotten", "force_released", "cancelled"),
        "task:released",
    ),
}
REASONS = {"done": "completed", "owner_died": "session_dead"}


def told(event: Event) -> dict[str, Any] | None:
    """An event in the contract's words, if it has any for it."""
    kind = EVENTS.get(event.kind)
    if kind is None or event.session is None:
        return None
    data: dict[str, Any] = {"taskId": event.item}
    if kind in ("task:claimed", "task:claim-expired"):
        data["sessionId"] = event.session
    else:
        data["reason"] = REASONS.get(event.kind) or event.data.get("reason") or event.kind
    return {"type": kind, "data": data}


def routes(service: Service) -> APIRouter:
    return APIRouter()
