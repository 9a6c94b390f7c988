"""The board: what a client holds. Each verb checks its input once, then calls the store once.

A few verbs do more, and say so: `next` may wait, a verb that is refused because of a claim is called again after the
claims of dead owners are ended, and a verb that ends a run may recover a claim that expired while its holder worked.
"""

from __future__ import annotations

from dibs.board.connecting import Board, connect, default_url, make, make_hub, migrate, seed

__all__ = ["Board", "connect", "default_url", "make", "make_hub", "migrate", "seed"]
