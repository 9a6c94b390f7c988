"""A worker process of `dibs demo`.

It reads orders from stdin (`claim ITEM`, `work`, `draft`, `carry_out`), works as any worker does, and reports to stdout
only what the board's feed does not show: that it is at work, and refusals.
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


class DemoWorker:
    def __init__(self, board: Board, agent: str, work_seconds: float, first_seconds: float) -> None:
        self.board, self.agent = board, agent
        self.work_seconds = work_seconds
        #: How long the first item takes: long enough to kill or stop its worker.
        self.first_seconds = first_seconds

    def claim(self, item: str) -> None:
        with self.board.session(self.agent) as session:
            self._handle(session.claim(item))

    def work(self) -> None:
        self._run(self._handle)

    def draft(self) -> None:
        self._run(lambda claim: Draft(f"Dear customers, {claim.item.title.lower()}."))

    def carry_out(self) -> None:
        self._run(lambda claim: claim.approved_draft)

    def _run(self, handler: Callable[[ClaimHandle], str | None]) -> None:
        worker = Worker(self.board, self.agent)
        worker.handles()(handler)
        worker.run()

    def _handle(self, claim: ClaimHandle) -> None:
        _send({"working": claim.item.id})
        seconds, self.first_seconds = self.first_seconds or self.work_seconds, 0
        time.sleep(seconds)
        try:
            # Even if the claim is lost: the demo shows that the board refuses a late `done`.
            claim.done()
        except DibsError as refusal:
            _send_refusal(refusal)
            raise


def main(store: str, folder: str, agent: str, work_seconds: str, first_seconds: str) -> None:
    with connect(store, folder=folder) as board:
        worker = DemoWorker(board, agent, float(work_seconds), float(first_seconds))
        _send({"hello": agent})
        for line in sys.stdin:
            order, *arguments = line.split()
            try:
                getattr(worker, order)(*arguments)
            except DibsError as refusal:
                _send_refusal(refusal)


def _send_refusal(refusal: DibsError) -> None:
    _send({"refused": wire.error(refusal)["error"]})


def _send(message: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
