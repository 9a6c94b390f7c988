"""A worker of `dibs demo`: a process of its own that works as any worker does, and tells its parent of refusals.

It is told what to do in lines on its stdin (`claim ITEM`, `work`, `draft`, `carry_out`). Whatever it achieves is read
from the board's feed; only what leaves no trace there goes to stdout: being at work, being refused.
"""

from __future__ import annotations

import json
import sys
import time

from dibs.board import Board, connect
from dibs.errors import DibsError
from dibs.sdk.claim_handle import ClaimHandle
from dibs.text import wire
from dibs.worker.worker import Draft, Worker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

#: Work is slept through in pieces of this length.
PIECE_SECONDS = 0.05


class Player:
    def __init__(self, board: Board, agent: str, work_seconds: float, first_seconds: float) -> None:
        self.board, self.agent = board, agent
        self.work_seconds = work_seconds
        #: The first item takes this long: long enough for something to happen to its worker.
        self.first_seconds = first_seconds

    def claim(self, item: str) -> None:
        """This one and no other, in a session of its own."""
        with self.board.session(self.agent) as me:
            self._do(me.claim(item))

    def work(self) -> None:
        """Take the best item, finish it, take the next one."""
        self._run(self._do)

    def draft(self) -> None:
        """Write what is to be said, for somebody to approve."""
        self._run(lambda claim: Draft(f"Dear customers, {claim.item.title.lower()}."))

    def carry_out(self) -> None:
        """Say what was approved, word for word."""
        self._run(lambda claim: claim.approved_draft)

    def _run(self, handler: Callable[[ClaimHandle], str | None]) -> None:
        worker = Worker(self.board, self.agent)
        worker.handles()(handler)
        worker.run()

    def _do(self, claim: ClaimHandle) -> None:
        _say({"working": claim.item.id})
        seconds, self.first_seconds = self.first_seconds or self.work_seconds, 0
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(PIECE_SECONDS)
        try:
            # Lost or not: what a late word is worth is the board's to say.
            claim.done()
        except DibsError as refusal:
            _tell(refusal)
            raise


def main(store: str, folder: str, agent: str, work_seconds: str, first_seconds: str) -> None:
    with connect(store, folder=folder) as board:
        player = Player(board, agent, float(work_seconds), float(first_seconds))
        _say({"hello": agent})
        for line in sys.stdin:
            verb, *words = line.split()
            try:
                getattr(player, verb)(*words)
            except DibsError as refusal:
                _tell(refusal)


def _tell(refusal: DibsError) -> None:
    _say({"refused": wire.error(refusal)["error"]})


def _say(message: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
