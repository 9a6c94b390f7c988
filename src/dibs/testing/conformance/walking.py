"""An item on its way through the statuses: how it gets into each, and how each verb is done to it."""

from __future__ import annotations

import subprocess

from dibs.model import (
    BLOCKED,
    CANCELLED,
    DONE,
    FAILED,
    IN_PROGRESS,
    PARKED,
    PENDING_APPROVAL,
    READY,
    REJECTED,
    SCHEDULED,
)
from dibs.testing.conformance.asking import TTL_SECONDS, added, expire, session
from dibs.testing.harness import Harness

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Self

    from dibs.board import Board

#: A schedule of the walk comes later than its claims end.
LATER_SECONDS = 2 * TTL_SECONDS


class Subject:
    """An item on its way: its id, who holds or held it, a process that owns that session, and what it may wait for."""

    def __init__(self, harness: Harness, board: Board, id: str, **fields: Any) -> None:
        self.harness, self.board, self.id = harness, board, id
        self.owner = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
        self.holder = session(self.board, "holder", owner_pid=self.owner.pid)
        self.first = f"{id}-first"
        added(self.board, self.first)
        added(self.board, id, **fields)

    def claim(self) -> None:
        self.board.claim(self.id, session=self.holder, ttl_seconds=TTL_SECONDS)

    def depend(self) -> bool:
        self.board.edit(self.id, depends_on=[self.first])
        return True

    def postpone(self) -> bool:
        self.board.edit(self.id, not_before=self.harness.clock.now() + round(LATER_SECONDS * 1000))
        return True

    def settle(self) -> object:
        """Whatever it may wait for happens, as far as time and others can bring it about. A ready item waits again for
        something that was done."""
        is_ready = self.board.get(self.id).item.status == READY
        if self.board.get(self.first).item.status == READY:
            other = session(self.board, "other")
            self.board.claim(self.first, session=other)
            self.board.done(self.first, session=other)
        if is_ready:
            self.depend()
            return self.board.reopen(self.first)
        scheduled = self.board.get(self.id).item.not_before is not None
        self.harness.clock.advance(LATER_SECONDS + 1 if scheduled else TTL_SECONDS / 2)
        return self.board.sweep()

    def expire(self) -> object:
        expire(self.harness)
        return self.board.sweep()

    def let_owner_die(self) -> object:
        self.owner.kill()
        self.owner.wait()
        return self.board.sweep()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.owner.kill()
        self.owner.wait()
        if self.owner.stdin:
            self.owner.stdin.close()
        # Otherwise every later read of the walk would find this owner dead again.
        self.board.sweep()


#: How each verb is done to an item, in the way most likely to succeed; the first word is the table's.
VERBS: dict[str, Callable[[Subject], object]] = {
    "settle": Subject.settle,
    "edit": lambda it: it.board.edit(it.id, priority=7),
    "claim": lambda it: it.board.claim(it.id, session=session(it.board, "other")),
    "release": lambda it: it.board.release(it.id, session=it.holder),
    "release and park": lambda it: it.board.release(it.id, session=it.holder, park=True),
    "hand": lambda it: it.board.hand(it.id, to=session(it.board, "other"), session=it.holder),
    "expire": Subject.expire,
    "owner_died": Subject.let_owner_die,
    "force_release": lambda it: it.board.force_release(it.id, reason="walk"),
    "done": lambda it: it.board.done(it.id, session=it.holder),
    "fail": lambda it: it.board.fail(it.id, session=it.holder),
    "submit": lambda it: it.board.submit(it.id, session=it.holder, draft="so"),
    "reject by its holder": lambda it: it.board.reject(it.id, reason="no", session=it.holder),
    "reject by a person": lambda it: it.board.reject(it.id, reason="no"),
    "approve": lambda it: it.board.approve(it.id),
    "approve as done": lambda it: it.board.approve(it.id, done=True),
    "send_back": lambda it: it.board.send_back(it.id, comment="shorter"),
    "park": lambda it: it.board.park(it.id),
    "unpark": lambda it: it.board.unpark(it.id),
    "retry": lambda it: it.board.retry(it.id),
    "reopen": lambda it: it.board.reopen(it.id),
    "cancel": lambda it: it.board.cancel(it.id),
}
#: What asks nobody.
TIMELY = ("settle", "expire", "owner_died")
#: Where a way of doing a verb is legal, if that is not everywhere the table's verb is.
AWAY = {"reject by its holder": (IN_PROGRESS,), "reject by a person": (PENDING_APPROVAL,)}
#: Verbs that let go of an item without ending it.
BACK = ("release", "expire", "owner_died", "force_release", "fail")
#: What makes an item rest there, as soon as nobody holds it; False where that cannot be.
REACHES: dict[str, Callable[[Subject], bool]] = {
    PENDING_APPROVAL: lambda it: False,
    BLOCKED: Subject.depend,
    SCHEDULED: Subject.postpone,
    READY: lambda it: True,
}
#: How an item gets into each status, through a claim where there can be one.
WAYS: dict[str, tuple[Callable[[Subject], object], ...]] = {
    PENDING_APPROVAL: (Subject.claim, VERBS["submit"]),
    BLOCKED: (Subject.depend,),
    SCHEDULED: (Subject.postpone,),
    READY: (),
    IN_PROGRESS: (Subject.claim,),
    PARKED: (Subject.claim, VERBS["release and park"]),
    DONE: (Subject.claim, VERBS["done"]),
    FAILED: (Subject.claim, VERBS["fail"]),
    REJECTED: (Subject.claim, VERBS["reject by its holder"]),
    CANCELLED: (Subject.claim, VERBS["cancel"]),
}


def bring(subject: Subject, status: str) -> None:
    for step in WAYS[status]:
        step(subject)
    assert subject.board.get(subject.id).item.status == status
