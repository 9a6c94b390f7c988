"""Requests that stay open, because they wait, watch or stream: how many one key may have, and their end with the key.

The key of each open request is checked again every second, and at once when a key is revoked through this server.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from dibs.errors import DibsError, Forbidden, StoreUnavailable, Unauthenticated
from dibs.value import Value

CHECK_SECONDS = 1.0


class Quota(Value):
    """How many requests of one kind (`activity`, such as "waiting") may be open at once."""

    activity: str
    limit: int
    limit_per_key: int
    retry_seconds: int


class OpenRequest:
    def __init__(
        self, quota: Quota, key: str, authorize: Callable[[], object], refuse: Callable[[DibsError], None]
    ) -> None:
        """`authorize` reads from the store, in a thread, and raises if the key is no longer valid; `refuse` ends the
        request, in the event loop."""
        self.quota, self.key, self.authorize, self.refuse = quota, key, authorize, refuse


class OpenRequests:
    """All open requests of one process. Everything except `check_now` runs in the event loop."""

    def __init__(self) -> None:
        self._open: set[OpenRequest] = set()
        self._counts: Counter[str] = Counter()
        self._counts_per_key: Counter[tuple[str, str]] = Counter()
        self._thread = ThreadPoolExecutor(1, "keys")
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._checks: set[asyncio.Future[None]] = set()

    def require_room(self, quota: Quota, key: str) -> None:
        for owner, count, limit in (
            ("the server", self._counts[quota.activity], quota.limit),
            ("this key", self._counts_per_key[quota.activity, key], quota.limit_per_key),
        ):
            if count >= limit:
                message = f"{owner} already has {limit} {quota.activity} requests"
                raise StoreUnavailable(message, limit=limit, retry_after_seconds=quota.retry_seconds)

    @contextmanager
    def tracked(self, request: OpenRequest) -> Iterator[None]:
        self._loop = asyncio.get_running_loop()
        self._open.add(request)
        activity = request.quota.activity
        self._counts[activity] += 1
        self._counts_per_key[activity, request.key] += 1
        if self._timer is None:
            self._timer = self._loop.call_later(CHECK_SECONDS, self._on_timer)
        try:
            yield
        finally:
            self._open.discard(request)
            self._counts[activity] -= 1
            self._counts_per_key[activity, request.key] -= 1
            if not self._counts_per_key[activity, request.key]:
                del self._counts_per_key[activity, request.key]

    def check_now(self) -> None:
        """Can be called in any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._check_keys)

    def close(self) -> None:
        self._thread.shutdown(wait=True)

    def _on_timer(self) -> None:
        self._timer = None
        if self._open:
            self._check_keys()
            self._timer = asyncio.get_running_loop().call_later(CHECK_SECONDS, self._on_timer)

    def _check_keys(self) -> None:
        check = asyncio.ensure_future(self._refuse_invalid_keys())
        self._checks.add(check)
        check.add_done_callback(self._checks.discard)

    async def _refuse_invalid_keys(self) -> None:
        checks = {request.key: request.authorize for request in self._open}
        refusals = await asyncio.get_running_loop().run_in_executor(self._thread, _refusals, checks)
        for request in tuple(self._open):
            if request.key in refusals:
                request.refuse(refusals[request.key])


def _refusals(checks: dict[str, Callable[[], object]]) -> dict[str, DibsError]:
    found: dict[str, DibsError] = {}
    for key, authorize in checks.items():
        try:
            authorize()
        except (Unauthenticated, Forbidden) as refusal:
            found[key] = refusal
        except StoreUnavailable:
            pass  # the next check decides
    return found
