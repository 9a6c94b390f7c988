"""Where a server listens."""

from __future__ import annotations

import socket

from dibs.config import ServerSettings
from dibs.server.ops.address import listen


def test_no_answer_waits_for_an_acknowledgement_of_its_head() -> None:
    with (
        listen(ServerSettings(port=0)) as listener,
        socket.create_connection(listener.getsockname()),
        listener.accept()[0] as accepted,
    ):
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
