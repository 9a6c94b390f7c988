"""What the log says of an event is what the event says."""

from __future__ import annotations

from typing import Any

import pytest

from dibs.cli.event_lines import AMOUNT_COLUMNS_MAX, checks_and_cost, details
from dibs.cli.render import clock
from dibs.model import Event
from dibs.text import times

AT = 1_800_000_000_000
LATER = AT + 600_000


def words(kind: str, status: str, **data: Any) -> str:
    return details(Event(item="x", number=3, kind=kind, at=AT, status=status, token=1, actor="ann", data=data))[1]


@pytest.mark.parametrize(
    ("kind", "status", "data", "expected"),
    [
        ("claimed", "in_progress", {"ttl_seconds": 1800, "deadline_at": AT + 28_800_000}, "for 30m"),
        ("claimed", "in_progress", {"ttl_seconds": 1800, "deadline_at": LATER}, "for 10m"),
        ("claimed", "in_progress", {"ttl_seconds": 1e11, "deadline_at": AT + 10**14}, times.WHILE_ALIVE),
        ("approved", "done", {"comment": None, "draft_token": 2}, "the draft is the result"),
        ("approved", "done", {"comment": None, "draft_token": None}, "now done"),
        ("approved", "ready", {"comment": "go", "draft_token": None}, "go"),
        ("found", "done", {}, "now done"),
        ("found", "ready", {}, "now ready"),
        ("found", "failed", {}, "now failed"),
        ("expired", "ready", {"strikes": 1}, "1 strike"),
        ("expired", "failed", {"strikes": 5, "reason": "5 of 5 strikes"}, "5 strikes · 5 of 5 strikes · now failed"),
        ("failed", "failed", {"reason": "broken"}, "broken"),
        ("failed", "scheduled", {"not_before": LATER}, f"to be retried at {clock(LATER)}"),
        ("failed", "ready", {"not_before": AT}, "to be retried"),
        ("failed", "blocked", {"not_before": LATER}, "now blocked"),
        ("due", "ready", {}, "its time has come"),
        ("due", "blocked", {}, "a dependency is not done · now blocked"),
        ("unblocked", "scheduled", {}, "all dependencies are done · now scheduled"),
        ("edited", "ready", {"labels": ["a", "b"]}, "labels = a b"),
        (
            "edited",
            "pending_approval",
            {"title": "u", "needs_approval": True, "approved": False},
            "title = u · its approval is withdrawn",
        ),
        ("released", "parked", {"reason": "later"}, "later · now parked"),
        ("cancelled", "cancelled", {"reason": None}, ""),
    ],
)
def test_a_line_says_what_the_event_says(kind: str, status: str, data: dict[str, Any], expected: str) -> None:
    assert words(kind, status, **data) == expected


def test_a_cost_is_shown_as_json_in_short_lines() -> None:
    usage = {"input_tokens": 50, "cached": None, "more": {str(number): number for number in range(50)}}
    rounded, known, cut = checks_and_cost({}, {"usd": 0.0007000000000000001, "turns": 5, "usage": usage})
    assert (rounded, known) == ("usd: 0.0007", "turns: 5")
    assert cut.startswith('usage: {"input_tokens": 50, "cached": null, "more": {')
    assert len(cut) <= len("usage: ") + AMOUNT_COLUMNS_MAX
