"""The part of the state machine that waits: tickets, offers, soft claims."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.kit.comparison import SESSIONS
from tests.kit.machine.driving import Driven, items, sessions, ttls, when

ticket_ttls = st.sampled_from((None, 1.0, 20.0, 120.0))


class Queues(Driven):
    @rule(item=items, session=sessions, ttl_seconds=ticket_ttls)
    def wait(self, item: int, session: str, ttl_seconds: float | None) -> None:
        id = self.both.in_status("in_progress", item)
        self._wait(id, session, ttl_seconds)

    @rule(item=items, queue=st.permutations(SESSIONS))
    def queue_up(self, item: int, queue: list[str]) -> None:
        """Three of them, one behind the other."""
        id = self.both.in_status("in_progress", item)
        for session in queue[:3]:
            self._wait(id, session, None)

    @rule(item=items, session=sessions, ttl_seconds=ticket_ttls)
    def wait_for_anything(self, item: int, session: str, ttl_seconds: float | None) -> None:
        self._wait(self.both.item(item), session, ttl_seconds)

    @when(lambda self: any(self.model.tickets.values()))
    @rule(item=items, session=sessions)
    def leave(self, item: int, session: str) -> None:
        waited_for = [id for id, tickets in self.model.tickets.items() if tickets]
        id = waited_for[item % len(waited_for)] if waited_for else self.both.item(item)
        self.agree("leave", lambda: self.model.leave(id, session), lambda: self.board.leave(id, session=session))

    @when(lambda self: any(row["offered_to"] for row in self.model.items.values()))
    @rule(number=items, full=st.booleans())
    def accept(self, number: int, full: bool) -> None:
        """Whoever is offered something claims it, in time or too late, or with its hands `full` of something else."""
        offers = [(id, row["offered_to"]) for id, row in self.model.items.items() if row["offered_to"]]
        if not offers:
            return
        id, session = offers[number % len(offers)]
        for other in self.both.all_in("ready") if full else ():
            if other != id:
                self.both.claim(other, session)
        self.agree(
            "accept",
            lambda: self.model.claim(id, session, 60.0),
            lambda: self.board.claim(id, session=session, ttl_seconds=60.0).claim.token,
            told=True,
        )

    @rule(item=items, session=sessions, ttl_seconds=ttls)
    def soft_claim(self, item: int, session: str, ttl_seconds: float | None) -> None:
        id = self.both.item(item)
        self.agree(
            "soft_claim",
            lambda: self.model.soft_claim(id, session, ttl_seconds),
            lambda: self.board.soft_claim(id, session=session, ttl_seconds=ttl_seconds).expires_at,
            told=True,
        )

    @when(lambda self: self.model.soft)
    @rule(number=items, session=sessions)
    def soft_release(self, number: int, session: str) -> None:
        softly = sorted(self.model.soft)
        id, who = softly[number % len(softly)] if softly else (self.both.item(number), session)
        self.agree(
            "soft_release",
            lambda: self.model.soft_release(id, who),
            lambda: self.board.soft_release(id, session=who),
        )

    def _wait(self, id: str, session: str, ttl_seconds: float | None) -> None:
        def wait() -> tuple[int, bool]:
            standing = self.other.wait(id, session=session, ttl_seconds=ttl_seconds)
            return standing.position, standing.offered

        self.agree("wait", lambda: self.model.wait(id, session, ttl_seconds), wait, told=True)
