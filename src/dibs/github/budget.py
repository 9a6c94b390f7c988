"""How many requests GitHub still allows the user of the token, as its answers say.

The watcher leaves a part of them to the other programs of the same user, and sends no request that GitHub would refuse.
"""

from __future__ import annotations

import time

from dibs.errors import StoreUnavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

#: The part of an hour's requests that is left to others.
RESERVE_PART = 0.1
#: When GitHub may only be called again in a long time, look again after this long.
LIMIT_SECONDS_MAX = 3600.0
LIMIT, REMAINING, RESET = "X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset"


class Limited(StoreUnavailable):
    """GitHub's rate limit is reached; `retry_after_seconds` says for how long."""


class Budget:
    """`sent` counts the requests of this process. The other numbers are GitHub's, None before its first answer that
    has them; `reset_at` is an instant in seconds, by GitHub's clock."""

    def __init__(self) -> None:
        self.sent = 0
        self.limit: int | None = None
        self.remaining: int | None = None
        self.reset_at: int | None = None
        #: When `remaining` begins anew, by the clock of this process.
        self._free_at = 0.0

    @property
    def reserve(self) -> int:
        return int((self.limit or 0) * RESERVE_PART)

    def check(self) -> None:
        """Refuse a request for which nothing is left; count it otherwise."""
        wait = self._free_at - time.monotonic()
        if self.remaining is not None and self.remaining <= self.reserve and wait > 0:
            wait = min(max(1.0, wait), LIMIT_SECONDS_MAX)
            raise Limited(
                f"GitHub allows {self.remaining} of {self.limit} requests of this hour, which are left to others of the"
                f" token's user; dibs asks again in {wait:.0f} s",
                retry_after_seconds=round(wait),
            )
        self.sent += 1

    def note(self, headers: Mapping[str, str]) -> None:
        limit, remaining, reset = (headers.get(name, "") for name in (LIMIT, REMAINING, RESET))
        if not all(one.isascii() and one.isdigit() and len(one) <= 12 for one in (limit, remaining, reset)):
            return
        self.limit, self.remaining, self.reset_at = int(limit), int(remaining), int(reset)
        self._free_at = time.monotonic() + self.reset_at - clock(headers)

    def plain(self) -> dict[str, Any] | None:
        """What is shown; None if GitHub says nothing of limits, as that of a company may."""
        if self.limit is None:
            return None
        known = {"limit": self.limit, "remaining": self.remaining, "reserve": self.reserve, "reset_at": self.reset_at}
        return {**known, "sent": self.sent}


def clock(headers: Mapping[str, str]) -> float:
    """The time as GitHub has it: the clock of this machine may be off."""
    from email.utils import parsedate_to_datetime

    try:
        return parsedate_to_datetime(headers.get("Date", "")).timestamp()
    except (ValueError, OverflowError):
        return time.time()
