"""Verbs that write and take no request id, each as one call: to do them twice is to do them once."""

from __future__ import annotations

import time

from dibs.model import ENDED
from dibs.testing.conformance.asking import PATIENCE_SECONDS, TTL_SECONDS, expire
from dibs.testing.conformance.call_subject import Call, Subject

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from dibs.board import Board


def _heartbeat(it: Subject) -> Call:
    it.held()
    return _once(
        lambda b: b.heartbeat(session=it.me, holding={it.id: it.under}),
        lambda: _heartbeats(it),
        lambda beat: [one.item for one in beat.renewed] == [it.id],
    )


def _renew(it: Subject) -> Call:
    it.held()

    def ask(b: Board) -> Any:
        return b.renew(it.id, session=it.me, token=it.under)

    return _once(ask, lambda: _heartbeats(it), lambda renewal: renewal.token == it.under)


def _wait(it: Subject) -> Call:
    it.add()
    it.taken_by_another()

    def tickets() -> int:
        return sum(kind == "ticket" and data["session"] == it.me for kind, data in it.board.export())

    return _once(
        lambda b: b.wait(it.id, session=it.me),
        tickets,
        lambda waiting: waiting.ticket == it.board.ticket(it.id, session=it.me).ticket,
    )


def _soft_claim(it: Subject) -> Call:
    it.add()
    return _once(lambda b: b.soft_claim(it.id, session=it.me), lambda: soft_claims(it), lambda s: s.session == it.me)


def _sweep(it: Subject) -> Call:
    it.add()
    it.claim(TTL_SECONDS)
    expire(it.harness)

    def is_true(swept: Any) -> bool:
        return all(it.count("expired", item) for item in swept.expired)

    def effects() -> int:
        """A repeated sweep passes over what its first attempt is still at: that one ends it, a moment later."""
        end = time.monotonic() + PATIENCE_SECONDS
        while not it.count("expired") and time.monotonic() < end:
            time.sleep(0.01)
        return it.count("expired")

    return _once(lambda b: b.sweep(), effects, is_true)


def _prune(it: Subject) -> Call:
    """It passes over what others are at, also a first attempt that the server has not given up yet."""
    it.held()
    it.board.done(it.id, session=it.me)
    it.harness.clock.advance(1)

    def ended() -> int:
        return len(it.board.list(statuses=ENDED))

    before = ended()

    def ask(b: Board) -> Any:
        return b.prune(older_than_seconds=0.5, limit=before)

    return _once(ask, lambda: before - ended(), lambda told: told.items == before - ended())


def _start_session(it: Subject) -> Call:
    def there() -> list[Any]:
        return [view.session for view in it.board.sessions() if view.session.id == it.id]

    return _once(lambda b: b.start_session("coder", id=it.id), lambda: len(there()), lambda one: [one] == there())


def _set_agent(it: Subject) -> Call:
    def there() -> list[Any]:
        return [agent for agent in it.board.agents() if agent.name == it.id]

    return _once(lambda b: b.set_agent(it.id, max_claims=3), lambda: len(there()), lambda one: [one] == there())


def _once(ask: Callable[..., Any], effects: Callable[[], int], is_true: Callable[[Any], bool]) -> Call:
    return Call(ask, lambda: min(1, effects()), is_true)


def _heartbeats(it: Subject) -> int:
    claim = it.board.get(it.id).claim
    assert claim is not None
    return claim.heartbeat_count


def soft_claims(it: Subject) -> int:
    return sum(line.soft is not None and line.soft.session == it.me for line in it.board.who())


#: They need no request id: done twice, they leave the same as done once.
REPEATABLE: dict[str, Callable[[Subject], Call]] = {
    "heartbeat": _heartbeat,
    "renew": _renew,
    "wait": _wait,
    "soft_claim": _soft_claim,
    "sweep": _sweep,
    "start_session": _start_session,
    "set_agent": _set_agent,
}
#: Apart from the others, whose history it would forget. It takes no request id either.
PRUNE = {"prune": _prune}
