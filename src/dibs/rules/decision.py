"""The shape of every decision: steps to write, and an answer or a refusal.

A step is one transition of one item, and each step carries exactly one event, so history cannot be forgotten: a
store that writes steps writes the history. A refusal may come with steps: a claim that finds the old claim expired
records the expiry even if it then has to say no.
"""

from __future__ import annotations

from dibs.errors import DibsError
from dibs.model import Activity, Claim, Event, Item, Run
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class State(Value):
    """An item as the store has it: its row, the row of its claim (live or lapsed), and its latest run."""

    item: Item
    claim: Claim | None
    run: Run | None


class Step(Value):
    """One transition: the item after it, the claim after it, the run it opened or changed, the event that tells it."""

    item: Item
    claim: Claim | None
    run: Run | None
    event: Event

    def state(self) -> State:
        return State(item=self.item, claim=self.claim, run=self.run)


class Decision(Value):
    """What to write, then what to say. `renewed` are claims that go on with new times and no event."""

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
    session: str | None = None,
    agent: str | None = None,
    data: dict[str, Any] | None = None,
    **changes: Any,
) -> Step:
    """The step that brings `state` into `status`, with its event numbered after the item's last one."""
    old = state.item
    number = old.revision + 1
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
    return Step(item=item, claim=claim, run=run, event=event)
