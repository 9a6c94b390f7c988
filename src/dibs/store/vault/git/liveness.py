"""Liveness over git: a small file for each session with claims, whose counter changes while the session is seen.

Machines share no clock, and a remote may be unreachable for an hour. So no clone expires another clone's claim by a
recorded time. A process that fetches in a loop (`dibs vault sync --loop`) observes the counters. A claim expires if the
counter of its session has not changed for 1.5 TTL, measured by this machine's boot-time clock and only while fetches
succeed.
"""

from __future__ import annotations

import time

from dibs import check
from dibs.errors import Invalid
from dibs.store.vault.disk import Raced, Unfit
from dibs.store.vault.git.path_policy import SESSIONS, why_unfit
from dibs.store.vault.index import NEVER
from dibs.text import json_text
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from dibs.store.vault.git.worktree import WorkTreeFiles

#: A claim is expired after this many TTLs in which its session's counter did not change.
SILENT_TTLS = 1.5
#: Of the time between two fetches, at most this much counts, and at most this part of a TTL: this machine may have
#: slept, or the remote been unreachable.
GAP_SECONDS_MAX = 120.0
GAP_TTLS_MAX = 1 / 3
#: The counter is a time in milliseconds.
COUNTER_MAX = NEVER


class LiveSession(Value):
    """A session with claims. The value of `counter` has no meaning; it changes while the session is seen."""

    session: str
    agent: str
    host: str
    counter: int


class RemoteClaim(Value):
    """A claim of a session in another clone."""

    item: str
    token: int
    session: str
    ttl_seconds: float


def publish(files: WorkTreeFiles, live: Iterable[LiveSession], known: Iterable[str]) -> None:
    """Write the files of this clone's live sessions, and remove those of its other `known` sessions."""
    others = set(known)
    for one in live:
        others.discard(one.session)
        _put(files, _path(one.session), f"{json_text.dumps(one.as_dict())}\n".encode())
    for session in others:
        _put(files, _path(session), None)


def counter(files: WorkTreeFiles, session: str) -> int | None:
    """The counter in a session's file; None if it has no valid file."""
    text = _read(files, _path(session))
    try:
        found = json_text.loads((text or b"").decode())
        return check.whole(found["counter"], "counter", low=0, high=COUNTER_MAX)
    except (ValueError, TypeError, LookupError, RecursionError, Invalid):
        return None


class LivenessMonitor:
    """What one process has observed of the sessions in other clones."""

    def __init__(self) -> None:
        self._looked_at: float | None = None
        self._silence: dict[tuple[str, int, str], tuple[int | None, float]] = {}

    def silent(self, seen: Iterable[tuple[RemoteClaim, int | None]]) -> list[RemoteClaim]:
        """Called after a successful fetch. Returns the claims of sessions whose counters have not changed for too
        long."""
        now = time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()
        passed = 0.0 if self._looked_at is None else min(now - self._looked_at, GAP_SECONDS_MAX)
        self._looked_at = now
        before, self._silence = self._silence, {}
        found = []
        for claim, count in seen:
            gap = min(passed, GAP_TTLS_MAX * claim.ttl_seconds)
            key = (claim.item, claim.token, claim.session)
            known, seconds = before.get(key, (count, -gap))
            seconds = seconds + gap if known == count else 0.0
            self._silence[key] = (count, seconds)
            if seconds > SILENT_TTLS * claim.ttl_seconds:
                found.append(claim)
        return found


def _path(session: str) -> str:
    return f"{SESSIONS}/{session}.json"


def _put(files: WorkTreeFiles, path: str, text: bytes | None) -> None:
    """Write or remove a file. A session whose id cannot be a file name gets none."""
    if why_unfit(path, "100644") is not None:
        return
    was = _read(files, path)
    try:
        if was == text:
            return
        if text is None:
            files.discard(path, was or b"")
        elif was is None:
            files.create(path, text)
        else:
            files.exchange(path, text, was)
    except (Raced, Unfit, FileExistsError, FileNotFoundError):
        pass  # another program changed it first: the next sync writes it


def _read(files: WorkTreeFiles, path: str) -> bytes | None:
    try:
        return files.read(path)[0]
    except (OSError, Unfit, Raced):
        return None
