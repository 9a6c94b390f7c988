"""A worker of `dibs demo`: a process of its own that works as any worker does, and tells its parent of refusals.

It is told what to do in lines on its stdin (`claim ITEM`, `drain`) and ends when that is closed. Whatever it achieves
is read from the board's feed; only what leaves no trace there goes to stdout: being at work, being refused.
"""

from __future__ import annotations

import json
import os
import select
import sys
import time

from dibs import wire
from dibs.board import Board, connect
from dibs.errors import DibsError
from dibs.model import Grant

WAIT_SECONDS = 0.5
HEARTBEATS_A_TTL = 3
#: Work is slept through in pieces of this length.
PIECE_SECONDS = 0.05


class Worker:
    def __init__(self, board: Board, agent: str, work_seconds: float, first_seconds: float) -> None:
        self.board = board
        self.session = board.start_session(agent, kind="autonomous", owner_pid=os.getpid()).id
        self.work_seconds = work_seconds
        #: The first item takes this long: long enough for something to happen to its worker.
        self.first_seconds = first_seconds

    def claim(self, item: str) -> None:
        self._work(self.board.claim(item, session=self.session))

    def drain(self) -> None:
        """Take the best item, finish it, take the next one, until told otherwise."""
        while not _told_something():
            for grant in self.board.next(session=self.session, wait_seconds=WAIT_SECONDS):
                self._work(grant)

    def _work(self, grant: Grant) -> None:
        _say({"working": grant.item.id})
        seconds, self.first_seconds = self.first_seconds or self.work_seconds, 0
        end = time.monotonic() + seconds
        heartbeat_seconds = grant.claim.ttl_seconds / HEARTBEATS_A_TTL
        beat = time.monotonic() + heartbeat_seconds
        while time.monotonic() < end:
            time.sleep(PIECE_SECONDS)
            if beat < time.monotonic() < end:
                beat = time.monotonic() + heartbeat_seconds
                self.board.heartbeat(session=self.session)
                _say({"heartbeat": grant.item.id})
        try:
            self.board.done(grant.item.id, session=self.session, token=grant.claim.token)
        except DibsError as refusal:
            _tell(refusal)


def main(folder: str, agent: str, work_seconds: str, first_seconds: str) -> None:
    with connect(os.path.join(folder, "board.db"), folder=folder) as board:
        worker = Worker(board, agent, float(work_seconds), float(first_seconds))
        _say({"hello": worker.session})
        for line in sys.stdin:
            verb, *words = line.split()
            try:
                getattr(worker, verb)(*words)
            except DibsError as refusal:
                _tell(refusal)


def _told_something() -> bool:
    return bool(select.select([sys.stdin], [], [], 0)[0])


def _tell(refusal: DibsError) -> None:
    _say({"refused": wire.error(refusal)["error"]})


def _say(message: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
