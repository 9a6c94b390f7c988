"""Live events: nothing is skipped, nobody is held up by who does not read, and a stream goes on where it broke off."""

from __future__ import annotations

import asyncio
import json
import re
import resource
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Message

from dibs.board import Board
from dibs.config import DEFAULTS
from dibs.errors import StoreUnavailable
from dibs.model import ADMIN, VIEWER, Event
from dibs.server.service import Service
from dibs.server.streams import sse
from dibs.server.streams.filters import EventFilter
from dibs.server.streams.open_requests import OpenRequest
from dibs.server.streams.sse import Stream, Streams
from dibs.store.open import open_store
from dibs.testing.sizes import FACTOR, times
from tests.kit import postgres, sqlite
from tests.kit.http import Host
from tests.kit.postgres_server import PostgresServer
from tests.server.killable import serving
from tests.server.listening import EVENT, Counting, Crowd, Listener, await_cut, listening

SUBSCRIBERS = times(100)
STOPPED = times(10)
EVENTS = 3_000 if FACTOR == 1 else 10_000 * FACTOR
BATCH = 500
#: Of the whole server, with a thousand subscribers.
MEMORY_KILOBYTES_MAX = 120_000


@pytest.fixture
def store(tmp_path: Path) -> str:
    return str(tmp_path / "board.db")


@pytest.fixture
def board(store: str) -> Iterator[Board]:
    with closing(Board(open_store(store, DEFAULTS, create=True), DEFAULTS, actor="tester")) as board:
        yield board


@pytest.fixture
def key(board: Board) -> str:
    return board.create_key(ADMIN, agent="tester")[1]


class Served:
    """A board behind the server that all tests share, for what needs no process of its own."""

    def __init__(self, board: Board, port: int, key: str) -> None:
        self.board, self.port, self.key = board, port, key

    def listener(self, path: str = "/api/events", *, last: int | str | None = None) -> Listener:
        return Listener(self.port, self.key, path, last=last)


@pytest.fixture
def served(http_host: Host, tmp_path: Path) -> Iterator[Served]:
    with sqlite.harness(tmp_path) as harness:
        board = harness.board()
        url, key = http_host.serve(harness.recipe())
        yield Served(board, int(url.rpartition(":")[2]), key)
        http_host.stop(url)


def add(board: Board, start: int, count: int) -> None:
    """So many items that wait for their time, each of which is one event."""
    ids = range(start, start + count)
    board.add_many([{"id": f"item-{n}", "title": "An item", "needs_approval": True} for n in ids])


def ids_of(board: Board, after: int = 0) -> list[bytes]:
    return [str(event.id).encode() for event in board.events(after=after, limit=100_000)]


def told(crowd: Crowd, count: int) -> None:
    crowd.read_until(lambda one: len(one.ids) >= count)


def room_for(sockets: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < sockets:
        if hard < sockets:
            pytest.skip(f"{sockets} open files are needed, and {hard} are allowed")
        resource.setrlimit(resource.RLIMIT_NOFILE, (sockets, hard))


def test_who_does_not_read_is_cut_off_and_all_others_miss_nothing(board: Board, store: str, key: str) -> None:
    room_for(SUBSCRIBERS + 100)
    # The stopped ones have room for little in the kernel, so that the server soon has to keep what they do not take.
    asked = {"streaming": {"stalled_seconds": 2.0}, "send_buffer_bytes": 32_768}
    with serving(store, **asked) as server:
        expected: list[bytes] = []
        stopped = [Listener(server.port, key).connect(4096) for _ in range(STOPPED)]
        readers = [Counting(server.port, key, expected).connect() for _ in range(SUBSCRIBERS - STOPPED)]
        with closing(Crowd(stopped)) as stopped_crowd, closing(listening(*readers)) as crowd:
            stopped_crowd.read_until(lambda one: one.subscribed)
            before = server.memory_kilobytes("VmRSS")
            for start in range(0, EVENTS, BATCH):
                last = int(expected[-1]) if expected else 0
                add(board, start, BATCH)
                expected += ids_of(board, after=last)
                crowd.read()
            crowd.read_until(lambda one: isinstance(one, Counting) and one.count == len(expected))
            await_cut(stopped)
            stopped_crowd.read_until(lambda one: one.ended)
        most = server.memory_kilobytes("VmHWM")
        print(f"{SUBSCRIBERS} subscribers, {EVENTS} events: {before} kB before them, {most} kB at most")
        assert len(expected) == EVENTS
        assert max(len(one.ids) for one in stopped) < EVENTS
        assert most < MEMORY_KILOBYTES_MAX


def test_a_stream_goes_on_where_it_broke_off_when_the_server_was_killed(board: Board, store: str, key: str) -> None:
    add(board, 0, 300)
    with serving(store) as server, closing(listening(Listener(server.port, key, last=0))) as crowd:
        told(crowd, 300)
        add(board, 300, 50)
        told(crowd, 301)
        server.kill()
        crowd.read_until(lambda one: one.ended)
        (first,) = crowd.listeners
    add(board, 350, 50)
    with (
        serving(store, port=server.port) as again,
        closing(listening(Listener(again.port, key, last=first.last))) as crowd,
    ):
        add(board, 400, 50)
        (second,) = crowd.listeners
        told(crowd, 450 - len(first.ids))
        assert first.ids + second.ids == ids_of(board)


def test_one_that_is_far_behind_catches_up_from_the_store(served: Served) -> None:
    board = served.board
    add(board, 0, 1000)
    with closing(listening(*(served.listener(last=n) for n in (0, 7)))) as crowd:
        add(board, 1000, 200)
        told(crowd, 1193)
        everything = ids_of(board)
        for one, last in zip(crowd.listeners, (0, 7), strict=True):
            crowd.read_until(lambda one: one.last == int(everything[-1]))
            assert one.ids == everything[last:]


def test_without_a_cursor_only_what_is_new_is_told(served: Served) -> None:
    board = served.board
    add(board, 0, 10)
    # The server learns of them by itself, and is asked until it has.
    with closing(listening(served.listener(last=0))) as crowd:
        told(crowd, 10)
    with closing(listening(served.listener())) as crowd:
        add(board, 10, 5)
        told(crowd, 5)
        assert crowd.listeners[0].ids == ids_of(board)[10:]


def test_each_event_is_told_by_its_name_and_in_the_contract_s_words(served: Served) -> None:
    board = served.board
    with closing(listening(served.listener())) as crowd:
        board.start_session("coder", id="coder-1")
        board.add("An item", id="item-0")
        grant = board.claim("item-0", session="coder-1")
        board.done("item-0", session="coder-1", token=grant.claim.token)
        told(crowd, 4)
        text = crowd.listeners[0].text.decode()
    events = re.findall(r"^(?:id: (\d+)\n)?event: (\S+)\ndata: (.*)$", text, re.MULTILINE)
    added, claimable, claimed, done = board.events()
    assert [(id, name) for id, name, _ in events] == [
        (str(added.id), "added"),
        (str(claimable.id), "claimable"),
        ("", "task:claimed"),
        (str(claimed.id), "claimed"),
        ("", "task:released"),
        (str(done.id), "done"),
    ]
    assert json.loads(events[2][2]) == {
        "type": "task:claimed",
        "data": {"taskId": "item-0", "sessionId": "coder-1"},
    }
    assert json.loads(events[4][2]) == {"type": "task:released", "data": {"taskId": "item-0", "reason": "completed"}}
    assert json.loads(events[3][2])["token"] == claimed.token


@pytest.mark.parametrize(
    ("query", "chosen"),
    [
        ("project=web", {"web-1", "web-2", "moved"}),
        ("project=web&project=api", {"web-1", "web-2", "api-1", "moved"}),
        ("item=api-1&item=web-1", {"api-1", "web-1"}),
        ("project=web&item=api-1", set()),
        ("session=coder-1", {"web-1"}),
    ],
)
def test_a_subscriber_is_told_only_what_it_asked_for(served: Served, query: str, chosen: set[str]) -> None:
    """Also of items that were there before the server was, and of one that came to the project later."""
    board = served.board
    for id, project in (("web-1", "web"), ("web-2", "web"), ("api-1", "api"), ("other", "default"), ("moved", "api")):
        board.add("An item", id=id, project=project)
    board.edit("moved", project="web")
    board.start_session("coder", id="coder-1")
    everything, some = served.listener(last=0), served.listener(f"/api/events?{query}", last=0)
    with closing(listening(everything, some)) as crowd:
        board.claim("web-1", session="coder-1")
        for item in ("other", "moved", "web-2", "api-1"):
            board.park(item)
        count = len(ids_of(board))
        crowd.read_until(lambda one: one is some or len(one.ids) == count)
        wanted = [event for event in board.events() if event.item in chosen]
        if query.startswith("session"):
            wanted = [event for event in wanted if event.session == "coder-1"]
        crowd.read_until(lambda one: one is everything or len(one.ids) >= len(wanted))
        assert some.ids == [str(event.id).encode() for event in wanted]


def test_a_quiet_stream_is_kept_alive_and_moves_its_cursor(board: Board, store: str, key: str) -> None:
    with serving(store, streaming={"keep_alive_seconds": 0.2}) as server:
        one = Listener(server.port, key, "/api/events?item=another")
        with closing(listening(one)) as crowd:
            add(board, 0, 3)
            newest = ids_of(board)[-1]
            crowd.read_until(lambda one: b": still here\nid: %b\n" % newest in one.text)
            assert one.ids == []


def test_a_stream_is_kept_alive_as_often_as_its_client_asks(served: Served) -> None:
    default, asks = served.listener(), served.listener("/api/events?keep_alive=1")
    # The one without it is there first: the timer of all streams goes by its fifteen seconds.
    with closing(listening(default)) as crowd, closing(listening(asks)) as other:
        other.read_until(lambda one: one.text.count(b": still here\n") == 2)
        assert b"keep-alive: 1\n" in asks.text
        crowd.read_until(lambda one: b"retry: " in one.text)
        assert b"keep-alive" not in default.text
        assert b"still here" not in default.text


def test_a_cursor_from_before_what_was_pruned_is_refused(served: Served) -> None:
    board = served.board
    add(board, 0, 3)
    for n in range(3):
        board.cancel(f"item-{n}")
    floor = board.prune(older_than_seconds=0).event_floor
    add(board, 3, 1)
    with closing(listening(served.listener(last=1))) as crowd:
        crowd.read_until(lambda one: one.problem is not None)
        (refused,) = crowd.listeners
        assert refused.status == 422
        assert refused.problem is not None
        assert (refused.problem["code"], refused.problem["facts"]["event_floor"]) == ("INVALID", floor)
    with closing(listening(served.listener(last=floor))) as crowd:
        told(crowd, 1)


@pytest.mark.parametrize("given", ["x", "-1", "1e3", "9" * 17])
def test_a_cursor_that_is_none_is_refused(served: Served, given: str) -> None:
    with closing(listening(served.listener(last=given))) as crowd:
        assert crowd.listeners[0].status == 422


def test_there_is_room_for_so_many_subscribers(board: Board, store: str, key: str) -> None:
    with (
        serving(store, streaming={"subscribers_max": 2}) as server,
        closing(listening(*(Listener(server.port, key) for _ in range(2)))) as crowd,
    ):
        with closing(listening(Listener(server.port, key))) as late:
            assert late.listeners[0].status == 503
        add(board, 0, 1)
        told(crowd, 1)


def test_one_key_does_not_take_all_the_streams(board: Board, store: str, key: str) -> None:
    greedy, modest = (board.create_key(VIEWER)[1] for _ in range(2))
    with (
        serving(store, streaming={"subscribers_max": 4, "subscribers_per_key": 2}) as server,
        closing(listening(*(Listener(server.port, greedy) for _ in range(2)))) as crowd,
    ):
        with closing(listening(Listener(server.port, greedy))) as late:
            assert late.listeners[0].status == 503
        with closing(listening(Listener(server.port, modest))) as other:
            add(board, 0, 1)
            told(crowd, 1)
            told(other, 1)


def test_a_stream_ends_when_its_key_is_revoked(board: Board, store: str, key: str) -> None:
    viewer, secret = board.create_key(VIEWER)
    with serving(store, streaming={"keep_alive_seconds": 0.2}) as server:
        going, staying = Listener(server.port, secret), Listener(server.port, key)
        with closing(listening(going, staying)) as crowd:
            board.revoke_key(viewer.id)
            crowd.read_until(lambda one: one is staying or b"event: refused\n" in one.text)
            assert b'"code": "UNAUTHENTICATED"' in going.text
            add(board, 0, 1)
            crowd.read_until(lambda one: one is going or len(one.ids) == 1)
            assert going.ids == []


def test_a_stop_ends_streams_with_a_hint_also_when_one_does_not_read(board: Board, store: str, key: str) -> None:
    add(board, 0, 1000)
    with serving(store, send_buffer_bytes=32_768) as server:
        deaf = Listener(server.port, key, last=0).connect(4096)
        one = Listener(server.port, key, last=0)
        with closing(deaf), closing(listening(one)) as crowd:
            told(crowd, 1000)
            server.stop()
            crowd.read_until(lambda one: one.ended)
            assert b'event: stopping\nretry: 1000\nid: 1000\ndata: {"after": 1000}\n\n' in one.text + b"\n"


def test_two_servers_on_postgresql_tell_the_same_and_each_goes_on_for_the_other(
    postgres_server: PostgresServer, tmp_path: Path
) -> None:
    with postgres.harness(postgres_server, tmp_path) as harness:
        board = harness.board()
        secret = board.create_key(ADMIN, agent="tester")[1]
        url = harness.recipe()["kwargs"]["url"]
        with serving(url) as one, serving(url) as other:
            with closing(listening(Listener(one.port, secret), Listener(other.port, secret))) as crowd:
                add(board, 0, 100)
                told(crowd, 100)
                first, second = crowd.listeners
                assert first.ids == second.ids == ids_of(board)
            with closing(listening(Listener(other.port, secret, last=int(first.ids[41])))) as crowd:
                add(board, 100, 10)
                told(crowd, 68)
                assert crowd.listeners[0].ids == ids_of(board)[42:]


def test_events_too_large_for_the_ring_are_told_all_the_same(served: Served) -> None:
    board = served.board
    with closing(listening(served.listener())) as crowd:
        for n in range(12):
            board.add("Large", id=f"large-{n}", body="x" * 900_000, needs_approval=True)
        told(crowd, 12)
        assert crowd.listeners[0].ids == ids_of(board)


def test_a_stream_outlives_a_store_that_is_away_for_a_while(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    board = served.board
    add(board, 0, 3)
    monkeypatch.setattr(sse, "RETRY_SECONDS", 0)
    away = [StoreUnavailable("away"), StoreUnavailable("still away")]

    def events(**asked: Any) -> tuple[Event, ...]:
        if away:
            raise away.pop()
        return board.events(**asked)

    async def told() -> bytes:
        service = Service(board.store, board.settings, sweeps=False)
        service.feed.newest = board.events()[-1].id
        monkeypatch.setattr(service.board, "events", events)
        quota = service.streaming.quota("listening")
        stream = Stream(
            Streams(service),
            0,
            EventFilter((), (), ()),
            lambda refuse: OpenRequest(quota, "a key", lambda: None, refuse),
        )
        chunks: list[bytes] = []
        everything = asyncio.Event()

        async def send(message: Message) -> None:
            chunks.append(message.get("body", b""))
            if b"id: 3\n" in chunks[-1]:
                everything.set()

        async def receive() -> Message:
            await everything.wait()
            return {"type": "http.disconnect"}

        await stream({}, receive, send)
        return b"".join(chunks)

    found = asyncio.run(told())
    assert away == []
    assert EVENT.findall(b"\n" + found) == ids_of(board)
