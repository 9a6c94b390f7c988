"""A state machine that drives a board and the reference model side by side, step by random step.

    machine = machine_over(open_my_harness)
    run_state_machine_as_test(machine, settings=...)

Hypothesis chooses the steps and, if the two ever disagree, finds the shortest sequence that shows it. `met` counts how
often each answer and each refusal was met, so that a run can be asked whether it saw them all.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from tests.kit.machine.claims import Claims
from tests.kit.machine.driving import items, sessions
from tests.kit.machine.items import ITEMS_MAX, Items
from tests.kit.machine.queues import Queues
from tests.kit.machine.subjects import Subjects

if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.testing.harness import Harness

#: Every way the verbs of this machine can end; a run that met fewer has not shown much.
ANSWERS = frozenset(
    {
        *("edit", "cancel", "retry", "end_session", "claim", "next", "recover", "heartbeat", "renew", "progress"),
        *("release", "done", "fail", "force_release", "sweep", "park", "unpark", "submit", "approve", "send_back"),
        *("reject", "wait", "leave", "accept", "soft_claim", "soft_release", "finish_and_next", "annotate"),
        *("start_child", "claim_subject", "hand", "add", "reopen", "reopen TASK_NOT_CLAIMABLE", "event blocked"),
        *("TASK_ALREADY_CLAIMED", "TASK_NOT_CLAIMED", "TASK_NOT_CLAIMABLE", "NOT_CLAIM_OWNER", "CLAIM_EXPIRED"),
        *("AGENT_AT_CAPACITY", "SESSION_NOT_FOUND", "INVALID", "FORBIDDEN"),
        *("accept AGENT_AT_CAPACITY", "wait TASK_NOT_CLAIMABLE", "edit INVALID", "finish_and_next CLAIM_EXPIRED"),
        *("claim_subject TASK_ALREADY_CLAIMED", "claim_subject TASK_NOT_CLAIMABLE", "claim_subject AGENT_AT_CAPACITY"),
        *("hand NOT_CLAIM_OWNER", "hand CLAIM_EXPIRED", "hand SESSION_NOT_FOUND", "hand AGENT_AT_CAPACITY"),
        *("hand INVALID", "hand TASK_NOT_CLAIMABLE"),
        *("event unblocked", "event due", "event offered", "event offer_lapsed", "event claimable", "event expired"),
    }
)


#: Of these, what few examples have to show at least; hand-overs and claims of subjects are rarer than that.
HOT = frozenset({"claim", "next", "heartbeat", "progress", "done", "submit", "sweep"})


class BoardMachine(Items, Subjects, Queues, Claims):
    """The steps that take several parts are such as would not come about by chance often enough."""

    @precondition(lambda self: self.model.drafters)
    @rule(item=items)
    def claim_what_was_approved(self, item: int) -> None:
        """By one who may only draft."""
        if not self.both.all_in("pending_approval"):
            self.both.draft(item)
        self.approve(item, "pat", done=False, draft="any")
        approved = [id for id, row in self.model.items.items() if row["approved"]]
        if approved:
            self.both.claim(approved[item % len(approved)], "cyd-1")

    @rule(item=items, verb=st.sampled_from(("release", "release", "park", "reject")))
    def let_go_of_what_is_held(self, item: int, verb: str) -> None:
        self._finish(verb, *self.both.shown(item, "holder", "latest"))

    @rule(item=items)
    def done_while_something_depends_on_it(self, item: int) -> None:
        id, holder, token = self.both.shown(item, "holder", "latest")
        if len(self.model.items) < ITEMS_MAX:
            self.both.add(depends_on=(id,))
        self._finish("done", id, holder, token)

    @rule(item=items, to=sessions, queue=st.lists(sessions, max_size=2))
    def hand_on_while_others_wait(self, item: int, to: str, queue: list[str]) -> None:
        id, holder, token = self.both.shown(item, "holder", "latest")
        for session in queue:
            self._wait(id, session, None)
        self.agree(
            "hand",
            lambda: self.model.hand(id, to, holder, token, 60.0),
            lambda: self.board.hand(id, to=to, session=holder, token=token, ttl_seconds=60.0).claim.token,
            told=True,
        )
        self._finish("release", id, to, None)

    @rule(item=items, session=sessions)
    def done_while_somebody_waits(self, item: int, session: str) -> None:
        id, holder, token = self.both.shown(item, "holder", "latest")
        self._wait(id, session, None)
        self._finish("done", id, holder, token)


def machine_over(open_harness: Callable[[], Harness]) -> type[BoardMachine]:
    """The machine over boards of this kind, with counters of its own."""
    return type("Machine", (BoardMachine,), {"open_harness": staticmethod(open_harness), "met": Counter(), "steps": 0})
