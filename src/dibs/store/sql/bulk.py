"""The verb `bulk`: one verb of people on many items, in one transaction. Each item is decided for itself."""

from __future__ import annotations

from dibs.errors import DibsError, Invalid, StoreUnavailable
from dibs.model.dashboard import Bulk, BulkRefusal
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
    "reopen": item_verbs.reopen,
    "approve": item_verbs.approve,
    "send_back": item_verbs.send_back,
    "reject": item_verbs.reject,
    "force_release": item_verbs.force_release,
}


#: Verbs that a claim can prevent.
PREVENTED_BY_CLAIMS = frozenset({"park", "retry", "reopen"})


class Matches:
    """The items that matched a filter, as they were read: one that has changed since is refused."""

    def __init__(self, total: int, items: list[dict[str, Any]]) -> None:
        self.total, self.items = total, items


def find(t: Transaction, filter: Mapping[str, Any], expect: int) -> Matches:
    """Read before the transaction that changes the items, since it looks at everything that has not ended."""
    found = paging.matching(t, projection.of_board(t, after_deaths=False), filter, limit=expect)
    return Matches(found.total, [{"id": id, "revision": revision} for id, revision in found.items])


def bulk(
    t: Transaction,
    verb: str,
    *,
    args: Mapping[str, Any],
    items: Sequence[Mapping[str, Any]] = (),
    matches: Matches | None = None,
    expect: int | None = None,
    actor: str,
) -> Bulk:
    if matches is not None and matches.total != expect:
        text = f"the filter matches {matches.total} items by now, not {expect}; look again"
        raise Invalid(text, field="expect", matches=matches.total)
    wanted = items if matches is None else matches.items
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
