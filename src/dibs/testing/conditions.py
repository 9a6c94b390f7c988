"""What items of one board mean to each other, judged without the rules: dependencies, resources, queues, floors.

`blocked_as_they_should` replays the feed: at every event that leaves an item where it rests, it is blocked iff one of
its dependencies was not done at that instant. Only an event that was decided while the end of the last dependency was
being recorded, and so is numbered after that end, still finds the item blocked; the end then unblocks it next.
"""

from __future__ import annotations

from itertools import combinations, pairwise

from dibs.errors import DibsError, Invalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dibs.board import Board
    from dibs.model import Event, Holding, Item, Ticket

ENDED = ("done", "failed", "rejected", "cancelled")
#: Where a look at the dependencies decides whether it is `blocked`.
LOOKS = ("scheduled", "ready", "blocked")


def _is_unblocked_next(item: str, later: list[Event]) -> bool:
    following = next((event for event in later if event.item == item), None)
    return following is not None and following.kind == "unblocked"


def blocked_as_they_should(events: Iterable[Event]) -> list[str]:
    """Over the whole feed, in its order."""
    events = list(events)
    known = {event.item for event in events}
    needs: dict[str, tuple[str, ...]] = {}
    status: dict[str, str] = {}
    found = []
    for at, event in enumerate(events):
        if event.kind in ("added", "edited") and "depends_on" in event.data:
            needs[event.item] = tuple(event.data["depends_on"])
        moved = status.get(event.item) != event.status or event.kind == "edited"
        status[event.item] = event.status
        asked = needs.get(event.item, ())
        if not moved or event.status not in LOOKS or not known.issuperset(asked):
            continue  # one that is gone was done when it was pruned, but nobody can say since when
        open_ones = [one for one in asked if status.get(one) != "done"]
        if event.status == "blocked" and not open_ones and _is_unblocked_next(event.item, events[at + 1 :]):
            continue  # an edit, say, that did not yet see the end of the last of them
        if (event.status == "blocked") != bool(open_ones):
            found.append(f"{event.item}: event {event.number} leads to {event.status}, open are {open_ones}")
    return found


def blocked_now(items: Sequence[Item]) -> list[str]:
    """An item that rests is blocked iff something it depends on is there and not done."""
    by_id = {item.id: item for item in items}
    found = []
    for item in items:
        open_ones = [one for one in item.depends_on if one in by_id and by_id[one].status != "done"]
        # A file of a vault may name what is not there yet, and waits for it.
        may_wait = item.status == "blocked" and any(one not in by_id for one in item.depends_on)
        if item.status in LOOKS and (item.status == "blocked") != bool(open_ones) and not may_wait:
            found.append(f"{item.id} is {item.status} and waits for {open_ones}")
        if (item.status == "pending_approval") != item.needs_approval and item.status not in (*ENDED, "parked"):
            found.append(f"{item.id} is {item.status}, its need of approval is {item.needs_approval}")
    return [*found, *_circles(by_id)]


def queues_fit(board: Board, item: Item, waiters: Sequence[Ticket]) -> list[str]:
    """Offers are of ready items, to whoever has a ticket; nobody waits for what is free or over."""
    found = []
    if (item.offered_to is None) != (item.offer_expires_at is None):
        found.append(f"{item.id} is offered to {item.offered_to} until {item.offer_expires_at}")
    if item.offered_to is not None:
        if item.status != "ready":
            found.append(f"{item.id} is {item.status} and offered to {item.offered_to}")
        found += _has_ticket(board, item.id, item.offered_to)
    if waiters and item.status in ENDED:
        found.append(f"{item.id} is {item.status} and {waiters[0].session} waits for it")
    if waiters and item.status == "ready" and item.offered_to is None:
        found.append(f"{item.id} is free and {waiters[0].session} waits for it")
    sessions = [ticket.session for ticket in waiters]
    if len(set(sessions)) != len(sessions):
        found.append(f"{item.id}: one session waits twice: {sessions}")
    return found


def resources_apart(holdings: Iterable[Holding]) -> list[str]:
    """Live claims of different sessions in one project touch nothing in common."""
    live = [line for line in holdings if line.claim is not None and line.item.resources]
    return [
        f"{one.item.id} and {other.item.id} both hold {shared}"
        for one, other in combinations(live, 2)
        if one.claim and other.claim and one.claim.session != other.claim.session
        if one.item.project == other.item.project
        for shared in _in_common(one.item.resources, other.item.resources)
    ]


def floors_hold(board: Board, floors: Mapping[str, int], events: Sequence[Event]) -> list[str]:
    """New items begin at the token floor, which only rises; a cursor below the event floor is refused."""
    begun = [(event.item, event.token) for event in events if event.kind == "added"]
    found = [
        f"{late} begins at token {token}, after {early} began at {before}"
        for (early, before), (late, token) in pairwise(begun)
        if token < before
    ]
    found += [f"{id} begins at token {token}, above the floor" for id, token in begun if token > floors["token_floor"]]
    if floors["event_floor"] > 0:
        try:
            board.events(after=floors["event_floor"] - 1, limit=1)
            found.append(f"a cursor below the event floor {floors['event_floor']} is accepted")
        except Invalid:
            pass
    return found


def _has_ticket(board: Board, item: str, session: str) -> list[str]:
    try:
        ticket = board.ticket(item, session=session).ticket
    except DibsError as refusal:
        return [f"{item} is offered to {session}: {refusal.message}"]
    return [] if ticket.closed_at is None else [f"{item} is offered to {session}, whose ticket is closed"]


def _circles(by_id: Mapping[str, Item]) -> list[str]:
    """Items that depend on themselves, found by taking away what depends on nothing that is left."""
    left = {id: {one for one in item.depends_on if one in by_id} for id, item in by_id.items()}
    while free := [id for id, needs in left.items() if not needs & left.keys()]:
        for id in free:
            del left[id]
    return [f"{', '.join(sorted(left))} depend on each other in a circle"] if left else []


def _in_common(mine: Iterable[str], theirs: Iterable[str]) -> list[str]:
    """A key touches its equal; a path touches itself, what is above it and what is below it."""
    return [one for one in mine for other in theirs if _touch(_parts(one), _parts(other))]


def _parts(resource: str) -> tuple[str, ...]:
    if ":" in resource.partition("/")[0]:
        return ("a key", resource)
    return ("a path", *(part for part in resource.split("/") if part not in ("", ".")))


def _touch(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    shorter = min(len(one), len(other))
    return one[:shorter] == other[:shorter]
