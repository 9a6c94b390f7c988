"""What dibs itself knows of an item, kept in its file as one line of JSON in the front matter.

The line is there for whoever builds the index again. People may break it: then it counts as not there.
"""

from __future__ import annotations

from dibs import check
from dibs.errors import Invalid
from dibs.model import Claim, Item
from dibs.store.vault.taskfile.front_matter import FACTS
from dibs.store.vault.taskfile.run_blocks import plain
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from dibs.store.vault.taskfile.front_matter import Chunk

COUNTS = ("attempts", "strikes", "failures")
CLAIM = ("token", "session", "agent", "claimed_at", "expires_at", "deadline_at", "ttl_seconds")


class Facts(Value):
    """What dibs itself knows of an item, as its file says it."""

    token: int
    attempts: int
    strikes: int
    failures: int
    created_by: str
    created_at: int
    needs_approval: bool
    approved: bool
    approval: dict[str, Any] | None
    claim: Claim | None
    #: The item whose file this was when the facts were written: a copy of the file says so, too.
    id: str | None = None
    #: The board's floor, if it was brought back from a backup: every token up to here may have been given.
    floor: int = 0


def read(chunk: Chunk | None, item: str, findings: list[str]) -> Facts | None:
    """The facts that stand there; None if there are none, or none that are right."""
    if chunk is None:
        return None
    try:
        said = check.json_object(chunk.value, FACTS)
        return Facts(
            token=_count(said, "token"),
            **{name: _count(said, name) for name in COUNTS},
            created_by=check.text(said.get("created_by"), "created_by"),
            created_at=_count(said, "created_at", None),
            needs_approval=check.flag(said.get("needs_approval", False), "needs_approval"),
            approved=check.flag(said.get("approved", False), "approved"),
            approval=_approval(said.get("approval")),
            claim=_claim(said.get("claim"), item),
            id=None if said.get("id") is None else check.item_id(said["id"]),
            floor=_count(said, "floor"),
        )
    except Invalid as error:
        findings.append(f"{FACTS}: {error}")
        return None


def told(item: Item, claim: Claim | None, approval: dict[str, Any] | None, floor: int) -> dict[str, Any]:
    """The facts of an item, but for what is nothing."""
    found: dict[str, Any] = {"id": item.id, "token": item.token}
    found |= {name: getattr(item, name) for name in COUNTS if getattr(item, name)}
    found |= {"created_by": item.created_by, "created_at": item.created_at}
    found |= {name: True for name in ("needs_approval", "approved") if getattr(item, name)}
    if floor > item.token:
        found["floor"] = floor
    if approval is not None:
        found["approval"] = approval
    if claim is not None:
        found["claim"] = {name: getattr(claim, name) for name in CLAIM}
    return found


def digest(draft: str | None) -> str:
    """By which an approval says what was approved."""
    from hashlib import sha256

    return sha256(plain(draft).encode()).hexdigest()[:16]


def _approval(said: Any) -> dict[str, Any] | None:
    if said is None:
        return None
    said = check.json_object(said, "approval")
    return {
        "actor": check.text(said.get("actor"), "actor"),
        "at": _count(said, "at", None),
        "comment": check.optional_text(said.get("comment"), "comment"),
        "token": check.token(said.get("token")),
        "draft": check.optional_text(said.get("draft"), "draft"),
    }


def _claim(said: Any, item: str) -> Claim | None:
    if said is None:
        return None
    said = check.json_object(said, "claim")
    claimed_at = _count(said, "claimed_at", None)
    return Claim(
        item=item,
        token=_count(said, "token", None),
        session=check.session_id(said.get("session")),
        agent=check.agent_name(said.get("agent")),
        claimed_at=claimed_at,
        renewed_at=claimed_at,
        expires_at=_count(said, "expires_at", None),
        deadline_at=_count(said, "deadline_at", None),
        ttl_seconds=check.number(said.get("ttl_seconds"), "ttl_seconds", low=0, high=1e9),
    )


def _count(said: dict[str, Any], name: str, otherwise: int | None = 0) -> int:
    return check.whole(said.get(name, otherwise), name, low=0, high=check.COUNT_MAX)
