"""The kinds of events and the ends of runs, one row each: what a screen, a log, a metric or a document says of them.

No rule reads these tables, so a claim does not import them. Colours are tones, which each screen has its own colours
for. `tests/unit/test_event_kinds.py` finds a kind that a rule writes and this table lacks, and the reverse.
"""

from __future__ import annotations

from dibs.model import BLOCKED, EDITABLE, FAILED, PARKED, PENDING_APPROVAL, READY, SCHEDULED, STATUSES
from dibs.rules.items import CONTENT
from dibs.rules.table import RESTING, TRANSITIONS
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: The words for colours. What is `notable` was decided by a person, or waits for one.
PLAIN, FAINT, GOOD, ACTIVE, WARNING, BAD, NOTABLE = ("plain", "faint", "good", "active", "warning", "bad", "notable")
#: Who or what ends a run: its session, a lapse of its claim, an admin, or a restore of the board.
HOLDER, LAPSE, ADMIN, RESTORE = ("holder", "lapse", "admin", "restore")


class RunEnd(Value):
    """How the end of a run is shown: as a sign, as a word, and as a sentence about its agent."""

    sign: str
    word: str
    tone: str
    sentence: str


_STOPPED, _LOST = "stopped working on this", "lost the claim of this"
# No two of them differ only in their tone, which not everybody sees.
RETURNED = RunEnd(sign="↺", word="released", tone=FAINT, sentence=_STOPPED)
CANCELLED = RunEnd(sign="–", word="cancelled", tone=FAINT, sentence=_LOST)  # noqa: RUF001  it is a dash
HANDED = RunEnd(sign="→", word="handed over", tone=ACTIVE, sentence="handed this on")
FINISHED = RunEnd(sign="✓", word="done", tone=GOOD, sentence="finished this")
SUBMITTED = RunEnd(sign="»", word="submitted", tone=NOTABLE, sentence="submitted this for approval")
REJECTED = RunEnd(sign="⊗", word="rejected", tone=BAD, sentence="rejected this")
BROKEN = RunEnd(sign="✕", word="failed", tone=BAD, sentence="could not finish this")
REVOKED = RunEnd(sign="⇤", word="force-released", tone=NOTABLE, sentence=_LOST)
LOST = RunEnd(sign="!", word="lost", tone=WARNING, sentence=_LOST)
#: From the least to the most important one to see.
RUN_ENDS = (RETURNED, CANCELLED, HANDED, FINISHED, SUBMITTED, REJECTED, BROKEN, REVOKED, LOST)


class EventKind(Value):
    """`after` are the statuses that it may lead to; none: it leaves the item in its status. `usual` is the one that
    goes without saying; None: none needs to be said. `changes` are the fields of the item that it may change, besides
    `status`, `revision` and `updated_at`. A kind that ends a run is the outcome of the
    run: it has an `end`, and says who or what the run is `ended_by`."""

    name: str
    tone: str
    after: tuple[str, ...]
    usual: str | None = None
    changes: tuple[str, ...] = ()
    end: RunEnd | None = None
    ended_by: str | None = None


def _by(verb: str, *never: str) -> tuple[str, ...]:
    """The statuses that the verb leads to, but for those that it never leads to by this kind of event."""
    led = {status for statuses in TRANSITIONS[verb].values() for status in statuses}
    return tuple(status for status in STATUSES if status in led and status not in never)


def _kind(name: str, tone: str, after: tuple[str, ...], usual: str | None = None, *changes: str) -> EventKind:
    return EventKind(name=name, tone=tone, after=after, usual=usual, changes=changes)


def _end(name: str, end: RunEnd, by: str, *row: Any) -> EventKind:
    return _kind(name, *row).replace(end=end, ended_by=by)


_OFFER = ("offered_to", "offer_expires_at")
_APPROVAL = ("needs_approval", "approved")
_COUNTS = ("strikes", "failures")

#: In the order in which docs/protocol.md explains them.
EVENT_KINDS = (
    _kind("added", GOOD, RESTING, None, *CONTENT, "token"),
    _kind("edited", PLAIN, STATUSES, None, *EDITABLE, *_APPROVAL),
    # It follows whatever made an item ready.
    _kind("claimable", FAINT, (READY,), None, *_OFFER),
    _kind("offered", ACTIVE, (READY,), None, *_OFFER),
    _kind("offer_lapsed", WARNING, (READY,), None, *_OFFER),
    _kind("unblocked", GOOD, TRANSITIONS["settle"][BLOCKED], READY),
    _kind("blocked", WARNING, (BLOCKED,)),
    _kind("due", GOOD, TRANSITIONS["settle"][SCHEDULED], READY),
    _kind("claimed", ACTIVE, _by("claim"), None, "attempts", "token"),
    _kind("progress", PLAIN, ()),
    _end("released", RETURNED, HOLDER, WARNING, _by("release"), READY),
    # The claim of the other session follows in the same step.
    _end("handed", HANDED, HOLDER, ACTIVE, (READY,)),
    _end("forgotten", RETURNED, HOLDER, WARNING, _by("release", PARKED), READY),
    _end("force_released", REVOKED, ADMIN, NOTABLE, _by("force_release"), READY),
    _end("expired", LOST, LAPSE, WARNING, _by("expire"), READY, "strikes"),
    _end("owner_died", LOST, LAPSE, BAD, _by("owner_died"), READY, "strikes"),
    _end("done", FINISHED, HOLDER, GOOD, _by("done", PENDING_APPROVAL)),
    _end("failed", BROKEN, HOLDER, BAD, _by("fail"), FAILED, "failures", "not_before"),
    _end("submitted", SUBMITTED, HOLDER, NOTABLE, _by("submit"), None, *_APPROVAL),
    _kind("approved", GOOD, _by("approve"), READY, *_APPROVAL),
    _kind("sent_back", WARNING, _by("send_back"), READY, *_APPROVAL),
    _end("rejected", REJECTED, HOLDER, BAD, _by("reject")),
    _kind("parked", WARNING, _by("park")),
    _kind("unparked", GOOD, _by("unpark"), READY),
    _kind("retried", GOOD, _by("retry"), READY, *_COUNTS, "not_before"),
    _kind("reopened", GOOD, _by("reopen"), READY, *_COUNTS, *_APPROVAL, "token"),
    _end("cancelled", CANCELLED, ADMIN, NOTABLE, _by("cancel")),
    _end("restored", LOST, RESTORE, NOTABLE, STATUSES, READY, "token", *_OFFER),
    _kind("annotated", PLAIN, ()),
    # A file in a vault can be moved anywhere, so the status is always said.
    _kind("found", NOTABLE, STATUSES, "", "attempts", *_COUNTS, *_APPROVAL, "token"),
)
BY_NAME = {kind.name: kind for kind in EVENT_KINDS}
#: How a run ended, by its outcome.
OUTCOMES = {kind.name: kind.end for kind in EVENT_KINDS if kind.end is not None}


def ended_by(*who: str) -> frozenset[str]:
    """The outcomes of runs that one of these ended."""
    return frozenset(kind.name for kind in EVENT_KINDS if kind.ended_by in who)


def changing(field: str) -> frozenset[str]:
    """The kinds that may change this field of an item."""
    return frozenset(kind.name for kind in EVENT_KINDS if field in kind.changes)
