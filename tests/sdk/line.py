"""A line between a client and a server, which a test can cut, or hold so that nothing passes.

with Line(port) as line:
    line.cut()      # what is open breaks, and nobody gets through
    line.hold()     # everything hangs: nothing is refused, nothing is answered
    line.mend()     # as before; what was held goes on
"""

from __future__ import annotations

import select
import socket
import threading

from tests.kit.forwarder import PIECE, POLL_SECONDS, Forwarder


class Line(Forwarder):
    def __init__(self, port: int) -> None:
        super().__init__()
        self._target = port
        self._cut = threading.Event()
        self._held = threading.Event()
        #: How many connections broke, and how many pieces waited.
        self.broken = self.waited = 0

    def cut(self) -> None:
        self._cut.set()

    def hold(self) -> None:
        self._held.set()

    def mend(self) -> None:
        self._cut.clear()
        self._held.clear()

    def _serve(self, client: socket.socket) -> None:
        with client:
            try:
                server = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                return
            with server:
                self._pass_on(client, server)

    def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        while not self._over:
            ready = select.select([client, server], [], [], POLL_SECONDS)[0]
            if self._cut.is_set():
                self.broken += 1
                return
            if ready and self._held.is_set():
                self.waited += 1
                threading.Event().wait(POLL_SECONDS)  # a bounded pause; what is there stays there
            elif not all(_passed(source, server if source is client else client) for source in ready):
                return


def _passed(source: socket.socket, target: socket.socket) -> bool:
    try:
        data = source.recv(PIECE)
        target.sendall(data)
    except OSError:
        return False
    return bool(data)
