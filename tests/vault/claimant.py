"""One agent on one clone, as a process: it takes items until there are none left, and writes down each one it starts.

    python -m tests.vault.claimant CLONE AGENT LOG BATCH [broken]

It waits for a line on standard input to begin. A broken one takes its own word for the hub's.
"""

from __future__ import annotations

import json
import os
import sys
import time

from dibs.board import Board
from dibs.config import DEFAULTS
from dibs.errors import StoreUnavailable
from dibs.store.vault.git.sync import Sync
from dibs.store.vault.store import VaultStore

SECONDS_MAX = 400.0


def main(clone: str, agent: str, log: str, batch: int) -> None:
    store = VaultStore(clone, DEFAULTS)
    board = Board(store, DEFAULTS, actor=agent)
    session = board.start_session(agent).id
    written = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    print("ready", flush=True)
    sys.stdin.readline()
    until = time.monotonic() + SECONDS_MAX
    away = 0
    while time.monotonic() < until:
        try:
            grants = board.next(session=session, n=batch)
            if not grants and not store.sync().news:
                break
        except StoreUnavailable:
            away += 1
            continue
        for grant in grants:
            # One write: whole lines, whoever else writes.
            line = {"item": grant.item.id, "token": grant.claim.token, "agent": agent, "session": session}
            os.write(written, f"{json.dumps(line)}\n".encode())
    print(json.dumps({"away": away}), flush=True)


if __name__ == "__main__":
    if sys.argv[5:] == ["broken"]:
        Sync.confirm = lambda self, contents=None: None  # type: ignore[method-assign]
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
