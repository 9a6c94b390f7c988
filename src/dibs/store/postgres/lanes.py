"""What a process remembers of the lanes: for each, the age below which it lately saw nothing to take.

`next` starts its look there and not at a lane's beginning, which may be littered with what was taken and cannot be
cleaned away yet. These are hints: lowered by what comes back, and looked past at least every second, so that nothing
is passed over for longer than that.
"""

from __future__ import annotations

import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: A look at everything may take this share of the time: what it costs must not be most of what is done.
LOOK_COST_MAX = 20


class Lanes:
    def __init__(self, look_seconds: float) -> None:
        self._look_seconds = look_seconds
        self._look_at = 0.0
        self._lows: dict[int, int] = {}
        self._lock = threading.Lock()

    def hints(self) -> tuple[bool, list[int], list[int]]:
        """Whether to look at everything this time; else the lanes, and where to begin in each."""
        with self._lock:
            if time.monotonic() >= self._look_at:
                return True, [], []
            return False, list(self._lows), list(self._lows.values())

    def learn(self, answer: dict[str, Any], took_seconds: float) -> None:
        """What a look found."""
        with self._lock:
            if answer.get("thorough"):
                self._look_at = time.monotonic() + max(self._look_seconds, LOOK_COST_MAX * took_seconds)
                if self._look_seconds == 0:
                    self._look_at = 0.0
                self._lows.clear()
            for lane, low in zip(answer.get("lanes", ()), answer.get("lows", ()), strict=True):
                self._lows[lane] = max(low, self._lows.get(lane, 0))

    def forget(self) -> None:
        """Something came back, nobody says where."""
        with self._lock:
            self._lows.clear()

    def came_back(self, item: dict[str, Any]) -> None:
        """An item of this age is free again."""
        with self._lock:
            low = self._lows.get(item["lane"])
            if low is not None and item["seq"] < low:
                self._lows[item["lane"]] = item["seq"]
