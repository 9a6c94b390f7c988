"""Workers that go on through outages of the store, and what their notes must agree on with its record afterwards.

`carry_on` is a scene: a worker that takes items, works and ends them, and writes every answer down before it goes on.
Some of its calls carry a request id and are made again until they are answered; of the others, one whose answer was
lost is left as it is, and what it was given is found by a heartbeat. `unaccounted` compares the notes with the board.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter

from dibs.errors import DibsError, StoreUnavailable
from dibs.testing.actors import say
from dibs.testing.history import ENDS, read_feed
from dibs.testing.invariants import LIMIT
from dibs.testing.recording import Recorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from dibs.board import Board
    from dibs.testing.recording import Call

#: A worker says so after this many answers.
SAY_EVERY = 3
#: So few of those that are ready are fought over by id.
CROWD = 4
AWAY = StoreUnavailable.code
TAKES = ("next", "claim")


def carry_on(board: Board, *, folder: str, seed: int, stop: str) -> dict[str, Any]:
    """Work until there is a file `stop`. Says when it was answered and what it has met: its director waits for that."""
    worker = Worker(board, folder, seed)
    while not os.path.exists(stop):
        worker.work()
    store: Any = board.store
    return {"counts": worker.counts, "reconnects": store.reconnects, "conflicts": getattr(store, "conflicts", 0)}


class Worker:
    def __init__(self, board: Board, folder: str, seed: int) -> None:
        self._draw = random.Random(seed)
        self._recorder = Recorder(board, folder)
        self._me = board.start_session("worker", id=f"worker-{seed}").id
        self._held: dict[str, int] = {}
        self._requests = 0
        self.counts: Counter[str] = Counter()

    def work(self) -> None:
        """One thing: take an item, go on with it, or end it."""
        if not self._held:
            self._take()
            return
        item, token = next(iter(self._held.items()))
        known = {"session": self._me, "token": token}
        match self._draw.choice(("heartbeat", "progress", "progress", "done", "done", "release", "fail")):
            case "heartbeat":
                self._beat()
            case "progress":
                self._ask("progress", item, note="plain", **known)
            case "done":
                self._end("done", item, note="plain", **known)
                self._ask("add", title="plain")
            case "release":
                self._end("release", item, reason="plain", **known)
            case "fail":
                self._end("fail", item, reason="plain", **known)
                self._ask("add", title="plain")

    def _take(self) -> None:
        if self._draw.random() < 0.3:
            ready = self._ask("list", statuses=["ready"], limit=CROWD)
            if not ready:
                return
            grant = self._ask("claim", self._draw.choice(ready).id, session=self._me)
            grants = () if grant is None else (grant,)
        else:
            grants = self._ask("next", session=self._me)
        self._held.update({grant.item.id: grant.claim.token for grant in grants or ()})
        if not grants:
            self._beat()

    def _beat(self) -> None:
        """Renew, and hear what else this session holds: claims whose answers were lost."""
        answer = self._ask("heartbeat", session=self._me)
        for one in answer.renewed if answer is not None else ():
            self.counts["found"] += one.item not in self._held
            self._held[one.item] = one.token

    def _end(self, verb: str, item: str, **kwargs: Any) -> None:
        del self._held[item]
        self._ask(verb, item, **kwargs)

    def _ask(self, verb: str, item: str | None = None, **kwargs: Any) -> Any:
        """The answer; None if it was refused or is not known. Every other call is made again until it is answered."""
        if verb not in ("list", "heartbeat") and self._draw.random() < 0.5:
            self._requests += 1
            kwargs["request_id"] = f"{self._me}-{self._requests}"
            # The words tell afterwards which request it was that left them.
            kwargs |= {name: kwargs["request_id"] for name in ("note", "reason", "title") if name in kwargs}
        while True:
            try:
                answer = self._recorder.call(verb, item, **kwargs)
            except StoreUnavailable as error:
                self.counts["unavailable"] += 1
                self.counts["unknown"] += error.facts.get("outcome") == "unknown"
                if "request_id" in kwargs:
                    continue
                return None
            except DibsError as refusal:
                self.counts[refusal.code] += 1
                return None
            self.counts["answered"] += 1
            if self.counts["answered"] % SAY_EVERY == 0:
                say({"answered_ns": time.monotonic_ns(), "counts": self.counts})
            return answer


def as_asked(calls: Iterable[Call]) -> list[Call]:
    """Calls with one request id are one: begun with the first, answered with the last."""
    found: dict[tuple[str, str], Call] = {}
    for call in calls:
        key = (call.process, call.request or f"call {call.start_ns}")
        found[key] = call.replace(start_ns=found[key].start_ns) if key in found else call
    return list(found.values())


def unaccounted(calls: Sequence[Call], board: Board) -> list[str]:
    """Where the workers' notes and the board's record disagree, one sentence each.

    What was acknowledged is there, once. What is there was acknowledged, or asked for by one who never heard.
    """
    unknown = [call for call in calls if call.end_ns is None or call.code == AWAY]
    answered = [call for call in calls if call.end_ns is not None and call.code is None]
    return [
        *_runs_asked_for(answered, unknown, board),
        *_ends_asked_for(answered, unknown, board),
        *_words_left(answered, unknown, board),
    ]


def _runs_asked_for(answered: Iterable[Call], unknown: Iterable[Call], board: Board) -> list[str]:
    heard = {pair for call in answered for pair in call.grants}
    runs = {(run.item, run.token): run.session for run in board.runs(limit=LIMIT)}
    found = [f"{item} token {token} was acknowledged and has no run" for item, token in sorted(heard - runs.keys())]
    silent = Counter(session for pair, session in runs.items() if pair not in heard)
    lost = Counter(call.session for call in unknown if call.verb in TAKES)
    return found + [
        f"{session} has {count} runs it never heard of, and lost the answers of {lost[session]} calls"
        for session, count in silent.items()
        if count > lost[session]
    ]


def _ends_asked_for(answered: Iterable[Call], unknown: Iterable[Call], board: Board) -> list[str]:
    heard = {call.ended for call in answered if call.ended is not None}
    there = {(run.item, run.token, run.outcome) for run in board.runs(limit=LIMIT) if run.outcome is not None}
    lost = {(call.item, call.token, ENDS[call.verb]) for call in unknown if call.verb in ENDS}
    found = [f"{end} was acknowledged and is not in the record" for end in sorted(heard - there)]
    return found + [f"{end} is in the record and nobody asked for it" for end in sorted(there - heard - lost)]


def _words_left(answered: Sequence[Call], unknown: Sequence[Call], board: Board) -> list[str]:
    """Each request left its words once, if it was answered; without an answer, once or not at all."""
    words = Counter(
        word
        for event in read_feed(board)
        for name in ("note", "reason", "title")
        if event.kind in ("added", "progress", *ENDS.values()) and isinstance(word := event.data.get(name), str)
    )
    lasting = [call for call in answered if call.verb in ("add", "progress", *ENDS)]
    found = [f"{call.verb} {call.request} was answered and left {words[call.request]} words" for call in lasting
             if call.request and words[call.request] != 1]  # fmt: skip
    found += [f"{call.verb} {call.request} left {words[call.request]} words" for call in unknown
              if call.request and words[call.request] > 1]  # fmt: skip
    least = sum(not call.request for call in lasting)
    most = least + sum(not call.request and call.verb in ("add", "progress", *ENDS) for call in unknown)
    if not least <= words["plain"] <= most:
        found.append(f"{words['plain']} calls without a request id left words, {least} to {most} may have")
    return found
