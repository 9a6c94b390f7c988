"""What GitHub should show of an item: who works on it, or how the last run ended.

The text is public where the repository is. It has names of agents and instants, and nothing that an agent wrote: no
notes, reasons or drafts. A name stands in a code span, in which GitHub finds no mention, no link and no HTML.
"""

from __future__ import annotations

import re

from dibs.model import CANCELLED, IN_PROGRESS, PENDING_APPROVAL
from dibs.rules.event_kinds import LOST, OUTCOMES
from dibs.text import times
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.model import Detail

NAME_LENGTH_MAX = 100
_NOT_IN_SPAN = re.compile(r"[`\s]+")


class Presence(Value):
    """`text` is None if nobody has worked on the item; `agent` is the holder."""

    text: str | None
    agent: str | None = None


def presence(detail: Detail) -> Presence:
    run = detail.runs[0] if detail.runs else None
    if detail.item.status == IN_PROGRESS and detail.claim is not None:
        holder = detail.claim.agent
        text = f"{name(holder)} has been working on this since {instant(detail.claim.claimed_at)}."
        return Presence(text=text, agent=holder)
    if run is None:
        return Presence(text=None)
    how = OUTCOMES.get(run.outcome or "", LOST).sentence
    text = f"{name(run.agent)} {how} on {instant(run.ended_at or run.started_at)}."
    if detail.item.status == CANCELLED:
        text += " The work was cancelled."
    elif detail.item.status == PENDING_APPROVAL:
        text += " It waits for approval."
    elif run.outcome not in ("done", "rejected"):
        text += " Nobody is working on it now."
    return Presence(text=text)


def name(given: str) -> str:
    clean = "".join(one if one.isprintable() else " " for one in given[:NAME_LENGTH_MAX])
    return f"`{_NOT_IN_SPAN.sub(' ', clean).strip() or '?'}`"


def instant(at: int) -> str:
    """As people read it, by the minute."""
    found = times.iso(at)
    return f"{found[:10]} at {found[11:16]} UTC"
