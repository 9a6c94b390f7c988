"""The part of the state machine that people drive: items and what they wait for, parking, approvals."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from tests.kit.comparison import SESSIONS
from tests.kit.machine.driving import Driven, items, when

ITEMS_MAX = 12

priorities = st.integers(1, 3)


class Items(Driven):
    @precondition(lambda self: len(self.model.items) < ITEMS_MAX)
    @rule(
        priority=st.integers(1, 3), timeout_seconds=st.sampled_from((60.0, 700.0, 28800.0)), retries=st.integers(0, 2)
    )
    def add(self, priority: int, timeout_seconds: float, retries: int) -> None:
        self.both.add(priority=priority, timeout_seconds=timeout_seconds, retries=retries)

    @precondition(lambda self: len(self.model.items) < ITEMS_MAX)
    @rule(
        needs=st.sets(items, max_size=2),
        wait_seconds=st.sampled_from((None, None, -1.0, 0.001, 60.0)),
        needs_approval=st.sampled_from((False, False, True)),
        review=st.booleans(),
    )
    def add_waiting(self, needs: set[int], wait_seconds: float | None, needs_approval: bool, review: bool) -> None:
        depends_on = tuple(sorted({self.both.item(number) for number in needs}))
        not_before = None if wait_seconds is None else self.model.now + round(wait_seconds * 1000)
        self.both.add(depends_on=depends_on, not_before=not_before, needs_approval=needs_approval, review=review)

    @rule(item=items, priority=st.integers(1, 3))
    def edit(self, item: int, priority: int) -> None:
        id = self.both.item(item)
        self.agree(
            "edit", lambda: self.model.edit(id, priority=priority), lambda: self.board.edit(id, priority=priority)
        )

    @rule(item=items, title=st.sampled_from(("one", "two")))
    def edit_what_may_be_approved(self, item: int, title: str) -> None:
        approved = [id for id, row in self.model.items.items() if row["approved"]]
        id = approved[item % len(approved)] if approved else self.both.item(item)
        self.agree("edit", lambda: self.model.edit(id, title=title), lambda: self.board.edit(id, title=title))

    @rule(item=items, needs=st.sets(items, max_size=2))
    def edit_dependencies(self, item: int, needs: set[int]) -> None:
        id = self.both.item(item)
        depends_on = tuple(sorted({self.both.item(number) for number in needs} - {id}))
        self.agree(
            "edit",
            lambda: self.model.edit(id, depends_on=depends_on),
            lambda: self.board.edit(id, depends_on=depends_on),
        )

    @rule(item=items, wait_seconds=st.sampled_from((None, -1.0, 10.0, 60.0)))
    def edit_schedule(self, item: int, wait_seconds: float | None) -> None:
        id = self.both.item(item)
        not_before = None if wait_seconds is None else self.model.now + round(wait_seconds * 1000)
        self.agree(
            "edit",
            lambda: self.model.edit(id, not_before=not_before),
            lambda: self.board.edit(id, not_before=not_before),
        )

    @when(lambda self: self.both.all_in("blocked"))
    @rule(number=items)
    def do_what_others_wait_for(self, number: int) -> None:
        """The first thing that a blocked item needs is claimed and done, if it can be."""
        row = self.model.items[self.both.in_status("blocked", number)]
        needs = [one for one in row["depends_on"] if self.model.items[one]["status"] in ("ready", "parked")]
        if needs and self.model.sessions["bob-1"]["live"]:
            self.both.claim(needs[0], "bob-1")
            self.agree(
                "done",
                lambda: self.model.finish("done", needs[0], "bob-1", None),
                lambda: self.board.done(needs[0], session="bob-1").item.status,
                told=True,
            )

    @rule(item=items, chance=st.integers(0, 2))
    def cancel(self, item: int, chance: int) -> None:
        if chance == 0:
            id = self.both.item(item)
            self.agree("cancel", lambda: self.model.cancel(id), lambda: self.board.cancel(id))

    @when(lambda self: self.both.all_in("failed"))
    @rule(item=items)
    def retry(self, item: int) -> None:
        id = self.both.in_status("failed", item)
        self.agree("retry", lambda: self.model.retry(id), lambda: self.board.retry(id))

    @rule(item=items, status=st.sampled_from(("done", "cancelled", "rejected")))
    def reopen(self, item: int, status: str) -> None:
        if self.both.all_in(status):
            id = self.both.in_status(status, item)
            self.agree("reopen", lambda: self.model.reopen(id), lambda: self.board.reopen(id))

    @rule(
        item=items,
        session=st.sampled_from((None, *SESSIONS)),
        token=st.sampled_from((None, None, 1, 2)),
        check=st.sampled_from(("passed", "failed")),
    )
    def annotate(self, item: int, session: str | None, token: int | None, check: str) -> None:
        id = self.both.item(item)
        self.agree(
            "annotate",
            lambda: self.model.annotate(id, session, token, check),
            lambda: self.board.annotate(id, session=session, token=token, checks={"ci": check}).run.outcome,
            told=True,
        )

    @rule(item=items)
    def park(self, item: int) -> None:
        id = self.both.item(item)
        self.agree("park", lambda: self.model.park(id), lambda: self.board.park(id))

    @when(lambda self: self.both.all_in("parked"))
    @rule(item=items)
    def unpark(self, item: int) -> None:
        id = self.both.in_status("parked", item)
        self.agree("unpark", lambda: self.model.unpark(id), lambda: self.board.unpark(id))

    @when(lambda self: self.both.all_in("pending_approval"))
    @rule(
        item=items,
        actor=st.sampled_from(("pat", "pat", "bob", "its drafter")),
        done=st.booleans(),
        draft=st.sampled_from(("any", "any", "the latest", "the one before")),
    )
    def approve(self, item: int, actor: str, done: bool, draft: str) -> None:
        if actor == "its drafter" and not self.both.all_in("pending_approval"):
            self.both.draft(item)
        id = self.both.in_status("pending_approval", item)
        drafted = self.model.drafted(id)
        if actor == "its drafter":
            known, runs = self.model.sessions, self.model.runs
            actor = "pat" if drafted is None else known[runs[id, drafted]["session"]]["agent"]
        token = None if draft == "any" else drafted or 1
        if token is not None and draft == "the one before":
            token = token - 1 or token + 1
        self.agree(
            "approve",
            lambda: self.model.approve(id, actor, done=done, token=token),
            lambda: self.board.approve(id, actor=actor, done=done, token=token).status,
            told=True,
        )

    @when(lambda self: self.both.all_in("pending_approval"))
    @rule(item=items)
    def send_back(self, item: int) -> None:
        id = self.both.in_status("pending_approval", item)
        self.agree("send_back", lambda: self.model.send_back(id), lambda: self.board.send_back(id, comment="shorter"))

    @when(lambda self: self.both.all_in("pending_approval"))
    @rule(item=items, chance=st.integers(0, 2))
    def reject(self, item: int, chance: int) -> None:
        if chance == 0:
            id = self.both.in_status("pending_approval", item)
            self.agree("reject", lambda: self.model.reject_by_person(id), lambda: self.board.reject(id, reason="no"))
