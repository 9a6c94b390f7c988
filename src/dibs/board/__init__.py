"""The board: the verbs for clients. Each verb checks its input and calls the store once.

A few do more: `next` and `claim` can wait, a verb that a claim prevents is retried after the claims of dead owners were
ended, and the ends of a run can recover a claim that expired.
"""

from __future__ import annotations

from dibs.board.board import Board, connect, default_url, make, make_hub, migrate, seed

__all__ = ["Board", "connect", "default_url", "make", "make_hub", "migrate", "seed"]
