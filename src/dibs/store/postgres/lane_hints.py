"""Hints for `next`: for each lane, the `seq` below which this process lately found no claimable item.

`next` starts its search there instead of at the start of the lane, where dead index entries of claimed items may not
have been vacuumed yet. An item that returns to its lane lowers the hint. `next` also searches all lanes in full, as a
rule every second, so that no item is missed for longer.
"""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: The next full search follows after this many times the duration of the last one, and at the latest after so many
#: seconds.
LOOK_COST_MAX = 20
LOOK_SECONDS_MAX = 5.0


class LaneHints:
    def __init__(self, look_seconds: float) -> None:
        self._look_seconds = look_seconds
        self._full_search_at = 0.0
        self._lows: dict[int, int] = {}
        self._returns = 0

    def hints(self) -> tuple[int, bool, list[int], list[int]]:
        """How many items have returned; whether to search in full; and if not, the lanes and the start in each."""
        returns = self._returns
        if time.monotonic() >= self._full_search_at:
            return returns, True, [], []
        known = list(self._lows.items())
        return returns, False, [lane for lane, _ in known], [low for _, low in known]

    def learn(self, answer: dict[str, Any], returns: int) -> None:
        """Learn from the answer of a search that began when `returns` items had returned."""
        if answer.get("thorough"):
            cost = min(LOOK_SECONDS_MAX, LOOK_COST_MAX * answer["look_seconds"])
            self._full_search_at = time.monotonic() + max(self._look_seconds, cost) if self._look_seconds else 0.0
            self._lows.clear()
        if returns != self._returns:
            return  # the search may have passed the place of an item that returned meanwhile
        for lane, low in zip(answer.get("lanes", ()), answer.get("lows", ()), strict=True):
            self._lows[lane] = max(low, self._lows.get(lane, 0))

    def forget(self) -> None:
        """Drop all hints: an item returned to an unknown lane."""
        self._returns += 1
        self._lows.clear()

    def item_returned(self, item: dict[str, Any]) -> None:
        self._returns += 1
        low = self._lows.get(item["lane"])
        if low is not None and item["seq"] < low:
            self._lows[item["lane"]] = item["seq"]
