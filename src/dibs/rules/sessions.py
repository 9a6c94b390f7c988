"""Decisions about sessions: which one may be the parent of which, when one is given up, and what is told of its meta.

A child session, such as that of a subagent, ends with its parent. A live session keeps the parent that it was started
with, and all ancestors of a live session are live: every verb that ends a session ends its descendants, too.
"""

from __future__ import annotations

from dibs.errors import Invalid
from dibs.text import json_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from dibs.model import Session

#: A session that holds nothing ends when it has called no verb for so long. Its client starts it again on its return.
SILENT_SECONDS = 86400.0
WAS_SILENT = "silent for a day"
#: How the ids of sessions begin in whose meta dibs keeps what it knows of GitHub: the cursor of a repository, and the
#: ends of its subjects. They hold nothing, and may call no verb for long.
KEPT_PREFIXES = CURSOR_PREFIX, ENDS_PREFIX = ("github:", "github-ends:")
#: What a list tells of the meta of each session: entries that are short, and together no longer than this.
META_ENTRY_MAX = 200
META_SHOWN_MAX = 1000
#: The entries that are told first: health is scored by it.
META_FIRST = ("context_percent",)
#: How many ancestors a session can have. An end of a session ends all its descendants in one transaction.
ANCESTORS_MAX = 4


def is_silent(session: Session, now: int) -> bool:
    """Whether a session ends that holds nothing, waits for nothing and has no live child."""
    if session.ended_at is not None or session.id.startswith(KEPT_PREFIXES):
        return False
    return session.seen_at < silent_since(now)


def silent_since(now: int) -> int:
    """Who was seen last before this instant is silent."""
    return now - round(SILENT_SECONDS * 1000)


def told(session: Session) -> Session:
    """A session for a list, with as much of its meta as a list of thousands can have."""
    found: dict[str, Any] = {}
    size = 0
    for name in sorted(session.meta, key=lambda name: name not in META_FIRST):
        length = len(name) + len(json_text.dumps(session.meta[name]))
        if length <= META_ENTRY_MAX and size + length <= META_SHOWN_MAX:
            found[name] = session.meta[name]
            size += length
    return session if len(found) == len(session.meta) else session.replace(meta=found)


def require_parent(session: str, ancestors: Sequence[str]) -> None:
    """Refuse these ancestors, nearest first, for a session that is about to start."""
    if session in ancestors:
        raise Invalid(
            f"session {session} cannot be its own parent or a child of its own children; name another parent",
            field="parent",
            session=session,
            parent=ancestors[0],
        )
    if len(ancestors) > ANCESTORS_MAX:
        raise Invalid(
            f"session {ancestors[0]} has {ANCESTORS_MAX} ancestors, which is the most, so it can have no children;"
            f" name its parent {ancestors[1]} instead",
            field="parent",
            session=session,
            parent=ancestors[0],
            ancestors_max=ANCESTORS_MAX,
        )


def require_same_parent(live: Session, again: Session) -> None:
    """Refuse another parent for a live session that is started again; one that names none keeps its own."""
    if again.parent in (None, live.parent):
        return
    has = "has no parent" if live.parent is None else f"is a child of {live.parent}"
    raise Invalid(
        f"session {live.id} is live and {has}; end it first, or choose another id",
        field="parent",
        session=live.id,
        parent=live.parent,
    )


def merged_meta(meta: Mapping[str, Any], changes: Mapping[str, Any], bytes_max: int) -> dict[str, Any]:
    """The meta of a session with these changes, of which null removes a name."""
    merged = {name: value for name, value in {**meta, **changes}.items() if name not in changes or value is not None}
    # As text, each entry is `"name": value, `. Counted without the text as a whole, so that SQL counts the same.
    size = sum(len(name.encode()) + len(json_text.dumps(value).encode()) + 6 for name, value in merged.items())
    if size > bytes_max:
        raise meta_too_large(size, bytes_max)
    return merged


def meta_too_large(size: int, bytes_max: int) -> Invalid:
    return Invalid(
        f"the session's meta would have {size} bytes; {bytes_max} is the most: null removes a name from it",
        field="meta",
        bytes_max=bytes_max,
    )
