"""Is the board sound? What `dibs doctor` looks at, and what to do about each finding.

It reads only. Damage of the store comes first, then what waits for a sweep, then every item: its history folded must
give the stored item, without a gap in the numbering, and no run may be open that nobody holds.
"""

from __future__ import annotations

from dibs import check, owner
from dibs.model import IN_PROGRESS
from dibs.rules.fold import fold
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from dibs.board import Board

SWEEP = "dibs sweep"
#: An item that changes under the look at it is looked at again, so often at most.
LOOKS_MAX = 5


class Finding(Value):
    """Something that is not as it should be, and what to do about it."""

    item: str | None
    what: str
    advice: str


def examine(board: Board) -> Iterator[Finding]:
    """Every finding about this board, as they are found."""
    for sentence in board.store.check():
        yield Finding(item=None, what=sentence, advice="keep a copy of the board's file, then restore a backup")
    yield from _waiting_for_a_sweep(board)
    items = board.list(limit=check.LIST_MAX)
    for item in items:
        yield from _item_findings(board, item.id)
    if len(items) == check.LIST_MAX:
        yield Finding(
            item=None,
            what=f"the board has more than {check.LIST_MAX} items; the rest was not looked at",
            advice="cut off what is old",
        )


def _waiting_for_a_sweep(board: Board) -> Iterator[Finding]:
    for holding in board.who():
        if holding.claim is None:
            what = f"{holding.item.id} is in progress and nobody holds it: its claim has expired"
            yield Finding(item=holding.item.id, what=what, advice=SWEEP)
    here = owner.namespace()
    if here is not None:
        for session, process in owner.find_dead(board.store.owners(boot_id=here[0], pid_namespace=here[1])):
            what = f"session {session} holds items, and the process {process.pid} that owned it is dead"
            yield Finding(item=None, what=what, advice=SWEEP)


def _item_findings(board: Board, item: str) -> list[Finding]:
    """What is wrong with one item. Row and history are read one after the other; a change between them is ruled out."""
    found: list[Finding] = []
    for _ in range(LOOKS_MAX):
        detail = board.get(item)
        events = board.log(item)
        now = detail.item
        found = []
        if [event.number for event in events] != list(range(1, now.revision + 1)):
            found.append(
                _damaged(item, f"the history of {item} has a gap: its events do not count up to {now.revision}")
            )
        elif (told := fold(events)) is not None and told != now:
            wrong = ", ".join(name for name in now._fields if getattr(told, name) != getattr(now, name))
            found.append(_damaged(item, f"{item} is not what its history tells: {wrong}"))
        open_runs = [run.token for run in detail.runs if run.outcome is None]
        if open_runs and now.status != IN_PROGRESS:
            found.append(_damaged(item, f"{item} is {now.status}, and its run under token {open_runs[0]} never ended"))
        if not found or board.get(item).item.revision == now.revision:
            break
    return found


def _damaged(item: str, what: str) -> Finding:
    return Finding(item=item, what=what, advice="keep a copy of the board's file, then restore a backup")
