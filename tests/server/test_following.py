"""Following through a server: it records what time does to the board, and tells everybody who listens, viewers too."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from dibs.board import Board
from dibs.config import DEFAULTS
from dibs.errors import Forbidden
from dibs.model import VIEWER
from dibs.sdk.sweeper import SweepingWatch
from dibs.store.http.store import HttpStore
from dibs.store.open import open_store
from tests.kit.waiting import PATIENCE_SECONDS
from tests.server.killable import serving
from tests.server.listening import Listener, listening

#: Claims that last a second.
SETTINGS = DEFAULTS.replace(ttl_seconds_min=1.0)


@pytest.fixture
def store(tmp_path: Path) -> str:
    return str(tmp_path / "board.db")


@pytest.fixture
def board(store: str) -> Iterator[Board]:
    with closing(Board(open_store(store, SETTINGS, create=True), SETTINGS, actor="tester")) as board:
        yield board


def test_a_viewer_is_told_what_time_alone_does(board: Board, store: str) -> None:
    _, secret = board.create_key(VIEWER)
    board.add("held", id="held")
    board.claim("held", session=board.start_session("coder").id, ttl_seconds=2.0)
    with (
        serving(store) as server,
        closing(Board(HttpStore(f"http://127.0.0.1:{server.port}", DEFAULTS, secret), DEFAULTS)) as viewer,
        closing(listening(Listener(server.port, secret, last=0))) as crowd,
    ):
        with pytest.raises(Forbidden):
            viewer.sweep()
        with closing(viewer.watch(sweeps=True)) as watch:
            assert not isinstance(watch, SweepingWatch), "its looks would be requests, several times a second"
        due_at = time.time_ns() // 1_000_000 + 1000
        board.add("later", id="later", not_before=due_at)
        heard = {}
        for event in viewer.follow(after=0, wait_seconds=PATIENCE_SECONDS):
            heard[event.item, event.kind] = event
            if {("held", "expired"), ("later", "due")} <= heard.keys():
                break
        else:
            raise AssertionError(f"it was told only of {sorted(heard)}")
        expired = heard["held", "expired"].at - heard["held", "claimed"].at - 2000
        late = heard["later", "due"].at - due_at
        print(f"recorded {expired} ms after it expired, {late} ms after it was due")
        crowd.read_until(lambda one: b"event: expired" in one.text and b"event: due" in one.text)
