"""Items as a claim at this instant would find them, for reads.

Rows say what was last recorded. Since then a claim may have expired, a schedule come, an offer lapsed, an owner process
died; whoever claims records that first, and a read does not write. So a read applies the same rules to the rows that
are overtaken and answers with the result. `stored` is what the rows say, `states` is what a claim would find.
"""

from __future__ import annotations

from dibs.errors import ItemNotFound
from dibs.rules import fencing
from dibs.rules.overdue import present
from dibs.store.sql.transaction import blocker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from dibs.model import Claim, Item, Run, Ticket
    from dibs.rules.decision import State
    from dibs.store.contract import FindDead
    from dibs.store.sql.transaction import Transaction


class Projection:
    """Some items of a board, with the sessions whose owner processes are dead."""

    def __init__(self, t: Transaction, stored: dict[str, State], dead: Collection[str]) -> None:
        self._now = t.now
        self.dead = dead
        self.stored = stored
        self.states: dict[str, State] = {}
        #: Tickets that the rows say are open, by id, as they were closed.
        self.closed: dict[int, Ticket] = {}
        for id, state in stored.items():
            self.states[id], closed = present(t.now, state, dead, t.settings)
            self.closed |= {ticket.id: ticket for ticket in closed}

    def item(self, item: Item) -> Item:
        state = self.states.get(item.id)
        return item if state is None else state.item

    def run(self, run: Run) -> Run:
        """The run, over if its claim is."""
        state = self.states.get(run.item)
        return run if state is None or state.run is None or state.run.token != run.token else state.run

    def changes(self) -> Iterator[tuple[State, State]]:
        """Of each item that is not as its rows say: the state they say, and the state it is in."""
        for id, state in self.states.items():
            if state != self.stored[id]:
                yield self.stored[id], state

    def ended_claims(self) -> list[Claim]:
        """Claims whose time is not up, and that ended because their owner processes are dead."""
        return [
            before.claim
            for before, after in self.changes()
            if before.claim is not None and after.claim is None and fencing.live(before.claim, self._now)
        ]

    def ended_runs(self) -> list[Run]:
        """Runs that the rows say are going on, as they ended."""
        return [
            after.run
            for before, after in self.changes()
            if before.claim is not None and after.claim is None and after.run is not None
        ]

    def closed_tickets(self) -> list[Ticket]:
        """Tickets that were renewed in time and are closed all the same."""
        return [ticket for ticket in self.closed.values() if ticket.expires_at > self._now]


def of_board(t: Transaction, find_dead: FindDead) -> Projection:
    """Every item whose rows are overtaken."""
    dead = dead_sessions(t, find_dead)
    overtaken = {id for (id,) in t.all("overdue_items", now=t.now)}
    if dead:
        from dibs.text import json_text

        overtaken.update(id for (id,) in t.all("items_around_sessions", sessions=json_text.dumps(sorted(dead))))
    return Projection(t, t.states(sorted(overtaken)), dead)


def of_item(t: Transaction, item: str, find_dead: FindDead) -> Projection:
    """One item and what it waits for, whose statuses its blockers name."""
    stored = t.states([item])
    if item not in stored:
        raise ItemNotFound(f"there is no item {item}", item=item)
    stored |= t.states(blocker.item for blocker in stored[item].blockers)
    concerned = {state.claim.session for state in stored.values() if state.claim is not None}
    concerned |= {ticket.session for state in stored.values() for ticket in state.tickets}
    projected = Projection(t, stored, dead_sessions(t, find_dead, among=concerned) if concerned else ())
    state = projected.states[item]
    there = {id: one.item.status for id, one in projected.states.items()}
    blockers = tuple(blocker(one.item, there.get(one.item, one.status)) for one in state.blockers)
    projected.states[item] = state.replace(blockers=blockers)
    return projected


def dead_sessions(t: Transaction, find_dead: FindDead, among: Iterable[str] | None = None) -> frozenset[str]:
    dead = find_dead(lambda boot_id, pid_namespace: t.owners(boot_id, pid_namespace, among))
    return frozenset(session for session, _ in dead)
