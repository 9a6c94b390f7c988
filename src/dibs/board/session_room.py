"""How many live sessions each key of a server has: readers of the board pay for all of them.

The sessions are counted by a read, which holds up no writer, and the count is kept for a while: a fleet starts
thousands of sessions at once. Processes of one server may together exceed the limit by what they start meanwhile.
"""

from __future__ import annotations

import threading
from time import monotonic

from dibs.errors import RateLimited

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.store.contract import Store

#: How long a count is kept; and how long one that refuses another session.
COUNTED_SECONDS, FULL_SECONDS = 10.0, 1.0
#: The most bytes of `meta` that the live sessions of one key have together, which a backup and every reader of single
#: sessions have to carry: a thousand bytes and more for each of 20,000 sessions.
META_BYTES_PER_KEY = 32_000_000


class SessionRoom:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: By key: when its sessions were counted, their number and the bytes of their meta.
        self._counted: dict[str, tuple[float, int, int]] = {}

    def require(self, store: Store, key: str, session: str, meta_bytes: int, limit: int) -> None:
        """Refuse another session of this key if it has the most already. A live one may be started again."""
        with self._lock:
            at, live, size = self._counted.get(key, (0.0, 0, 0))
            now = monotonic()
            is_full = live >= limit or size + meta_bytes > META_BYTES_PER_KEY
            if not at or now - at > (FULL_SECONDS if is_full else COUNTED_SECONDS):
                live, size = store.sessions_of_key(key)
                at = now
            if live < limit and size + meta_bytes <= META_BYTES_PER_KEY:
                self._counted[key] = (at, live + 1, size + meta_bytes)
                return
            self._counted[key] = (at, live, size)
        known = store.find_session(session)
        if known is not None and known.ended_at is None and known.key == key:
            return
        many = f"{live} live sessions with {size} bytes of meta; {limit} sessions and {META_BYTES_PER_KEY} bytes"
        raise RateLimited(
            f"the key {key} has {many} are the most: end some with: dibs session end SESSION",
            key=key,
            live_sessions=live,
            sessions_per_key=limit,
            meta_bytes=size,
            meta_bytes_max=META_BYTES_PER_KEY,
            retry_after_seconds=FULL_SECONDS,
        )
