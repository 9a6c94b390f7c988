"""The table of what can be asked: each verb of the board, its route, and who may use it.

Names, parameters and answers are those of `dibs.board.Board`; what is said here is only what HTTP adds. A verb that
takes a `session` acts for it, and only who registered that session may; where a verb takes an `actor`, that is whose
key it is, unless an admin names somebody.
"""

from __future__ import annotations

from typing import Any

from dibs.access import ADMIN, AGENT, VIEWER
from dibs.value import Value


class Verb(Value):
    """`example` is a body (or, of a GET, a query) that can be sent as it stands to a board with the example's items."""

    name: str
    method: str
    path: str
    role: str
    summary: str
    example: dict[str, Any] = {}
    #: Whether it can take as long as its caller is willing to wait.
    waits: bool = False


ME = "coder-1"
HELD = {"session": ME, "token": 1}


def _get(name: str, path: str, summary: str, example: dict[str, Any] | None = None, role: str = VIEWER) -> Verb:
    return Verb(name=name, method="GET", path=path, role=role, summary=summary, example=example or {})


def _post(
    name: str, path: str, role: str, summary: str, example: dict[str, Any] | None = None, *, waits: bool = False
) -> Verb:
    return Verb(name=name, method="POST", path=path, role=role, summary=summary, example=example or {}, waits=waits)


def _of_item(name: str, role: str, summary: str, example: dict[str, Any] | None = None, *, waits: bool = False) -> Verb:
    return _post(name, f"/v1/items/{{item}}/{name}", role, summary, example, waits=waits)


VERBS: tuple[Verb, ...] = (
    # Items
    _post(
        "add",
        "/v1/items",
        AGENT,
        "Add an item",
        {"id": "fix-login", "title": "Fix the login", "type": "bug", "priority": 8, "labels": ["web"]},
    ),
    _post(
        "add_many",
        "/v1/add_many",
        AGENT,
        "Add all of these items or none",
        {"items": [{"id": "plan", "title": "Plan"}, {"id": "build", "title": "Build", "depends_on": ["plan"]}]},
    ),
    _get("list", "/v1/items", "Items that match every filter, best first", {"statuses": ["ready"], "limit": 50}),
    _get("get", "/v1/items/{item}", "An item in full"),
    Verb(
        name="edit",
        method="PATCH",
        path="/v1/items/{item}",
        role=AGENT,
        summary="Change an item's content",
        example={"priority": 9},
    ),
    _of_item("park", AGENT, "Set aside an item that nobody holds", {"reason": "later"}),
    _of_item("unpark", AGENT, "Take up a parked item again"),
    _of_item("cancel", ADMIN, "Say that an item is not to be done", {"reason": "a duplicate"}),
    _of_item("retry", ADMIN, "Try a failed item again", {"reason": "the network is back"}),
    _of_item("approve", ADMIN, "Say yes to an item that waits for it", {"comment": "go ahead", "revision": 4}),
    _of_item("send_back", ADMIN, "Ask for another draft", {"comment": "shorter, please"}),
    _of_item("reject", AGENT, "Say that an item is never to be done", {**HELD, "reason": "we do not do that"}),
    _of_item(
        "annotate",
        AGENT,
        "Add links, checks and costs to a run that has ended",
        {"session": ME, "links": {"pr": "https://example.org/pull/7"}, "checks": {"ci": "passed"}},
    ),
    _of_item("force_release", ADMIN, "Take an item away from its holder", {"reason": "its machine is gone"}),
    # Agents and sessions
    Verb(
        name="set_agent",
        method="PUT",
        path="/v1/agents/{name}",
        role=ADMIN,
        summary="Create an agent, or replace what was said of it",
        example={"types": ["bug"], "max_claims": 2},
    ),
    _get("agents", "/v1/agents", "All agents, by name"),
    _post(
        "start_session",
        "/v1/sessions",
        AGENT,
        "Start a session, which from then on only this key acts for",
        {"agent": "coder", "id": ME, "kind": "autonomous"},
    ),
    _get("sessions", "/v1/sessions", "Sessions, most recently seen first", {"ended": False}),
    # Before the one below, whose path would swallow it.
    _post("end_session", "/v1/sessions/{session:path}/end", AGENT, "End a session, releasing what it holds"),
    _get("find_session", "/v1/sessions/{session:path}", "One session"),
    # The claim path
    _of_item(
        "claim", AGENT, "Claim an item by its id, now or when it is this session's turn", {"session": ME}, waits=True
    ),
    _of_item("recover", AGENT, "Claim again what expired, if nobody was given it since", HELD),
    _post(
        "next",
        "/v1/next",
        AGENT,
        "Claim the best items there are",
        {"session": ME, "types": ["bug"], "n": 1},
        waits=True,
    ),
    _post(
        "heartbeat", "/v1/heartbeat", AGENT, "Renew what a session holds", {"session": ME, "holding": {"fix-login": 1}}
    ),
    _of_item("renew", AGENT, "Renew one claim", HELD),
    _of_item("progress", AGENT, "Leave a note, and renew", {**HELD, "note": "the cause is in auth.py"}),
    _of_item("release", AGENT, "Give an item back", {**HELD, "reason": "needs a designer"}),
    _of_item("done", AGENT, "Finish an item", {**HELD, "links": {"pr": "https://example.org/pull/7"}}),
    _post(
        "done_many",
        "/v1/done_many",
        AGENT,
        "Finish several items at once",
        {"session": ME, "holding": {"fix-login": 1}},
    ),
    _of_item("fail", AGENT, "End an item as failed", {**HELD, "reason": "cannot be reproduced"}),
    _of_item("submit", AGENT, "End a run with a draft for approval", {**HELD, "draft": "Dear customer, ..."}),
    _post("sweep", "/v1/sweep", AGENT, "Move on what expired, died or fell due", {"limit": 100}),
    # Waiting for one item
    _of_item(
        "wait", AGENT, "Take a ticket in an item's queue, or renew it", {"session": ME, "ttl_seconds": 60}, waits=True
    ),
    _of_item("leave", AGENT, "Give up the ticket", {"session": ME}),
    _get("ticket", "/v1/items/{item}/ticket", "Where a session's ticket stands", {"session": ME}),
    _of_item("soft_claim", AGENT, "Say that a session is on an item, excluding nobody", {"session": ME}),
    _of_item("soft_release", AGENT, "Say that it no longer is", {"session": ME}),
    _get("why", "/v1/items/{item}/why", "Why a session can or cannot have an item", {"session": ME}),
    # Reading
    _get("events", "/v1/events", "The feed after a cursor", {"after": 0, "limit": 100}),
    _get("log", "/v1/items/{item}/log", "The history of one item"),
    _get("runs", "/v1/runs", "Runs, newest first", {"agent": "coder", "limit": 20}),
    _get("activity", "/v1/activity", "Refused claims, newest first", {"limit": 20}),
    _get("who", "/v1/who", "Who is on what"),
    _get("stats", "/v1/stats", "The board in figures"),
    # Whole boards
    _get("check", "/v1/check", "What is wrong with the store, if anything", role=ADMIN),
)
