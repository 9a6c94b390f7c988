"""Checks what `claim_subject` is asked."""

from __future__ import annotations

from dibs import check
from dibs.board.base import request
from dibs.errors import Invalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


def checked(
    subject: object,
    title: str | None,
    fields: Mapping[str, object],
    session: str,
    agent: str | None,
    ttl_seconds: float | None,
    request_id: str | None,
) -> dict[str, Any]:
    """The parameters of the store's `claim_subject`."""
    key = check.subject(subject)
    if key is None:
        raise Invalid("a subject is needed, such as a URL or github:owner/repository#12", field="subject")
    session, ttl_seconds = check.session_id(session), check.ttl_seconds(ttl_seconds)
    content = {**fields, "title": key if title is None else title, "subject": key}
    new, agent = check.new_item(content), check.parameter(agent, "agent")
    asked: dict[str, Any] = {"new": new, "session": session, "agent": agent, "ttl_seconds": ttl_seconds}
    if request_id is not None:
        asked["request"] = request(
            request_id, session, "claim_subject", ttl_seconds=ttl_seconds, **new.without_defaults()
        )
    return asked
