"""dibs as people use it: a process with a board and a session for each worker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import dibs
from bench.contest import fleet, rows
from bench.contest.contestant import Contestant
from bench.contest.result import Result
from bench.contest.window import Window
from dibs.board import Board
from dibs.model import Grant


class OnDibs(Contestant):
    name = "dibs"

    def __init__(self, url: str) -> None:
        self.url = url
        self._fleet = fleet.Fleet(__name__, url)

    def supply(self, count: int) -> None:
        rows.refill(self.url, count)

    def run(self, workers: int, batch: int, seconds: float) -> Result:
        return self._fleet.run(workers, batch, seconds)

    def left(self) -> int:
        return rows.ready_left(self.url)

    def close(self) -> None:
        self._fleet.close()


def end(board: Board, session: str, grants: Sequence[Grant]) -> Iterator[int]:
    """End what was given; how many, as they end."""
    for grant in grants:
        board.done(grant.item.id, session=session, token=grant.claim.token)
        yield 1


def main(url: str) -> None:
    with dibs.connect(url) as board:
        for batch, gate in fleet.runs():
            # The last run's session went with its items.
            me = board.start_session(rows.AGENT).id
            sum(end(board, me, board.next(session=me)))
            _work(board, me, batch, gate())


def _work(board: Board, me: str, batch: int, window: Window) -> None:
    while True:
        for ended in end(board, me, board.next(session=me, n=batch)):
            window.got_on(ended)
            if window.seconds_left <= 0:
                return
