"""The nouns of dibs, as values: item, agent, session, claim, run, event, activity, and what verbs answer with.

Instants are integer milliseconds since the epoch by the store's clock, in fields that end in `_at` (and
`not_before`). Durations are seconds, in fields that end in `_seconds`. Values are frozen; a change is a new value.
"""

from __future__ import annotations

from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar

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

STATUSES = (
    PENDING_APPROVAL,
    BLOCKED,
    SCHEDULED,
    READY,
    IN_PROGRESS,
    PARKED,
    DONE,
    FAILED,
    REJECTED,
    CANCELLED,
)
ENDED = frozenset({DONE, FAILED, REJECTED, CANCELLED})

PERSON = "person"
#: The kind of a session that was made by a function of the SQL interface.
SQL = "sql"
DEFAULT_PROJECT = "default"
DEFAULT_TYPE = "task"
DEFAULT_PRIORITY = 5
DEFAULT_TIMEOUT_SECONDS = 8 * 3600


class NewItem(Value):
    """What a caller says about an item to be added; everything else about it is the board's."""

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


class Item(Value):
    """A piece of work. `token` is the number of the latest claim ever given, `revision` that of its latest event.

    `needs_approval` holds it back until a person approves; `approved` says that one did. `offered_to` names the session
    for which a ready item is kept until `offer_expires_at`. `strikes` count lost claims, `failures` failed runs.
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


#: What `edit` may change; the rest of an item belongs to its history.
EDITABLE = (
    "title",
    "body",
    "payload",
    "labels",
    "priority",
    "phase",
    "project",
    "type",
    "action",
    "depends_on",
    "resources",
    "not_before",
    "timeout_seconds",
    "retries",
)


class Agent(Value):
    """A named worker. Empty `types` means every type; `max_claims` bounds what one of its sessions may hold.

    `max_claims_total` bounds what all its sessions hold together, `claims_per_minute` (`claims_burst` at once) how fast
    they claim. With `allowed_actions` or `sensitive_actions` given, it is handed nothing else: allowed ones it does,
    sensitive ones it drafts for approval, what is both it does once it is approved.
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
    """A process, named so that no other process can ever be taken for it."""

    boot_id: str
    pid_namespace: int
    pid: int
    start_time: int


class Session(Value):
    """One running instance of an agent. `key` is that of the caller who registered it with a server."""

    _nested: ClassVar[dict[str, type[Value]]] = {"owner": Owner}

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


class Claim(Value):
    """A session's exclusive, expiring hold of an item; live while the store's clock is before `expires_at`."""

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
    """The record of one claim, from start to end; `outcome` is None while it is going on.

    `checks` maps the name of a check that was made of its work to its `state` and, if there is one, its `url`.
    """

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
    """One line of progress, as the holder of a run told it."""

    at: int
    note: str
    meta: dict[str, Any] = {}


class Previous(Value):
    """Where the last holder stopped: its run, its latest notes (oldest first), and what a person said to it since."""

    _nested: ClassVar[dict[str, type[Value]]] = {"run": Run, "notes": Note}

    run: Run
    notes: tuple[Note, ...] = ()
    comment: str | None = None


class Approval(Value):
    """A yes that holds: whose, what was said with it, and the run whose draft it was said to (None: there was none)."""

    _nested: ClassVar[dict[str, type[Value]]] = {"run": Run}

    actor: str
    at: int
    comment: str | None = None
    run: Run | None = None


class Ticket(Value):
    """A session's place in the queue of one item, kept while it is renewed; `reason` says how it was closed."""

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
    """Word that a session is on an item, under a lock of its own elsewhere: shown, expiring, excluding nobody."""

    item: str
    session: str
    agent: str
    claimed_at: int
    expires_at: int
    ttl_seconds: float


class Event(Value):
    """One line of an item's history. `id` orders the board's feed, `number` counts the item's own from 1."""

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
    """What changed nothing and is worth knowing: a refused claim."""

    at: int
    item: str
    session: str
    agent: str
    action: str
    code: str
    details: dict[str, Any] = {}
    id: int = 0


class Grant(Value):
    """The answer to a claim: the item, the hold of it, where the last holder stopped, and the approval it has.

    `renewed`: the session held the item already, so this is the same claim with a new expiry.
    """

    _nested: ClassVar[dict[str, type[Value]]] = {
        "item": Item,
        "claim": Claim,
        "previous": Previous,
        "approval": Approval,
    }

    item: Item
    claim: Claim
    previous: Previous | None = None
    approval: Approval | None = None
    renewed: bool = False


class Renewal(Value):
    """A claim that goes on. `warning` is None, `warning` or `expiring`, by what is left of it. Not `renewed`: it was
    renewed so recently that it was left as it is."""

    item: str
    token: int
    expires_at: int
    remaining_seconds: float
    heartbeat_count: int
    warning: str | None
    heartbeat_seconds: float
    renewed: bool = True


class Lost(Value):
    """A claim that the caller believed to hold and does not: how it ended, and who has the item now."""

    item: str
    token: int | None
    code: str
    how: str
    holder: dict[str, Any] | None = None


class Heartbeat(Value):
    """The answer to a session's heartbeat: what goes on, what was lost, what was let go as forgotten. `event` is the
    latest event by then, to be sent as `known_event` with the next `holding`; None from a server that does not say."""

    _nested: ClassVar[dict[str, type[Value]]] = {"renewed": Renewal, "lost": Lost}

    session: str
    renewed: tuple[Renewal, ...]
    lost: tuple[Lost, ...]
    forgotten: tuple[str, ...]
    heartbeat_seconds: float
    event: int | None = None


class Waiting(Value):
    """Where a waiter stands: its ticket, how many are before it, and whether the item is kept for it now."""

    _nested: ClassVar[dict[str, type[Value]]] = {"ticket": Ticket, "claim": Claim}

    ticket: Ticket
    position: int
    offered: bool
    status: str
    claim: Claim | None


class Blocker(Value):
    """A dependency that is not done, and whether it still can be."""

    item: str
    status: str
    will_move: bool


class Added(Item):
    """An item as `add` answers it. `existed`: it was there already, with the same content, and nothing was added.
    `blockers` are the dependencies that are not done."""

    _nested: ClassVar[dict[str, type[Value]]] = {"blockers": Blocker}

    existed: bool = False
    blockers: tuple[Blocker, ...] = ()

    @property
    def item(self) -> Item:
        """The item alone."""
        return _item(self)


class Edited(Item):
    """An item as `edit` answers it. `before` has what the edit changed, as it was: content, and `approved`,
    `needs_approval` and `status` if these changed with it; nothing if it changed nothing."""

    _nested: ClassVar[dict[str, type[Value]]] = {"blockers": Blocker}

    before: dict[str, Any] = {}
    blockers: tuple[Blocker, ...] = ()

    @property
    def item(self) -> Item:
        """The item alone."""
        return _item(self)


def _item(answer: Item) -> Item:
    return Item.of({name: getattr(answer, name) for name in Item._fields})


class Reason(Value):
    """One line of `why`: a code to go by and a sentence to read; `claimable` on the line that says yes."""

    code: str
    text: str
    claimable: bool = False


class Ended(Value):
    """The answer to an end of a run, or to its annotation: the item as it is now, and the run as it is recorded."""

    _nested: ClassVar[dict[str, type[Value]]] = {"item": Item, "run": Run}

    item: Item
    run: Run


class Finished(Value):
    """The answer to the end of many runs at once: those that ended, and those that were not the caller's to end."""

    _nested: ClassVar[dict[str, type[Value]]] = {"ended": Ended, "lost": Lost}

    ended: tuple[Ended, ...]
    lost: tuple[Lost, ...]


class Detail(Value):
    """An item in full, read in one instant; runs are the latest, newest first, and notes those of the newest."""

    _nested: ClassVar[dict[str, type[Value]]] = {
        "item": Item,
        "claim": Claim,
        "runs": Run,
        "notes": Note,
        "blockers": Blocker,
        "waiters": Ticket,
    }

    item: Item
    claim: Claim | None
    runs: tuple[Run, ...]
    notes: tuple[Note, ...] = ()
    blockers: tuple[Blocker, ...] = ()
    waiters: tuple[Ticket, ...] = ()


class SessionEnd(Value):
    """The answer to the end of a session: the session, and the items it let go."""

    _nested: ClassVar[dict[str, type[Value]]] = {"session": Session}

    session: Session
    released: tuple[str, ...]


class Holding(Value):
    """A line of `who`: an item in progress, its claim, and how healthy that looks; or a soft claim."""

    _nested: ClassVar[dict[str, type[Value]]] = {"item": Item, "claim": Claim, "soft": SoftClaim}

    item: Item
    claim: Claim | None
    kind: str | None
    health: str
    age_seconds: float
    remaining_seconds: float
    waiters: int = 0
    soft: SoftClaim | None = None


class SessionView(Value):
    """A line of `sessions`: the session, how many live claims it has, and its last ten runs."""

    _nested: ClassVar[dict[str, type[Value]]] = {"session": Session, "recent": Run}

    session: Session
    claims: int
    recent: tuple[Run, ...] = ()


class Sweep(Value):
    """What a sweep moved on: expired claims, those of dead owners, which of these failed, items that fell due, offers
    that nobody accepted; `more`: not yet all."""

    expired: tuple[str, ...]
    owner_died: tuple[str, ...]
    failed: tuple[str, ...]
    due: tuple[str, ...] = ()
    offers: tuple[str, ...] = ()
    more: bool = False


class Synced(Value):
    """What came of syncing a vault with its git remote: the commit that both have, whether it was sent from here, the
    items that were changed elsewhere, texts kept apart, what was left alone and why, claims that ended, and
    whether this clone's repository was damaged and made whole."""

    commit: str | None = None
    pushed: bool = False
    news: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()
    expired: tuple[str, ...] = ()
    repaired: bool = False


class Stats(Value):
    """The board in figures; rates and means are over everything the board still remembers."""

    items: dict[str, int]
    ready: list[dict[str, Any]]
    active_claims: int
    waiters: int
    live_sessions: int
    total_claims: int
    outcomes: dict[str, int]
    conflicts_avoided: int
    claim_success_rate: float | None
    failure_rate: float | None
    time_to_claim_seconds: float | None
    claim_duration_seconds: float | None


class Pulse(Value):
    """The board at this instant, for whoever watches over it.

    `ready` counts what can be had, by type and by priority, brought to between 0 and 10; `sessions` those that live, by
    the health of their least healthy claim, or `idle` without one. `heartbeat_lag_seconds` is the age of the oldest
    renewal of a live claim.
    """

    ready: list[dict[str, Any]]
    ready_total: int
    active_claims: int
    heartbeat_lag_seconds: float
    sessions: dict[str, int]
    waiters: int
    conflicts_avoided: int


class Key(Value):
    """What a caller of a server is known by: `digest` is that of its secret, which nobody keeps but the caller.

    An `agent` key acts for the sessions it registered, of this agent if one is named; so does a `person` key, whose
    sessions may be of kind person; an `admin` key acts for any. A `login` key is good for one sign-in of a browser.
    """

    id: str
    role: str
    agent: str | None
    digest: str
    created_at: int = 0
    expires_at: int | None = None
    revoked_at: int | None = None


class Request(Value):
    """A request id with the fingerprint of what was asked, so that a repeated verb is answered and not done again."""

    actor: str
    id: str
    fingerprint: str


class Prune(Value):
    """What a prune forgot, and the floors it left: tokens and events at or below them are never given again."""

    items: int
    events: int
    token_floor: int
    event_floor: int
