"""`REFUSED`: calls that have to be refused, because an earlier and different call of the same verb has left nothing to
do. To take the earlier effect for one's own would be a wrong answer.
"""

from __future__ import annotations

from dibs.errors import DibsError
from dibs.testing.conformance.asking import TTL_SECONDS, expire
from dibs.testing.conformance.call_subject import Subject

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from dibs.board import Board


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
