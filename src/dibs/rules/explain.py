"""`why`: every reason that keeps an item from a session now, or why `claim` and `next` would give it."""

from __future__ import annotations

from dibs.model import PARKED, Reason
from dibs.rules.claiming import Claimant, reasons, wanted_types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.rules.decision import State


def why(now: int, state: State, claimant: Claimant, ahead: int, *, owner_died: bool = False) -> tuple[Reason, ...]:
    """`ahead` counts the items that `next` would choose before this one. `owner_died`: the item is free because the
    owner process of its last holder is dead, which is not recorded yet."""
    item, agent = state.item, claimant.agent
    if state.claim is not None and state.claim.session == claimant.session.id:
        return (Reason(code="OWN", text=f"this session holds it, under token {state.claim.token}", claimable=True),)
    against = [Reason(code=error.code, text=error.message) for error in reasons(now, state, claimant)]
    if against:
        return tuple(against)
    for_it = [Reason(code="CLAIMABLE", text=f"it is {item.status}: `claim` would give it to you", claimable=True)]
    types = wanted_types(agent, ())
    if item.offered_to == claimant.session.id:
        for_it.append(Reason(code="OFFERED", text="it is offered to this session: claim it now", claimable=True))
    elif item.status == PARKED:
        for_it.append(Reason(code="PARKED", text="it is parked: `next` skips it, a claim by id takes it"))
    elif types is not None and item.type not in types:
        for_it.append(Reason(code="TYPE", text=f"{agent.name} takes {', '.join(types)}: `next` skips a {item.type}"))
    elif owner_died:
        text = "its last holder's process is dead: a claim by id gives it to you, `next` when there is nothing else"
        for_it.append(Reason(code="OWNER_DIED", text=text, claimable=True))
    elif ahead:
        text = f"`next` would choose {ahead} other{'s' if ahead > 1 else ''} first, of higher priority or older"
        for_it.append(Reason(code="BEHIND", text=text, claimable=True))
    else:
        text = f"`next` would choose it: priority {item.priority}, and nothing older at that priority"
        for_it.append(Reason(code="NEXT", text=text, claimable=True))
    return tuple(for_it)
