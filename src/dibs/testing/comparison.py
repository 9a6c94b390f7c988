"""A board and the reference model, side by side: both do each verb, both have to say the same and look the same."""

from __future__ import annotations

from collections import Counter

from dibs.errors import DibsError
from dibs.testing.invariants import violations
from dibs.testing.reference import No, Reference

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from dibs.testing.harness import Harness

    E = TypeVar("E", bound=Exception)

SESSIONS = ("ann-1", "ann-2", "bob-1", "cyd-1")
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

    def begin(self, limit: int | None) -> None:
        """The sessions, a few items, and a limit for one of the agents."""
        self.board.set_agent("ann", max_claims=limit)
        self.model.limits["ann"] = limit
        for session in SESSIONS:
            self.start(session)
        for priority in (1, 2, 2):
            self.add(priority, 28800.0)

    def close(self) -> None:
        try:
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
        """Items and live claims are the same on both sides."""
        rows = {item.id: item for item in self.other.list()}
        assert set(rows) == set(self.model.items)
        for id, row in rows.items():
            claim = self.model.claims.get(id)
            if claim is not None and row.token == claim["token"] and row.status in ("ready", "failed"):
                self.model.noticed(id)
        for id, expected in self.model.items.items():
            for name in ("status", "token", "strikes", "attempts", "priority", "revision"):
                found = getattr(rows[id], name)
                assert found == expected[name], f"{id}: {name} is {found!r}, the model says {expected[name]!r}"
        self._same_claims()

    def start(self, session: str) -> None:
        agent = session.partition("-")[0]
        self.board.start_session(agent, id=session)
        self.model.start_session(session, agent)

    def add(self, priority: int, timeout_seconds: float) -> None:
        id = f"item-{len(self.model.items)}"
        self.board.add(id, id=id, priority=priority, timeout_seconds=timeout_seconds)
        self.model.add(id, priority, timeout_seconds)

    def let_pass(self, seconds: float) -> None:
        self.harness.clock.advance(seconds)
        self.model.now = self.harness.clock.now()

    # Choosing what a step is about

    def item(self, number: int) -> str:
        """One of the items that are still going on, or the latest that is not: most steps should matter."""
        going_on = [id for id, item in self.model.items.items() if item["status"] not in ("done", "cancelled")]
        if not going_on:
            self.add(priority=2, timeout_seconds=700.0)
            going_on = [f"item-{len(self.model.items) - 1}"]
        over = [id for id in self.model.items if id not in going_on]
        chosen = [*going_on, *over[-1:]]
        return chosen[number % len(chosen)]

    def shown(self, number: int, who: str, which: str) -> tuple[str, str, int | None]:
        """The item, the session and the token that a holder's verb is done with."""
        if who == "holder" and not self.model.claims:
            self._let_somebody_claim(number)
        claimed = sorted(self.model.claims)
        id = claimed[number % len(claimed)] if claimed and who == "holder" else self.item(number)
        latest: int = self.model.items[id]["token"]
        token = {"none": None, "latest": latest, "older": latest - 1, "future": latest + 1}[which]
        last = self.model.runs.get((id, latest), {"session": SESSIONS[0]})
        session = last["session"] if who == "holder" else who
        return id, session, None if token is None or token < 1 else token

    def _let_somebody_claim(self, number: int) -> None:
        """So that there is a holder to act, whatever steps came before."""
        ready = [id for id, item in self.model.items.items() if item["status"] == "ready"]
        session = SESSIONS[number % len(SESSIONS)]
        if ready and self.model.sessions[session]["live"]:
            self.model.claim(ready[0], session, 600.0)
            self.board.claim(ready[0], session=session, ttl_seconds=600.0)

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
        live = {line.item.id: line.claim for line in self.board.who() if line.claim is not None}
        assert set(live) == {item for item in self.model.claims if self.model.live(item)}
        for id, claim in live.items():
            kept = self.model.claims[id]
            found = (claim.session, claim.token, claim.expires_at, claim.deadline_at, claim.heartbeat_count)
            wanted = (kept["session"], kept["token"], kept["expires_at"], kept["deadline_at"], kept["beats"])
            assert found == wanted, f"{id}: its claim is {found}, the model says {wanted}"


def _outcome(verb: Callable[[], object], kind: type[E]) -> tuple[object, E | None]:
    """What a verb answers, or the refusal it ends in."""
    try:
        return verb(), None
    except kind as refusal:
        return None, refusal
