"""The board: what a client holds. Each verb checks its input once, then calls the store once.

The few verbs that do more say so: `next` may wait, a verb that is refused because of a claim is tried again once the
claims of dead owners are ended, and the ends of a run may recover a claim that expired while its holder was at work.
"""

from __future__ import annotations

from dibs.board.connecting import Board, connect, default_url, make, make_hub, migrate, seed

__all__ = ["Board", "connect", "default_url", "make", "make_hub", "migrate", "seed"]
