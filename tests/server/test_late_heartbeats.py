"""A heartbeat that stood still in a stopped server, while another server gave its session more."""

from __future__ import annotations

import signal
from pathlib import Path

from dibs.model import AGENT
from tests.server.attacking import Caller
from tests.server.process import Background, board_of, serving


def test_a_heartbeat_delayed_in_a_stopped_server_ends_nothing_given_since(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        folder.mkdir()
    with serving(folders[0], "--quiet") as one:
        store = one.told["store"]
        with serving(folders[1], "--quiet", store=store) as two, board_of(one) as board:
            secret = board.create_key(AGENT, agent="coder")[1]
            board.add("X", id="x")
            stopped, other = Caller(one.url, secret), Caller(two.url, secret)
            other.ok("POST", "/v1/sessions", {"agent": "coder", "id": "me"})
            known = stopped.ok("POST", "/v1/heartbeat", {"session": "me"})["event"]
            late = {"session": "me", "holding": {}, "known_event": known}
            one.process.send_signal(signal.SIGSTOP)
            try:
                beat = Background(lambda: stopped.ok("POST", "/v1/heartbeat", late))
                other.ok("POST", "/v1/items/x/claim", {"session": "me"})
            finally:
                one.process.send_signal(signal.SIGCONT)
            assert beat.result()["forgotten"] == []
            assert board.get("x").item.status == "in_progress"
            # Without a word on what it knew of, it is taken at its word, as callers that cannot be late expect.
            assert stopped.ok("POST", "/v1/heartbeat", {"session": "me", "holding": {}})["forgotten"] == ["x"]
