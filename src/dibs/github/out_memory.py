"""What was written to GitHub for an item, in its payload as `external.out`. It is changed by an edit that names the
revision.

    comment, mark, writer   the id of the comment, what marks it as ours, and the watcher that makes it
    extra                   ids of comments that are to be deleted: another watcher was faster
    label, assigned         what is to be taken away again
    commits, green          commits and the tokens of their runs, see claim_status.py

Whoever edits the item can write anything there: what has another shape counts as unknown.
"""

from __future__ import annotations

import re

from dibs import check
from dibs.errors import Invalid, ItemChanged
from dibs.github.apply import ACTOR
from dibs.github.decide import OUT, external_of
from dibs.github.wiped import restored
from dibs.rules.table import EXTERNAL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from dibs.board import Board
    from dibs.model import Item

    Memory = dict[str, Any]

EDITS_MAX = 20
#: How many comments wait to be deleted.
EXTRA_MAX = 10
_MARK = re.compile(r"[0-9a-f]{16}")
_SHA = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


def memory(item: Item) -> Memory:
    found = external_of(item).get(OUT)
    known = dict(found) if isinstance(found, dict) else {}
    mark = known.get("mark")
    return known if mark is None or (isinstance(mark, str) and _MARK.fullmatch(mark)) else without(known, "mark")


def remember(board: Board, item: str, change: Callable[[Memory], Memory | None]) -> Memory:
    """Change what the item remembers, in one step; None leaves it as it is. The memory afterwards."""
    for _ in range(EDITS_MAX):
        found = restored(board, board.get(item).item)
        known = memory(found)
        wanted = change(known)
        if wanted is None or wanted == known:
            return known
        external = {**external_of(found), OUT: wanted}
        try:
            payload = {**found.payload, EXTERNAL: external}
            board.edit(item, payload=payload, revision=found.revision, actor=ACTOR)
        except ItemChanged:
            continue
        return wanted
    raise Invalid(f"{item} keeps changing; its next event leads to another look")


def without(known: Memory, name: str) -> Memory:
    return {key: value for key, value in known.items() if key != name}


def with_extra(known: Memory, *, add: Sequence[int] = (), remove: Sequence[int] = ()) -> Memory:
    ids = list(dict.fromkeys([*(one for one in numbers(known.get("extra")) if one not in remove), *add]))[-EXTRA_MAX:]
    return {**known, "extra": ids} if ids else without(known, "extra")


def with_assigned(known: Memory, *, add: Sequence[str] = (), remove: Sequence[str] = ()) -> Memory:
    logins = list(dict.fromkeys([*(one for one in texts(known.get("assigned")) if one not in remove), *add]))
    return {**known, "assigned": logins} if logins else without(known, "assigned")


def with_tokens(known: Memory, name: str, tokens: Mapping[str, int], limit: int) -> Memory:
    """With the tokens of these commits, of which the last are kept."""
    merged = {**tokens_of(known, name), **tokens}
    return {**known, name: dict(list(merged.items())[-limit:])} if merged else without(known, name)


def tokens_of(known: Memory, name: str) -> dict[str, int]:
    """The tokens of commits."""
    found = known.get(name)
    entries = found.items() if isinstance(found, dict) else ()
    return {sha: token for sha, token in entries if _SHA.fullmatch(sha) and _is_token(token)}


def texts(given: object) -> list[str]:
    return [one for one in given if isinstance(one, str)] if isinstance(given, list) else []


def numbers(given: object) -> list[int]:
    return [one for one in given if _is_token(one)] if isinstance(given, list) else []


def _is_token(given: object) -> bool:
    return isinstance(given, int) and not isinstance(given, bool) and 0 < given <= check.TOKEN_MAX
