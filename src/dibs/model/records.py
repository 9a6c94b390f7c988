"""The records that a board keeps, and the constants about them."""

from __future__ import annotations

from dibs.value import LateField, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PENDING_APPROVAL = "pending_approval"
BLOCKED = "blocked"
SCHEDULED = "scheduled"
READY = "ready"
IN_PROGRESS = "in_progress"
PARKED = "parked"
DONE = "done"
FAILED = "failed"
REJECTED = "rejected"
CANCELLED = "cancelled"

STATUSES = (PENDING_APPROVAL, BLOCKED, SCHEDULED, READY, IN_PROGRESS, PARKED, DONE, FAILED, REJECTED, CANCELLED)
ENDED = frozenset({DONE, FAILED, REJECTED, CANCELLED})

#: The roles of a server's callers, in ascending order; each may do what the ones before it may.
VIEWER, AGENT, PERSON, ADMIN = ROLES = ("viewer", "agent", "person", "admin")
#: The role of a key that signs a browser in, once, as an admin; and the roles that sign one in as something else.
LOGIN = "login"
LOGINS = {LOGIN: ADMIN} | {f"{LOGIN}-{role}": role for role in ROLES[:-1]}
#: The kind of a session that a function of the SQL interface made.
SQL = "sql"
DEFAULT_PROJECT = "default"
DEFAULT_TYPE = "task"
DEFAULT_PRIORITY = 5
DEFAULT_TIMEOUT_SECONDS = 8 * 3600


class NewItem(Value):
    """An item as a caller adds it; the board sets the other fields."""

    id: str
    title: str
    project: str = DEFAULT_PROJECT
    type: str = DEFAULT_TYPE
    action: str = ""
    phase: str | None = None
    body: str = ""
    payload: dict[str, Any] = {}
    labels: tuple[str, ...] = ()
    priority: int = DEFAULT_PRIORITY
    depends_on: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    not_before: int | None = None
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    retries: int = 0
    needs_approval: bool = False
    subject: str | None = None
    review: bool = False


class Item(Value):
    """A piece of work. `token` is the fencing token of its latest claim, `revision` the number of its latest event.
    `subject` is the key of what the work is about elsewhere, such as the URL of an issue: one subject, one item.

    With `needs_approval` it cannot be claimed before a person approves it; `approved` says that one did. With `review`,
    its result is reviewed: `done` is recorded as submitted. A ready item is reserved for the session `offered_to` until
    `offer_expires_at`. `strikes` counts lost claims, `failures` failed runs.
    """

    id: str
    project: str
    type: str
    action: str
    phase: str | None
    title: str
    body: str
    payload: dict[str, Any]
    labels: tuple[str, ...]
    priority: int
    depends_on: tuple[str, ...]
    resources: tuple[str, ...]
    not_before: int | None
    timeout_seconds: float
    retries: int
    needs_approval: bool
    approved: bool
    status: str
    created_by: str
    created_at: int
    updated_at: int
    attempts: int
    strikes: int
    failures: int
    token: int
    revision: int
    offered_to: str | None
    offer_expires_at: int | None
    subject: str | None = None
    review: bool = False


# A verb that ends a run answers with the item, and neither its rules nor most of its callers read a long payload.
setattr(Item, "payload", LateField("payload"))  # noqa: B010  the annotation is that of the field
#: The fields that `edit` may change. The others follow from the history of the item.
EDITABLE = (
    *("title", "body", "payload", "labels", "priority", "phase", "project", "type", "action"),
    *("depends_on", "resources", "not_before", "timeout_seconds", "retries", "subject", "review"),
)


class Agent(Value):
    """A named worker. Empty `types` means every type. `max_claims` limits the claims of one session.

    `max_claims_total` limits the claims of all its sessions, and `claims_per_minute` their rate, with bursts of
    `claims_burst`. An agent with `allowed_actions` or `sensitive_actions` is given no other actions. It carries out
    allowed actions and drafts sensitive ones; an action on both lists is carried out once its draft is approved.
    """

    name: str
    types: tuple[str, ...] = ()
    role: str | None = None
    max_claims: int | None = None
    max_claims_total: int | None = None
    claims_per_minute: float | None = None
    claims_burst: int = 1
    allowed_actions: tuple[str, ...] = ()
    sensitive_actions: tuple[str, ...] = ()
    created_at: int = 0
    updated_at: int = 0


class Owner(Value):
    """The process that owns a session, identified across reboots, pid namespaces and reused pids."""

    boot_id: str
    pid_namespace: int
    pid: int
    start_time: int


class Session(Value):
    """One running instance of an agent. `key` is the id of the key that registered it with a server. `parent` is the
    session that it is a child of, such as the agent of a subagent: it ends with its parent."""

    id: str
    agent: str
    kind: str = "cli"
    host: str = ""
    owner: Owner | None = None
    meta: dict[str, Any] = {}
    started_at: int = 0
    seen_at: int = 0
    ended_at: int | None = None
    end_reason: str | None = None
    key: str | None = None
    parent: str | None = None


class Claim(Value):
    """The lease of an item by a session, exclusive until `expires_at` by the store's clock."""

    item: str
    token: int
    session: str
    agent: str
    claimed_at: int
    renewed_at: int
    expires_at: int
    deadline_at: int
    ttl_seconds: float
    heartbeat_count: int = 0


class Run(Value):
    """The record of one claim from start to end; `outcome` is None until it ends. `checks` maps the name of a check of
    its work to the check's `state` and, if there is one, its `url`."""

    item: str
    token: int
    session: str
    agent: str
    started_at: int
    ended_at: int | None = None
    outcome: str | None = None
    reason: str | None = None
    draft: str | None = None
    links: dict[str, Any] = {}
    cost: dict[str, Any] = {}
    checks: dict[str, Any] = {}


class Note(Value):
    """A note of progress by the holder of a run."""

    at: int
    note: str
    meta: dict[str, Any] = {}


class Ticket(Value):
    """A session's place in the queue of one item, kept while it is renewed; `reason` says why it was closed."""

    item: str
    session: str
    agent: str
    since_at: int
    expires_at: int
    ttl_seconds: float
    closed_at: int | None = None
    reason: str | None = None
    id: int = 0


class SoftClaim(Value):
    """Shows that a session works on an item, for callers that lock it in another system. It expires, and excludes no
    claim."""

    item: str
    session: str
    agent: str
    claimed_at: int
    expires_at: int
    ttl_seconds: float


class Event(Value):
    """One line of an item's history. `id` orders the feed of the board, `number` counts the item's events from 1."""

    item: str
    number: int
    kind: str
    at: int
    status: str
    token: int
    actor: str
    session: str | None = None
    agent: str | None = None
    data: dict[str, Any] = {}
    id: int = 0


class Activity(Value):
    """A refused claim. It changed nothing, so it is not an event."""

    at: int
    item: str
    session: str
    agent: str
    action: str
    code: str
    details: dict[str, Any] = {}
    id: int = 0


class Key(Value):
    """The key of a server's caller. Only the caller has the secret; the board keeps its digest.

    An `agent` key acts for the sessions that it registered, only of this agent if one is named. So does a `person` key,
    whose sessions may be of kind person. An `admin` key acts for any session. A `login` key signs a browser in once,
    as an admin; `login-viewer` does so as a viewer.

    `name` says what the key is for. `last_used_at` may lag by an hour. `line` is the first of the keys that this one
    replaces: the keys of a line act for the same sessions.
    """

    id: str
    role: str
    agent: str | None
    digest: str
    created_at: int = 0
    expires_at: int | None = None
    revoked_at: int | None = None
    name: str | None = None
    last_used_at: int | None = None
    line: str | None = None


class Request(Value):
    """An idempotency key with the fingerprint of the request: a repeated request gets the first one's answer."""

    actor: str
    id: str
    fingerprint: str
