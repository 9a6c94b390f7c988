"""`dibs deliver --once` in a process that kills itself: python -m tests.webhooks.killed STORE WHEN POINT NUMBER

WHEN is before or after the NUMBER-th call of POINT, such as `advance_webhook`. Without a POINT it lives.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from dibs.cli.main import main
from dibs.store.sqlite.store import SqliteStore
from dibs.webhooks import deliverer, sending


def killing(call: Callable[..., Any], when: str, number: int) -> Callable[..., Any]:
    calls = 0

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == number and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        answer = call(*args, **kwargs)
        if calls == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    return wrapped


if __name__ == "__main__":
    store, when, point, number = sys.argv[1:]
    # So that the next process need not wait for the lease of this one.
    deliverer.LEASE_SECONDS = 0.05
    if point:
        where: Any = sending if point == "post" else SqliteStore
        setattr(where, point, killing(getattr(where, point), when, int(number)))
    sys.exit(main(["deliver", "--once", "--store", store]))
