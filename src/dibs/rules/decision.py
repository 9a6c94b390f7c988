"""The shape of every decision: steps to write, then an answer or a refusal.

A step is one transition of one item and carries exactly one event, so a store that writes steps writes the history.
A refusal may come with steps: a claim that finds the previous claim expired records the expiry even if it is refused.
"""

from __future__ import annotations

from dibs.errors import DibsError
from dibs.model import READY, Activity, Blocker, Claim, Event, Item, Run, Ticket
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: The actor of an event that no caller asked for, such as an expiry.
BOARD = "dibs"
#: The fields of an item, besides status, token and attempts, that an event can change; its data hold the new values.
EVENT_FIELDS = (
    "strikes",
    "failures",
    "not_before",
    "needs_approval",
    "approved",
    "offered_to",
    "offer_expires_at",
)


class State(Value):
    """An item as stored: its row, its claim (live or expired), its latest run, the dependencies that are not done, and
    its open tickets in order."""

    item: Item
    claim: Claim | None = None
    run: Run | None = None
    blockers: tuple[Blocker, ...] = ()
    tickets: tuple[Ticket, ...] = ()


class Step(Value):
    """One transition: the item and its claim after it, the run it opened or ended, the tickets it closed, its event."""

    item: Item
    claim: Claim | None
    run: Run | None
    event: Event
    closed: tuple[Ticket, ...] = ()

    def after(self, state: State) -> State:
        """The state after this step, which was decided on `state`."""
        closed = {ticket.id for ticket in self.closed}
        tickets = tuple(ticket for ticket in state.tickets if ticket.id not in closed)
        # An annotation may concern an earlier run than the latest.
        is_latest = self.run is not None and (state.run is None or self.run.token >= state.run.token)
        return state.replace(
            item=self.item, claim=self.claim, run=self.run if is_latest else state.run, tickets=tickets
        )


class Decision(Value):
    """The steps to write, then the answer. `renewed` is a claim that continues with new times and without an event."""

    steps: tuple[Step, ...] = ()
    renewed: Claim | None = None
    refusal: DibsError | None = None
    activity: Activity | None = None


def step(
    state: State,
    *,
    kind: str,
    at: int,
    status: str,
    actor: str,
    claim: Claim | None = None,
    run: Run | None = None,
    closed: tuple[Ticket, ...] = (),
    session: str | None = None,
    agent: str | None = None,
    data: dict[str, Any] | None = None,
    **changes: Any,
) -> Step:
    """The step from `state` into `status`; its event has the number after the item's last one.

    An item that leaves `ready` loses its offer.
    """
    old = state.item
    number = old.revision + 1
    if status != READY and old.offered_to is not None:
        changes = {**changes, "offered_to": None, "offer_expires_at": None}
    if changes:
        data = {**(data or {}), **{name: changes[name] for name in EVENT_FIELDS if name in changes}}
    item = old.replace(status=status, updated_at=at, revision=number, **changes)
    event = Event(
        item=item.id,
        number=number,
        kind=kind,
        at=at,
        status=status,
        token=item.token,
        actor=actor,
        session=session,
        agent=agent,
        data=data or {},
    )
    return Step(item=item, claim=claim, run=run, event=event, closed=closed)
