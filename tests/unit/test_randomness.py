"""Delays are spread out, bounded, and finite however long an outage lasts."""

from __future__ import annotations

import pytest

from dibs.randomness import backoff_seconds, jittered, request_id, uniform


@pytest.mark.parametrize("attempt", [0, 3, 40, 5000])
def test_a_backoff_doubles_up_to_its_maximum(attempt: int) -> None:
    ceiling = min(30.0, 0.2 * 2 ** min(attempt, 10))
    drawn = [backoff_seconds(attempt, base_seconds=0.2, max_seconds=30.0) for _ in range(50)]
    assert all(ceiling / 2 <= one <= ceiling for one in drawn)
    assert len(set(drawn)) > 10, "a crowd would come back at once"


def test_what_is_drawn_lies_within_its_bounds() -> None:
    assert all(2 <= uniform(2, 3) < 3 for _ in range(100))
    assert all(4 <= jittered(8) <= 8 for _ in range(100))
    assert len({request_id() for _ in range(100)}) == 100
