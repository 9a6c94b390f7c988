"""Which parts of the screen a view has, at which width."""

from __future__ import annotations

#: The widths from which the queue stands beside the view Now, and an item beside every view.
QUEUE_COLUMNS = 120
DETAIL_COLUMNS = 160

#: The lists of each view, by the key that follows `g`.
VIEWS = {
    "now": ("needs", "flight", "events"),
    "queue": ("queue",),
    "flight": ("flight",),
    "sessions": ("sessions",),
    "approvals": ("approvals",),
    "events": ("events",),
}
PLACES = {name[0]: name for name in VIEWS}
#: Views that only the dashboard in a browser has.
ELSEWHERE = {"t": "the timeline", "m": "the metrics"}


def arrangement(place: str, columns: int) -> frozenset[str]:
    """The parts that are shown; the view of one item has nothing else."""
    if place == "item":
        return frozenset({"detail"})
    shown = set(VIEWS[place])
    if place == "now" and columns >= QUEUE_COLUMNS:
        shown.add("queue")
    if columns >= DETAIL_COLUMNS:
        shown.add("detail")
    return frozenset(shown)
