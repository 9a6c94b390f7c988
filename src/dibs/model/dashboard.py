"""What people see of a board at a glance: the answers of `view` and of the other verbs that a dashboard reads.

They leave out what only the detail of one item shows: bodies, payloads, drafts.
"""

from __future__ import annotations

from dibs.model.results import Blocker
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.model.kinds import *


class Brief(Value):
    """An item without its body, payload and resources. `open_blockers` are the dependencies that are not done,
    `waiters` is how many sessions wait for the item, and `reason` why the latest run of a failed item ended, cut to its
    first 500 characters."""

    id: ItemId
    project: Name
    type: Name
    action: NameOrEmpty
    phase: Name | None
    title: Title
    labels: Names
    priority: Priority
    depends_on: ItemIds
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
    open_blockers: tuple[Blocker, ...] = ()
    waiters: Count = 0
    reason: Text | None = None


class Remark(Value):
    """The latest note of a run, cut to its first 500 characters."""

    at: Instant
    note: NoteText


class Waiter(Value):
    """A place in the queue of an item. `offered`: the item is kept for this session now."""

    session: Name
    agent: AgentName
    since_at: Instant
    expires_at: Instant
    offered: Flag = False


class Held(Value):
    """A claim with the kind of its session, its health, its latest note, and the queue behind it, in order."""

    item: ItemId
    token: Token
    session: Name
    agent: AgentName
    kind: Name | None
    claimed_at: Instant
    renewed_at: Instant
    expires_at: Instant
    deadline_at: Instant
    ttl_seconds: Seconds
    health: Name
    heartbeat_count: Count
    note: Remark | None = None
    waiters: tuple[Waiter, ...] = ()


class Deduction(Value):
    """A reason why a session's score is below 100, and the points that it costs."""

    code: Name
    points: Count
    text: Text


class PastRun(Value):
    """A run of a session in brief; `outcome` and `ended_at` are null while it is going on."""

    item: ItemId
    outcome: Name | None
    started_at: Instant
    ended_at: Instant | None


class Seat(Value):
    """A live session: its score from 0 to 100 and the reasons for what is missing, the items that it holds, how many of
    its latest 50 runs ended in which outcome, and the latest ten."""

    id: Name
    agent: AgentName
    kind: Name
    host: NoteText
    meta: Meta
    started_at: Instant
    seen_at: Instant
    score: Count
    reasons: tuple[Deduction, ...] = ()
    holding: ItemIds = ()
    ended: Counts = {}
    recent: tuple[PastRun, ...] = ()


class Vitals(Value):
    """What changes without an event, at one instant: `claims` maps each claimed item to the expiry and the number of
    heartbeats of its claim, `seen` each live session to when it was last seen, `queues` each item to the sessions that
    wait for it, in order. `seats` are the sessions that started within the last minute. `event` is the cursor of the
    feed, as in a view: it falls only if the board was replaced by an older copy."""

    event: Count
    at: Instant
    claims: Beats
    seen: Instants
    queues: Queues
    seats: tuple[Seat, ...] = ()


class VitalChange(Value):
    """What differs from earlier vitals: each value replaces what was known. A queue without sessions is empty now."""

    at: Instant
    renewed: Beats
    seen: Instants
    queues: Queues
    started: tuple[Seat, ...] = ()
    ended: Names = ()


class Paged(Value):
    """One page of items. `next` is the cursor of the page after it, if there is one; `total` is how many items match.

    `counts` has the number of items by `status` and by `type`: by status of those that match every filter but the
    status, by type of those that match every filter but the type. `left_off` is how many ended items were not looked
    at.
    """

    items: tuple[Brief, ...]
    next: Text | None
    total: Count
    counts: CountsByField
    left_off: Count


class Window(Value):
    """The runs that a stretch of time touches, newest first, each as a list: item, token, session, agent, start, end
    (null: live) and outcome; and the claims that were refused in it: when, item, session and code. Times are
    milliseconds since the epoch. The stretch begins at `from_at` and ends before `to_at`. `truncated`: there are
    more."""

    from_at: Instant
    to_at: Instant
    runs: Rows
    refused: Rows
    truncated: Flag


class Series(Value):
    """Figures over time, a list each with one entry for every `step_seconds` from `from_at` on.

    `events` counts claims and ends of runs, `depth` how many items had each status that is not an end, at the end of a
    step; `time_to_claim` and `duration` are percentiles in seconds, null where there is nothing; `cost` sums the
    numbers in the costs of the runs that ended, by name. `truncated`: the first entries are null, because there were
    too many events since.
    """

    from_at: Instant
    step_seconds: Seconds
    events: Columns
    depth: Columns
    time_to_claim: Columns
    duration: Columns
    cost: CostColumns
    truncated: Flag


class BulkRefusal(Value):
    """Why a bulk verb left an item alone."""

    item: ItemId
    code: Name
    detail: Text


class Bulk(Value):
    """The answer to `bulk`: the items that the verb changed, and the others, each with its refusal."""

    done: ItemIds
    refused: tuple[BulkRefusal, ...]


class View(Value):
    """A board at one instant. Whoever reads the feed after `event` misses nothing that happened since.

    `me` is the caller: its role and the name that the history has for it. `left_off` counts the items that have not
    ended and are not among `items`; `holdings_left_off` and `sessions_left_off` count the live claims and the live
    sessions that are not shown.
    """

    event: Count
    at: Instant
    me: Words | None
    settings: Numbers
    counts: Counts
    items: tuple[Brief, ...]
    holdings: tuple[Held, ...]
    sessions: tuple[Seat, ...]
    left_off: Count
    holdings_left_off: Count = 0
    sessions_left_off: Count = 0
