"""Brief events for dashboards, and what changes without an event: renewals, queues, sessions."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from dibs.board import Board, connect
from dibs.errors import StoreUnavailable
from dibs.model.dashboard import Vitals
from dibs.server.streams import vitals
from dibs.text import times
from tests.kit import sqlite
from tests.kit.http import Host
from tests.server.calling import Caller
from tests.server.listening import Crowd, Listener, listening


class Served:
    def __init__(self, board: Board, url: str, key: str) -> None:
        self.board, self.url, self.key = board, url, key

    def brief(self) -> Crowd:
        return listening(Listener(int(self.url.rpartition(":")[2]), self.key, "/api/events?brief=1"))


@pytest.fixture
def served(http_host: Host, tmp_path: Path) -> Iterator[Served]:
    with sqlite.harness(tmp_path) as harness:
        board = harness.board()
        url, key = http_host.serve(harness.recipe())
        yield Served(board, url, key)
        http_host.stop(url)


def frames(crowd: Crowd) -> list[tuple[str, str, dict[str, Any]]]:
    text = crowd.listeners[0].text.decode()
    found = re.findall(r"^(?:id: (\d+)\n)?event: (\S+)\ndata: (.*)\n$", text, re.MULTILINE)
    return [(id, name, json.loads(data)) for id, name, data in found]


def vitals_until(crowd: Crowd, true: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The first vitals of this kind."""
    crowd.read_until(lambda _: any(name == "vitals" and true(data) for _, name, data in frames(crowd)))
    return next(data for _, name, data in frames(crowd) if name == "vitals" and true(data))


def test_brief_events_have_no_bodies_and_no_words_of_other_contracts(served: Served) -> None:
    board = served.board
    board.start_session("coder", id="coder-1")
    with closing(served.brief()) as crowd:
        board.add("An item", id="x", body="b" * 1000, payload={"large": 1}, resources=["src"])
        board.claim("x", session="coder-1")
        board.progress("x", session="coder-1", note="n" * 1000)
        board.submit("x", session="coder-1", draft="d" * 1000)
        crowd.read_until(lambda _: any(name == "submitted" for _, name, _ in frames(crowd)))
        events = [(id, name, data) for id, name, data in frames(crowd) if name != "vitals"]
    assert [(int(id), name) for id, name, _ in events] == [(event.id, event.kind) for event in board.events()]
    added, progress, submitted = events[0][2], events[3][2], events[4][2]
    assert added["data"]["title"] == "An item"
    assert not {"body", "payload", "resources"} & added["data"].keys()
    assert progress["data"] == {"note": "n" * 500}
    assert "draft" not in submitted["data"]
    assert all(len(json.dumps(data)) < 1000 for _, _, data in events)


def test_vitals_tell_what_no_event_tells(served: Served) -> None:
    board = served.board
    board.add("An item", id="x")
    board.start_session("coder", id="coder-1")
    board.start_session("fixer", id="fixer-1")
    board.claim("x", session="coder-1")
    with closing(served.brief()) as crowd, closing(served.brief()) as other:
        first = vitals_until(crowd, lambda data: "x" in data["renewed"])
        assert first["seen"].keys() == {"coder-1", "fixer-1"}
        assert {seat["id"] for seat in first["sessions"]["started"]} == {"coder-1", "fixer-1"}
        assert first["queues"] == {}
        board.heartbeat(session="coder-1")
        board.wait("x", session="fixer-1")
        board.start_session("late", id="late-1")
        renewed = vitals_until(crowd, lambda data: data["queues"] == {"x": ["fixer-1"]})
        claim = board.get("x").claim
        assert claim is not None
        assert renewed["renewed"] == {"x": [times.iso(claim.expires_at), claim.heartbeat_count]}
        assert [(seat["id"], seat["score"]) for seat in renewed["sessions"]["started"]] == [("late-1", 100)]
        board.leave("x", session="fixer-1")
        board.end_session("late-1")
        ended = vitals_until(crowd, lambda data: data["sessions"]["ended"] == ["late-1"])
        assert (ended["queues"], ended["renewed"]) == ({"x": []}, {})
        assert all(not id for id, name, _ in frames(crowd) if name == "vitals"), "a stream resumes after events only"
        vitals_until(other, lambda data: data["sessions"]["ended"] == ["late-1"])
        shared = [data for _, name, data in frames(crowd) if name == "vitals"][1:]
        assert [data for _, name, data in frames(other) if name == "vitals"][-len(shared) :] == shared


def test_vitals_tell_that_the_board_was_replaced_by_an_older_copy(served: Served, tmp_path: Path) -> None:
    board = served.board
    board.add("An item", id="x")
    copy = tmp_path / "copy.db"
    board.backup(str(copy))
    kept = board.view().event
    with closing(served.brief()) as crowd:
        for number in range(3):
            board.add("Lost work", id=f"lost-{number}")
        lost = board.view().event
        assert vitals_until(crowd, lambda data: data["event"] == lost)
        board.close()
        # The write-ahead log goes before the copy comes: SQLite would apply it to the copy.
        for suffix in ("", "-wal", "-shm"):
            (tmp_path / f"board.db{suffix}").unlink(missing_ok=True)
        copy.rename(tmp_path / "board.db")
        crowd.read_until(lambda _: [data["event"] for _, name, data in frames(crowd) if name == "vitals"][-1] == kept)
    with closing(served.brief()) as crowd, connect(str(tmp_path / "board.db")) as board:
        board.add("An item of the copy", id="new")
        crowd.read_until(lambda _: any(name == "added" for _, name, _ in frames(crowd)))
        added = [data["item"] for _, name, data in frames(crowd) if name == "added"]
    assert added == ["new"], "the feed goes on after the copy's events, and has none of the lost ones"


def test_an_error_does_not_end_the_vitals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vitals, "EVERY_SECONDS", 0)
    sound = Vitals(event=7, at=0, claims={}, seen={}, queues={})
    reads: list[Exception | Vitals] = [ValueError("a bug"), StoreUnavailable("busy"), sound]

    async def scenario() -> None:
        published = asyncio.Event()

        async def read() -> Vitals:
            found = reads.pop(0) if len(reads) > 1 else reads[0]
            if isinstance(found, Exception):
                raise found
            return found

        signs = vitals.VitalSigns(read, published.set, lambda event: None)
        signs.add_listener()
        await published.wait()
        signs.remove_listener()
        assert b'"event": 7' in signs.after(0)[1]

    asyncio.run(asyncio.wait_for(scenario(), 30))


def test_brief_and_messages_exclude_each_other(served: Served) -> None:
    reply = Caller(served.url, served.key).get("/api/events?brief=1&messages=1")
    assert (reply.status, reply.body["code"], reply.body["facts"]["field"]) == (422, "INVALID", "brief")
