"""The table of verbs: name, route, role and answer of each.

Names and parameters are those of `dibs.board.Board`, whose signatures the server reads. The HTTP client, the server's
routes and the documents are built from this table or checked against it. A verb that takes a `session` acts for that
session, and only the key that registered the session may use it. An `actor` is the name of the key, unless an admin
gives another name.
"""

from __future__ import annotations

from dibs.model import (
    ADMIN,
    AGENT,
    VIEWER,
    Activity,
    Added,
    Agent,
    Detail,
    Edited,
    Ended,
    Event,
    Finished,
    Grant,
    Heartbeat,
    Holding,
    Item,
    Reason,
    Renewal,
    Run,
    Session,
    SessionEnd,
    SessionView,
    SoftClaim,
    Stats,
    Sweep,
    Waiting,
)
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Verb(Value):
    """`answer` is a value of the model or a plain type; `many`: a list of those. A verb that `waits` may take as long
    as its caller allows. `positional` names the positional parameters."""

    name: str
    method: str
    path: str
    role: str
    summary: str
    answer: type
    many: bool = False
    waits: bool = False
    positional: tuple[str, ...] = ()


def _get(name: str, path: str, answer: type, summary: str, **more: Any) -> Verb:
    return Verb(name=name, method="GET", path=path, answer=answer, summary=summary, **{"role": VIEWER, **more})


def _list(name: str, path: str, answer: type, summary: str, **more: Any) -> Verb:
    return _get(name, path, answer, summary, many=True, **more)


def _post(name: str, path: str, role: str, answer: type, summary: str, **more: Any) -> Verb:
    return Verb(name=name, method="POST", path=path, role=role, answer=answer, summary=summary, **more)


def _of_item(name: str, role: str, answer: type, summary: str, **more: Any) -> Verb:
    return _post(name, f"/v1/items/{{item}}/{name}", role, answer, summary, positional=("item",), **more)


VERBS: tuple[Verb, ...] = (
    # Items
    _post("add", "/v1/items", AGENT, Added, "Add an item"),
    _post("add_many", "/v1/add_many", AGENT, Added, "Add all of these items or none", many=True),
    _list("list", "/v1/items", Item, "Items that match every filter, best first"),
    _get("get", "/v1/items/{item}", Detail, "An item in full", positional=("item",)),
    Verb(
        name="edit",
        method="PATCH",
        path="/v1/items/{item}",
        role=AGENT,
        answer=Edited,
        summary="Change an item's content",
    ),
    _of_item("park", AGENT, Item, "Park an unclaimed item"),
    _of_item("unpark", AGENT, Item, "Unpark an item"),
    _of_item("cancel", ADMIN, Item, "Cancel an item"),
    _of_item("retry", ADMIN, Item, "Retry a failed item"),
    _of_item("approve", ADMIN, Item, "Approve an item"),
    _of_item("send_back", ADMIN, Item, "Ask for another draft"),
    _of_item("reject", AGENT, Item, "Reject an item: it is never to be done"),
    _of_item("annotate", AGENT, Ended, "Add links, checks and costs to a run that has ended"),
    _of_item("force_release", ADMIN, Ended, "Take an item away from its holder"),
    # Agents and sessions
    Verb(
        name="set_agent",
        method="PUT",
        path="/v1/agents/{name}",
        role=ADMIN,
        answer=Agent,
        summary="Create an agent, or replace its settings",
    ),
    _list("agents", "/v1/agents", Agent, "All agents, by name"),
    _post("start_session", "/v1/sessions", AGENT, Session, "Start a session, for which only this key may act"),
    _list("sessions", "/v1/sessions", SessionView, "Sessions, most recently seen first"),
    # Before the one below, whose path would swallow it.
    _post(
        "end_session",
        "/v1/sessions/{session:path}/end",
        AGENT,
        SessionEnd,
        "End a session, releasing what it holds",
        positional=("session",),
    ),
    _get("find_session", "/v1/sessions/{session:path}", Session, "One session", positional=("session",)),
    # The claim path
    _of_item("claim", AGENT, Grant, "Claim an item by its id, now or when it is this session's turn", waits=True),
    _of_item("recover", AGENT, Grant, "Claim an expired item again, unless it was given away since"),
    _post("next", "/v1/next", AGENT, Grant, "Claim the best items", many=True, waits=True),
    _post("heartbeat", "/v1/heartbeat", AGENT, Heartbeat, "Renew the claims of a session"),
    _of_item("renew", AGENT, Renewal, "Renew one claim"),
    _of_item("progress", AGENT, Renewal, "Leave a note, and renew"),
    _of_item("release", AGENT, Ended, "Give an item back"),
    _of_item("done", AGENT, Ended, "Finish an item"),
    _post("done_many", "/v1/done_many", AGENT, Finished, "Finish several items at once", positional=("holding",)),
    _of_item("fail", AGENT, Ended, "End an item as failed"),
    _of_item("submit", AGENT, Ended, "End a run with a draft for approval"),
    _post("sweep", "/v1/sweep", AGENT, Sweep, "Record what has expired, died or fallen due"),
    # Waiting for one item
    _of_item("wait", AGENT, Waiting, "Take a ticket in an item's queue, or renew it", waits=True),
    _of_item("leave", AGENT, Waiting, "Give up the ticket"),
    _get("ticket", "/v1/items/{item}/ticket", Waiting, "The state of a session's ticket", positional=("item",)),
    _of_item("soft_claim", AGENT, SoftClaim, "Note that a session works on an item, without excluding others"),
    _of_item("soft_release", AGENT, SoftClaim, "Remove that note"),
    _list("why", "/v1/items/{item}/why", Reason, "Why a session can or cannot claim an item", positional=("item",)),
    # Reading
    _list("events", "/v1/events", Event, "The feed after a cursor"),
    _list("log", "/v1/items/{item}/log", Event, "The history of one item", positional=("item",)),
    _list("runs", "/v1/runs", Run, "Runs, newest first"),
    _list("activity", "/v1/activity", Activity, "Refused claims, newest first"),
    _list("who", "/v1/who", Holding, "Who is on what"),
    _get("stats", "/v1/stats", Stats, "The board in figures"),
    # Whole boards
    _list("check", "/v1/check", str, "What is wrong with the store, if anything", role=ADMIN),
)
BY_NAME = {verb.name: verb for verb in VERBS}
