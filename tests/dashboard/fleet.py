"""A busy board: hours of work by many sessions, played on the board's clock, that leave something in every state."""

from __future__ import annotations

import contextlib
import random
from typing import TYPE_CHECKING, Any

from dibs.board import Board
from dibs.errors import DibsError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.testing.clock import Clock

TITLES = (
    *("Login fails on Safari", "Migrate orders to the new schema", "Document the webhooks", "Speed up search"),
    *("Rotate the signing keys", "Refund flow loses the currency", "Upgrade the payment library"),
    *("Flaky test in checkout", "Add an index on customers", "Translate the invoices"),
)
NOTES = ("tests green, pushing", "reading the code", "found it: a missing index", "waiting for the build", "rebasing")
TYPES = ("task", "bug", "docs", "review")
LABELS = ("web", "db", "api", "ops", "mobile")
PROJECTS = ("shop", "billing", "site")
AGENTS = ("coder", "fixer", "reviewer", "writer")
KINDS = ("autonomous", "cli", "autonomous", "cli", "autonomous", "person")


class Fleet:
    """`play` lets time pass; what the sessions do is chosen by the seed."""

    def __init__(self, board: Board, clock: Clock, *, seed: int = 1) -> None:
        self.board, self.clock, self.chance = board, clock, random.Random(seed)
        self.sessions: list[str] = []
        self.held: dict[str, tuple[str, int]] = {}

    def resume(self) -> None:
        """Go on with a board that another fleet has filled."""
        self.sessions = sorted(view.session.id for view in self.board.sessions())
        for holding in self.board.who():
            if holding.claim is not None:
                self.held[holding.claim.session] = (holding.item.id, holding.claim.token)

    def act(self, count: int, *, but: Sequence[str] = ()) -> None:
        """As many sessions do something, one after the other, but for these."""
        for _ in range(count):
            session = self.chance.choice(self.sessions)
            if session not in but:
                self._act(session)

    def collide(self, count: int) -> None:
        """As many sessions want what another one holds."""
        for _ in range(count):
            item, _ = self.chance.choice([*self.held.values()])
            with contextlib.suppress(DibsError):
                self.board.claim(item, session=self.chance.choice(self.sessions))

    def add(self, count: int) -> None:
        for start in range(0, count, 500):
            numbers = range(start, min(count, start + 500))
            self.board.add_many([self._item(number) for number in numbers])

    def start(self, count: int) -> None:
        for number in range(count):
            session = self.board.start_session(
                AGENTS[number % len(AGENTS)],
                id=f"s-{number:03}",
                kind=KINDS[number % len(KINDS)],
                host=f"build-{number % 7}",
                meta={"context_percent": (number * 37) % 100},
            )
            self.sessions.append(session.id)

    def play(self, rounds: int, *, seconds: float = 240) -> None:
        """In each round every session works for a while; a few fall silent for good, and lose what they hold."""
        silent = set(self.chance.sample(self.sessions, len(self.sessions) // 40))
        for number in range(rounds):
            for session in self.sessions:
                if session not in silent or number < rounds - 3:
                    self._act(session)
            self.clock.advance(seconds)
            if number % 4 == 3:
                self.board.sweep()

    def settle(self) -> None:
        """The few things that a chance may leave out."""
        self.board.add("Plan the release", id="plan-release", priority=10, project="shop")
        self.board.add("Release 2", id="release-2", priority=9, project="shop", depends_on=["plan-release"])
        self.board.claim("plan-release", session=self.sessions[0])
        self.board.fail("plan-release", session=self.sessions[0], reason="nobody answers")
        for name, title in (("letter-42", "Tell them that login works"), ("refund-order-7", "Refund order 7")):
            self.board.add(title, id=name, priority=10, project="shop", action="send")
            self.board.claim(name, session=self.sessions[1])
            self.board.submit(name, session=self.sessions[1], draft=DRAFT.format(title=title))
        self.board.add("Publish the prices", id="prices", project="site", needs_approval=True)
        held = sorted(item for item, _ in self.held.values())
        for item, waiter in zip(held[:9], self.sessions[::-1], strict=False):
            self.board.wait(item, session=waiter)
            self.board.wait(item, session=self.sessions[len(self.sessions) // 2])

    def _act(self, session: str) -> None:
        held = self.held.get(session)
        luck = self.chance.random()
        if held is None:
            if luck < 0.7:
                for grant in self.board.next(session=session):
                    self.held[session] = (grant.item.id, grant.claim.token)
            return
        item, token = held
        holder: dict[str, Any] = {"session": session, "token": token}
        try:
            if luck < 0.25:
                del self.held[session]
                self.board.done(item, **holder, note="merged", cost={"usd": round(luck * 4, 2)})
            elif luck < 0.28:
                del self.held[session]
                self.board.fail(item, **holder, reason=f"tests red: {self.chance.randrange(1, 9)} of 214")
            elif luck < 0.31:
                del self.held[session]
                self.board.release(item, **holder, reason="needs a designer")
            elif luck < 0.5:
                self.board.progress(item, self.chance.choice(NOTES), **holder)
            else:
                self.board.heartbeat(session=session)
        except DibsError:
            self.held.pop(session, None)

    def _item(self, number: int) -> dict[str, Any]:
        title = self.chance.choice(TITLES)
        return {
            "id": f"{title.lower().split()[0]}-{number}",
            "title": title,
            "project": self.chance.choice(PROJECTS),
            "type": self.chance.choice(TYPES),
            "labels": self.chance.sample(LABELS, self.chance.randrange(3)),
            "priority": self.chance.choice((10, 9, 8, 8, 5, 5, 5, 3, 1)),
            "body": f"{title}.\n\nFound by a customer; the log of order {number} has more.",
        }


DRAFT = "Dear customer,\n\n{title}: this is done. Please try again, and tell us if it is not.\n\nYours, the shop\n"
