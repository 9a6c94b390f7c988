"""A process of the live demo with many sessions: `python -m dibs.cli.demo.crowd STORE FOLDER HOST PACE AGENT ...`.

Each session claims items, works on them for a while, and ends them, as a coding agent would: with notes, costs,
failures, releases and reservations of files. Now and then one tries an item that another session holds, or queues for
an item that many want. PACE stretches or shortens all times. The process ends when its stdin is closed.
"""

from __future__ import annotations

import heapq
import os
import random
import select
import sys
import time

from dibs.board import Board, connect
from dibs.errors import ClaimExpired, DibsError, SessionNotFound, StoreUnavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from dibs.model import Grant

#: At a pace of 1, in seconds.
WORK_SECONDS = (8.0, 45.0)
STEP_SECONDS = (3.0, 6.0)
REST_SECONDS = (1.0, 5.0)
START_SECONDS = 6.0
NOTES = (
    *("reading the code", "a failing test reproduces it", "found it: a missing index", "tests green, pushing"),
    *("waiting for the build", "rebasing onto main", "asking the reviewer"),
)
REASONS = ("tests red: 3 of 214", "cannot be reproduced", "the dependency does not build")
#: The item that sessions queue for, and give back after use.
WANTED = "staging"
#: How likely a session without work tries an item that is held, or queues for the wanted one.
TRIES_HELD, QUEUES = 0.08, 0.07
#: How likely a run fails, is released, or reserves another file; all others are done.
FAILS, RELEASES, RESERVES = 0.06, 0.05, 0.12
#: The type whose action is sensitive for the agents that draft.
LETTER, MAILER, SENDER = "letter", "mailer", "sender"


class Member:
    """One session, and what it does next."""

    def __init__(self, board: Board, agent: str, host: str, number: int, chance: random.Random, pace: float) -> None:
        self.board, self.agent, self.host, self.chance, self.pace = board, agent, host, chance, pace
        self.kind = "cli" if number % 3 == 0 else "autonomous"
        self._start_session()
        self.grant: Grant | None = None
        self.until = 0.0
        self.is_queued = False

    def act(self) -> float:
        """Do one thing; return the seconds until the next one."""
        try:
            if self.grant is not None:
                return self._work(self.grant)
            return self._accept() if self.is_queued else self._take()
        except StoreUnavailable:
            return self._seconds(STEP_SECONDS)
        except DibsError as refusal:
            lost = isinstance(refusal, ClaimExpired) and self.grant is not None
            self.grant, self.is_queued = None, False
            _say(f"{'late' if lost else 'refused'} {refusal.facts.get('item', '-')} {self.agent} {refusal.code}")
            if isinstance(refusal, SessionNotFound):
                self._start_session()
            return self._seconds(REST_SECONDS)

    def _start_session(self) -> None:
        self.context = self.chance.uniform(5, 60)
        self.session = self.board.start_session(
            self.agent,
            id=_new_id(self.agent),
            kind=self.kind,
            host=self.host,
            owner_pid=os.getpid(),
            meta={"context_percent": round(self.context)},
        ).id

    def _take(self) -> float:
        luck = self.chance.random()
        if self.agent in (MAILER, SENDER):
            luck = 1.0
        if luck < TRIES_HELD:
            held = [holding.item.id for holding in self.board.who() if holding.claim is not None]
            if held:
                self._begin(self.board.claim(self.chance.choice(held), session=self.session))
        elif luck < TRIES_HELD + QUEUES:
            self.is_queued = True
            return self._accept()
        else:
            for grant in self.board.next(session=self.session):
                self._begin(grant)
        return self._seconds(STEP_SECONDS if self.grant or self.is_queued else REST_SECONDS)

    def _accept(self) -> float:
        if self.board.wait(WANTED, session=self.session).offered:
            self.is_queued = False
            self._begin(self.board.claim(WANTED, session=self.session))
        return self._seconds(STEP_SECONDS)

    def _begin(self, grant: Grant) -> None:
        self.grant = grant
        self.until = time.monotonic() + self._seconds(WORK_SECONDS)

    def _work(self, grant: Grant) -> float:
        item, luck = grant.item.id, self.chance.random()
        holder: dict[str, Any] = {"session": self.session, "token": grant.claim.token}
        if time.monotonic() < self.until:
            self._renew(item, luck, holder)
            return self._seconds(STEP_SECONDS)
        cost = {"usd": round(self.chance.uniform(0.05, 1.8), 2), "tokens": self.chance.randrange(8_000, 180_000)}
        if self.agent == MAILER:
            draft = f"Dear customers,\n\n{grant.item.title}.\n\nYours, the shop"
            self.board.submit(item, draft=draft, cost=cost, **holder)
        elif item == WANTED:
            self.board.release(item, reason="deployed", **holder)
        elif luck < FAILS:
            self.board.fail(item, reason=self.chance.choice(REASONS), cost=cost, **holder)
        elif luck < FAILS + RELEASES:
            self.board.release(item, reason="needs a designer", **holder)
        else:
            self.board.done(item, note="merged", cost=cost, **holder)
        self.grant, self.context = None, self.chance.uniform(5, 30)
        return self._seconds(REST_SECONDS)

    def _renew(self, item: str, luck: float, holder: dict[str, Any]) -> None:
        if luck < RESERVES:
            try:
                self.board.edit(item, add_resources=[f"src/shared/{self.chance.choice('abcdef')}.py"], **holder)
            except ClaimExpired:
                raise
            except DibsError as refusal:
                _say(f"refused {item} {self.agent} {refusal.code}")
        elif luck < 0.5:
            self.board.progress(item, self.chance.choice(NOTES), **holder)
        self.context = min(99.0, self.context + self.chance.uniform(0, 5))
        self.board.heartbeat(session=self.session, meta={"context_percent": round(self.context)})

    def _seconds(self, bounds: tuple[float, float]) -> float:
        return self.pace * self.chance.uniform(*bounds)


def main(store: str, folder: str, host: str, pace: float, agents: Sequence[str]) -> None:
    chance = random.Random()
    with connect(store, folder=folder) as board:
        members = [Member(board, agent, host, number, chance, pace) for number, agent in enumerate(agents)]
        _say(f"hello {host}")
        now = time.monotonic()
        due = [(now + pace * chance.uniform(0, START_SECONDS), number) for number in range(len(members))]
        heapq.heapify(due)
        while True:
            at, number = heapq.heappop(due)
            if select.select([sys.stdin], [], [], max(0.0, at - time.monotonic()))[0]:
                return
            heapq.heappush(due, (time.monotonic() + members[number].act(), number))


def _new_id(agent: str) -> str:
    """Short, so that people can tell sessions apart."""
    return f"{agent}-{os.urandom(3).hex()}"


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4]), sys.argv[5:])
