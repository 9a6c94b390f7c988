"""The table of verbs: name, route, role and answer of each.

Names and parameters are those of `dibs.board.Board`, whose signatures the server reads. The HTTP client, the server's
routes and the docs are built from this table or checked against it. A verb with a `session` acts for that session, and
only the key that registered the session may use it; the `actor` is the name of the key, unless an admin names another.
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
from dibs.model.dashboard import Bulk, Paged, Series, View, Window
from dibs.model.webhooks import DeadLetter, Delivery, NewWebhook, Webhook
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Verb(Value):
    """`answer` is a type of the model or a plain type; `many`: a list of them. A verb that `waits` can take as long as
    its caller allows. `positional` are the parameters before the keywords."""

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


def _of_webhook(name: str, word: str, answer: type, summary: str) -> Verb:
    return _post(name, f"/v1/webhooks/{{webhook}}/{word}", ADMIN, answer, summary, positional=("webhook",))


VERBS: tuple[Verb, ...] = (
    # Items
    _post("add", "/v1/items", AGENT, Added, "Add an item"),
    _post("bulk", "/v1/bulk", AGENT, Bulk, "Call a verb on many items", positional=("verb",)),
    _post("add_many", "/v1/add_many", AGENT, Added, "Add all of these items or none", many=True),
    _list("list", "/v1/items", Item, "Items that match every filter, best first"),
    _get("page", "/v1/page", Paged, "A page of the items that match, with counts"),
    _list("ids", "/v1/ids", str, "The ids that begin with some characters"),
    _get("get", "/v1/items/{item}", Detail, "An item in full", positional=("item",)),
    Verb(
        name="edit",
        method="PATCH",
        path="/v1/items/{item}",
        role=AGENT,
        answer=Edited,
        summary="Change an item's content",
    ),
    _of_item("park", AGENT, Item, "Set aside an unclaimed item"),
    _of_item("unpark", AGENT, Item, "Return a parked item to the board"),
    _of_item("reopen", ADMIN, Item, "Return a done, cancelled or rejected item to the board"),
    _of_item("cancel", ADMIN, Item, "Cancel an item"),
    _of_item("retry", ADMIN, Item, "Try a failed item again"),
    _of_item("approve", ADMIN, Item, "Approve an item that waits for approval"),
    _of_item("send_back", ADMIN, Item, "Ask for another draft"),
    _of_item("reject", AGENT, Item, "Reject an item"),
    _of_item("annotate", AGENT, Ended, "Add links, checks and costs to a run"),
    _of_item("force_release", ADMIN, Ended, "End the claim of an item"),
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
    _post("start_session", "/v1/sessions", AGENT, Session, "Start a session, for which only this key can act"),
    _list("sessions", "/v1/sessions", SessionView, "Sessions, most recently seen first"),
    # Before `find_session`, whose path would match this one too.
    _post(
        "end_session",
        "/v1/sessions/{session:path}/end",
        AGENT,
        SessionEnd,
        "End a session and release its claims",
        positional=("session",),
    ),
    _get("find_session", "/v1/sessions/{session:path}", Session, "One session", positional=("session",)),
    # Webhooks
    _list("webhooks", "/v1/webhooks", Webhook, "All webhooks, oldest first", role=ADMIN),
    _post("add_webhook", "/v1/webhooks", ADMIN, NewWebhook, "Add a webhook"),
    _of_webhook("change_webhook", "change", Webhook, "Enable or disable a webhook, or give it a new secret"),
    _of_webhook("remove_webhook", "remove", Webhook, "Remove a webhook and its dead letters"),
    _of_webhook("send_webhook", "send", Delivery, "Send a test, or a dead letter again"),
    _list(
        "dead_letters",
        "/v1/webhooks/{webhook}/dead",
        DeadLetter,
        "The events that a webhook gave up on",
        role=ADMIN,
        positional=("webhook",),
    ),
    # The claim path
    _of_item("claim", AGENT, Grant, "Claim an item by its id, now or when it is this session's turn", waits=True),
    _post(
        "claim_subject",
        "/v1/claim",
        AGENT,
        Grant,
        "Claim the item of a subject, which is added if there is none",
        waits=True,
        positional=("subject",),
    ),
    _of_item("hand", AGENT, Grant, "Hand a claim over to another session"),
    _of_item("recover", AGENT, Grant, "Claim an item again after expiry, if no other session claimed it"),
    _post("next", "/v1/next", AGENT, Grant, "Claim the best items", many=True, waits=True),
    _list("preview", "/v1/next", Item, "The items that `next` would give now"),
    _post("heartbeat", "/v1/heartbeat", AGENT, Heartbeat, "Renew the claims of a session"),
    _of_item("renew", AGENT, Renewal, "Renew one claim"),
    _of_item("progress", AGENT, Renewal, "Record a note, and renew the claim"),
    _of_item("release", AGENT, Ended, "Return an item to the board"),
    _of_item("done", AGENT, Ended, "Finish an item"),
    _post("done_many", "/v1/done_many", AGENT, Finished, "Finish several items at once", positional=("holding",)),
    _of_item("fail", AGENT, Ended, "End an item as failed"),
    _of_item("submit", AGENT, Ended, "End a run with a draft for approval"),
    _post("sweep", "/v1/sweep", AGENT, Sweep, "Record expired claims, dead owners, schedules and lapsed offers"),
    # Waiting for one item
    _of_item("wait", AGENT, Waiting, "Take a ticket in an item's queue, or renew it", waits=True),
    _of_item("leave", AGENT, Waiting, "Give up the ticket"),
    _get("ticket", "/v1/items/{item}/ticket", Waiting, "The position of a session's ticket", positional=("item",)),
    _of_item("soft_claim", AGENT, SoftClaim, "Show that a session works on an item, without excluding others"),
    _of_item("soft_release", AGENT, SoftClaim, "End a soft claim"),
    _list("why", "/v1/items/{item}/why", Reason, "Why a session can or cannot claim an item", positional=("item",)),
    # Reading
    _list("events", "/v1/events", Event, "The feed after a cursor"),
    _list("log", "/v1/items/{item}/log", Event, "The history of one item", positional=("item",)),
    _list("runs", "/v1/runs", Run, "Runs, newest first"),
    _get("window", "/v1/runs/window", Window, "The runs of a stretch of time, and the claims refused in it"),
    _get("series", "/v1/series", Series, "Figures over time"),
    _list("activity", "/v1/activity", Activity, "Refused claims, newest first"),
    _list("who", "/v1/who", Holding, "All claims, by agent"),
    _get("view", "/v1/view", View, "The board at one instant, for people"),
    _get("stats", "/v1/stats", Stats, "Figures of the board"),
    # Whole boards
    _list("check", "/v1/check", str, "What is wrong with the store, if anything", role=ADMIN),
)
BY_NAME = {verb.name: verb for verb in VERBS}
