"""The results of the verbs: most of them are made of records."""

from __future__ import annotations

from dibs.model.records import Claim, Item, Note, Run, Session, SoftClaim, Ticket
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Previous(Value):
    """The previous run, its latest notes (oldest first), and the comment of a person who sent it back."""

    run: Run
    notes: tuple[Note, ...] = ()
    comment: str | None = None


class Approval(Value):
    """An approval that is in force: by whom, with which comment, and the run whose draft was approved, if any."""

    actor: str
    at: int
    comment: str | None = None
    run: Run | None = None


class Grant(Value):
    """The answer to a claim: the item, the claim, the previous run, and the approval that is in force.

    `renewed`: the session held the item already, and this is the same claim with a new expiry.
    """

    item: Item
    claim: Claim
    previous: Previous | None = None
    approval: Approval | None = None
    renewed: bool = False


class Renewal(Value):
    """A claim after a heartbeat. `warning` is None, `warning` or `expiring`, by the time left. `renewed` is false if
    the claim is unchanged, because its last renewal is recent."""

    item: str
    token: int
    expires_at: int
    remaining_seconds: float
    heartbeat_count: int
    warning: str | None
    heartbeat_seconds: float
    renewed: bool = True


class Lost(Value):
    """A claim that the caller no longer holds: how it ended, and who holds the item now."""

    item: str
    token: int | None
    code: str
    how: str
    holder: dict[str, Any] | None = None


class Heartbeat(Value):
    """The answer to a session's heartbeat: the claims that were renewed, lost, or released because the session did not
    list them. `event` is the latest event, to be sent as `known_event` with the next `holding`; None from an old
    server."""

    session: str
    renewed: tuple[Renewal, ...]
    lost: tuple[Lost, ...]
    forgotten: tuple[str, ...]
    heartbeat_seconds: float
    event: int | None = None


class Waiting(Value):
    """The state of a waiter: its ticket, its position in the queue, and whether the item is offered to it."""

    ticket: Ticket
    position: int
    offered: bool
    status: str
    claim: Claim | None


class Blocker(Value):
    """A dependency that is not done. `will_move` is false if it has ended and can no longer become done."""

    item: str
    status: str
    will_move: bool


class Added(Item):
    """The answer to `add`. `existed`: the board had this item with the same content, and nothing was added. `blockers`
    are the dependencies that are not done."""

    existed: bool = False
    blockers: tuple[Blocker, ...] = ()

    @property
    def item(self) -> Item:
        """The item alone."""
        return _item(self)


class Edited(Item):
    """The answer to `edit`. `before` has the former values of the fields that the edit changed, with `approved`,
    `needs_approval` and `status` if these changed with it."""

    before: dict[str, Any] = {}
    blockers: tuple[Blocker, ...] = ()

    @property
    def item(self) -> Item:
        """The item alone."""
        return _item(self)


def _item(answer: Item) -> Item:
    return Item.of({name: getattr(answer, name) for name in Item._fields})


class Reason(Value):
    """One line of `why`: a code for programs, a text for people, and whether this line allows a claim."""

    code: str
    text: str
    claimable: bool = False


class Ended(Value):
    """The answer to a verb that ends or annotates a run: the item as it is now, and the run as recorded."""

    item: Item
    run: Run


class Finished(Value):
    """The answer to `done_many`: the runs that ended, and the claims that the caller no longer holds."""

    ended: tuple[Ended, ...]
    lost: tuple[Lost, ...]


class Detail(Value):
    """An item in full, read in one snapshot: its latest runs, newest first, and the notes of the newest."""

    item: Item
    claim: Claim | None
    runs: tuple[Run, ...]
    notes: tuple[Note, ...] = ()
    blockers: tuple[Blocker, ...] = ()
    waiters: tuple[Ticket, ...] = ()


class SessionEnd(Value):
    """The answer to the end of a session: the session, and the items that were released, those of its descendants
    included."""

    session: Session
    released: tuple[str, ...]


class Holding(Value):
    """A line of `who`: an item in progress, its claim, and the health of the claim; or a soft claim. `kind` and
    `parent` are those of the holder's session."""

    item: Item
    claim: Claim | None
    kind: str | None
    health: str
    age_seconds: float
    remaining_seconds: float
    waiters: int = 0
    soft: SoftClaim | None = None
    parent: str | None = None


class SessionView(Value):
    """A line of `sessions`: the session, how many live claims it has, and its last ten runs."""

    session: Session
    claims: int
    recent: tuple[Run, ...] = ()


class Sweep(Value):
    """What a sweep recorded, as ids of items: expired claims, claims of dead owners, items that failed after too many
    of these, items whose schedule was due, offers that lapsed. `more`: something is left for another sweep."""

    expired: tuple[str, ...]
    owner_died: tuple[str, ...]
    failed: tuple[str, ...]
    due: tuple[str, ...] = ()
    offers: tuple[str, ...] = ()
    more: bool = False


class Synced(Value):
    """The result of syncing a vault with its git remote: the commit that both have, whether this clone pushed it, the
    items that changed elsewhere, the conflict files, the files that were left alone and why, the claims that expired,
    and whether the repository of this clone was damaged and has been repaired."""

    commit: str | None = None
    pushed: bool = False
    news: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()
    expired: tuple[str, ...] = ()
    repaired: bool = False


class Stats(Value):
    """The board in figures; rates and means cover everything that was not pruned. `cost` sums, by name, the numbers in
    the costs of the latest 1,000 runs."""

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
    cost: dict[str, float] = {}


class Pulse(Value):
    """The board at this instant, for monitoring.

    `ready` counts the claimable items by type and by priority, clamped to 0 to 10. `sessions` counts the live sessions
    by the health of their least healthy claim, or as `idle`. `heartbeat_lag_seconds` is the age of the oldest renewal
    of a live claim; people send no heartbeats, so their claims do not count there. `waiting_for_person` items have a
    plan or a draft to approve, the oldest for `waiting_for_person_seconds`. `last_backup_at` is None if `backup` was
    never used.
    """

    ready: list[dict[str, Any]]
    ready_total: int
    active_claims: int
    heartbeat_lag_seconds: float
    sessions: dict[str, int]
    waiters: int
    conflicts_avoided: int
    waiting_for_person: int = 0
    waiting_for_person_seconds: float = 0.0
    webhooks_disabled: int = 0
    last_backup_at: int | None = None


class Prune(Value):
    """The number of pruned records, and the new floors: tokens and events at or below them are never given again."""

    items: int
    events: int
    token_floor: int
    event_floor: int
