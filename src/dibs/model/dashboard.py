"""What people see of a board at a glance: the answers of `view` and of the other verbs that a dashboard reads.

They leave out what only the detail of one item shows: bodies, payloads, drafts.
"""

from __future__ import annotations

from dibs.model.results import Blocker
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Brief(Value):
    """An item without its body, payload and resources. `open_blockers` are the dependencies that are not done,
    `waiters` is how many sessions wait for the item, and `reason` why the latest run of a failed item ended, cut to its
    first 500 characters."""

    id: str
    project: str
    type: str
    action: str
    phase: str | None
    title: str
    labels: tuple[str, ...]
    priority: int
    depends_on: tuple[str, ...]
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
    open_blockers: tuple[Blocker, ...] = ()
    waiters: int = 0
    reason: str | None = None


class Remark(Value):
    """The latest note of a run, cut to its first 500 characters."""

    at: int
    note: str


class Waiter(Value):
    """A place in the queue of an item. `offered`: the item is kept for this session now."""

    session: str
    agent: str
    since_at: int
    expires_at: int
    offered: bool = False


class Held(Value):
    """A claim with the kind of its session, its health, its latest note, and the queue behind it, in order."""

    item: str
    token: int
    session: str
    agent: str
    kind: str | None
    claimed_at: int
    renewed_at: int
    expires_at: int
    deadline_at: int
    ttl_seconds: float
    health: str
    heartbeat_count: int
    note: Remark | None = None
    waiters: tuple[Waiter, ...] = ()


class Deduction(Value):
    """A reason why a session's score is below 100, and the points that it costs."""

    code: str
    points: int
    text: str


class PastRun(Value):
    """A run of a session in brief; `outcome` and `ended_at` are null while it is going on."""

    item: str
    outcome: str | None
    started_at: int
    ended_at: int | None


class Seat(Value):
    """A live session: its score from 0 to 100 and the reasons for what is missing, the items that it holds, how many of
    its latest 50 runs ended in which outcome, and the latest ten."""

    id: str
    agent: str
    kind: str
    host: str
    meta: dict[str, Any]
    started_at: int
    seen_at: int
    score: int
    reasons: tuple[Deduction, ...] = ()
    holding: tuple[str, ...] = ()
    ended: dict[str, int] = {}
    recent: tuple[PastRun, ...] = ()


class Vitals(Value):
    """What changes without an event, at one instant: `claims` maps each claimed item to the expiry and the number of
    heartbeats of its claim, `seen` each live session to when it was last seen, `queues` each item to the sessions that
    wait for it, in order. `seats` are the sessions that started within the last minute. `event` is the cursor of the
    feed, as in a view: it falls only if the board was replaced by an older copy."""

    event: int
    at: int
    claims: dict[str, tuple[int, int]]
    seen: dict[str, int]
    queues: dict[str, tuple[str, ...]]
    seats: tuple[Seat, ...] = ()


class VitalChange(Value):
    """What differs from earlier vitals: each value replaces what was known. A queue without sessions is empty now."""

    at: int
    renewed: dict[str, tuple[int, int]]
    seen: dict[str, int]
    queues: dict[str, tuple[str, ...]]
    started: tuple[Seat, ...] = ()
    ended: tuple[str, ...] = ()


class Paged(Value):
    """One page of items. `next` is the cursor of the page after it, if there is one; `total` is how many items match.

    `counts` has the number of items by `status` and by `type`: by status of those that match every filter but the
    status, by type of those that match every filter but the type. `left_off` is how many ended items were not looked
    at.
    """

    items: tuple[Brief, ...]
    next: str | None
    total: int
    counts: dict[str, dict[str, int]]
    left_off: int


class Window(Value):
    """The runs that a stretch of time touches, newest first, each as a list: item, token, session, agent, start, end
    (null: live) and outcome; and the claims that were refused in it: when, item, session and code. Times are
    milliseconds since the epoch. The stretch begins at `from_at` and ends before `to_at`. `truncated`: there are
    more."""

    from_at: int
    to_at: int
    runs: tuple[list[Any], ...]
    refused: tuple[list[Any], ...]
    truncated: bool


class Series(Value):
    """Figures over time, a list each with one entry for every `step_seconds` from `from_at` on.

    `events` counts claims and ends of runs, `depth` how many items had each status that is not an end, at the end of a
    step; `time_to_claim` and `duration` are percentiles in seconds, null where there is nothing; `cost` sums the
    numbers in the costs of the runs that ended, by name. `truncated`: the first entries are null, because there were
    too many events since.
    """

    from_at: int
    step_seconds: float
    events: dict[str, list[Any]]
    depth: dict[str, list[Any]]
    time_to_claim: dict[str, list[Any]]
    duration: dict[str, list[Any]]
    cost: dict[str, list[Any]]
    truncated: bool


class BulkRefusal(Value):
    """Why a bulk verb left an item alone."""

    item: str
    code: str
    detail: str


class Bulk(Value):
    """The answer to `bulk`: the items that the verb changed, and the others, each with its refusal."""

    done: tuple[str, ...]
    refused: tuple[BulkRefusal, ...]


class View(Value):
    """A board at one instant. Whoever reads the feed after `event` misses nothing that happened since.

    `me` is the caller: its role and the name that the history has for it. `left_off` counts the items that have not
    ended and are not among `items`; `holdings_left_off` and `sessions_left_off` count the live claims and the live
    sessions that are not shown.
    """

    event: int
    at: int
    me: dict[str, str] | None
    settings: dict[str, float]
    counts: dict[str, int]
    items: tuple[Brief, ...]
    holdings: tuple[Held, ...]
    sessions: tuple[Seat, ...]
    left_off: int
    holdings_left_off: int = 0
    sessions_left_off: int = 0
