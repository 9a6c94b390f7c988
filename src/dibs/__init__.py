"""dibs: fleets of coding agents share one list of work.

import dibs

board = dibs.connect()
me = board.start_session("coder")
for grant in board.next(session=me.id):
    ...
    board.done(grant.item.id, session=me.id, token=grant.claim.token)
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.board import Board, connect

__version__ = "0.1.0"
__all__ = ["Board", "__version__", "connect"]


def __getattr__(name: str) -> object:
    # Lazily, because `import dibs` is part of every command's start.
    if name in ("Board", "connect"):
        from dibs import board

        return getattr(board, name)
    raise AttributeError(f"module 'dibs' has no attribute {name!r}")
