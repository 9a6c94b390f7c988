"""Signs of life over git: one small file for each session that holds something, changed while it is seen.

Machines have no clock in common, and a remote may be away for an hour. So nobody's claim ends elsewhere because of a
time that somebody wrote down. A process that fetches again and again (`dibs vault sync --loop`) sees whether the
counter of a session changes; if it has not for one and a half times the claim's TTL, counted on the clock of this
machine since it was booted and only while fetches succeed, the claim is taken to have expired.
"""

from __future__ import annotations

import time

from dibs import check
from dibs.errors import Invalid
from dibs.store.vault.disk import Raced, Unfit
from dibs.store.vault.git.path_policy import SESSIONS, why_unfit
from dibs.text import json_text
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from dibs.store.vault.git.work_files import Files

#: So many TTLs without a sign of life.
TTLS = 1.5
#: Between two fetches no more than this counts, nor this part of a TTL: this machine may have slept, or the remote
#: been away, and then nobody's silence means anything.
GAP_SECONDS_MAX = 120.0
GAP_TTLS_MAX = 1 / 3
#: What a session's meta says of one that was started on another machine.
ELSEWHERE = "elsewhere"
#: When a claim of such a session expires, as far as the index is concerned: 9999-12-31.
NEVER = 253_402_214_400_000
#: What is larger was made up: it is a time in milliseconds.
COUNTER_MAX = NEVER


class Holder(Value):
    """A session that holds something. `counter` is of no meaning but that it changes while the session is seen."""

    session: str
    agent: str
    host: str
    counter: int


class Held(Value):
    """A claim of a session that was started on another machine."""

    item: str
    token: int
    session: str
    ttl_seconds: float


def show(files: Files, holders: Iterable[Holder], known: Iterable[str]) -> None:
    """Have the files say who of ours is alive. Of the sessions in `known`, all ours, the others hold nothing."""
    left = set(known)
    for holder in holders:
        left.discard(holder.session)
        _put(files, _path(holder.session), f"{json_text.dumps(holder.as_dict())}\n".encode())
    for session in left:
        _put(files, _path(session), None)


def counter(files: Files, session: str) -> int | None:
    """What a session's file says; none if it has none, or one that says nothing."""
    text = _text(files, _path(session))
    try:
        found = json_text.loads((text or b"").decode())
        return check.whole(found["counter"], "counter", low=0, high=COUNTER_MAX)
    except (ValueError, TypeError, LookupError, RecursionError, Invalid):
        return None


class Patience:
    """What one process has seen of sessions elsewhere, for as long as it lives."""

    def __init__(self) -> None:
        self._looked_at: float | None = None
        self._silent: dict[tuple[str, int, str], tuple[int | None, float]] = {}

    def lost(self, seen: Iterable[tuple[Held, int | None]]) -> list[Held]:
        """After a fetch that succeeded: the claims whose sessions have been silent for too long."""
        now = time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()
        passed = 0.0 if self._looked_at is None else min(now - self._looked_at, GAP_SECONDS_MAX)
        self._looked_at = now
        before, self._silent = self._silent, {}
        lost = []
        for held, count in seen:
            gap = min(passed, GAP_TTLS_MAX * held.ttl_seconds)
            claim = (held.item, held.token, held.session)
            known, silent = before.get(claim, (count, -gap))
            silent = silent + gap if known == count else 0.0
            self._silent[claim] = (count, silent)
            if silent > TTLS * held.ttl_seconds:
                lost.append(held)
        return lost


def _path(session: str) -> str:
    return f"{SESSIONS}/{session}.json"


def _put(files: Files, path: str, text: bytes | None) -> None:
    """Make the file say this, or not be there. A name that is none for a file has none."""
    if why_unfit(path, "100644") is not None:
        return
    was = _text(files, path)
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
        pass  # somebody was faster, or put something else there: it is told next time


def _text(files: Files, path: str) -> bytes | None:
    try:
        return files.read(path)[0]
    except (OSError, Unfit, Raced):
        return None  # also one that never holds still
