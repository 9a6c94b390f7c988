"""`CALLS`: every verb that writes, as one call on an item of its own that has to succeed."""

from __future__ import annotations

import time

from dibs.model import ENDED
from dibs.testing.conformance.asking import PATIENCE_SECONDS, TTL_SECONDS, expire
from dibs.testing.conformance.call_subject import Subject, same_item

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from dibs.board import Board


class Call:
    """`ask` makes the call, `effects` counts how often it took effect, `is_true` judges an answer against the board."""

    def __init__(self, ask: Callable[..., Any], effects: Callable[[], int], is_true: Callable[[Any], bool]) -> None:
        self.ask, self.effects, self.is_true = ask, effects, is_true


def _add(it: Subject) -> Call:
    title = f"add {it.id}"

    def there() -> list[Any]:
        return [item for item in it.board.list(types=[it.id]) if item.title == title]

    def is_true(answer: Any) -> bool:
        return same_item(answer, there()[0])

    return Call(lambda b, **k: b.add(title, type=it.id, **k), lambda: len(there()), is_true)


def _edit(it: Subject) -> Call:
    it.add()
    return Call(lambda b, **k: b.edit(it.id, title="new", **k), lambda: it.count("edited"), it.is_item)


def _cancel(it: Subject) -> Call:
    it.add()
    return Call(lambda b, **k: b.cancel(it.id, **k), lambda: it.count("cancelled"), it.is_item)


def _bulk(it: Subject) -> Call:
    it.add()
    return Call(
        lambda b, **k: b.bulk("cancel", items=[{"id": it.id}], **k),
        lambda: it.count("cancelled"),
        lambda answer: bool(answer.done == (it.id,) and not answer.refused),
    )


def _park(it: Subject) -> Call:
    it.add()
    return Call(lambda b, **k: b.park(it.id, **k), lambda: it.count("parked"), it.is_item)


def _unpark(it: Subject) -> Call:
    it.add()
    it.board.park(it.id)
    return Call(lambda b, **k: b.unpark(it.id, **k), lambda: it.count("unparked"), it.is_item)


def _retry(it: Subject) -> Call:
    it.held()
    it.board.fail(it.id, session=it.me)
    return Call(lambda b, **k: b.retry(it.id, **k), lambda: it.count("retried"), it.is_item)


def _approve(it: Subject) -> Call:
    it.drafted()
    return Call(lambda b, **k: b.approve(it.id, token=it.under, **k), lambda: it.count("approved"), it.is_item)


def _send_back(it: Subject) -> Call:
    it.drafted()
    return Call(lambda b, **k: b.send_back(it.id, comment="shorter", **k), lambda: it.count("sent_back"), it.is_item)


def _reject_by_a_person(it: Subject) -> Call:
    it.drafted()
    return Call(lambda b, **k: b.reject(it.id, reason="no", **k), lambda: it.count("rejected"), it.is_item)


def _reject_by_its_holder(it: Subject) -> Call:
    it.held()

    def ask(b: Board, **k: Any) -> Any:
        return b.reject(it.id, reason="no", session=it.me, token=it.under, **k)

    return Call(ask, lambda: it.count("rejected"), it.is_item)


def _force_release(it: Subject) -> Call:
    it.held()

    def ask(b: Board, **k: Any) -> Any:
        return b.force_release(it.id, reason="wanted", **k)

    return Call(ask, lambda: it.count("force_released"), it.is_end)


def _claim(it: Subject) -> Call:
    it.add()
    return Call(lambda b, **k: b.claim(it.id, session=it.me, **k), lambda: it.count("claimed"), it.is_claim)


def _recover(it: Subject) -> Call:
    it.add()
    it.claim(TTL_SECONDS)
    expire(it.harness)

    def ask(b: Board, **k: Any) -> Any:
        return b.recover(it.id, session=it.me, token=it.under, **k)

    return Call(ask, lambda: it.count("claimed") - 1, it.is_claim)


def _next(it: Subject) -> Call:
    it.add()

    def is_true(grants: Any) -> bool:
        return len(grants) == 1 and it.is_claim(grants[0])

    return Call(lambda b, **k: b.next(session=it.me, types=[it.id], **k), lambda: it.count("claimed"), is_true)


def _next_after_done(it: Subject) -> Call:
    it.held()
    following = f"{it.id}-following"
    it.board.add("go on", id=following, type=it.id)

    def ask(b: Board, **k: Any) -> Any:
        return b.next(session=it.me, types=[it.id], done={it.id: it.under}, **k)

    def effects() -> int:
        done, claimed = it.count("done"), it.count("claimed", following)
        assert done == claimed, f"{done} ends and {claimed} claims of one call"
        return done

    return Call(ask, effects, lambda grants: [grant.item.id for grant in grants] == [following])


def _progress(it: Subject) -> Call:
    it.held()

    def ask(b: Board, **k: Any) -> Any:
        return b.progress(it.id, "half", session=it.me, token=it.under, **k)

    return Call(ask, lambda: it.count("progress"), lambda renewal: renewal.token == it.under)


def _release(it: Subject) -> Call:
    it.held()

    def ask(b: Board, **k: Any) -> Any:
        return b.release(it.id, session=it.me, token=it.under, reason="mine", **k)

    return Call(ask, lambda: it.count("released"), it.is_end)


def _release_without_a_token(it: Subject) -> Call:
    it.held()
    return Call(lambda b, **k: b.release(it.id, session=it.me, **k), lambda: it.count("released"), it.is_end)


def _done(it: Subject) -> Call:
    it.held()

    def ask(b: Board, **k: Any) -> Any:
        return b.done(it.id, session=it.me, token=it.under, note="mine", links={"pr": 1}, **k)

    return Call(ask, lambda: it.count("done"), it.is_end)


def _done_many(it: Subject) -> Call:
    it.held()

    def is_true(finished: Any) -> bool:
        return not finished.lost and all(map(it.is_end, finished.ended)) and len(finished.ended) == 1

    return Call(lambda b, **k: b.done_many({it.id: it.under}, session=it.me, **k), lambda: it.count("done"), is_true)


def _fail(it: Subject) -> Call:
    it.held(retries=1)

    def ask(b: Board, **k: Any) -> Any:
        return b.fail(it.id, session=it.me, token=it.under, reason="mine", **k)

    return Call(ask, lambda: it.count("failed"), it.is_end)


def _submit(it: Subject) -> Call:
    it.held()

    def ask(b: Board, **k: Any) -> Any:
        return b.submit(it.id, session=it.me, token=it.under, draft="mine", **k)

    return Call(ask, lambda: it.count("submitted"), it.is_end)


def _leave(it: Subject) -> Call:
    it.add()
    it.taken_by_another()
    it.board.wait(it.id, session=it.me)

    def effects() -> int:
        return int(it.board.ticket(it.id, session=it.me).ticket.closed_at is not None)

    def is_true(waiting: Any) -> bool:
        return bool(waiting.ticket == it.board.ticket(it.id, session=it.me).ticket)

    return Call(lambda b, **k: b.leave(it.id, session=it.me, **k), effects, is_true)


def _soft_release(it: Subject) -> Call:
    it.add()
    it.board.soft_claim(it.id, session=it.me)

    def ask(b: Board, **k: Any) -> Any:
        return b.soft_release(it.id, session=it.me, **k)

    return Call(ask, lambda: 1 - _soft_claims(it), lambda soft: soft.session == it.me)


def _end_session(it: Subject) -> Call:
    it.held()

    def is_true(end: Any) -> bool:
        return bool(end.released == (it.id,) and end.session.ended_at == it.board.find_session(it.me).ended_at)

    return Call(lambda b, **k: b.end_session(it.me, **k), lambda: it.count("released"), is_true)


def _revoke_key(it: Subject) -> Call:
    key, _ = it.board.create_key("viewer")

    def revoked() -> list[int | None]:
        keys = it.board.keys()
        return [one.revoked_at for one in keys if one.id == key.id]

    def effects() -> int:
        return sum(at is not None for at in revoked())

    return Call(lambda b, **k: b.revoke_key(key.id, **k), effects, lambda answer: [answer.revoked_at] == revoked())


# Verbs without a request id: to do them twice is to do them once


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
    return _once(lambda b: b.soft_claim(it.id, session=it.me), lambda: _soft_claims(it), lambda s: s.session == it.me)


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


def _soft_claims(it: Subject) -> int:
    return sum(line.soft is not None and line.soft.session == it.me for line in it.board.who())


CALLS: dict[str, Callable[[Subject], Call]] = {
    "add": _add,
    "edit": _edit,
    "cancel": _cancel,
    "bulk": _bulk,
    "park": _park,
    "unpark": _unpark,
    "retry": _retry,
    "approve": _approve,
    "send_back": _send_back,
    "reject by a person": _reject_by_a_person,
    "reject by its holder": _reject_by_its_holder,
    "force_release": _force_release,
    "claim": _claim,
    "recover": _recover,
    "next": _next,
    "next with done": _next_after_done,
    "progress": _progress,
    "release": _release,
    "release without a token": _release_without_a_token,
    "done": _done,
    "done_many": _done_many,
    "fail": _fail,
    "submit": _submit,
    "leave": _leave,
    "soft_release": _soft_release,
    "end_session": _end_session,
    "revoke_key": _revoke_key,
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
#: They need none: done twice, they leave the same as done once.
TAKE_NO_REQUEST_ID = frozenset({"heartbeat", "renew", "wait", "soft_claim", "sweep", "start_session", "set_agent"})
