"""What actors play: loops that run inside a process of their own, so that nothing but the store is between them.

A scene is a function of a board and plain arguments, and returns plain data. Those that record their calls do so
into files of `folder`, which `recording.read` collects, also after a kill.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from typing import Any, cast

from dibs.errors import DibsError
from dibs.testing.actors import pass_gate, say
from dibs.testing.delegate import Delegate
from dibs.testing.recording import Recorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.board import Board
    from dibs.model import Grant
    from dibs.store.contract import Store, Watch


class Counting(Delegate):
    """A store that counts how often it is asked for work, and tells when somebody begins to wait."""

    looks = 0
    _told = False

    def next(self, **kwargs: Any) -> tuple[Grant, ...]:
        self.looks += 1
        return self.inner.next(**kwargs)

    def next_in_time(self, wait_seconds: float, **asked: Any) -> tuple[Grant, ...]:
        if not self._told:
            # Whoever waits there looks first, so that nothing can be missed from here on either.
            self._told = True
            say({"waiting": True})
        self.looks += 1
        return self.inner.next_in_time(wait_seconds, **asked)

    def watch(self, *, session: str | None = None) -> TellingWatch:
        return TellingWatch(self.inner.watch(session=session))


class TellingWatch:
    def __init__(self, inner: Watch) -> None:
        self.inner, self.told = inner, False

    def wait(self, timeout_seconds: float) -> bool:
        if not self.told:
            # The watch stands: from here on nothing can be missed, and the director may go on.
            self.told = True
            say({"waiting": True})
        return self.inner.wait(timeout_seconds)

    def close(self) -> None:
        self.inner.close()


def wait_for_next(board: Board, *, wait_seconds: float, **asked: Any) -> dict[str, Any]:
    """Wait for work: what came, how long it took, and how often the store was asked."""
    counting = Counting(board.store)
    board.store = cast("Store", counting)
    me = board.start_session("waiter").id
    begun = time.monotonic()
    grants = board.next(session=me, wait_seconds=wait_seconds, **asked)
    seconds = time.monotonic() - begun
    board.store = counting.inner
    return {"items": [grant.item.id for grant in grants], "seconds": seconds, "looks": counting.looks}


def fork_and_share(board: Board, *, children: int, each: int) -> list[int]:
    """Fork, and let the children and this process all work with the handle that was open before; how each ended."""
    board.start_session("parent", id="parent")
    pids = []
    for number in range(children):
        pid = os.fork()
        if pid == 0:
            try:
                _work(board, f"child-{number}", each)
                os._exit(0)
            finally:
                os._exit(1)
        pids.append(pid)
    _work(board, "parent", each)
    return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]


def _work(board: Board, session: str, count: int) -> None:
    """Take so many items and finish them."""
    board.start_session(session.partition("-")[0], id=session)
    for _ in range(count):
        (grant,) = board.next(session=session)
        board.done(grant.item.id, session=session, token=grant.claim.token)


def drain(board: Board, *, agent: str, folder: str, gate: str) -> dict[str, Any]:
    """Take the next item and finish it, until there is none: how many, and the longest any call took."""
    recorder = Recorder(board, folder)
    me = board.start_session(agent).id
    done, worst_seconds = 0, 0.0
    say({"at_gate": True})
    pass_gate(gate)
    while True:
        begun = time.monotonic()
        grants = recorder.call("next", session=me)
        worst_seconds = max(worst_seconds, time.monotonic() - begun)
        if not grants:
            recorder.close()
            return {"done": done, "worst_seconds": worst_seconds}
        for grant in grants:
            begun = time.monotonic()
            recorder.call("done", grant.item.id, session=me, token=grant.claim.token)
            worst_seconds = max(worst_seconds, time.monotonic() - begun)
            done += 1


def pass_on(board: Board, *, me: str, item: str, seed: int, calls: int, folder: str, gate: str) -> dict[str, Any]:
    """Work on an item under the latest token that this session was given, however long ago, and now and then hand it
    on, whoever holds it; in the end, end it: how often each verb was answered and refused, and which notes were."""
    recorder, draw = Recorder(board, folder), random.Random(seed)
    everybody = sorted(one.session.id for one in board.sessions())
    met: Counter[str] = Counter()
    notes: list[str] = []
    token = 1
    say({"at_gate": True})
    pass_gate(gate)
    for number in range(calls + 1):
        asked: dict[str, Any] = {"session": me, "token": token}
        verb = ("progress", "renew", "hand", "progress", "heartbeat")[number % 5] if number < calls else "done"
        held = board.get(item).claim if verb in ("hand", "heartbeat") else None
        if held is not None and held.session == me:
            token = held.token
        if verb == "hand":
            if held is None:
                continue  # somebody has ended it
            asked = {"session": held.session, "token": held.token, "to": draw.choice(everybody)}
        if verb == "progress":
            asked["note"] = f"{me} {number}"
        try:
            if verb == "heartbeat":
                recorder.call(verb, session=me)
            else:
                recorder.call(verb, item, **asked)
        except DibsError as refusal:
            met[f"{verb} {refusal.code}"] += 1
        else:
            met[verb] += 1
            notes += [asked["note"]] if verb == "progress" else []
    recorder.close()
    return {"met": met, "notes": notes}
