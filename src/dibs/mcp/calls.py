"""A call of a tool becomes verbs of the board, and their answer becomes a short text.

Who acts is decided by the transport: `Acting` has the session, and how verbs are called. A refusal is an answer too:
its code, what is wrong, and what to do.
"""

from __future__ import annotations

import time

from dibs import check
from dibs.errors import DibsError, Invalid, ItemAlreadyClaimed, ItemNotClaimable, SessionNotFound
from dibs.mcp import messages, tools
from dibs.model import ENDED, STATUSES, Grant, Waiting
from dibs.text import brief

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from dibs.mcp.messages import Request
    from dibs.mcp.tools import Tool

    T = TypeVar("T")

OPEN = tuple(status for status in STATUSES if status not in ENDED)
#: How long a place in a queue is kept for a model to call `wait` again.
TICKET_SECONDS = 120.0
NO_SESSION = (
    "this call names no session; add the argument session, chosen once for this conversation: your name and"
    " eight random characters"
)
#: The keys of `_meta` that name a conversation, the narrower first: subagents share the session of their parent.
META_KEYS = ("threadId", "sessionId")
#: The tools that may be the first of a session, and those that end a claim.
CLAIMS = frozenset({"next", "claim", "claim_subject", "wait"})
ENDS = frozenset({"release", "hand", "done", "fail", "submit"})
#: The kind of a session that this interface starts.
KIND = "mcp"


def session_of_argument(arguments: object) -> str | None:
    """The session that a call names by its argument."""
    given = arguments.get(tools.SESSION) if isinstance(arguments, dict) else None
    return None if given is None else check.session_id(given)


def session_of_meta(request: Request) -> str | None:
    """The session that the client names in `_meta`."""
    found = next((request.meta[key] for key in META_KEYS if isinstance(request.meta.get(key), str)), None)
    return None if found is None else check.session_id(found)


def agent_of(client: str | None) -> str:
    """The agent of a client, from the name that it gives itself: `codex` for `codex-mcp-client`."""
    name = (client or "").lower()
    words = "".join(char if char.isascii() and char.isalnum() else " " for char in name).split()
    return "copilot" if "copilot" in name else words[0][:40] if words else "agent"


class Acting:
    """Who acts in one call, and how. `call` calls a verb of the board by its name. `agent` is the agent of a session
    that has to be started, `when_ended` what to do if the session has ended."""

    def __init__(
        self,
        call: Callable[..., Any],
        session: str | None,
        agent: str,
        *,
        when_ended: str,
        on_wait: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`on_wait` is told what the call is about to wait for."""
        self.call, self.session, self.agent = call, session, agent
        self.when_ended, self.on_wait = when_ended, on_wait
        #: The claims that this call was given.
        self.granted: list[Grant] = []


def answer(tool: Tool, arguments: object, acting: Acting) -> tuple[str, bool]:
    """The text of the answer, and whether it is a refusal."""
    try:
        given = {name: value for name, value in tool.checked(arguments).items() if name != tools.SESSION}
        return messages.text(_RUN.get(tool.name, _plain)(tool, given, acting)), False
    except DibsError as error:
        return refusal(error), True


def refusal(error: DibsError) -> str:
    return messages.text(brief.error(error))


def _plain(tool: Tool, given: dict[str, Any], acting: Acting) -> Any:
    return brief.encode(acting.call(tool.verb, **given))


def _as_holder(tool: Tool, given: dict[str, Any], acting: Acting) -> Any:
    """A verb of the holder. An expired claim is recovered, if no other session was given the item since."""
    recovers = {} if tool.name == "release" else {"recover": True}
    return brief.encode(_call(acting, lambda session: acting.call(tool.verb, **given, **recovers, session=session)))


def _claim(tool: Tool, given: dict[str, Any], acting: Acting) -> Any:
    return _granted(acting, _call_started(acting, lambda session: acting.call(tool.verb, **given, session=session)))


def _hand(tool: Tool, given: dict[str, Any], acting: Acting) -> Any:
    """Not the answer of a claim: the claim is another session's."""
    grant = _call(acting, lambda session: acting.call("hand", **given, session=session))
    return brief.handed(grant)


def _next(tool: Tool, given: dict[str, Any], acting: Acting) -> Any:
    given = {**given, "wait_seconds": _wait_seconds(given, 0)}
    acting.on_wait("nothing to claim yet")
    grants = _call_started(acting, lambda session: acting.call("next", **given, session=session))
    if not grants:
        return {"nothing": "nothing to claim now", "do": "end your turn, or call next with wait_seconds"}
    return _granted(acting, grants[0])


def _wait(tool: Tool, given: dict[str, Any], acting: Acting) -> Any:
    """Queue and claim. The ticket is kept when the time is up, and given up when the call is interrupted."""
    item, end = given["item"], time.monotonic() + _wait_seconds(given, tools.WAIT_SECONDS_MAX)

    def wait(seconds: float) -> Waiting:
        def call(session: str) -> Waiting:
            found: Waiting = acting.call(
                "wait", item=item, session=session, ttl_seconds=TICKET_SECONDS, wait_seconds=seconds
            )
            return found

        return _call_started(acting, call)

    is_settled = False
    try:
        place = wait(0)
        while True:
            is_own = place.claim is not None and place.claim.session == acting.session
            if place.offered or is_own:
                try:
                    grant = acting.call("claim", item=item, session=acting.session)
                except (ItemAlreadyClaimed, ItemNotClaimable):
                    pass  # the offer has lapsed
                else:
                    is_settled = not is_own
                    return _granted(acting, grant)
            left = end - time.monotonic()
            if place.status in ENDED:
                raise ItemNotClaimable(f"{item} is {place.status}", item=item, status=place.status)
            if left <= 0:
                is_settled = True
                return {**brief.encode(place), "do": "call wait again at once to keep your place"}
            acting.on_wait(f"position {place.position} in the queue")
            place = wait(left)
    finally:
        if not is_settled and acting.session is not None:
            _leave(acting, item)


def _why(tool: Tool, given: dict[str, Any], acting: Acting) -> Any:
    try:
        reasons = acting.call("why", **given, session=acting.session)
    except SessionNotFound:
        reasons = acting.call("why", **given, agent=acting.agent)
    return brief.encode({"reasons": reasons})


def _list(tool: Tool, given: dict[str, Any], acting: Acting) -> Any:
    limit = check.limit(given.get("limit", tools.LIST_LIMIT))
    statuses = given.get("statuses") or OPEN
    items = acting.call("list", **{**given, "statuses": statuses, "limit": min(limit + 1, check.LIST_MAX)})
    more = {"more": f"after {items[limit - 1].id}"} if len(items) > limit else {}
    return {"items": brief.encode(items[:limit]), **more}


def _add(tool: Tool, given: dict[str, Any], acting: Acting) -> Any:
    """The actor is the agent of the session, as the board knows it."""
    actor = acting.agent
    try:
        if acting.session is not None:
            actor = acting.call("find_session", session=acting.session).agent
    except SessionNotFound:
        pass  # it has not claimed anything yet
    return brief.encode(acting.call("add", **given, actor=actor))


def _who(tool: Tool, given: dict[str, Any], acting: Acting) -> Any:
    return {"you": acting.session, "holdings": brief.encode(acting.call("who"))}


def _wait_seconds(given: dict[str, Any], default: float) -> float:
    return check.number(given.get("wait_seconds", default), "wait_seconds", low=0, high=tools.WAIT_SECONDS_MAX)


def _granted(acting: Acting, grant: Grant) -> Any:
    acting.granted.append(grant)
    return brief.encode(grant)


def _call(acting: Acting, verb: Callable[[str], T]) -> T:
    """Call a verb as the caller's session. One that has ended is not started again: the conversation that it belonged
    to is over, and a claim for it would be a claim for nobody."""
    if acting.session is None:
        raise Invalid(NO_SESSION, field=tools.SESSION)
    try:
        return verb(acting.session)
    except SessionNotFound as error:
        if error.facts.get("ended"):
            error.facts["do"] = acting.when_ended
        raise


def _call_started(acting: Acting, verb: Callable[[str], T]) -> T:
    """The same for a verb that the first call of a session may be: a session that the board never knew is started."""
    try:
        return _call(acting, verb)
    except SessionNotFound as error:
        if error.facts.get("ended") or acting.session is None:
            raise
    acting.call("start_session", agent=acting.agent, id=acting.session, kind=KIND)
    return verb(acting.session)


def _leave(acting: Acting, item: str) -> None:
    try:
        acting.call("leave", item=item, session=acting.session)
    except DibsError:
        pass  # there is no ticket, or it lapses by itself


_RUN: dict[str, Callable[[Tool, dict[str, Any], Acting], Any]] = {
    "next": _next,
    "claim": _claim,
    "claim_subject": _claim,
    "wait": _wait,
    "why": _why,
    "list": _list,
    "who": _who,
    "add": _add,
    **dict.fromkeys(("progress", *ENDS), _as_holder),
    "hand": _hand,
}
