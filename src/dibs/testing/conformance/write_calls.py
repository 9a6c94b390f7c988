"""`CALLS`: every verb that writes, as one call on an item of its own that has to succeed."""

from __future__ import annotations

from dibs.testing.conformance.asking import TTL_SECONDS, expire, session
from dibs.testing.conformance.call_subject import Call, Subject, same_item
from dibs.testing.conformance.repeatable_calls import REPEATABLE, soft_claims

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from dibs.board import Board


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


def _claim_subject(it: Subject) -> Call:
    it.add(subject=it.id)
    return Call(lambda b, **k: b.claim_subject(it.id, session=it.me, **k), lambda: it.count("claimed"), it.is_claim)


def _hand(it: Subject) -> Call:
    it.held()
    to = session(it.board, "other")

    def ask(b: Board, **k: Any) -> Any:
        return b.hand(it.id, to=to, session=it.me, token=it.under, **k)

    return Call(ask, lambda: it.count("handed"), lambda grant: grant.claim.session == to)


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

    return Call(ask, lambda: 1 - soft_claims(it), lambda soft: soft.session == it.me)


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
    "claim_subject": _claim_subject,
    "hand": _hand,
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
    **REPEATABLE,
}
TAKE_NO_REQUEST_ID = frozenset(REPEATABLE)
