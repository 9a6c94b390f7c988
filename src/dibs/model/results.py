"""The results of the verbs: most of them are made of records."""

from __future__ import annotations

from dibs.model.records import Claim, Item, Note, Run, Session, SoftClaim, Ticket
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.model.kinds import *


class Previous(Value):
    """The previous run, its latest notes (oldest first), and the comment of a person who sent it back."""

    run: Run
    notes: tuple[Note, ...] = ()
    comment: NoteText | None = None


class Approval(Value):
    """An approval that is in force: by whom, with which comment, and the run whose draft was approved, if any."""

    actor: Actor
    at: Instant
    comment: NoteText | None = None
    run: Run | None = None


class Grant(Value):
    """The answer to a claim: the item, the claim, the previous run, and the approval that is in force.

    `renewed`: the session held the item already, and this is the same claim with a new expiry.
    """

    item: Item
    claim: Claim
    previous: Previous | None = None
    approval: Approval | None = None
    renewed: Flag = False


class Renewal(Value):
    """A claim after a heartbeat. `warning` is None, `warning` or `expiring`, by the time left. `renewed` is false if
    the claim is unchanged, because its last renewal is recent."""

    item: ItemId
    token: Token
    expires_at: Instant
    remaining_seconds: Seconds
    heartbeat_count: Count
    warning: Name | None
    heartbeat_seconds: Seconds
    renewed: Flag = True


class Lost(Value):
    """A claim that the caller no longer holds: how it ended, and who holds the item now."""

    item: ItemId
    token: Token | None
    code: Name
    how: NoteText
    holder: Facts | None = None


class Heartbeat(Value):
    """The answer to a session's heartbeat: the claims that were renewed, lost, or released because the session did not
    list them. `event` is the latest event, to be sent as `known_event` with the next `holding`; None from an old
    server."""

    session: Name
    renewed: tuple[Renewal, ...]
    lost: tuple[Lost, ...]
    forgotten: ItemIds
    heartbeat_seconds: Seconds
    event: Count | None = None


class Waiting(Value):
    """The state of a waiter: its ticket, its position in the queue, and whether the item is offered to it."""

    ticket: Ticket
    position: Count
    offered: Flag
    status: Status
    claim: Claim | None


class Blocker(Value):
    """A dependency that is not done. `will_move` is false if it has ended and can no longer become done."""

    item: ItemId
    status: Status
    will_move: Flag


class Added(Item):
    """The answer to `add`. `existed`: the board had this item with the same content, and nothing was added. `blockers`
    are the dependencies that are not done."""

    existed: Flag = False
    blockers: tuple[Blocker, ...] = ()

    @property
    def item(self) -> Item:
        """The item alone."""
        return _item(self)


class Edited(Item):
    """The answer to `edit`. `before` has the former values of the fields that the edit changed, with `approved`,
    `needs_approval` and `status` if these changed with it."""

    before: Facts = {}
    blockers: tuple[Blocker, ...] = ()

    @property
    def item(self) -> Item:
        """The item alone."""
        return _item(self)


def _item(answer: Item) -> Item:
    return Item.of({name: getattr(answer, name) for name in Item._fields})


class Reason(Value):
    """One line of `why`: a code for programs, a text for people, and whether this line allows a claim."""

    code: Name
    text: Text
    claimable: Flag = False


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
    released: ItemIds


class Holding(Value):
    """A line of `who`: an item in progress, its claim, and the health of the claim; or a soft claim. `kind` and
    `parent` are those of the holder's session."""

    item: Item
    claim: Claim | None
    kind: Name | None
    health: Name
    age_seconds: Seconds
    remaining_seconds: Seconds
    waiters: Count = 0
    soft: SoftClaim | None = None
    parent: Name | None = None


class SessionView(Value):
    """A line of `sessions`: the session, how many live claims it has, and its last ten runs."""

    session: Session
    claims: Count
    recent: tuple[Run, ...] = ()


class Sweep(Value):
    """What a sweep recorded, as ids of items: expired claims, claims of dead owners, items that failed after too many
    of these, items whose schedule was due, offers that lapsed. `more`: something is left for another sweep."""

    expired: ItemIds
    owner_died: ItemIds
    failed: ItemIds
    due: ItemIds = ()
    offers: ItemIds = ()
    more: Flag = False


class Synced(Value):
    """The result of syncing a vault with its git remote: the commit that both have, whether this clone pushed it, the
    items that changed elsewhere, the conflict files, the files that were left alone and why, the claims that expired,
    and whether the repository of this clone was damaged and has been repaired."""

    commit: Text | None = None
    pushed: Flag = False
    news: ItemIds = ()
    conflicts: Texts = ()
    findings: Texts = ()
    expired: ItemIds = ()
    repaired: Flag = False


class Stats(Value):
    """The board in figures; rates and means cover everything that was not pruned. `cost` sums, by name, the numbers in
    the costs of the latest 1,000 runs."""

    items: Counts
    ready: Groups
    active_claims: Count
    waiters: Count
    live_sessions: Count
    total_claims: Count
    outcomes: Counts
    conflicts_avoided: Count
    claim_success_rate: Rate | None
    failure_rate: Rate | None
    time_to_claim_seconds: Seconds | None
    claim_duration_seconds: Seconds | None
    cost: Costs = {}


class Pulse(Value):
    """The board at this instant, for monitoring.

    `ready` counts the claimable items by type and by priority, clamped to 0 to 10. `sessions` counts the live sessions
    by the health of their least healthy claim, or as `idle`. `heartbeat_lag_seconds` is the age of the oldest renewal
    of a live claim; people send no heartbeats, so their claims do not count there. `waiting_for_person` items have a
    plan or a draft to approve, the oldest for `waiting_for_person_seconds`. `last_backup_at` is None if `backup` was
    never used.
    """

    ready: Groups
    ready_total: Count
    active_claims: Count
    heartbeat_lag_seconds: Seconds
    sessions: Counts
    waiters: Count
    conflicts_avoided: Count
    waiting_for_person: Count = 0
    waiting_for_person_seconds: Seconds = 0.0
    webhooks_disabled: Count = 0
    last_backup_at: Instant | None = None


class Prune(Value):
    """The number of pruned records, and the new floors: tokens and events at or below them are never given again."""

    items: Count
    events: Count
    token_floor: Count
    event_floor: Count
