"""A board and the reference model, side by side: both do each verb, both have to say the same and look the same."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager

from dibs.errors import DibsError
from dibs.testing.history import read_feed
from dibs.testing.invariants import violations
from tests.kit.reference import No, Reference

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, TypeVar

    from dibs.model import Item
    from dibs.testing.harness import Harness

    E = TypeVar("E", bound=Exception)

SESSIONS = ("ann-1", "ann-2", "bob-1", "cyd-1")
ENDED = ("done", "rejected", "cancelled")
#: Of every item here.
ACTION = "task"
#: What of an item both sides have to agree on.
COMPARED = (
    *("status", "token", "strikes", "failures", "attempts", "priority", "title", "subject", "depends_on"),
    *("retries", "not_before", "needs_approval", "approved", "offered_to", "offer_expires_at"),
)
#: The same instant in every run, so that a failure can be had again to the last digit.
BEGIN_AT = 1_800_000_000_000


class Comparison:
    """`met` counts how often each answer and each refusal was met."""

    def __init__(self, harness: Harness, met: Counter[str]) -> None:
        self.harness, self.met = harness, met
        harness.clock.freeze()
        harness.clock.advance((BEGIN_AT - harness.clock.now()) / 1000)
        self.board, self.other = harness.board(), harness.board()
        self.model = Reference(harness.clock.now())

    def begin(self, limit: int | None, total: int | None, *, drafts: bool) -> None:
        """The sessions, a few items, limits for one of the agents, and for another perhaps nothing but drafts."""
        self.board.set_agent("ann", max_claims=limit, max_claims_total=total)
        self.model.limits["ann"] = (limit, total)
        if drafts:
            self.board.set_agent("cyd", sensitive_actions=[ACTION])
            self.model.drafters.add("cyd")
        for session in SESSIONS:
            self.start(session)
        for priority in (1, 2, 2):
            self.add(priority=priority, retries=priority - 1)

    def close(self) -> None:
        try:
            self.met.update(f"event {event.kind}" for event in read_feed(self.board))
            found = violations(self.board)
            assert not found, "\n".join(found)
        finally:
            self.harness.close()

    def agree(self, verb: str, model: Callable[[], object], board: Callable[[], object], *, told: bool = False) -> None:
        """Both do the verb; both answer, and with `told` the same, or both refuse with the same code and facts."""
        answer, refusal = _outcome(board, DibsError)
        expected, no = _outcome(model, No)
        if no is not None:
            assert refusal is not None, (
                f"{verb}: the model refuses with {no.code} {no.facts}, the board says {answer!r}"
            )
            self._same_refusal(verb, no, refusal)
            return
        assert refusal is None, f"{verb}: refused with {refusal!r}, the model says {expected!r}"
        assert not told or answer == expected, f"{verb}: {answer!r}, the model says {expected!r}"
        self.met[verb] += 1

    def look(self) -> None:
        """Items, live claims, queues and soft claims are the same on both sides."""
        rows = self._catch_up()
        assert set(rows) == set(self.model.items)
        for id, recorded in self.model.items.items():
            assert rows[id].revision == recorded["revision"], f"{id}: {rows[id].revision}, the model says {recorded}"
            with self._as_read(id) as expected:
                for name in COMPARED:
                    found = getattr(rows[id], name)
                    assert found == expected[name], f"{id}: {name} is {found!r}, the model says {expected[name]!r}"
                self._same_queue(id)
        self._same_claims()

    @contextmanager
    def _as_read(self, id: str) -> Iterator[dict[str, Any]]:
        """The model's item as a read shows it: with what time has done to it, which is not written down."""
        undo = self.model.undo(id)
        self.model.freshen(id)
        try:
            yield self.model.items[id]
        finally:
            undo()

    def _catch_up(self) -> dict[str, Item]:
        """The items; and the model learns what time had done to them where a verb that was refused wrote it down."""
        rows = {item.id: item for item in self.other.list()}
        for id in rows.keys() & self.model.items.keys():
            if rows[id].revision > self.model.items[id]["revision"]:
                self.model.freshen(id)
        return rows

    def start(self, session: str) -> None:
        agent = session.partition("-")[0]
        self.board.start_session(agent, id=session)
        self.model.start_session(session, agent)

    def add(
        self,
        *,
        priority: int = 2,
        timeout_seconds: float = 28800.0,
        depends_on: tuple[str, ...] = (),
        not_before: int | None = None,
        retries: int = 0,
        needs_approval: bool = False,
        review: bool = False,
    ) -> None:
        id = self.new_id()
        more: dict[str, Any] = {"depends_on": depends_on, "not_before": not_before, "retries": retries}
        more["review"] = review
        self.board.add(
            id, id=id, priority=priority, timeout_seconds=timeout_seconds, needs_approval=needs_approval, **more
        )
        self.model.add(id, priority=priority, timeout=timeout_seconds, needs_approval=needs_approval, **more)

    def new_id(self) -> str:
        return f"item-{len(self.model.items)}"

    def claim(self, id: str, session: str) -> None:
        self.agree(
            "claim",
            lambda: self.model.claim(id, session, 600.0),
            lambda: self.board.claim(id, session=session, ttl_seconds=600.0).claim.token,
            told=True,
        )
        self._catch_up()  # what follows in the same step may be about what a refusal wrote down

    def draft(self, number: int) -> None:
        """Somebody claims something that is ready and submits a draft, if that can be."""
        id, session = self.in_status("ready", number), SESSIONS[number % len(SESSIONS)]
        self.claim(id, session)
        self.agree(
            "submit",
            lambda: self.model.submit(id, session, None),
            lambda: self.board.submit(id, session=session, draft="so").item.status,
            told=True,
        )

    def let_pass(self, seconds: float) -> None:
        self.harness.clock.advance(seconds)
        self.model.now = self.harness.clock.now()

    # Choosing what a step is about

    def item(self, number: int) -> str:
        """One of the items that are still going on, or the latest that is not: most steps should matter."""
        going_on = [id for id, item in self.model.items.items() if item["status"] not in ENDED]
        if not going_on:
            self.add(timeout_seconds=700.0)
            going_on = [f"item-{len(self.model.items) - 1}"]
        over = [id for id in self.model.items if id not in going_on]
        chosen = [*going_on, *over[-1:]]
        return chosen[number % len(chosen)]

    def all_in(self, status: str) -> list[str]:
        return [id for id, item in self.model.items.items() if item["status"] == status]

    def in_status(self, status: str, number: int) -> str:
        """An item in that status, if there is one."""
        found = self.all_in(status)
        return found[number % len(found)] if found else self.item(number)

    def shown(self, number: int, who: str, which: str) -> tuple[str, str, int | None]:
        """The item, the session and the token that a holder's verb is done with."""
        if who == "holder" and not self.model.claims:
            # So that there is a holder to act, whatever steps came before.
            self.claim(self.in_status("ready", number), SESSIONS[number % len(SESSIONS)])
            self._catch_up()
        claimed = sorted(self.model.claims)
        id = claimed[number % len(claimed)] if claimed and who == "holder" else self.item(number)
        latest: int = self.model.items[id]["token"]
        token = {"none": None, "latest": latest, "older": latest - 1, "future": latest + 1}[which]
        last = self.model.runs.get((id, latest), {"session": SESSIONS[0]})
        session = last["session"] if who == "holder" else who
        return id, session, None if token is None or token < 1 else token

    def _same_refusal(self, verb: str, no: No, refusal: DibsError) -> None:
        assert refusal.code == no.code, f"{verb}: {refusal.code} ({refusal.message}), the model says {no.code}"
        for name, expected in no.facts.items():
            told = refusal.facts.get(name)
            # A holder is told in full; the model knows it by its session.
            plain = told["session"] if isinstance(told, dict) else told
            assert plain == expected, f"{verb}: {name} is {told!r}, the model says {expected!r}"
        self.met[f"{verb} {no.code}"] += 1
        self.met[no.code] += 1

    def _same_claims(self) -> None:
        lines = self.board.who()
        soft = {(line.soft.item, line.soft.session): line.soft.expires_at for line in lines if line.soft is not None}
        said = {key: one["expires_at"] for key, one in self.model.soft.items() if self.model.now < one["expires_at"]}
        assert soft == said, f"softly claimed are {soft}, the model says {said}"
        live = {line.item.id: line.claim for line in lines if line.claim is not None}
        assert set(live) == {item for item in self.model.claims if self.model.live(item)}
        for id, claim in live.items():
            kept = self.model.claims[id]
            found = (claim.session, claim.token, claim.expires_at, claim.deadline_at, claim.heartbeat_count)
            wanted = (kept["session"], kept["token"], kept["expires_at"], kept["deadline_at"], kept["beats"])
            assert found == wanted, f"{id}: its claim is {found}, the model says {wanted}"

    def _same_queue(self, id: str) -> None:
        if self.model.tickets[id]:
            found = [(ticket.session, ticket.expires_at) for ticket in self.other.get(id).waiters]
            wanted = [(ticket["session"], ticket["expires_at"]) for ticket in self.model.waiters(id)]
            assert found == wanted, f"{id}: waiting are {found}, the model says {wanted}"


def _outcome(verb: Callable[[], object], kind: type[E]) -> tuple[object, E | None]:
    """What a verb answers, or the refusal it ends in."""
    try:
        return verb(), None
    except kind as refusal:
        return None, refusal
