"""Whether a run was lost: its session did not end it, and may not have noticed its end.

A run that an admin ended is lost at once. A run that lapsed is lost when another session claims the item, or the item
is cancelled; until then its session can recover it. If the session did, the run shares the fate of the run that
continues it.
"""

from __future__ import annotations

from dibs.model import CANCELLED
from dibs.rules.event_kinds import ADMIN, LAPSE, RESTORE, ended_by
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.model import Run
    from dibs.model.kinds import Instant

TAKEN_OVER = "taken_over"
#: Outcomes that an admin chose.
REVOKED = ended_by(ADMIN)
#: Outcomes that nobody chose. A restore ends every claim of the board, without regard to its holder.
UNCHOSEN = ended_by(LAPSE, RESTORE)


class Loss(Value):
    """How a run was lost, and when. `by` is the run that took the item over, if one did."""

    how: str
    at: Instant
    reason: str | None = None
    by: Run | None = None


def loss(run: Run, later: Sequence[Run], status: str) -> Loss | None:
    """How the run was lost; None if it was not. `later` are the later runs of the item, oldest first; `status` is that
    of the item."""
    for following in later:
        if run.outcome not in UNCHOSEN:
            break
        if following.session != run.session:
            return Loss(how=TAKEN_OVER, at=following.started_at, by=following)
        run = following
    if run.outcome in REVOKED:
        return Loss(how=run.outcome or "", at=run.ended_at or 0, reason=run.reason)
    if run.outcome in UNCHOSEN and status == CANCELLED:
        return Loss(how=CANCELLED, at=run.ended_at or 0, reason=run.reason)
    return None
