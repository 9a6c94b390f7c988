"""Events as messages: the body in the format of a webhook, and the id that is the same in every attempt."""

from __future__ import annotations

import json

from dibs.text import times, wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from dibs.model import Event, Item
    from dibs.model.webhooks import Webhook

TEST = "test"
#: Slack cuts longer texts.
SLACK_LENGTH_MAX = 3000
#: What Slack would read as a link or a mention. Other chats that take this format read a bare @ as a mention, so a
#: character without a width stands after it.
_SLACK_SIGNS = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "@": "@\u200b"})


def id_of(webhook: Webhook, event: Event) -> str:
    """Receivers ignore an id that they have seen, so it depends on nothing but the webhook and the event."""
    return f"msg_{webhook.id}_{event.id}"


def body(webhook: Webhook, kind: str, event: Event, item: Item | None) -> bytes:
    """`item` is the item as it is now, or None if it is gone."""
    if webhook.format == "slack":
        return _json({"text": _slack_text(kind, event, item)})
    data = {"event": wire.encode(event), "item": None if item is None else wire.encode(item)}
    return _json({"type": kind, "timestamp": times.iso(event.at), "data": data})


def test_body(webhook: Webhook, now: int) -> bytes:
    if webhook.format == "slack":
        return _json({"text": "dibs: a test of this webhook"})
    return _json({"type": TEST, "timestamp": times.iso(now), "data": {"webhook": webhook.id}})


def _slack_text(kind: str, event: Event, item: Item | None) -> str:
    title = "" if item is None else f": {_slack(item.title)}"
    project = "" if item is None else f" ({_slack(item.project)})"
    who = f" by {_slack(event.agent or event.actor)}"
    reason = event.data.get("reason")
    why = f" - {_slack(reason)}" if isinstance(reason, str) and reason else ""
    return f"*{kind.replace('_', ' ')}* {_slack(event.item)}{title}{project}{who}{why}"[:SLACK_LENGTH_MAX]


def _slack(text: str) -> str:
    return " ".join(text.split()).translate(_SLACK_SIGNS).replace("://", ":\u200b//")


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
