"""`why`: in one line per reason, why an item cannot be claimed by me now, or why `next` would choose it."""

from __future__ import annotations

from dibs.model import PARKED, Reason
from dibs.rules.claiming import Asker, reasons, wanted_types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.rules.decision import State


def why(now: int, state: State, asker: Asker, ahead: int, *, owner_died: bool = False) -> tuple[Reason, ...]:
    """Every reason against, or the one line for; `ahead` counts the items that `next` would choose before this one.
    `owner_died`: the item is free because the process of its last holder is dead, which nobody has recorded yet."""
    item, agent = state.item, asker.agent
    if state.claim is not None and state.claim.session == asker.session.id:
        return (Reason(code="OWN", text=f"this session holds it, under token {state.claim.token}", claimable=True),)
    against = [Reason(code=error.code, text=error.message) for error in reasons(now, state, asker)]
    if against:
        return tuple(against)
    for_it = [Reason(code="CLAIMABLE", text=f"it is {item.status}: `claim` would give it to you", claimable=True)]
    types = wanted_types(agent, ())
    if item.offered_to == asker.session.id:
        for_it.append(Reason(code="OFFERED", text="it is kept for this session: claim it now", claimable=True))
    elif item.status == PARKED:
        for_it.append(Reason(code="PARKED", text="it is parked: `next` does not hand it out, a claim by id does"))
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
