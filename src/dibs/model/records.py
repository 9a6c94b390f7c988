"""The records that a board keeps, and the constants about them."""

from __future__ import annotations

from dibs.value import LateField, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.model.kinds import *

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

    id: ItemId
    title: Title
    project: Name = DEFAULT_PROJECT
    type: Name = DEFAULT_TYPE
    action: NameOrEmpty = ""
    phase: Name | None = None
    body: Text = ""
    payload: Json = {}
    labels: Names = ()
    priority: Priority = DEFAULT_PRIORITY
    depends_on: ItemIds = ()
    resources: Resources = ()
    not_before: Instant | None = None
    timeout_seconds: Seconds = DEFAULT_TIMEOUT_SECONDS
    retries: Count = 0
    needs_approval: Flag = False
    subject: Subject | None = None
    review: Flag = False


class Item(Value):
    """A piece of work. `token` is the fencing token of its latest claim, `revision` the number of its latest event.
    `subject` is the key of what the work is about elsewhere, such as the URL of an issue: one subject, one item.

    With `needs_approval` it cannot be claimed before a person approves it; `approved` says that one did. With `review`,
    its result is reviewed: `done` is recorded as submitted. A ready item is reserved for the session `offered_to` until
    `offer_expires_at`. `strikes` counts lost claims, `failures` failed runs.
    """

    id: ItemId
    project: Name
    type: Name
    action: NameOrEmpty
    phase: Name | None
    title: Title
    body: Text
    payload: Json
    labels: Names
    priority: Priority
    depends_on: ItemIds
    resources: Resources
    not_before: Instant | None
    timeout_seconds: Seconds
    retries: Count
    needs_approval: Flag
    approved: Flag
    status: Status
    created_by: Actor
    created_at: Instant
    updated_at: Instant
    attempts: Count
    strikes: Count
    failures: Count
    token: Count
    revision: Token
    offered_to: Name | None
    offer_expires_at: Instant | None
    subject: Subject | None = None
    review: Flag = False


# A verb that ends a run answers with the item, and neither its rules nor most of its callers read a long payload.
setattr(Item, "payload", LateField("payload"))  # noqa: B010  the annotation is that of the field
#: The fields that `edit` may change. The others follow from the history of the item.
EDITABLE = tuple(name for name in NewItem._fields if name not in ("id", "needs_approval"))


class Agent(Value):
    """A named worker. Empty `types` means every type. `max_claims` limits the claims of one session.

    `max_claims_total` limits the claims of all its sessions, and `claims_per_minute` their rate, with bursts of
    `claims_burst`. An agent with `allowed_actions` or `sensitive_actions` is given no other actions. It carries out
    allowed actions and drafts sensitive ones; an action on both lists is carried out once its draft is approved.
    """

    name: AgentName
    types: Names = ()
    role: Name | None = None
    max_claims: Count | None = None
    max_claims_total: Count | None = None
    claims_per_minute: Number | None = None
    claims_burst: Count = 1
    allowed_actions: Names = ()
    sensitive_actions: Names = ()
    created_at: Instant = 0
    updated_at: Instant = 0


class Owner(Value):
    """The process that owns a session, identified across reboots, pid namespaces and reused pids."""

    boot_id: Text
    pid_namespace: Count
    pid: Count
    start_time: Count


class Session(Value):
    """One running instance of an agent. `key` is the id of the key that registered it with a server. `parent` is the
    session that it is a child of, such as the agent of a subagent: it ends with its parent."""

    id: Name
    agent: AgentName
    kind: Name = "cli"
    host: NoteText = ""
    owner: Owner | None = None
    meta: Meta = {}
    started_at: Instant = 0
    seen_at: Instant = 0
    ended_at: Instant | None = None
    end_reason: NoteText | None = None
    key: Name | None = None
    parent: Name | None = None


class Claim(Value):
    """The lease of an item by a session, exclusive until `expires_at` by the store's clock."""

    item: ItemId
    token: Token
    session: Name
    agent: AgentName
    claimed_at: Instant
    renewed_at: Instant
    expires_at: Instant
    deadline_at: Instant
    ttl_seconds: Seconds
    heartbeat_count: Count = 0


class Run(Value):
    """The record of one claim from start to end; `outcome` is None until it ends. `checks` maps the name of a check of
    its work to the check's `state` and, if there is one, its `url`."""

    item: ItemId
    token: Token
    session: Name
    agent: AgentName
    started_at: Instant
    ended_at: Instant | None = None
    outcome: Name | None = None
    reason: Text | None = None
    draft: Text | None = None
    links: Json = {}
    cost: Json = {}
    checks: Checks = {}


class Note(Value):
    """A note of progress by the holder of a run."""

    at: Instant
    note: NoteText
    meta: Json = {}


class Ticket(Value):
    """A session's place in the queue of one item, kept while it is renewed; `reason` says why it was closed."""

    item: ItemId
    session: Name
    agent: AgentName
    since_at: Instant
    expires_at: Instant
    ttl_seconds: Seconds
    closed_at: Instant | None = None
    reason: NoteText | None = None
    id: Count = 0


class SoftClaim(Value):
    """Shows that a session works on an item, for callers that lock it in another system. It expires, and excludes no
    claim."""

    item: ItemId
    session: Name
    agent: AgentName
    claimed_at: Instant
    expires_at: Instant
    ttl_seconds: Seconds


class Event(Value):
    """One line of an item's history. `id` orders the feed of the board, `number` counts the item's events from 1."""

    item: ItemId
    number: Token
    kind: Name
    at: Instant
    status: Status
    token: Count
    actor: Actor
    session: Name | None = None
    agent: AgentName | None = None
    data: Facts = {}
    id: Count = 0


class Activity(Value):
    """A refused claim. It changed nothing, so it is not an event."""

    at: Instant
    item: ItemId
    session: Name
    agent: AgentOrEmpty
    action: Name
    code: Name
    details: Facts = {}
    id: Count = 0


class Key(Value):
    """The key of a server's caller. Only the caller has the secret; the board keeps its digest.

    An `agent` key acts for the sessions that it registered, only of this agent if one is named. So does a `person` key,
    whose sessions may be of kind person. An `admin` key acts for any session. A `login` key signs a browser in once,
    as an admin; `login-viewer` does so as a viewer.

    `name` says what the key is for. `last_used_at` may lag by an hour. `line` is the first of the keys that this one
    replaces: the keys of a line act for the same sessions.
    """

    id: Name
    role: Name
    agent: AgentName | None
    digest: Text
    created_at: Instant = 0
    expires_at: Instant | None = None
    revoked_at: Instant | None = None
    name: Text | None = None
    last_used_at: Instant | None = None
    line: Name | None = None


class Request(Value):
    """An idempotency key with the fingerprint of the request: a repeated request gets the first one's answer."""

    actor: Actor
    id: Name
    fingerprint: Name
