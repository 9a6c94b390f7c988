"""Is the board sound? What `dibs doctor` looks at, and what to do about each finding.

It reads only, and everything from one instant, so that a board in full use looks no different from one at rest. Damage
of the store comes first; if there is any, the rest waits until that is repaired. Then every invariant is checked on
what `export` gives, as it comes: a history is folded as soon as its last event has passed, and forgotten.
"""

from __future__ import annotations

import time

from dibs.errors import StoreUnusable
from dibs.model import DONE, ENDED, IN_PROGRESS, READY, Claim, Event, Item, Run, Session, SoftClaim, Ticket
from dibs.rules.replay import fold
from dibs.rules.resources import Hold, conflict
from dibs.rules.table import RESTING, rest
from dibs.sdk import owner
from dibs.text import wire
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from dibs.board import Board

SWEEP = "dibs sweep"
RESTORE = "keep a copy of the board, then bring back a backup with dibs restore FILE"
#: A restore moves every token past all that were given, also where nothing else is wrong.
MOVE_TOKENS_ON = "dibs backup FILE, then dibs restore FILE: that moves every token on"
#: Kinds of event that may raise an item's token.
GIVING = frozenset({"added", "claimed", "restored", "found"})


class Finding(Value):
    """Something that is not as it should be, and what to do about it.

    `late` is what only waits for the next one who asks, or is only worth knowing: a sound board may have such things.
    """

    item: str | None
    what: str
    advice: str
    late: bool = False


def examine(board: Board) -> Iterator[Finding]:
    """Every finding about this board, as they are found."""
    found = list(_look_at_the_store(board))
    yield from found
    damaged = any(finding.advice == RESTORE for finding in found)
    for what, advice in board.store.remarks():
        yield Finding(item=None, what=what, advice=advice)
    for what, advice in board.store.notes():
        yield Finding(item=None, what=what, advice=advice, late=True)
    if not damaged:
        # Read before the snapshot: what is overdue by this clock was overdue in it. On SQLite it is the store's own.
        now = int(time.time() * 1000)
        yield from Examination(now).of(board.export())


class Examination:
    """One look at a board: its rows as far as they are needed, and what they must have to do with each other."""

    def __init__(self, now: int) -> None:
        self.now = now
        self.token_floor = 0
        self.sessions: dict[str, Session] = {}
        self.items: dict[str, Item] = {}
        self.claims: dict[str, Claim] = {}
        self.tickets: dict[str, list[Ticket]] = {}
        self.open_runs: dict[str, list[Run]] = {}
        self.run_tokens: dict[str, list[int]] = {}
        self.needs: dict[str, set[str]] = {}
        self.histories: dict[str, list[Event]] = {}
        self.told: set[str] = set()

    def of(self, records: Iterable[tuple[str, dict[str, Any]]]) -> Iterator[Finding]:
        """Findings in what a board exports: its rows, each kind before those that refer to it, events last."""
        for kind, value in records:
            match kind:
                case "board":
                    self.token_floor = value["token_floor"]
                case "session":
                    session = wire.decode(Session, value)
                    self.sessions[session.id] = session
                case "item":
                    item = wire.decode(Item, value)
                    self.items[item.id] = item
                case "claim":
                    yield from self._take_claim(wire.decode(Claim, value))
                case "soft_claim":
                    yield from self._look_at_soft_claim(wire.decode(SoftClaim, value))
                case "ticket":
                    self._take_ticket(wire.decode(Ticket, value))
                case "run":
                    yield from self._take_run(wire.decode(Run, value))
                case "event":
                    yield from self._take_event(wire.decode(Event, value))
                case "dependency":
                    self.needs.setdefault(value["item"], set()).add(value["needs"])
                case _:
                    pass  # agents, activity and kept answers: nothing else depends on them
        for item in self.items.values():
            yield from self._look_at_item(item)
        yield from self._look_at_circles()
        yield from self._look_at_resources()
        yield from self._look_at_owners()

    # What comes in

    def _take_claim(self, claim: Claim) -> Iterator[Finding]:
        if claim.item in self.claims:
            yield _damage(
                claim.item, f"{claim.item} has two claims: {self.claims[claim.item].session}, {claim.session}"
            )
        if claim.item not in self.items:
            yield _damage(claim.item, f"session {claim.session} has a claim of {claim.item}, which does not exist")
        self.claims[claim.item] = claim

    def _look_at_soft_claim(self, soft: SoftClaim) -> Iterator[Finding]:
        if soft.expires_at > self.now and not self._lives(soft.session):
            what = f"session {soft.session} has a soft claim of {soft.item}, and is not there any more"
            yield Finding(item=soft.item, what=what, advice="it lapses by itself; nothing has to be done")

    def _take_ticket(self, ticket: Ticket) -> None:
        if ticket.closed_at is None:
            self.tickets.setdefault(ticket.item, []).append(ticket)

    def _take_run(self, run: Run) -> Iterator[Finding]:
        if run.item not in self.items:
            yield _damage(run.item, f"there is a run of {run.item} under token {run.token}, but no such item")
            return
        if run.outcome is None:
            self.open_runs.setdefault(run.item, []).append(run)
        self.run_tokens.setdefault(run.item, []).append(run.token)

    def _take_event(self, event: Event) -> Iterator[Finding]:
        if event.kind in ("added", "restored") and event.token > self.token_floor:
            what = f"{event.item} was given token {event.token} at event {event.id}, above the floor {self.token_floor}"
            yield Finding(item=event.item, what=what, advice=MOVE_TOKENS_ON)
        history = self.histories.setdefault(event.item, [])
        history.append(event)
        item = self.items.get(event.item)
        if item is None:
            if len(history) == 1:
                yield _damage(event.item, f"there is a history of {event.item}, but no such item")
        elif event.number == item.revision and item.id not in self.told:
            self.told.add(item.id)
            yield from _look_at_history(item, self.histories.pop(item.id), self.run_tokens.pop(item.id, []))

    # What has to be true of it

    def _look_at_item(self, item: Item) -> Iterator[Finding]:
        if item.id not in self.told or item.id in self.histories:
            yield _damage(item.id, _gap(item))
        yield from self._look_at_claim(item)
        yield from self._look_at_queue(item)
        yield from self._look_at_needs(item)
        yield from self._look_at_rest(item)

    def _look_at_claim(self, item: Item) -> Iterator[Finding]:
        """A claim iff in progress, under the item's token, with its run open, by a session that lives."""
        claim, runs = self.claims.get(item.id), self.open_runs.get(item.id, [])
        if (claim is not None) != (item.status == IN_PROGRESS):
            has = "nobody has a claim of it" if claim is None else f"session {claim.session} has a claim of it"
            yield _damage(item.id, f"{item.id} is {item.status}, and {has}")
        if claim is None:
            for run in runs:
                yield _damage(item.id, f"nobody holds {item.id}, and its run under token {run.token} never ended")
            return
        if [(run.token, run.session) for run in runs] != [(claim.token, claim.session)] or claim.token != item.token:
            yield _damage(
                item.id, f"the claim of {item.id} under token {claim.token} is not what its run and its row tell"
            )
        if claim.expires_at > claim.deadline_at:
            yield _damage(item.id, f"the claim of {item.id} lasts beyond its deadline")
        if not self._lives(claim.session):
            what = f"session {claim.session} holds {item.id}, and is not there any more"
            yield Finding(
                item=item.id, what=what, advice=f'dibs force-release {item.id} --reason "its session is gone"'
            )
        elif claim.expires_at <= self.now:
            what = f"{item.id} is in progress and nobody holds it: its claim has expired"
            yield Finding(item=item.id, what=what, advice=SWEEP, late=True)

    def _look_at_queue(self, item: Item) -> Iterator[Finding]:
        """Nobody queues for what has ended, and an offer goes to somebody who queues."""
        tickets = self.tickets.get(item.id, [])
        if item.status in ENDED:
            for ticket in tickets:
                what = f"{item.id} is {item.status}, and session {ticket.session} still waits for it"
                advice = f"dibs leave {item.id} --session {ticket.session}"
                yield Finding(item=item.id, what=what, advice=advice)
        if item.offered_to is None and item.offer_expires_at is None:
            return
        if item.status != READY or item.offered_to is None or item.offer_expires_at is None:
            yield _damage(item.id, f"{item.id} is {item.status}, and offered to {item.offered_to or 'nobody'}")
        elif item.offer_expires_at <= self.now:
            what = f"{item.id} is offered to session {item.offered_to}, which did not accept it in time"
            yield Finding(item=item.id, what=what, advice=SWEEP, late=True)
        elif item.offered_to not in [ticket.session for ticket in tickets]:
            what = f"{item.id} is offered to session {item.offered_to}, which does not wait for it"
            yield Finding(item=item.id, what=what, advice=f"{SWEEP}, once the offer has lapsed")

    def _look_at_needs(self, item: Item) -> Iterator[Finding]:
        """What an item is kept back by is what it says that it needs, as far as that was not pruned, being done."""
        recorded = self.needs.get(item.id, set())
        # One that was there before the item cannot have been pruned since: it would not be there any more.
        there = {one for one in item.depends_on if one in self.items and self.items[one].created_at <= item.created_at}
        wrong = (recorded - set(item.depends_on)) | (there - recorded)
        if wrong:
            what = f"{item.id} does not say the same everywhere about what it needs: {', '.join(sorted(wrong))}"
            yield _damage(item.id, what)

    def _needed(self, item: Item) -> set[str]:
        """What the item needs and is still there; what is gone was done when it was pruned."""
        return {one for one in self.needs.get(item.id, ()) if one in self.items}

    def _look_at_rest(self, item: Item) -> Iterator[Finding]:
        """An item that nobody holds is where it belongs: blocked iff something it needs is not done, and so on."""
        if item.status not in RESTING:
            return
        # What a file of a vault names and is not there is waited for; what was pruned is not recorded any more.
        needed = self.needs.get(item.id, set())
        missing = sorted(one for one in needed if one not in self.items or self.items[one].status != DONE)
        belongs = rest(item, self.now, blocked=bool(missing))
        if belongs == item.status:
            return
        if item.status == "scheduled" and belongs == READY:
            yield Finding(item=item.id, what=f"{item.id} is scheduled, and its time has come", advice=SWEEP, late=True)
            return
        why = f": {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not done" if missing else ""
        yield Finding(
            item=item.id,
            what=f"{item.id} is {item.status}, and should be {belongs}{why}",
            advice=f"dibs park {item.id}, then dibs unpark {item.id}",
        )

    def _look_at_circles(self) -> Iterator[Finding]:
        """Take away, again and again, what needs nothing that is left; what cannot be taken away runs in a circle."""
        needs = {item.id: self._needed(item) for item in self.items.values()}
        needed_by: dict[str, list[str]] = {}
        for id, needed in needs.items():
            for one in needed:
                needed_by.setdefault(one, []).append(id)
        free = [id for id, needed in needs.items() if not needed]
        while free:
            id = free.pop()
            del needs[id]
            for one in needed_by.get(id, []):
                needs[one].discard(id)
                if not needs[one]:
                    free.append(one)
        if needs:
            first = min(needs)
            what = f"{', '.join(sorted(needs))} depend on each other in a circle"
            yield Finding(item=first, what=what, advice=f"dibs edit {first} --no-needs, or --needs others")

    def _look_at_resources(self) -> Iterator[Finding]:
        """What one session holds, no other does: in a project, no two live claims touch the same."""
        holds: dict[str, list[Hold]] = {}
        for claim in self.claims.values():
            item = self.items.get(claim.item)
            if item is None or claim.expires_at <= self.now:
                continue
            held = holds.setdefault(item.project, [])
            other = conflict(item, held, claim.session)
            if other is not None:
                what = f"{item.id} and {other.item} both touch {other.resource}, and are both in progress"
                advice = f'dibs force-release {item.id} --reason "it touches what {other.item} touches"'
                yield Finding(item=item.id, what=what, advice=advice)
            held += [
                Hold(resource=resource, item=item.id, session=claim.session, agent=claim.agent)
                for resource in item.resources
            ]

    def _look_at_owners(self) -> Iterator[Finding]:
        holders = {claim.session for claim in self.claims.values()} & self.sessions.keys()
        owners = [(id, process) for id in sorted(holders) if (process := self.sessions[id].owner) is not None]
        for session, process in owner.find_dead(owners):
            what = f"session {session} holds items, and the process {process.pid} that owned it is dead"
            yield Finding(item=None, what=what, advice=SWEEP, late=True)

    def _lives(self, session: str) -> bool:
        return session in self.sessions and self.sessions[session].ended_at is None


def _look_at_the_store(board: Board) -> Iterator[Finding]:
    """What the store finds wrong with itself, also where that keeps it from looking further."""
    try:
        sentences = board.check()
    except StoreUnusable as error:
        yield Finding(item=None, what=error.message, advice=RESTORE)
        return
    for sentence in sentences:
        what, _, advice = sentence.partition("; ")
        yield Finding(item=None, what=what, advice=advice or RESTORE)


def _look_at_history(item: Item, events: list[Event], run_tokens: list[int]) -> Iterator[Finding]:
    """The history counts from 1 without a gap, folds to the row, and tells of every run and of no other."""
    if [event.number for event in events] != list(range(1, item.revision + 1)):
        yield _damage(item.id, _gap(item))
        return
    told = fold(events)
    if told is not None and told != item:
        wrong = ", ".join(name for name in item._fields if getattr(told, name) != getattr(item, name))
        yield _damage(item.id, f"{item.id} is not what its history tells: {wrong}")
    given, claimed = _tokens(events)
    if given != sorted(given) or item.token != given[-1]:
        yield _damage(item.id, f"the latest token of {item.id} is {given[-1]} by its history, {item.token} by its row")
    if sorted(claimed) != sorted(run_tokens):
        yield _damage(
            item.id, f"the history of {item.id} tells of {len(claimed)} claims, its runs of {len(run_tokens)}"
        )


def _tokens(events: list[Event]) -> tuple[list[int], list[int]]:
    """Every token that was given, in order, and those of runs; but for what a vault's hub has made void."""
    given: list[int] = []
    claimed: list[int] = []
    for event in events:
        void_from = event.data.get("void_from")
        if void_from is not None:
            given, claimed = [], [token for token in claimed if token < void_from]
        if event.kind in GIVING:
            given.append(event.token)
        if event.kind == "claimed":
            claimed.append(event.token)
        # Runs of before the index of a vault was lost: its files tell of them, its history does not any more.
        claimed += event.data.get("runs", ())
    return given, claimed


def _gap(item: Item) -> str:
    return f"the history of {item.id} has a gap: its events do not count up to {item.revision}"


def _damage(item: str, what: str) -> Finding:
    return Finding(item=item, what=what, advice=RESTORE)
