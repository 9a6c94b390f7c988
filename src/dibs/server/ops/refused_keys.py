"""The log of refused keys: a few lines as they come, and of a flood one line a minute that sums it up."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import MutableMapping
from typing import Any

from dibs import api_keys

#: So many requests with a refused key have a line of their own in a minute.
LINES_MAX = 20
WINDOW_SECONDS = 60.0
#: So many keys and addresses are counted in a minute, and so many are named.
COUNTED_MAX, NAMED_MAX = 1_000, 5
NO_KEY = "no key"
#: No id of a key is longer.
ID_LENGTH_MAX = 64


class RefusedKeys:
    """Used in the event loop only."""

    def __init__(self) -> None:
        self._count = 0
        self._keys: Counter[str] = Counter()
        self._clients: Counter[str] = Counter()

    def note(self, key: str | None, client: str) -> bool:
        """Count a refused request; whether it has a line of its own."""
        if self._count == 0:
            asyncio.get_running_loop().call_later(WINDOW_SECONDS, self.sum_up)
        self._count += 1
        for counts, name in ((self._keys, key or NO_KEY), (self._clients, client)):
            if name in counts or len(counts) < COUNTED_MAX:
                counts[name] += 1
        return self._count <= LINES_MAX

    def sum_up(self) -> None:
        if self._count > LINES_MAX:
            logging.warning(
                "%d requests without a valid key in a minute, from %s; their keys: %s",
                self._count,
                _named(self._clients),
                _named(self._keys),
                extra={"facts": {"refused": self._count}},
            )
        self._count = 0
        self._keys.clear()
        self._clients.clear()


def _named(counts: Counter[str]) -> str:
    named = [f"{name} ({count})" for name, count in counts.most_common(NAMED_MAX)]
    left = len(counts) - len(named)
    return ", ".join(named) + (f" and {left} more" if left else "")


def presented_key(scope: MutableMapping[str, Any]) -> str | None:
    """The public id in the key that a request came with, which nobody has checked."""
    for name, value in scope.get("headers", ()):
        if name == b"authorization":
            found = api_keys.id_of(value.decode("latin-1").rpartition(" ")[2])
            return None if found is None else found[:ID_LENGTH_MAX]
    return None
