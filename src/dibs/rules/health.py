"""The health of a session as a score for people, from 100 down to 0, with the reasons. It decides nothing."""

from __future__ import annotations

from dibs.model import PERSON
from dibs.model.dashboard import Deduction
from dibs.rules.fencing import LAPSED
from dibs.text import times

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dibs.config import Settings
    from dibs.model import Claim, Session
    from dibs.model.dashboard import Held, Seat

#: The runs that the shares of lost and failed ones are about.
RUNS = 10
STALE, ORPHANED = 20, 40
WARNING, EXPIRING = 10, 20
LOST, FAILED = 25, 20
CONTEXT, CONTEXT_PERCENT = 15, 85


def score(
    now: int, session: Session | Seat, claims: Sequence[Claim | Held], outcomes: Sequence[str], settings: Settings
) -> tuple[int, tuple[Deduction, ...]]:
    """The score of a session with these claims, whose ended runs had these outcomes, the latest first."""
    reasons = tuple(_deductions(now, session, claims, outcomes[:RUNS], settings))
    return max(0, 100 - sum(one.points for one in reasons)), reasons


def _deductions(
    now: int, session: Session | Seat, claims: Sequence[Claim | Held], outcomes: Sequence[str], settings: Settings
) -> Iterator[Deduction]:
    # A session without claims keeps nothing from others by its silence, and a person sends no heartbeats.
    if claims and session.kind != PERSON:
        silent = (now - min(claim.renewed_at for claim in claims)) / 1000
        if silent > min(settings.stale_seconds, settings.orphan_seconds):
            code, points = ("orphaned", ORPHANED) if silent > settings.orphan_seconds else ("stale", STALE)
            yield Deduction(code=code, points=points, text=f"silent for {times.span(silent)}")
    if claims:
        first = min(claims, key=lambda claim: claim.expires_at)
        left = (first.expires_at - now) / 1000
        if left <= max(settings.expiring_seconds, settings.warning_seconds):
            code, points = ("expiring", EXPIRING) if left <= settings.expiring_seconds else ("warning", WARNING)
            yield Deduction(code=code, points=points, text=f"{first.item} expires in {times.span(left)}")
    for code, points, kinds in (("lost", LOST, LAPSED), ("failed", FAILED, ("failed",))) if outcomes else ():
        count = sum(outcome in kinds for outcome in outcomes)
        if count:
            text = f"{count} of the last {len(outcomes)} runs {'were lost' if code == 'lost' else 'failed'}"
            # Half a point counts, as in the dashboard; round() would choose the even number.
            yield Deduction(code=code, points=int(points * count / len(outcomes) + 0.5), text=text)
    context = session.meta.get("context_percent")
    if isinstance(context, int | float) and context > CONTEXT_PERCENT:
        yield Deduction(code="context", points=CONTEXT, text=f"{context:.0f} % of the context is used")
