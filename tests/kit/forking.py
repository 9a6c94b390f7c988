"""A scene about a handle of the PostgreSQL store that lives through a fork: each process has connections of its own."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from dibs.board import Board


def fork_and_compare(board: Board) -> dict[str, Any]:
    """Use the board, fork, use it in the child, let the child end as programs do, and use it again: over which of the
    server's processes each of them went, how the child ended, and how often a connection had to be made again."""
    before = _asked(board)
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(tell, str(_asked(board)).encode())
        # The usual way out, in which everything that is left is thrown away.
        sys.exit(0)
    os.close(tell)
    with open(told, encoding="ascii") as pipe:
        beside = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    store: Any = board.store
    return {
        "before": before,
        "child": int(beside),
        "after": _asked(board),
        "status": status,
        "reconnects": store.reconnects,
    }


def _asked(board: Board) -> int:
    """Do a verb; the server's process that did it."""
    store: Any = board.store
    board.add("made by one of two")
    with store._pool.connection() as connection:
        return int(connection.info.backend_pid)
