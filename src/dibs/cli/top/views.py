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
    "timeline": ("timeline",),
    "metrics": ("metrics",),
}
PLACES = {name[0]: name for name in VIEWS}
#: The wall display has no letter after `g`: `w` shows it, and goes back.
WALL = ("needs", "flight")
CHARTS = frozenset({"timeline", "metrics"})


def arrangement(place: str, columns: int) -> frozenset[str]:
    """The parts that are shown; an item on the whole screen, a chart and the wall display have nothing beside them."""
    if place == "item":
        return frozenset({"detail"})
    if place == "wall":
        return frozenset(WALL)
    if place in CHARTS:
        return frozenset({place})
    shown = set(VIEWS[place])
    if place == "now" and columns >= QUEUE_COLUMNS:
        shown.add("queue")
    if columns >= DETAIL_COLUMNS:
        shown.add("detail")
    return frozenset(shown)
