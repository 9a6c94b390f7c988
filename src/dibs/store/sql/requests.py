"""Answers kept under their request ids, so that a repeated verb is answered and not done again."""

from __future__ import annotations

from dibs.errors import Invalid
from dibs.text import json_text, wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from dibs.model import Request
    from dibs.store.sql.transaction import Transaction
    from dibs.value import Value

#: So many of those that are too old are kept all the same: if a clock leaps, a retry must not be done again.
OUTDATED_KEPT = 1000


def answered(t: Transaction, request: Request, kind: type[Value] | None) -> Any:
    """The answer that was given under this request id, as values of `kind`; None if there is none."""
    row = t.one("request", actor=request.actor, id=request.id)
    if row is None:
        return None
    if row[0] != request.fingerprint:
        raise reused(request)
    assert kind is not None, "a verb with requests says what it answers with"
    answer = json_text.loads(row[1])
    if isinstance(answer, list):
        return tuple(wire.decode(kind, one) for one in answer)
    return wire.decode(kind, answer)


def keep(t: Transaction, request: Request, answer: Any) -> None:
    kept = json_text.dumps(wire.encode(answer))
    t.run("keep_request", {**request.as_dict(), "answer": kept, "at": t.now})


def reused(request: Request) -> Invalid:
    return Invalid(
        f"request id {request.id} was used for something else; a new request needs a new id", field="request_id"
    )
