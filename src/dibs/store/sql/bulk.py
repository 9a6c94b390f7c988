"""The verb `bulk`: one verb of people on many items, in one transaction. Each item is decided for itself."""

from __future__ import annotations

from dibs.errors import DibsError, Invalid, StoreUnavailable
from dibs.model.dashboard import Bulk, BulkRefusal
from dibs.store.contract import find_none
from dibs.store.sql import item_verbs, paging, projection
from dibs.store.sql.transaction import Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from dibs.store.sql.transaction import Transaction

VERBS: dict[str, Callable[..., Any]] = {
    "park": item_verbs.park,
    "unpark": item_verbs.unpark,
    "cancel": item_verbs.cancel,
    "retry": item_verbs.retry,
    "approve": item_verbs.approve,
    "send_back": item_verbs.send_back,
    "reject": item_verbs.reject,
    "force_release": item_verbs.force_release,
}


def bulk(
    t: Transaction,
    verb: str,
    *,
    args: Mapping[str, Any],
    items: Sequence[Mapping[str, Any]] = (),
    filter: Mapping[str, Any] | None = None,
    expect: int | None = None,
    actor: str,
) -> Bulk:
    wanted = items if filter is None else _found(t, filter, expect)
    # All of them first, in the order that all transactions use: the caller's own order could deadlock with another's.
    t.lock_items(one["id"] for one in wanted)
    done: list[str] = []
    refused: list[BulkRefusal] = []
    for one in wanted:
        refusal = _refusal(t, VERBS[verb], args, one, actor)
        if refusal is None:
            done.append(one["id"])
        else:
            refused.append(BulkRefusal(item=one["id"], code=refusal.code, detail=refusal.message))
    return Bulk(done=tuple(done), refused=tuple(refused))


def _refusal(
    t: Transaction, run: Callable[..., Any], args: Mapping[str, Any], one: Mapping[str, Any], actor: str
) -> DibsError | None:
    """Run the verb on one item. A refusal comes before anything of the verb is written, and what time has changed is
    recorded in any case, so the other items are not affected."""
    token = {} if one.get("token") is None else {"token": one["token"]}
    try:
        if one.get("revision") is not None:
            item_verbs.as_read(t, one["id"], one["revision"])
        run(t, one["id"], actor=actor, **args, **token)
    except Refused as refused:
        return refused.refusal
    except StoreUnavailable:
        raise
    except DibsError as refusal:
        return refusal
    return None


def _found(t: Transaction, filter: Mapping[str, Any], expect: int | None) -> list[dict[str, Any]]:
    status, type = filter["status"], filter["type"]
    others = {name: filter[name] for name in ("project", "label", "agent", "q")}
    candidates, _ = paging.matching(t, projection.of_board(t, find_none), **others)
    found = [
        {"id": one.id} for one in candidates if (not status or one.status in status) and (not type or one.type in type)
    ]
    if len(found) != expect:
        text = f"the filter matches {len(found)} items by now, not {expect}; look again"
        raise Invalid(text, field="expect", matches=len(found))
    return found
