"""The facts of an item: what dibs itself knows, as one line of JSON in the front matter of its file.

A rebuilt index is made from this line. If a person breaks it, it counts as absent.
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

    from dibs.model.kinds import Instant
    from dibs.store.vault.taskfile.front_matter import Chunk

COUNTS = ("attempts", "strikes", "failures")
CLAIM = ("token", "session", "agent", "claimed_at", "expires_at", "deadline_at", "ttl_seconds")


class Facts(Value):
    token: int
    attempts: int
    strikes: int
    failures: int
    created_by: str
    created_at: Instant
    needs_approval: bool
    approved: bool
    approval: dict[str, Any] | None
    claim: Claim | None
    #: The resources that the claim holds. Its holder may have added some.
    reserved: tuple[str, ...] = ()
    #: The item whose file this was when the facts were written. A copy of the file has the same line.
    id: str | None = None
    #: The board's token floor after a restore: every token up to here may have been given.
    floor: int = 0


def read(chunk: Chunk | None, item: str, findings: list[str]) -> Facts | None:
    """Parse the facts; None if they are absent or wrong."""
    if chunk is None:
        return None
    try:
        given = check.json_object(chunk.value, FACTS)
        return Facts(
            token=_count(given, "token"),
            **{name: _count(given, name) for name in COUNTS},
            created_by=check.text(given.get("created_by"), "created_by"),
            created_at=_count(given, "created_at", None),
            needs_approval=check.flag(given.get("needs_approval", False), "needs_approval"),
            approved=check.flag(given.get("approved", False), "approved"),
            approval=_approval(given.get("approval")),
            claim=_claim(given.get("claim"), item),
            reserved=check.resources((given.get("claim") or {}).get("resources", ())),
            id=None if given.get("id") is None else check.item_id(given["id"]),
            floor=_count(given, "floor"),
        )
    except Invalid as error:
        findings.append(f"{FACTS}: {error}")
        return None


def floor(chunk: Chunk | None, item: str) -> int:
    """The floor in the facts. Nearly no file has one, so the other facts are rarely read for it."""
    if chunk is None or not isinstance(chunk.value, dict) or "floor" not in chunk.value:
        return 0
    found = read(chunk, item, [])
    return 0 if found is None else found.floor


def payload(item: Item, claim: Claim | None, approval: dict[str, Any] | None, floor: int) -> dict[str, Any]:
    """The facts of an item as JSON, without zeros and other defaults."""
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
        if item.resources:
            found["claim"]["resources"] = list(item.resources)
    return found


def digest(draft: str | None) -> str:
    """The digest of an approved draft, which an approval records."""
    from hashlib import sha256

    return sha256(plain(draft).encode()).hexdigest()[:16]


def _approval(given: Any) -> dict[str, Any] | None:
    if given is None:
        return None
    given = check.json_object(given, "approval")
    return {
        "actor": check.text(given.get("actor"), "actor"),
        "at": _count(given, "at", None),
        "comment": check.optional_text(given.get("comment"), "comment"),
        "token": check.token(given.get("token")),
        "draft": check.optional_text(given.get("draft"), "draft"),
    }


def _claim(given: Any, item: str) -> Claim | None:
    if given is None:
        return None
    given = check.json_object(given, "claim")
    claimed_at = _count(given, "claimed_at", None)
    return Claim(
        item=item,
        token=_count(given, "token", None),
        session=check.session_id(given.get("session")),
        agent=check.agent_name(given.get("agent")),
        claimed_at=claimed_at,
        renewed_at=claimed_at,
        expires_at=_count(given, "expires_at", None),
        deadline_at=_count(given, "deadline_at", None),
        ttl_seconds=check.number(given.get("ttl_seconds"), "ttl_seconds", low=0, high=1e9),
    )


def _count(given: dict[str, Any], name: str, otherwise: int | None = 0) -> int:
    return check.whole(given.get(name, otherwise), name, low=0, high=check.COUNT_MAX)
