"""Refusals that more than one rule, or a store by itself, can give: worded once for all stores.

A refusal that follows from one rule is worded beside that rule.
"""

from __future__ import annotations

from dibs.errors import Invalid, ItemNotFound, SessionNotFound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from dibs.model import Claim, Item, Request, Run, Session


def item_not_found(item: str | None) -> ItemNotFound:
    return ItemNotFound(f"there is no item {item}", item=item)


def live_session(id: str, session: Session | None) -> Session:
    """This session, if there is one and it has not ended; raises the refusal otherwise."""
    if session is None or session.ended_at is not None:
        raise session_not_found(id, ended=session is not None, reason=None if session is None else session.end_reason)
    return session


def session_not_found(session: str, *, ended: bool, reason: str | None = None) -> SessionNotFound:
    how = f"has ended ({reason or 'no reason given'})" if ended else "is not known"
    return SessionNotFound(f"the session {session} {how}", session=session, ended=ended)


def wrong_agent(session: str, agent: str, given: str | None) -> Invalid:
    """The session belongs to `agent`, and the caller takes it for a session of `given`."""
    return Invalid(
        f"session {session} belongs to agent {agent}, not to {given}; start a session for {given}",
        field="agent",
        session=session,
        agent=agent,
    )


def token_never_given(item: Item, token: int) -> Invalid:
    return Invalid(
        f"token {token} of {item.id} was never given; the latest is {item.token}",
        field="token",
        item=item.id,
        latest_token=item.token,
    )


def request_reused(request: Request) -> Invalid:
    return Invalid(f"request id {request.id} was already used for another request; choose a new id", field="request_id")


def holder(of: Claim | Run) -> dict[str, Any]:
    """The session, agent and token of a claim or a run, as facts of a refusal."""
    return {"session": of.session, "agent": of.agent, "token": of.token}
