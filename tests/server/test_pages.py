"""The feed in bytes: made once, shared, bounded, and never with something left out."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from dibs.board import Board
from dibs.errors import Invalid
from dibs.model import Event
from dibs.server.streams import feed, pages
from dibs.server.streams.feed import Feed
from dibs.server.streams.filters import ProjectCache
from dibs.server.streams.pages import (
    CACHED_BYTES,
    PAGE_BYTES,
    PAGE_EVENTS,
    RING_BYTES,
    RING_EVENTS,
    EventPage,
    EventPages,
)
from tests.kit import sqlite
from tests.kit.waiting import PATIENCE_SECONDS


@pytest.fixture
def board(tmp_path: Path) -> Iterator[Board]:
    with sqlite.harness(tmp_path) as harness:
        yield harness.board()


@pytest.fixture
def ring(board: Board) -> EventPages:
    ring = EventPages(board)
    ring.readers = 1
    return ring


def event(id: int, size: int = 0) -> Event:
    data = {"note": "x" * size}
    return Event(
        id=id, item=f"item-{id}", number=1, kind="progress", at=0, status="ready", token=1, actor="a", data=data
    )


def events(start: int, end: int, size: int = 0) -> list[Event]:
    return [event(id, size) for id in range(start, end)]


def ids(page: EventPage | None) -> list[int]:
    assert page is not None
    return [one.id for one in page.events]


def all_after(ring: EventPages, cursor: int, end: int) -> list[int]:
    found: list[int] = []
    while cursor < end:
        page = ring.from_memory(cursor)
        assert page is not None
        assert page.frames == b"".join(one.frames for one in page.events)
        found += ids(page)
        cursor = page.end
    return found


def test_streams_at_the_same_cursor_share_a_page_and_an_event_is_put_into_bytes_once(
    ring: EventPages, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    lines = pages.sse_frames
    monkeypatch.setattr(pages, "sse_frames", lambda event: made.append(event.id) or lines(event))  # type: ignore[func-returns-value]
    ring.on_events(0, events(1, 301))
    assert ring.from_memory(0) is ring.from_memory(0)
    assert all_after(ring, 0, 300) == list(range(1, 301))
    assert all_after(ring, 7, 300) == list(range(8, 301))
    assert made == list(range(1, 301))


def test_a_page_is_bounded_unless_a_single_event_is_larger(ring: EventPages) -> None:
    ring.on_events(0, [*events(1, 200), event(200, 3 * PAGE_BYTES), *events(201, 204, PAGE_BYTES // 2)])
    cursor, sizes = 0, []
    while cursor < 203:
        page = ring.from_memory(cursor)
        assert page is not None
        sizes.append((len(page.events), len(page.frames)))
        cursor = page.end
    assert all(count <= PAGE_EVENTS for count, _ in sizes)
    assert [count for count, size in sizes if size > PAGE_BYTES] == [1]


@pytest.mark.parametrize(("count", "size"), [(2 * RING_EVENTS, 0), (50, RING_BYTES // 10)])
def test_the_ring_is_bounded_in_events_and_in_bytes(ring: EventPages, count: int, size: int) -> None:
    for start in range(1, count, 10):
        ring.on_events(start - 1, events(start, start + 10, size))
    last = count
    assert len(ring._ring) <= RING_EVENTS
    assert sum(len(one.frames) for one in ring._ring) == ring._ring_bytes
    assert ring._ring_bytes <= RING_BYTES or len(ring._ring) == 1
    # What is no longer there is read from the store, and all that comes after it is there.
    first = ring._ring[0].id
    assert ring.from_memory(first - 2) is None
    assert all_after(ring, first - 1, last) == list(range(first, last + 1))


def test_a_page_that_was_short_when_it_was_made_grows(ring: EventPages) -> None:
    ring.on_events(0, events(1, 3))
    assert ids(ring.from_memory(0)) == [1, 2]
    ring.on_events(2, events(3, 5))
    assert ids(ring.from_memory(0)) == [1, 2, 3, 4]


def test_a_gap_in_what_was_heard_is_never_passed_over(ring: EventPages) -> None:
    ring.on_events(0, events(1, 4))
    ring.on_events(9, events(10, 12))
    assert ring.from_memory(3) is None
    assert ids(ring.from_memory(9)) == [10, 11]


def test_for_nobody_nothing_is_kept(ring: EventPages) -> None:
    ring.on_events(0, events(1, 4))
    ring.readers = 0
    ring.on_events(3, events(4, 6))
    ring.readers = 1
    ring.on_events(5, events(6, 8))
    assert ring.from_memory(3) is None
    assert ids(ring.from_memory(5)) == [6, 7]


def test_what_the_ring_does_not_hold_is_read_from_the_store(ring: EventPages, board: Board) -> None:
    board.add_many([{"id": f"item-{n}", "title": "An item"} for n in range(10)])
    page = ring.from_store(0)
    assert ids(page) == [event.id for event in board.events()]
    assert ring.from_store(0) is page
    assert page is not None
    assert ring.from_store(page.end) is None


def test_large_events_are_read_as_they_are_sent_and_few_of_them_are_kept(
    ring: EventPages, board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that listens from the beginning must not cost what the whole feed has."""
    made = []
    lines = pages.sse_frames
    monkeypatch.setattr(pages, "sse_frames", lambda event: made.append(event.id) or lines(event))  # type: ignore[func-returns-value]
    board.add("An item", id="one")
    for number in range(12):
        board.edit("one", body=f"{number}" + "\x01" * (CACHED_BYTES // 24))
    cursor = 0
    while (page := ring.from_store(cursor)) is not None:
        cursor = page.end
    assert cursor == board.events(newest=True, limit=1)[0].id
    assert len(made) <= len(set(made)) + 1, "put into bytes and thrown away"
    kept = sum(len(page.frames) for page in ring._cache.values())
    assert ring._cached_bytes == kept <= CACHED_BYTES
    ring.readers = 0
    ring.on_events(cursor, [])
    assert (ring._cached_bytes, len(ring._cache)) == (0, 0)


def test_large_events_are_heard_a_few_at_a_time(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "READ_BYTES", 5_000)
    followed, heard = Feed(board), []
    followed.on_events.append(lambda after, events: heard.append([event.id for event in events]))
    board.add("An item", id="one")
    for number in range(6):
        board.edit("one", body=f"{number}" * 2_000)
    followed._read_news()
    assert [id for ids in heard for id in ids] == [event.id for event in board.events()]
    assert len(heard) > 1


def test_the_feed_goes_on_after_what_was_pruned_before_it_was_heard(board: Board) -> None:
    def add(*ids: str) -> None:
        board.add_many([{"id": id, "title": "An item", "needs_approval": True} for id in ids])

    followed, ring = Feed(board), EventPages(board)
    ring.readers = 1
    heard: list[int] = []
    followed.on_events += [ring.on_events, lambda after, events: heard.extend(event.id for event in events)]
    add("one")
    followed._read_news()
    add("two")
    board.cancel("two")
    floor = forgotten(board)
    add("three")
    followed._read_news()
    assert heard == [1, floor + 1]
    # A stream that had heard the first would miss something, and is told so.
    assert ring.from_memory(1) is None
    with pytest.raises(Invalid):
        ring.from_store(1)


def forgotten(board: Board) -> int:
    """What has ended is forgotten, which takes until a later millisecond; the floor since."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not (pruned := board.prune(older_than_seconds=0)).items:
        assert time.monotonic() < end
    return pruned.event_floor


def test_where_an_item_belongs_is_looked_up_once_and_heard_of_from_then_on(board: Board) -> None:
    projects = ProjectCache(board)
    board.add("An item", id="one", project="web")
    assert projects.cached({"one"}) is None
    assert projects.load({"one", "gone"}) == {"one": "web", "gone": None}
    board.edit("one", project="api")
    assert projects.cached({"one", "gone"}) == {"one": "web", "gone": None}
    projects.on_events(0, board.events())
    assert projects.cached({"one"}) == {"one": "api"}


def test_a_look_that_was_overtaken_by_a_move_is_not_remembered(board: Board) -> None:
    board.add("An item", id="one", project="web")
    before: Sequence[Event] = board.events()

    class Overtaken(ProjectCache):
        def _read(self, item: str) -> str | None:
            found = super()._read(item)
            board.edit("one", project="api")
            self.on_events(before[-1].id, board.events(after=before[-1].id))
            return found

    projects = Overtaken(board)
    projects.load({"one"})
    assert projects.cached({"one"}) == {"one": "api"}


def test_only_so_many_projects_are_remembered(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dibs.server.streams.filters.CACHED_ITEMS", 2)
    projects = ProjectCache(board)
    for id in ("one", "two", "three"):
        board.add("An item", id=id, project=f"project-{id}")
        assert projects.load({id}) == {id: f"project-{id}"}
    assert projects.cached({"one"}) is None
    assert projects.cached({"two", "three"}) is not None
