"""One of several server processes: `python -m dibs.server.ops.process SOCKET`, its orders a line of JSON on stdin."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading

from dibs.board import connect
from dibs.config import ServerSettings
from dibs.errors import DibsError
from dibs.location import without_password
from dibs.server.ops.run import Server, server_of


def main() -> int:
    listener = socket.socket(fileno=int(sys.argv[1]))
    orders = json.loads(sys.stdin.readline())
    settings = ServerSettings(**{**orders["settings"], "names": tuple(orders["settings"]["names"])})
    try:
        board = connect(orders["url"], actor="dibs")
    except DibsError as error:
        sys.stderr.write(f"dibs: {without_password(error.message)}\n")
        return error.exit_code
    server = server_of(board, settings, listener, None if orders["quiet"] else sys.stderr)
    threading.Thread(target=_stop_with_parent, args=[server], daemon=True).start()
    server.run(sockets=[listener])
    return 0


def _stop_with_parent(server: Server) -> None:
    sys.stdin.read()
    server.should_exit = True


if __name__ == "__main__":
    # Not taken apart piece by piece: everything that matters is written and closed by now.
    code = main()
    sys.stderr.flush()
    os._exit(code)
