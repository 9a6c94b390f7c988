"""A state machine that drives a board and the reference model side by side, step by random step.

    machine = machine_over(open_my_harness)
    run_state_machine_as_test(machine, settings=...)

Hypothesis chooses the steps and, if the two ever disagree, finds the shortest sequence that shows it. `met` counts how
often each answer and each refusal was met, so that a run can be asked whether it saw them all.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from dibs.testing.comparison import SESSIONS, Comparison

if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.testing.harness import Harness

ITEMS_MAX = 12
#: Every way the verbs of this machine can end; a run that met fewer has not shown much.
ANSWERS = frozenset(
    {
        *("edit", "cancel", "retry", "end_session", "claim", "next", "recover", "heartbeat", "renew", "progress"),
        *("release", "done", "fail", "force_release", "sweep"),
        *("TASK_ALREADY_CLAIMED", "TASK_NOT_CLAIMED", "TASK_NOT_CLAIMABLE", "NOT_CLAIM_OWNER", "CLAIM_EXPIRED"),
        *("AGENT_AT_CAPACITY", "SESSION_NOT_FOUND", "INVALID"),
    }
)

items = st.integers(0, 3)
sessions = st.sampled_from(SESSIONS)
#: Who acts on an item: anybody, or more often the one who holds it or had it last.
actors = st.sampled_from((*SESSIONS, *["holder"] * 8))
#: Which token a holder shows: none, the latest, the one before, one that was never given.
tokens = st.sampled_from(("none", "none", "latest", "latest", "latest", "older", "future"))
ttls = st.sampled_from((None, 60.0, 600.0, 7200.0))
spans = st.sampled_from((0.001, 1.0, 59.999, 60.0, 61.0, 600.0, 1801.0, 7201.0, -30.0))


class BoardMachine(RuleBasedStateMachine):
    open_harness: ClassVar[Callable[[], Harness]]
    met: ClassVar[Counter[str]] = Counter()
    steps: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        self.both = Comparison(type(self).open_harness(), self.met)
        self.model, self.board, self.other = self.both.model, self.both.board, self.both.other

    @initialize(limit=st.sampled_from((1, 1, 2, None)))
    def begin(self, limit: int | None) -> None:
        self.both.begin(limit)

    @invariant()
    def both_look_the_same(self) -> None:
        type(self).steps += 1
        self.both.look()

    def teardown(self) -> None:
        self.both.close()

    # Items

    @precondition(lambda self: len(self.model.items) < ITEMS_MAX)
    @rule(priority=st.integers(1, 3), timeout_seconds=st.sampled_from((60.0, 700.0, 28800.0)))
    def add(self, priority: int, timeout_seconds: float) -> None:
        self.both.add(priority, timeout_seconds)

    @rule(item=items, priority=st.integers(1, 3))
    def edit(self, item: int, priority: int) -> None:
        id = self.both.item(item)
        self.both.agree("edit", lambda: self.model.edit(id, priority), lambda: self.board.edit(id, priority=priority))

    @rule(item=items)
    def cancel(self, item: int) -> None:
        id = self.both.item(item)
        self.both.agree("cancel", lambda: self.model.cancel(id), lambda: self.board.cancel(id))

    @rule(item=items)
    def retry(self, item: int) -> None:
        failed = [id for id, row in self.model.items.items() if row["status"] == "failed"]
        id = failed[0] if failed else self.both.item(item)
        self.both.agree("retry", lambda: self.model.retry(id), lambda: self.board.retry(id))

    # Sessions

    @rule(session=sessions, chance=st.integers(0, 3))
    def end_session(self, session: str, chance: int) -> None:
        def ended() -> set[str]:
            lapsed = {item for item in self.model.claims if self.model.live(item) is None}
            return set(self.board.end_session(session).released) - lapsed

        if chance:
            self.both.start(session)  # so that most of them are alive most of the time
        else:
            self.both.agree("end_session", lambda: self.model.end_session(session), ended, told=True)

    # The claim path

    @rule(item=items, session=sessions, ttl_seconds=ttls)
    def claim(self, item: int, session: str, ttl_seconds: float | None) -> None:
        id = self.both.item(item)
        self.both.agree(
            "claim",
            lambda: self.model.claim(id, session, ttl_seconds),
            lambda: self.board.claim(id, session=session, ttl_seconds=ttl_seconds).claim.token,
            told=True,
        )

    @rule(item=items, session=sessions)
    def claim_more(self, item: int, session: str) -> None:
        """Again, since without claims there is little to see."""
        self.claim(item, session, 60.0)

    @rule(session=sessions, n=st.integers(1, 3))
    def next(self, session: str, n: int) -> None:
        self.both.agree(
            "next",
            lambda: self.model.next(session, n),
            lambda: [grant.item.id for grant in self.other.next(session=session, n=n)],
            told=True,
        )

    @rule(item=items, who=actors, which=tokens)
    def recover(self, item: int, who: str, which: str) -> None:
        id, session, token = self.both.shown(item, who, which)
        self.both.agree(
            "recover",
            lambda: self.model.recover(id, session, token),
            lambda: self.board.recover(id, session=session, token=token).claim.token,
            told=True,
        )

    @rule(session=sessions, holding=st.none() | st.dictionaries(items, tokens, max_size=3))
    def heartbeat(self, session: str, holding: dict[int, str] | None) -> None:
        believed: dict[str, int | None] | None = None
        if holding is not None:
            shown = (self.both.shown(item, session, which) for item, which in holding.items())
            believed = {id: token for id, _, token in shown}

        def beat() -> dict[str, Any]:
            answer = self.other.heartbeat(session=session, holding=believed)
            return {
                "renewed": {one.item for one in answer.renewed},
                "forgotten": set(answer.forgotten),
                "lost": {one.item: one.code for one in answer.lost},
            }

        self.both.agree("heartbeat", lambda: self.model.heartbeat(session, believed), beat, told=True)

    @rule(item=items, who=actors, which=tokens)
    def renew(self, item: int, who: str, which: str) -> None:
        id, session, token = self.both.shown(item, who, which)
        self.both.agree(
            "renew",
            lambda: self.model.renew(id, session, token),
            lambda: self.other.renew(id, session=session, token=token).expires_at,
            told=True,
        )

    @rule(item=items, who=actors, which=tokens)
    def progress(self, item: int, who: str, which: str) -> None:
        id, session, token = self.both.shown(item, who, which)
        self.both.agree(
            "progress",
            lambda: self.model.progress(id, session, token),
            lambda: self.board.progress(id, "note", session=session, token=token).expires_at,
            told=True,
        )

    @rule(verb=st.sampled_from(("release", "release", "done", "fail")), item=items, who=actors, which=tokens)
    def end(self, verb: str, item: int, who: str, which: str) -> None:
        id, session, token = self.both.shown(item, who, which)
        self.both.agree(
            verb,
            lambda: self.model.end(verb, id, session, token),
            lambda: getattr(self.board, verb)(id, session=session, token=token).item.status,
            told=True,
        )

    @rule(item=items, which=tokens)
    def force_release(self, item: int, which: str) -> None:
        id, _, token = self.both.shown(item, "holder", which)
        self.both.agree(
            "force_release",
            lambda: self.model.force_release(id, token),
            lambda: self.board.force_release(id, reason="machine", token=token),
        )

    @rule()
    def sweep(self) -> None:
        self.both.agree("sweep", self.model.sweep, lambda: set(self.board.sweep().expired), told=True)

    @rule(seconds=spans)
    def let_time_pass(self, seconds: float) -> None:
        self.both.let_pass(seconds)

    @rule(milliseconds=st.sampled_from((-1, 0, 0, 1)))
    def let_time_come_to_an_expiry(self, milliseconds: int) -> None:
        """To the millisecond at which the next claim ends, or one beside it."""
        ahead = [claim["expires_at"] - self.model.now for claim in self.model.claims.values()]
        self.both.let_pass((min([left for left in ahead if left > 0], default=1000) + milliseconds) / 1000)


def machine_over(open_harness: Callable[[], Harness]) -> type[BoardMachine]:
    """The machine over boards of this kind, with counters of its own."""
    return type("Machine", (BoardMachine,), {"open_harness": staticmethod(open_harness), "met": Counter(), "steps": 0})
