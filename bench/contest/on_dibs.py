"""dibs as people use it: a process with a board and a session for each worker.

What a worker has finished it ends with the `next` by which it asks for more: one round trip and one commit a batch.
"""

from __future__ import annotations

import dibs
from bench.contest import fleet, rows
from bench.contest.contestant import Contestant
from bench.contest.result import Result


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


def main(url: str) -> None:
    with dibs.connect(url) as board:
        for batch, gate in fleet.runs():
            # The last run's session went with its items.
            me = board.start_session(rows.AGENT).id
            held = {grant.item.id: grant.claim.token for grant in board.next(session=me, n=batch)}
            window = gate()
            while window.seconds_left > 0:
                grants = board.next(session=me, n=batch, done=held)
                # A pair is a claim and its end: what was held is ended, and as much is held again.
                window.got_on(len(held))
                held = {grant.item.id: grant.claim.token for grant in grants}
