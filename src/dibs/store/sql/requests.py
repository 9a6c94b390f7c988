"""Idempotency keys: the answer of a verb is kept under its request id, and a repeated call gets it again."""

from __future__ import annotations

from dibs.rules.refusals import request_reused
from dibs.store.sql import rows
from dibs.text import json_text, wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from dibs.model import Request
    from dibs.store.sql.transaction import Transaction
    from dibs.value import Value

#: How many outdated answers are kept nevertheless: after a jump of the clock, a retry must still find its answer.
OUTDATED_KEPT = 1000


def answered(t: Transaction, request: Request, kind: type[Value] | None) -> Any:
    """The answer that is kept under this request id, as values of `kind`; None if none is kept."""
    row = t.one("request", actor=request.actor, id=request.id)
    if row is None:
        return None
    if row[0] != request.fingerprint:
        raise request_reused(request)
    assert kind is not None
    answer = rows.loads(row[1])
    if isinstance(answer, list):
        return tuple(wire.decode(kind, one) for one in answer)
    return wire.decode(kind, answer)


def keep(t: Transaction, request: Request, answer: Any) -> None:
    kept = json_text.dumps(wire.encode(answer))
    t.run("keep_request", {**request.as_dict(), "answer": kept, "at": t.now})
