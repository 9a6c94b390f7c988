"""What a person can do to an item, under the same keys on every screen.

In which statuses a verb is allowed is said by `table.TRANSITIONS`, and which role it needs by `dibs.verbs`. An action
says only where it is offered to fewer.
"""

from __future__ import annotations

from dibs.model import ADMIN, IN_PROGRESS, PENDING_APPROVAL
from dibs.rules.table import TRANSITIONS
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from dibs.model import Item
    from dibs.model.dashboard import Brief


class Action(Value):
    """`role` is the least that it is offered to, if the verb alone needs less. `asks` is the parameter that the person
    fills in, with the question. `reads` are the parameters that say what was read. An action that `confirms` takes
    something away. One that `needs_draft` is about the draft of an item, not about its plan."""

    key: str
    verb: str
    label: str
    never_in: tuple[str, ...] = ()
    role: str | None = None
    asks: tuple[str, str] | None = None
    reads: tuple[str, ...] = ()
    args: dict[str, Any] = {}
    confirms: bool = False
    needs_draft: bool = False

    @property
    def statuses(self) -> tuple[str, ...]:
        """The statuses in which it is offered."""
        return tuple(status for status in TRANSITIONS[self.verb] if status not in self.never_in)

    def fits(self, item: Brief | Item) -> bool:
        return item.status in self.statuses and (item.token > 0 or not self.needs_draft)


def _action(key: str, verb: str, label: str, **more: Any) -> Action:
    return Action(key=key, verb=verb, label=label, **more)


_DRAFT, _REVISION, _TOKEN = ("revision", "token"), ("revision",), ("token",)
_DIFFERENT = ("comment", "What should be different?")
_REJECTED, _TAKEN = ("reason", "Why is it rejected?"), ("reason", "Why is the claim taken away?")
ACTIONS = (
    _action("a", "approve", "approve", reads=_DRAFT),
    _action("A", "approve", "approve as done", reads=_DRAFT, args={"done": True}, needs_draft=True),
    _action("b", "send_back", "send back", reads=_REVISION, asks=_DIFFERENT),
    # An agent rejects what it holds; about a draft, only an admin decides.
    _action("R", "reject", "reject", reads=_REVISION, asks=_REJECTED, never_in=(IN_PROGRESS,), role=ADMIN),
    _action("r", "retry", "retry"),
    _action("r", "reopen", "reopen", confirms=True),
    # What waits for approval is approved, sent back or rejected.
    _action("p", "park", "park", never_in=(PENDING_APPROVAL,)),
    _action("p", "unpark", "unpark"),
    _action("F", "force_release", "force-release", reads=_TOKEN, asks=_TAKEN),
    _action("c", "cancel", "cancel", confirms=True),
)


def by_key() -> dict[str, list[Action]]:
    """The actions of each key. No two of them fit one item."""
    return {one.key: [other for other in ACTIONS if other.key == one.key] for one in ACTIONS}
