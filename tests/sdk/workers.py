"""Workers of these tests: in a thread here, or as what a process plays; and what they were heard to say."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dibs.board import Board
from dibs.sdk.claim_handle import ClaimHandle
from dibs.testing.actors import say
from dibs.worker.worker import Worker
from tests.kit.waiting import PATIENCE_SECONDS, until


class Heard:
    """What a worker told, in order, and a way to wait for more."""

    def __init__(self) -> None:
        self.words: list[tuple[str, str, str]] = []
        self._changed = threading.Condition()

    def __call__(self, word: str, claim: ClaimHandle | None, text: str) -> None:
        with self._changed:
            self.words.append((word, "" if claim is None else claim.item.id, text))
            self._changed.notify_all()

    def of(self, word: str) -> list[str]:
        """The items, or what was said without one."""
        return [item or text for said, item, text in self.words if said == word]

    def until(self, word: str, times: int = 1) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.of(word)) >= times, PATIENCE_SECONDS), (word, self.words)


class Ran:
    """A worker that runs in a thread, and what came of it."""

    def __init__(self, worker: Worker, **asked: Any) -> None:
        self.worker = worker
        self.error: BaseException | None = None
        self.tally: Counter[str] = Counter()
        self._thread = threading.Thread(target=self._run, kwargs=asked, daemon=True)
        self._thread.start()

    def _run(self, **asked: Any) -> None:
        try:
            self.tally = self.worker.run(**asked)
        except BaseException as error:
            self.error = error

    def join(self) -> Counter[str]:
        self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive(), "the worker did not come to its end"
        if self.error is not None:
            raise self.error
        return self.tally

    def stop(self) -> Counter[str]:
        self.worker.stop()
        return self.join()


@contextmanager
def running(worker: Worker, **asked: Any) -> Iterator[Ran]:
    ran = Ran(worker, **asked)
    try:
        yield ran
    finally:
        worker.stop()
        ran.join()


# What processes play


def working(
    board: Board, *, how: str = "at once", drain_seconds: float = 30.0, ttl_seconds: float | None = None, **asked: Any
) -> dict[str, int]:
    """A worker in a process; every item is told when it begins, and goes as `how` says."""

    def tell(word: str, claim: ClaimHandle | None, text: str) -> None:
        if word != "claimed":
            say({"told": word, "item": None if claim is None else claim.item.id, "text": text})

    worker = Worker(board, "coder", drain_seconds=drain_seconds, ttl_seconds=ttl_seconds, tell=tell)

    @worker.handles()
    def handle(claim: ClaimHandle) -> None:
        say({"begun": claim.item.id, "token": claim.token})
        if how == "until released":
            claim.lost.wait(PATIENCE_SECONDS)
        elif how == "until the signal":
            until(lambda: worker.stopping.is_set())
            claim.lost.wait(0.5)  # there is still something to do, for which it has the time
        elif how == "for ever":
            threading.Event().wait(PATIENCE_SECONDS)
        elif how == "killed":
            os.kill(os.getpid(), signal.SIGKILL)

    try:
        return dict(worker.run(**asked))
    except KeyboardInterrupt:
        return {"interrupted": 1}


def frozen_before_it_begins(board: Board) -> dict[str, int]:
    """A worker that stands still between the claim and the work."""

    def tell(word: str, claim: ClaimHandle | None, text: str) -> None:
        if word == "claimed":
            os.kill(os.getpid(), signal.SIGSTOP)

    worker = Worker(board, "coder", tell=tell)

    @worker.handles()
    def handle(claim: ClaimHandle) -> None:
        say({"begun": claim.item.id})

    return dict(worker.run(once=True))
