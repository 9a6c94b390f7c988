"""Items as a claim at this instant would find them, for reads.

Since the rows were written, a claim may have expired, a schedule come, an offer lapsed, or an owner process died. The
verb `claim` records such changes first; a read writes nothing, so it applies the same rules to the outdated rows in
memory.
"""

from __future__ import annotations

from dibs.rules import fencing
from dibs.rules.ending import OWNER_DIED
from dibs.rules.overdue import effective_state
from dibs.rules.refusals import item_not_found
from dibs.store.sql.rows import blocker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from dibs.model import Claim, Run, Ticket
    from dibs.rules.decision import State
    from dibs.store.sql.transaction import Transaction


class Projection:
    """Items as stored (`stored`) and as a claim would find them (`states`); `dead` are the sessions that
    end because their owners, or those of their ancestors, are dead; with the end reason of each."""

    def __init__(self, t: Transaction, stored: dict[str, State], dead: Mapping[str, str]) -> None:
        self._now = t.now
        self.dead = dead
        self.stored = stored
        self.states: dict[str, State] = {}
        #: Tickets that are open in their rows and closed in the projection, by id.
        self.closed: dict[int, Ticket] = {}
        for id, state in stored.items():
            self.states[id], closed = effective_state(t.now, state, dead, t.settings)
            self.closed |= {ticket.id: ticket for ticket in closed}

    def run(self, run: Run) -> Run:
        """The run as projected: ended if its claim has."""
        state = self.states.get(run.item)
        return run if state is None or state.run is None or state.run.token != run.token else state.run

    def changes(self) -> Iterator[tuple[State, State]]:
        """The stored and the projected state of each item where they differ."""
        for id, state in self.states.items():
            if state != self.stored[id]:
                yield self.stored[id], state

    def ended_claims(self) -> list[Claim]:
        """Unexpired claims that ended because their owner processes are dead."""
        return [
            before.claim
            for before, after in self.changes()
            if before.claim is not None and after.claim is None and fencing.live(before.claim, self._now)
        ]

    def ended_runs(self) -> list[Run]:
        """Runs that have ended but are open in their rows."""
        return [
            after.run
            for before, after in self.changes()
            if before.claim is not None and after.claim is None and after.run is not None
        ]

    def closed_tickets(self) -> list[Ticket]:
        """Unexpired tickets that the projection closed."""
        return [ticket for ticket in self.closed.values() if ticket.expires_at > self._now]


def of_board(t: Transaction, *, after_deaths: bool = True) -> Projection:
    """Every item whose rows are outdated; without `after_deaths`, by time alone."""
    dead = dead_sessions(t) if after_deaths else {}
    outdated = {id for (id,) in t.all("overdue_items", now=t.now)}
    if dead:
        from dibs.text import json_text

        outdated.update(id for (id,) in t.all("items_around_sessions", sessions=json_text.dumps(sorted(dead))))
    return Projection(t, t.states(sorted(outdated)), dead)


def of_item(t: Transaction, item: str) -> Projection:
    """One item and its open dependencies, whose statuses its blockers show."""
    stored = t.states([item])
    if item not in stored:
        raise item_not_found(item)
    stored |= t.states(blocker.item for blocker in stored[item].blockers)
    concerned = {state.claim.session for state in stored.values() if state.claim is not None}
    concerned |= {ticket.session for state in stored.values() for ticket in state.tickets}
    projected = Projection(t, stored, dead_sessions(t, among=concerned) if concerned else {})
    state = projected.states[item]
    statuses = {id: one.item.status for id, one in projected.states.items()}
    blockers = tuple(blocker(one.item, statuses.get(one.item, one.status)) for one in state.blockers)
    projected.states[item] = state.replace(blockers=blockers)
    return projected


def dead_sessions(t: Transaction, among: Iterable[str] | None = None) -> dict[str, str]:
    """The sessions, of `among` and their ancestors, whose owners are dead, and all their descendants."""
    dead = t.dead_owners(among)
    if not dead:
        return {}
    from dibs.store.sql.session_verbs import end_reason, live_descendants

    owners = {owner for _, owner in dead}
    ended = {session: OWNER_DIED for session, _ in dead}
    for one in live_descendants(t, list(ended)):
        ended.setdefault(one.id, end_reason(one, owners))
    return ended
