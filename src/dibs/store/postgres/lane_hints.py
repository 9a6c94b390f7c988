"""What a process remembers of the lanes: for each, the age below which it lately saw nothing to take.

`next` starts its look there and not at a lane's beginning, which may be littered with what was taken and cannot be
cleaned away yet. These are hints: lowered by what comes back, and looked past at least every second, so that nothing
is passed over for longer than that.
"""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: A look at everything is taken again after so many times what it cost, and after this long at the latest.
LOOK_COST_MAX = 20
LOOK_SECONDS_MAX = 5.0


class Lanes:
    def __init__(self, look_seconds: float) -> None:
        self._look_seconds = look_seconds
        self._look_at = 0.0
        self._lows: dict[int, int] = {}
        self._returns = 0

    def hints(self) -> tuple[int, bool, list[int], list[int]]:
        """What came back so far; whether to look at everything this time; else the lanes, and where to begin."""
        returns = self._returns
        if time.monotonic() >= self._look_at:
            return returns, True, [], []
        known = list(self._lows.items())
        return returns, False, [lane for lane, _ in known], [low for _, low in known]

    def learn(self, answer: dict[str, Any], returns: int) -> None:
        """What a look found that began at `returns`, and what it cost if it was at everything."""
        if answer.get("thorough"):
            cost = min(LOOK_SECONDS_MAX, LOOK_COST_MAX * answer["look_seconds"])
            self._look_at = time.monotonic() + max(self._look_seconds, cost) if self._look_seconds else 0.0
            self._lows.clear()
        if returns != self._returns:
            return  # it may have looked before that came back
        for lane, low in zip(answer.get("lanes", ()), answer.get("lows", ()), strict=True):
            self._lows[lane] = max(low, self._lows.get(lane, 0))

    def forget(self) -> None:
        """Something came back, nobody says where."""
        self._returns += 1
        self._lows.clear()

    def came_back(self, item: dict[str, Any]) -> None:
        """An item of this age is free again."""
        self._returns += 1
        low = self._lows.get(item["lane"])
        if low is not None and item["seq"] < low:
            self._lows[item["lane"]] = item["seq"]
