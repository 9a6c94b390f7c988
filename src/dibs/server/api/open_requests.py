"""Requests that stay open, of callers who wait, watch or listen: how many one key may have, and that none outlives its
key.

A key is looked at again each second for as long as requests are open under it, and at once if it is revoked here.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from dibs.errors import DibsError, Forbidden, StoreUnavailable, Unauthenticated
from dibs.value import Value

LOOK_SECONDS = 1.0


class Kind(Value):
    """Requests that have `limit` places among them, of which one key takes no more than `limit_of_key`."""

    #: What their callers do, as in "are waiting".
    do: str
    limit: int
    limit_of_key: int
    retry_seconds: int


class OpenRequest:
    def __init__(
        self, kind: Kind, key: str, still_may: Callable[[], object], refuse: Callable[[DibsError], None]
    ) -> None:
        """`still_may` asks the store, in a thread, and raises if the key is good no more; `refuse` ends the request, in
        the event loop."""
        self.kind, self.key, self.still_may, self.refuse = kind, key, still_may, refuse


class OpenRequests:
    """All of them in one server process; used in its event loop, but for `look_now`."""

    def __init__(self) -> None:
        self._open: set[OpenRequest] = set()
        self._counts: Counter[str] = Counter()
        self._counts_of_keys: Counter[tuple[str, str]] = Counter()
        self._thread = ThreadPoolExecutor(1, "keys")
        self._loop: asyncio.AbstractEventLoop | None = None
        self._beat: asyncio.TimerHandle | None = None
        self._looks: set[asyncio.Future[None]] = set()

    def need_room(self, kind: Kind, key: str) -> None:
        facts = {"retry_after_seconds": kind.retry_seconds}
        if self._counts[kind.do] >= kind.limit:
            raise StoreUnavailable(f"{kind.limit} are {kind.do} here already", limit=kind.limit, **facts)
        if self._counts_of_keys[kind.do, key] >= kind.limit_of_key:
            limit = kind.limit_of_key
            raise StoreUnavailable(f"{limit} are {kind.do} with this key already", limit=limit, **facts)

    @contextmanager
    def joined(self, one: OpenRequest) -> Iterator[None]:
        self._loop = asyncio.get_running_loop()
        self._open.add(one)
        counted = Counter([one.kind.do]), Counter([(one.kind.do, one.key)])
        self._counts += counted[0]
        self._counts_of_keys += counted[1]
        if self._beat is None:
            self._beat = self._loop.call_later(LOOK_SECONDS, self._look)
        try:
            yield
        finally:
            self._open.discard(one)
            self._counts -= counted[0]
            self._counts_of_keys -= counted[1]

    def look_now(self) -> None:
        """From any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._look_at_keys)

    def close(self) -> None:
        self._thread.shutdown(wait=True)

    def _look(self) -> None:
        self._beat = None
        if self._open:
            self._look_at_keys()
            self._beat = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look)

    def _look_at_keys(self) -> None:
        look = asyncio.ensure_future(self._refuse_strangers())
        self._looks.add(look)
        look.add_done_callback(self._looks.discard)

    async def _refuse_strangers(self) -> None:
        asked = {one.key: one.still_may for one in self._open}
        look = asyncio.get_running_loop().run_in_executor(self._thread, _refusals, asked)
        refused = await look
        for one in tuple(self._open):
            if one.key in refused:
                one.refuse(refused[one.key])


def _refusals(asked: dict[str, Callable[[], object]]) -> dict[str, DibsError]:
    found: dict[str, DibsError] = {}
    for key, ask in asked.items():
        try:
            ask()
        except (Unauthenticated, Forbidden) as refusal:
            found[key] = refusal
        except StoreUnavailable:
            pass  # nobody can say
    return found
