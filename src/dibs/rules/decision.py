"""The shape of every decision: steps to write, and an answer or a refusal.

A step is one transition of one item, and each step carries exactly one event, so history cannot be forgotten: a
store that writes steps writes the history. A refusal may come with steps: a claim that finds the old claim expired
records the expiry even if it then has to say no.
"""

from __future__ import annotations

from dibs.errors import DibsError
from dibs.model import READY, Activity, Blocker, Claim, Event, Item, Run, Ticket
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


#: Who acts when the board itself does.
BOARD = "dibs"


class State(Value):
    """An item as the store has it: its row, the row of its claim (live or lapsed), its latest run, the dependencies
    that are not done, and its open tickets in order."""

    item: Item
    claim: Claim | None = None
    run: Run | None = None
    blockers: tuple[Blocker, ...] = ()
    tickets: tuple[Ticket, ...] = ()


class Step(Value):
    """One transition: the item and the claim after it, the run it opened or ended, the tickets it closed, the event
    that tells it."""

    item: Item
    claim: Claim | None
    run: Run | None
    event: Event
    closed: tuple[Ticket, ...] = ()

    def after(self, state: State) -> State:
        """The state that the step makes of the one it was decided on."""
        gone = {ticket.id for ticket in self.closed}
        tickets = tuple(ticket for ticket in state.tickets if ticket.id not in gone)
        # An annotation may be of a run before the latest.
        is_latest = self.run is not None and (state.run is None or self.run.token >= state.run.token)
        return state.replace(
            item=self.item, claim=self.claim, run=self.run if is_latest else state.run, tickets=tickets
        )


class Decision(Value):
    """What to write, then what to say. `renewed` is a claim that goes on with new times and no event."""

    steps: tuple[Step, ...] = ()
    renewed: Claim | None = None
    refusal: DibsError | None = None
    activity: Activity | None = None


#: What of an item's state, beside status, token and attempts, an event may change; the event's data hold the new value.
TOLD = (
    "strikes",
    "failures",
    "not_before",
    "needs_approval",
    "approved",
    "offered_to",
    "offer_expires_at",
)


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
    """The step that brings `state` into `status`, with its event numbered after the item's last one.

    What leaves `ready` is no longer offered to anybody.
    """
    old = state.item
    number = old.revision + 1
    if status != READY and old.offered_to is not None:
        changes = {**changes, "offered_to": None, "offer_expires_at": None}
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
        data={**(data or {}), **{name: changes[name] for name in TOLD if name in changes}},
    )
    return Step(item=item, claim=claim, run=run, event=event, closed=closed)
