"""dibs as people use it: a process with a board and a session for each worker."""

from __future__ import annotations

from collections.abc import Sequence

import dibs
from bench.contest import fleet, rows
from bench.contest.contestant import Contestant
from bench.contest.result import Result
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


def end(board: Board, session: str, grants: Sequence[Grant]) -> None:
    """End what was given."""
    if len(grants) == 1:
        board.done(grants[0].item.id, session=session, token=grants[0].claim.token)
    elif grants:
        board.done_many({grant.item.id: grant.claim.token for grant in grants}, session=session)


def main(url: str) -> None:
    with dibs.connect(url) as board:
        for batch, gate in fleet.runs():
            # The last run's session went with its items.
            me = board.start_session(rows.AGENT).id
            end(board, me, board.next(session=me, n=batch))
            window = gate()
            while window.seconds_left > 0:
                grants = board.next(session=me, n=batch)
                end(board, me, grants)
                window.got_on(len(grants))
