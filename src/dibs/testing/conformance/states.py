"""States: every verb over every status, against the transition table: legal ones lead where it says, and nothing else
happens. A verb the table knows and this walk does not is a failure: the walk has to grow with the table.
"""

from __future__ import annotations

import subprocess

from dibs.errors import DibsError
from dibs.model import CANCELLED, DONE, FAILED, IN_PROGRESS, READY, STATUSES
from dibs.rules.table import TRANSITIONS
from dibs.testing.conformance.asking import TTL_SECONDS, added, expire, session, whole
from dibs.testing.harness import Harness

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Self

    from dibs.board import Board


class Subject:
    """An item on its way: its id, who holds or held it, and a process that owns that session."""

    def __init__(self, harness: Harness, id: str) -> None:
        self.harness, self.id = harness, id
        self.board: Board = harness.board()
        self.owner = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
        self.holder = session(self.board, "holder", owner_pid=self.owner.pid)
        added(self.board, id)

    def claim(self) -> None:
        self.board.claim(self.id, session=self.holder, ttl_seconds=TTL_SECONDS)

    def let_owner_die(self) -> None:
        self.owner.kill()
        self.owner.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.let_owner_die()
        if self.owner.stdin:
            self.owner.stdin.close()


def _expire(subject: Subject) -> object:
    expire(subject.harness)
    return subject.board.sweep()


def _owner_died(subject: Subject) -> object:
    subject.let_owner_die()
    return subject.board.sweep()


#: How each verb is done to an item, in the way most likely to succeed.
VERBS: dict[str, Callable[[Subject], object]] = {
    "claim": lambda it: it.board.claim(it.id, session=session(it.board, "other")),
    "release": lambda it: it.board.release(it.id, session=it.holder),
    "expire": _expire,
    "owner_died": _owner_died,
    "force_release": lambda it: it.board.force_release(it.id, reason="walk"),
    "done": lambda it: it.board.done(it.id, session=it.holder),
    "fail": lambda it: it.board.fail(it.id, session=it.holder),
    "retry": lambda it: it.board.retry(it.id),
    "cancel": lambda it: it.board.cancel(it.id),
}
#: How an item gets into each status, through a claim where there can be one.
WAYS: dict[str, tuple[str, ...]] = {
    READY: (),
    IN_PROGRESS: ("take",),
    DONE: ("take", "done"),
    FAILED: ("take", "fail"),
    CANCELLED: ("take", "cancel"),
}


def bring(subject: Subject, status: str) -> None:
    for verb in WAYS[status]:
        subject.claim() if verb == "take" else VERBS[verb](subject)
    assert subject.board.get(subject.id).item.status == status


def attempt(subject: Subject, verb: str) -> DibsError | None:
    try:
        VERBS[verb](subject)
    except DibsError as refusal:
        return refusal
    return None


class TestStates:
    def test_the_walk_knows_every_verb_and_status_of_the_table(self, harness: Harness) -> None:
        assert set(VERBS) == set(TRANSITIONS)
        assert set(WAYS) == set(STATUSES)

    def test_every_legal_transition_leads_where_the_table_says(self, harness: Harness) -> None:
        wrong = []
        for verb, per_status in TRANSITIONS.items():
            for status, targets in per_status.items():
                with Subject(harness, f"{verb}-{status}") as subject:
                    bring(subject, status)
                    refusal = attempt(subject, verb)
                    after = subject.board.get(subject.id).item
                    if refusal is not None or after.status not in targets:
                        wrong.append(f"{verb} of a {status} item: {refusal or after.status}, the table says {targets}")
        assert not wrong, "\n".join(wrong)

    def test_every_illegal_transition_is_refused_and_changes_nothing(self, harness: Harness) -> None:
        wrong, refusals = [], 0
        for verb, per_status in TRANSITIONS.items():
            for status in STATUSES:
                if status in per_status:
                    continue
                with Subject(harness, f"{verb}-{status}") as subject:
                    bring(subject, status)
                    before: dict[str, Any] = whole(subject.board, subject.id)
                    refusal = attempt(subject, verb)
                    if whole(subject.board, subject.id) != before:
                        wrong.append(f"{verb} of a {status} item changed it")
                    # Time and death ask nobody: they have nothing to refuse, and find nothing to do.
                    if refusal is None and verb not in ("expire", "owner_died"):
                        wrong.append(f"{verb} of a {status} item was not refused")
                    refusals += refusal is not None
        assert not wrong, "\n".join(wrong)
        assert refusals >= 20, "the walk met too few refusals to have shown anything"

    def test_an_item_can_be_edited_in_every_status_and_stays_in_it(self, harness: Harness) -> None:
        for status in STATUSES:
            with Subject(harness, f"edited-{status}") as subject:
                bring(subject, status)
                before = subject.board.get(subject.id)
                assert subject.board.edit(subject.id, title="edited").status == status
                after = subject.board.get(subject.id)
                assert (after.item.title, after.claim, after.runs) == ("edited", before.claim, before.runs)

    def test_an_item_that_came_back_can_be_edited(self, harness: Harness) -> None:
        for verb in ("release", "force_release", "expire", "owner_died"):
            with Subject(harness, f"back-by-{verb}") as subject:
                subject.claim()
                VERBS[verb](subject)
                runs = subject.board.get(subject.id).runs
                assert subject.board.edit(subject.id, priority=9).status == READY
                assert subject.board.get(subject.id).runs == runs
                assert subject.board.claim(subject.id, session=session(subject.board)).claim.token == 2

    def test_the_last_strike_leads_to_failed(self, harness: Harness) -> None:
        for verb in ("expire", "owner_died"):
            with Subject(harness, f"struck-by-{verb}") as subject:
                for _ in range(subject.board.settings.max_strikes - 1):
                    subject.board.claim(subject.id, session=session(subject.board), ttl_seconds=TTL_SECONDS)
                    expire(harness)
                    subject.board.sweep()
                    assert subject.board.get(subject.id).item.status == READY
                subject.claim()
                VERBS[verb](subject)
                after = subject.board.get(subject.id)
                assert after.item.status == FAILED, verb
                assert after.runs[0].outcome in ("expired", "owner_died")
                assert after.runs[0].reason, "the run does not say why the item failed"
