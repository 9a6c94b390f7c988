"""One key cannot fill the board with sessions, for which all readers pay."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dibs.board import session_room
from dibs.errors import RateLimited
from dibs.model import AGENT
from dibs.testing.harness import Harness
from tests.kit import postgres, sqlite, vault
from tests.kit.http_host import Served as InThread
from tests.kit.postgres_server import PostgresServer
from tests.server.attacking import Caller

LIMIT = 3


@pytest.fixture(params=["sqlite", "vault", "postgres"])
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Harness]:
    if request.param == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres_server")
        made: Harness = postgres.harness(server, tmp_path, sessions_per_key=LIMIT)
    elif request.param == "vault":
        made = vault.harness(tmp_path, sessions_per_key=LIMIT)
    else:
        made = sqlite.harness(tmp_path, sessions_per_key=LIMIT)
    with made as harness:
        yield harness


def test_a_key_has_so_many_live_sessions_and_no_more(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    board = harness.board()
    for number in range(LIMIT):
        board.start_session("coder", id=f"s{number}", key="mine")
    with pytest.raises(RateLimited, match="dibs session end SESSION") as refused:
        board.start_session("coder", id="more", key="mine")
    facts = refused.value.facts
    assert (facts["key"], facts["live_sessions"], facts["sessions_per_key"]) == ("mine", LIMIT, LIMIT)
    with pytest.raises(RateLimited):
        harness.board().start_session("coder", id="more", key="mine")  # another process of the server counts, too
    assert board.start_session("coder", id="s0", key="mine").id == "s0", "a live one is started again"
    board.start_session("coder", id="other", key="other")
    board.start_session("coder", id="none")
    monkeypatch.setattr(session_room, "FULL_SECONDS", 0.0)
    board.end_session("s0")
    assert board.start_session("coder", id="more", key="mine").id == "more", "an ended one makes room"


def test_a_key_has_so_much_meta_and_no_more(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_room, "META_BYTES_PER_KEY", 3000)
    board, meta = harness.board(), {"log": "x" * 1400}
    board.start_session("coder", id="a", key="mine", meta=meta)
    board.start_session("coder", id="b", key="mine", meta=meta)
    with pytest.raises(RateLimited) as refused:
        board.start_session("coder", id="c", key="mine", meta=meta)
    assert refused.value.facts["meta_bytes_max"] == 3000


def test_the_limit_of_meta_counts_bytes(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_room, "META_BYTES_PER_KEY", 3000)
    with pytest.raises(RateLimited) as refused:
        harness.board().start_session("coder", meta={"log": "ü" * 2000}, key="mine")
    assert refused.value.facts["meta_bytes_max"] == 3000
    harness.board().start_session("coder", meta={"log": "ü" * 1000}, key="mine")
    assert 2000 < harness.board().store.sessions_of_key("mine")[1] < 2100


def test_a_server_says_who_has_too_many(tmp_path: Path) -> None:
    with sqlite.harness(tmp_path, sessions_per_key=LIMIT) as harness:
        server = InThread(harness.recipe())
        try:
            key = harness.board().create_key(AGENT, agent="coder")[1]
            caller = Caller(f"http://127.0.0.1:{server.port}", key)
            started = [caller("POST", "/v1/sessions", {"agent": "coder"}) for _ in range(LIMIT + 1)]
            assert [one.status for one in started] == [200] * LIMIT + [429]
            assert started[-1].code == "RATE_LIMITED"
        finally:
            server.stop()
