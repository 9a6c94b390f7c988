"""Every verb that writes, ready to be called once on an item of its own; and calls of them that have to be refused.

`CALLS` are calls with nothing in their way. `REFUSED` are calls that an earlier, different call of the same verb has
left nothing to do for: to take the earlier effect for one's own would be a wrong answer.
"""

from __future__ import annotations

import time

from dibs.errors import DibsError
from dibs.model import ENDED, Item
from dibs.testing.conformance.asking import PATIENCE_SECONDS, TTL_SECONDS, expire, session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from dibs.board import Board
    from dibs.model import Ended
    from dibs.testing.harness import Harness


class Subject:
    """An item, a session that acts on it, and the board as somebody else sees it."""

    def __init__(self, harness: Harness, board: Board, id: str) -> None:
        self.harness, self.board, self.id = harness, board, id
        self.me = session(board)
        #: The token of the first claim that the session had.
        self.under = 0

    def add(self, **fields: Any) -> None:
        # A type of its own: `next` can be asked for this very item.
        self.board.add("do it", id=self.id, type=self.id, **fields)

    def claim(self, ttl_seconds: float = 7200) -> None:
        grant = self.board.claim(self.id, session=self.me, ttl_seconds=ttl_seconds)
        self.under = self.under or grant.claim.token

    def held(self, **fields: Any) -> None:
        """The item, claimed."""
        self.add(**fields)
        self.claim()

    def drafted(self) -> None:
        """The item, waiting for approval of a draft."""
        self.held()
        self.board.submit(self.id, session=self.me, draft="A")

    def taken_by_another(self) -> None:
        self.board.claim(self.id, session=session(self.board, "other"))

    def count(self, kind: str, item: str | None = None) -> int:
        return sum(event.kind == kind for event in self.board.events(item=item or self.id))

    def is_item(self, answer: Any) -> bool:
        """Whether the answer is the item as it stands. Nobody else changes it."""
        return same_item(answer, self.board.get(self.id).item)

    def is_claim(self, answer: Any) -> bool:
        """Whether the answer is the claim that there is, which is a new one, and not one that was renewed."""
        is_there = (answer.claim.token, answer.claim.session) == (self.token, self.me)
        return is_there and not getattr(answer, "renewed", False)

    def is_end(self, answer: Ended) -> bool:
        return answer.run in self.board.runs(item=self.id)

    @property
    def token(self) -> int | None:
        claim = self.board.get(self.id).claim
        return None if claim is None else claim.token


def same_item(answer: Any, item: Item) -> bool:
    """An answer may say more than the item."""
    return all(getattr(answer, name) == getattr(item, name) for name in Item._fields)


class Call:
    """`ask` makes the call, `effects` counts how often it took effect, `is_true` judges an answer against the board."""

    def __init__(self, ask: Callable[..., Any], effects: Callable[[], int], is_true: Callable[[Any], bool]) -> None:
        self.ask, self.effects, self.is_true = ask, effects, is_true


# Calls with nothing in their way


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


# Calls that have to be refused


class Refused:
    """A call that has to be refused with `code`, and `witness`: what must be the same before and after it."""

    def __init__(self, ask: Callable[..., Any], code: str, witness: Callable[[], object]) -> None:
        self.ask, self.code, self.witness = ask, code, witness


class _Lost(DibsError):
    """The refusal of one item in an answer about many."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code  # type: ignore[misc]


def _of(it: Subject, code: str, ask: Callable[..., Any]) -> Refused:
    return Refused(ask, code, lambda: (it.board.get(it.id), it.board.events(item=it.id)))


def _submit_of_another_draft(it: Subject) -> Refused:
    it.drafted()
    return _of(it, "TASK_NOT_CLAIMED", lambda b, **k: b.submit(it.id, session=it.me, token=it.under, draft="B", **k))


def _release_while_another_holds_it(it: Subject) -> Refused:
    it.held()
    it.board.release(it.id, session=it.me, token=it.under)
    it.taken_by_another()
    return _of(it, "NOT_CLAIM_OWNER", lambda b, **k: b.release(it.id, session=it.me, token=it.under, **k))


def _done_with_another_note(it: Subject) -> Refused:
    it.held()
    it.board.done(it.id, session=it.me, token=it.under, note="A")
    return _of(it, "TASK_NOT_CLAIMED", lambda b, **k: b.done(it.id, session=it.me, token=it.under, note="B", **k))


def _done_of_what_was_failed(it: Subject) -> Refused:
    it.held()
    it.board.fail(it.id, session=it.me, token=it.under)
    return _of(it, "TASK_NOT_CLAIMED", lambda b, **k: b.done(it.id, session=it.me, token=it.under, **k))


def _fail_while_another_holds_it(it: Subject) -> Refused:
    it.held(retries=3)
    it.board.fail(it.id, session=it.me, token=it.under, reason="A")
    it.harness.clock.advance(61)
    it.taken_by_another()
    return _of(it, "NOT_CLAIM_OWNER", lambda b, **k: b.fail(it.id, session=it.me, token=it.under, reason="B", **k))


def _done_many_of_what_was_done(it: Subject) -> Refused:
    it.held()
    it.board.done(it.id, session=it.me, token=it.under)

    def ask(b: Board, **k: Any) -> Any:
        finished = b.done_many({it.id: it.under}, session=it.me, **k)
        if finished.ended:
            return finished
        raise _Lost(finished.lost[0].code)

    return _of(it, "TASK_NOT_CLAIMED", ask)


def _recover_of_an_older_claim(it: Subject) -> Refused:
    """The session was given the item again since, by a claim of its own."""
    it.add()
    it.claim(TTL_SECONDS)
    expire(it.harness)
    it.claim()
    return _of(it, "CLAIM_EXPIRED", lambda b, **k: b.recover(it.id, session=it.me, token=it.under, **k))


def _progress_after_the_end(it: Subject) -> Refused:
    it.held()
    it.board.release(it.id, session=it.me)
    return _of(it, "TASK_NOT_CLAIMED", lambda b, **k: b.progress(it.id, "late", session=it.me, token=it.under, **k))


def _force_release_of_an_older_claim(it: Subject) -> Refused:
    it.held()
    it.board.force_release(it.id, reason="A", token=it.under)
    it.taken_by_another()
    return _of(it, "NOT_CLAIM_OWNER", lambda b, **k: b.force_release(it.id, reason="B", token=it.under, **k))


def _second_approval(it: Subject) -> Refused:
    it.drafted()
    it.board.approve(it.id, token=it.under)
    return _of(it, "TASK_NOT_CLAIMABLE", lambda b, **k: b.approve(it.id, token=it.under, comment="B", **k))


def _second_cancel(it: Subject) -> Refused:
    it.add()
    it.board.cancel(it.id, reason="A")
    return _of(it, "TASK_NOT_CLAIMABLE", lambda b, **k: b.cancel(it.id, reason="B", **k))


def _second_leave(it: Subject) -> Refused:
    it.add()
    it.taken_by_another()
    it.board.wait(it.id, session=it.me)
    it.board.leave(it.id, session=it.me)
    return _of(it, "TASK_NOT_CLAIMED", lambda b, **k: b.leave(it.id, session=it.me, **k))


def _second_soft_release(it: Subject) -> Refused:
    it.add()
    it.board.soft_claim(it.id, session=it.me)
    it.board.soft_release(it.id, session=it.me)
    return _of(it, "TASK_NOT_CLAIMED", lambda b, **k: b.soft_release(it.id, session=it.me, **k))


def _second_end_of_a_session(it: Subject) -> Refused:
    it.held()
    it.board.end_session(it.me, reason="A")
    return _of(it, "SESSION_NOT_FOUND", lambda b, **k: b.end_session(it.me, reason="B", **k))


def _second_revocation(it: Subject) -> Refused:
    it.add()
    key, _ = it.board.create_key("viewer")
    it.board.revoke_key(key.id)
    return _of(it, "INVALID", lambda b, **k: b.revoke_key(key.id, **k))


REFUSED: dict[str, Callable[[Subject], Refused]] = {
    "submit of another draft": _submit_of_another_draft,
    "release while another holds it": _release_while_another_holds_it,
    "done with another note": _done_with_another_note,
    "done of what was failed": _done_of_what_was_failed,
    "fail while another holds it": _fail_while_another_holds_it,
    "done_many of what was done": _done_many_of_what_was_done,
    "recover of an older claim": _recover_of_an_older_claim,
    "progress after the end": _progress_after_the_end,
    "force_release of an older claim": _force_release_of_an_older_claim,
    "a second approval": _second_approval,
    "a second cancel": _second_cancel,
    "a second leave": _second_leave,
    "a second soft_release": _second_soft_release,
    "a second end of a session": _second_end_of_a_session,
    "a second revocation": _second_revocation,
}
