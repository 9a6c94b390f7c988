"""The checks of `dibs doctor`, with advice for each finding.

They only read, and from one snapshot, so that a board in use looks like one at rest. The store checks itself first; if
it is damaged, the invariants are not checked. They are checked on the records of `Store.histories`, item by item: what
is kept from one item to the next is about sessions that live, items that are held, and dependencies that are not done.
"""

from __future__ import annotations

import time
from itertools import pairwise

from dibs.errors import StoreUnusable
from dibs.maintenance import webhook_check
from dibs.model import DONE, ENDED, IN_PROGRESS, READY, Claim, Event, Item, Run, Session, SoftClaim, Ticket
from dibs.rules.event_kinds import changing
from dibs.rules.replay import fold
from dibs.rules.resources import Hold, conflict
from dibs.rules.sessions import ANCESTORS_MAX
from dibs.rules.table import RESTING, rest
from dibs.system import owner
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from dibs.board import Board
    from dibs.model.kinds import Instant

    Record = tuple[str, Any]

SWEEP, RESTORE = "dibs sweep", "keep a copy of the board, then bring back a backup with dibs restore FILE"
#: A restore raises every token above all that were given.
RAISE_TOKENS = "dibs backup FILE, then dibs restore FILE: that raises every token"
LEAVE_OUT = "dibs backup FILE, then dibs restore FILE: that leaves the record out"
GIVING_TOKENS = changing("token")
#: The records of an item that it may have several of, by kind: where a `History` keeps them.
LISTS = {"claim": "claims", "soft_claim": "soft_claims", "ticket": "tickets", "run": "runs", "event": "events"}


class Finding(Value):
    """A problem, and advice. A sound board may have findings that are `late`: the next call records what is overdue."""

    item: str | None
    what: str
    advice: str
    late: bool = False


def examine(board: Board, on_record: Callable[[], object] | None = None) -> Iterator[Finding]:
    """The findings about this board, as they come; `on_record` is called for each record that was checked."""
    found = list(_check_store(board))
    yield from found
    damaged = any(finding.advice == RESTORE for finding in found)
    for what, advice in board.store.remarks():
        yield Finding(item=None, what=what, advice=advice)
    for what, advice in board.store.notes():
        yield Finding(item=None, what=what, advice=advice, late=True)
    if not damaged:
        # The clock is read before the snapshot: what is overdue at this instant is overdue in the snapshot as well.
        now = int(time.time() * 1000)
        # So are the cursors: none of them is after the last event of the snapshot.
        webhooks = board.webhooks()
        examination = Examination(now)
        yield from examination.of(_counted(board.store.histories(), on_record))
        floor, last = examination.event_floor, examination.last_event
        for what, advice, late in webhook_check.examine(board, webhooks, event_floor=floor, last_event=last, now=now):
            yield Finding(item=None, what=what, advice=advice, late=late)


def _counted(records: Iterable[Record], on_record: Callable[[], object] | None) -> Iterator[Record]:
    for record in records:
        if on_record is not None:
            on_record()
        yield record


class History:
    """The records of one item, or of an item that does not exist."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.item: Item | None = None
        self.claims: list[Claim] = []
        self.soft_claims: list[SoftClaim] = []
        self.tickets: list[Ticket] = []
        self.runs: list[Run] = []
        self.events: list[Event] = []
        self.needs: dict[str, Need] = {}

    def add(self, kind: str, value: Any) -> None:
        if kind == "item":
            self.item = value
        elif kind == "dependency":
            _, needs, status, added_at, is_recorded = value
            self.needs[needs] = Need(status=status, added_at=added_at, is_recorded=is_recorded)
        else:
            getattr(self, LISTS[kind]).append(value)


class Need(Value):
    """A dependency that is recorded, or that the item lists and that exists. Without a status there is no such item."""

    status: str | None
    added_at: Instant | None
    is_recorded: bool


class Examination:
    """One pass over the records of a board, and the invariants between them."""

    def __init__(self, now: int) -> None:
        self.now = now
        self.token_floor = self.event_floor = self.last_event = 0
        #: The sessions that have not ended.
        self.sessions: dict[str, Session] = {}
        #: Each claim, with its item.
        self.held: list[tuple[Claim, Item | None]] = []
        #: The dependencies that are not done, of items that are not done.
        self.needs: dict[str, set[str]] = {}

    def of(self, records: Iterable[tuple[str, Any]]) -> Iterator[Finding]:
        """The findings in the records of `Store.histories`."""
        history = History("")
        for kind, value in records:
            if kind in LISTS or kind in ("item", "dependency"):
                id = value[0] if kind == "dependency" else value.id if kind == "item" else value.item
                if id != history.id:
                    yield from self._check(history)
                    history = History(id)
                history.add(kind, value)
            elif kind == "board":
                self.token_floor = value["token_floor"]
                self.event_floor = self.last_event = value["event_floor"]
            elif kind == "session":
                self.sessions[value.id] = value
            elif kind == "subject":
                yield from _check_subject(*value)
            elif kind == "invalid":
                yield _invalid(*value)
        yield from self._check(history)
        yield from self._check_cycles()
        yield from self._check_resources()
        yield from self._check_owners()
        yield from self._check_parents()

    def _check(self, history: History) -> Iterator[Finding]:
        """The invariants of one item, with its records."""
        item, claims = history.item, history.claims
        self.held += [(claim, item) for claim in claims]
        for claim, other in pairwise(claims):
            yield _damage(claim.item, f"{claim.item} has two claims: {claim.session}, {other.session}")
        for soft in history.soft_claims:
            yield from self._check_soft_claim(soft)
        yield from self._check_tokens(history.events)
        if item is None:
            yield from _check_nothing(history)
            return
        yield from _check_history(item, history.events, [run.token for run in history.runs])
        yield from self._check_claim(item, claims[-1] if claims else None, history.runs)
        yield from self._check_queue(item, history.tickets)
        if history.needs:
            yield from self._check_dependencies(item, history)
        if item.status in RESTING:
            yield from self._check_rest(item, history)
        if item.status != DONE:
            # An item that is done is in no cycle: what it needed was done before.
            needed = {id for id, need in history.needs.items() if need.is_recorded and need.status not in (None, DONE)}
            if needed:
                self.needs[item.id] = needed

    def _check_soft_claim(self, soft: SoftClaim) -> Iterator[Finding]:
        if soft.expires_at > self.now and soft.session not in self.sessions:
            what = f"session {soft.session} has a soft claim of {soft.item}, and is not a live session"
            yield Finding(item=soft.item, what=what, advice="nothing to do: it lapses by itself")

    def _check_tokens(self, events: list[Event]) -> Iterator[Finding]:
        for event in events:
            if event.id > self.last_event:
                self.last_event = event.id
            if event.kind in ("added", "restored") and event.token > self.token_floor:
                floor = self.token_floor
                what = f"{event.item} was given token {event.token} at event {event.id}, above the floor {floor}"
                yield Finding(item=event.item, what=what, advice=RAISE_TOKENS)

    def _check_claim(self, item: Item, claim: Claim | None, runs: list[Run]) -> Iterator[Finding]:
        """An item has a claim iff it is in progress: under its token, with an open run, by a live session."""
        runs = [run for run in runs if run.outcome is None]
        if (claim is not None) != (item.status == IN_PROGRESS):
            has = "has no claim" if claim is None else f"session {claim.session} has a claim of it"
            yield _damage(item.id, f"{item.id} is {item.status}, and {has}")
        if claim is None:
            for run in runs:
                yield _damage(item.id, f"{item.id} has no claim, and its run under token {run.token} never ended")
            return
        if [(run.token, run.session) for run in runs] != [(claim.token, claim.session)] or claim.token != item.token:
            yield _damage(
                item.id, f"the claim of {item.id} under token {claim.token} does not match its run and its row"
            )
        if claim.expires_at > claim.deadline_at:
            yield _damage(item.id, f"the claim of {item.id} lasts beyond its deadline")
        if claim.session not in self.sessions:
            what = f"session {claim.session} holds {item.id}, and is not a live session"
            yield Finding(
                item=item.id, what=what, advice=f'dibs force-release {item.id} --reason "its session is gone"'
            )
        elif claim.expires_at <= self.now:
            yield _overdue(item.id, f"{item.id} is in progress, and its claim has expired")

    def _check_queue(self, item: Item, tickets: list[Ticket]) -> Iterator[Finding]:
        """No session waits for an ended item, and an offer is made to a session that waits."""
        if item.status in ENDED:
            for ticket in tickets:
                what = f"{item.id} is {item.status}, and session {ticket.session} still waits for it"
                advice = f"dibs leave {item.id} --session {ticket.session}"
                yield Finding(item=item.id, what=what, advice=advice)
        if item.offered_to is None and item.offer_expires_at is None:
            return
        if item.status != READY or item.offered_to is None or item.offer_expires_at is None:
            yield _damage(item.id, f"{item.id} is {item.status}, and offered to {item.offered_to or 'no session'}")
        elif item.offer_expires_at <= self.now:
            yield _overdue(
                item.id, f"{item.id} is offered to session {item.offered_to}, which did not accept it in time"
            )
        elif item.offered_to not in [ticket.session for ticket in tickets]:
            what = f"{item.id} is offered to session {item.offered_to}, which does not wait for it"
            yield Finding(item=item.id, what=what, advice=f"{SWEEP}, once the offer has lapsed")

    def _check_dependencies(self, item: Item, history: History) -> Iterator[Finding]:
        """The recorded dependencies are those that the item lists, except for pruned ones, which were done."""
        recorded = {id for id, need in history.needs.items() if need.is_recorded}
        # A pruned dependency is not recorded, and a newer item may have its id.
        there = {
            id
            for id in history.needs.keys() & set(item.depends_on)
            if (added_at := history.needs[id].added_at) is not None and added_at <= item.created_at
        }
        wrong = (recorded - set(item.depends_on)) | (there - recorded)
        if wrong:
            what = f"the dependencies of {item.id} are recorded differently in two places: {', '.join(sorted(wrong))}"
            yield _damage(item.id, what)

    def _check_rest(self, item: Item, history: History) -> Iterator[Finding]:
        """An unclaimed item has the status that follows from its fields: blocked iff a dependency is not done, etc."""
        # An item of a vault also waits for dependencies that do not exist; pruned ones are no longer recorded.
        missing = sorted(id for id, need in history.needs.items() if need.is_recorded and need.status != DONE)
        belongs = rest(item, self.now, blocked=bool(missing))
        if belongs == item.status:
            return
        if item.status == "scheduled" and belongs == READY:
            yield _overdue(item.id, f"{item.id} is scheduled, and is due")
            return
        why = f": {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not done" if missing else ""
        yield Finding(
            item=item.id,
            what=f"{item.id} is {item.status}, and should be {belongs}{why}",
            advice=f"dibs park {item.id}, then dibs unpark {item.id}",
        )

    def _check_cycles(self) -> Iterator[Finding]:
        """Dependencies have no cycle: remove, repeatedly, the items without dependencies. Those that remain are in a
        cycle, or depend on one."""
        needs = self.needs
        needed_by: dict[str, list[str]] = {}
        for id, needed in needs.items():
            for one in needed:
                needed_by.setdefault(one, []).append(id)
        free = [one for one in needed_by if one not in needs]
        while free:
            id = free.pop()
            needs.pop(id, None)
            for one in needed_by.get(id, []):
                needs[one].discard(id)
                if not needs[one]:
                    free.append(one)
        if needs:
            first = min(needs)
            what = f"{', '.join(sorted(needs))} depend on each other in a cycle"
            yield Finding(item=first, what=what, advice=f"dibs edit {first} --no-needs, or --needs others")

    def _check_resources(self) -> Iterator[Finding]:
        """In a project, no two sessions hold claims with overlapping resources."""
        holds: dict[str, list[Hold]] = {}
        for claim, item in self.held:
            if item is None or claim.expires_at <= self.now:
                continue
            held = holds.setdefault(item.project, [])
            other = conflict(item, held, claim.session)
            if other is not None:
                what = f"{item.id} and {other.item} both touch {other.resource}, and are both in progress"
                advice = f'dibs force-release {item.id} --reason "shares a resource with {other.item}"'
                yield Finding(item=item.id, what=what, advice=advice)
            held += [
                Hold(resource=resource, item=item.id, session=claim.session, agent=claim.agent)
                for resource in item.resources
            ]

    def _check_owners(self) -> Iterator[Finding]:
        holders = {claim.session for claim, _ in self.held} & self.sessions.keys()
        concerned = holders | {ancestor for id in holders for ancestor in self._ancestors(id)}
        owners = [(id, process) for id in sorted(concerned) if (process := self.sessions[id].owner) is not None]
        for session, process in owner.find_dead(owners):
            holds = "holds" if session in holders else "has children that hold"
            yield _overdue(None, f"session {session} {holds} items, and its owner process {process.pid} is dead")

    def _check_parents(self) -> Iterator[Finding]:
        """The parent of a live session is live."""
        for session in self.sessions.values():
            if session.parent is not None and session.parent not in self.sessions:
                what = f"session {session.id} is live, and its parent session {session.parent} has ended"
                yield Finding(item=None, what=what, advice=f"dibs session end {session.id}")

    def _ancestors(self, session: str) -> Iterator[str]:
        parent = self.sessions[session].parent
        for _ in range(ANCESTORS_MAX):
            if parent is None or parent not in self.sessions:
                return
            yield parent
            parent = self.sessions[parent].parent


def _check_store(board: Board) -> Iterator[Finding]:
    """The problems that the store finds in itself, also one that stops its check."""
    try:
        sentences = board.check()
    except StoreUnusable as error:
        yield Finding(item=None, what=error.message, advice=RESTORE)
        return
    for sentence in sentences:
        what, _, advice = sentence.partition("; ")
        yield Finding(item=None, what=what, advice=advice or RESTORE)


def _check_nothing(history: History) -> Iterator[Finding]:
    """No record is about an item that does not exist."""
    for claim in history.claims:
        yield _damage(claim.item, f"session {claim.session} has a claim of {claim.item}, which does not exist")
    for run in history.runs:
        yield _damage(run.item, f"there is a run of {run.item} under token {run.token}, but no such item")
    if history.events:
        yield _damage(history.id, f"there is a history of {history.id}, but no such item")


def _check_subject(subject: str, first: str, *others: str) -> Iterator[Finding]:
    """One subject, one item; clones of a vault, and copies of files, can bring another one."""
    for id in others:
        what = f"{id} has the subject of {first}, the older one, which a claim of it gives: {subject}"
        yield Finding(item=id, what=what, advice=f"dibs edit {id} --subject ''")


def _invalid(item: str | None, kind: str, why: str) -> Finding:
    what = f"a record ({kind}) is not valid, and no restore would take it: {why}"
    return Finding(item=item, what=what, advice=LEAVE_OUT if kind == "activity" else RESTORE)


def _check_history(item: Item, events: list[Event], run_tokens: list[int]) -> Iterator[Finding]:
    """The history has no gap, replays to the row of the item, and has exactly the runs of the item."""
    if not events or [event.number for event in events] != list(range(1, item.revision + 1)):
        yield _damage(item.id, f"the history of {item.id} has a gap: its events do not count up to {item.revision}")
        return
    replayed = fold(events)
    if replayed is not None and replayed != item:
        wrong = ", ".join(name for name in item._fields if getattr(replayed, name) != getattr(item, name))
        yield _damage(item.id, f"{item.id} differs from its history in: {wrong}")
    given, claimed = _tokens(events)
    latest = given[-1] if given else "missing"
    if given != sorted(given) or item.token != latest:
        yield _damage(item.id, f"the latest token of {item.id} is {latest} by its history, {item.token} by its row")
    if sorted(claimed) != sorted(run_tokens):
        yield _damage(
            item.id, f"the history of {item.id} has {len(claimed)} claims, and the item has {len(run_tokens)} runs"
        )


def _tokens(events: list[Event]) -> tuple[list[int], list[int]]:
    """Every token that was given, in order, and the tokens of runs, without those that a vault's hub made void."""
    given: list[int] = []
    claimed: list[int] = []
    for event in events:
        kind, data = event.kind, event.data
        if data.get("void_from") is not None:
            given, claimed = [], [token for token in claimed if token < data["void_from"]]
        if kind in GIVING_TOKENS:
            given.append(event.token)
        if kind == "claimed":
            claimed.append(event.token)
        # Runs from before the index of a vault was lost, which are known from its files only.
        if "runs" in data:
            claimed += data["runs"]
    return given, claimed


def _damage(item: str, what: str) -> Finding:
    return Finding(item=item, what=what, advice=RESTORE)


def _overdue(item: str | None, what: str) -> Finding:
    return Finding(item=item, what=what, advice=SWEEP, late=True)
