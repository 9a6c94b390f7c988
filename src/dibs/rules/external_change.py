"""An item that is found in another state than it was left in: a person moved its file, and no verb says that.

Only a store whose items can be changed behind its back has such a thing. The place is what counts: the item is taken
to be where it was found, and the event says who is held to have put it there. What somebody holds is not found: its
claim is ended by a verb first.
"""

from __future__ import annotations

from dibs.model import PENDING_APPROVAL
from dibs.rules.decision import State, Step, step
from dibs.rules.resting import rest
from dibs.rules.table import RESTING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: What a find may tell of an item beside its status and its token.
FOUND = ("attempts", "strikes", "failures", "needs_approval", "approved")


def found(
    now: int,
    state: State,
    *,
    status: str,
    actor: str,
    token: int | None = None,
    runs: tuple[int, ...] = (),
    void_from: int | None = None,
    **changes: Any,
) -> Step | None:
    """The item as it was found; None if that is how it was known. A token only rises: one that was seen is spent.

    `runs` are the tokens of those that it had before anybody here knew of it. With `void_from`, tokens from there on
    were given by a clone and never confirmed by its hub: they are void, and the item goes on from the one before.
    """
    assert state.claim is None, "what is held has a holder, and is not found"
    item = state.item
    if status in RESTING:
        needs = status == PENDING_APPROVAL or changes.get("needs_approval", False)
        changes["needs_approval"] = needs
        status = rest(item.replace(needs_approval=needs), now, blocked=bool(state.blockers))
    changes["token"] = max(item.token, item.token if token is None else token) if void_from is None else void_from - 1
    real = {name: value for name, value in changes.items() if getattr(item, name) != value}
    if not real and status == item.status and not runs and void_from is None:
        return None
    data: dict[str, Any] = {"attempts": real["attempts"]} if "attempts" in real else {}
    if runs:
        data["runs"] = list(runs)
    if void_from is not None:
        data["void_from"] = void_from
    return step(state, kind="found", at=now, status=status, actor=actor, data=data, **real)
