"""The feed in bytes: made once, shared, bounded, and never with something left out."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from dibs.board import Board
from dibs.errors import Invalid
from dibs.model import Event
from dibs.server.streams import event_ring, feed
from dibs.server.streams.event_ring import KEPT_BYTES, PAGE_BYTES, PAGE_EVENTS, RING_BYTES, RING_EVENTS, Page, Pages
from dibs.server.streams.feed import Feed
from dibs.server.streams.projects import Projects
from tests.kit import sqlite

PATIENCE_SECONDS = 5.0


@pytest.fixture
def board(tmp_path: Path) -> Iterator[Board]:
    with sqlite.harness(tmp_path) as harness:
        yield harness.board()


@pytest.fixture
def ring(board: Board) -> Pages:
    ring = Pages(board)
    ring.wanted = 1
    return ring


def event(id: int, size: int = 0) -> Event:
    data = {"note": "x" * size}
    return Event(
        id=id, item=f"item-{id}", number=1, kind="progress", at=0, status="ready", token=1, actor="a", data=data
    )


def events(start: int, end: int, size: int = 0) -> list[Event]:
    return [event(id, size) for id in range(start, end)]


def ids(page: Page | None) -> list[int]:
    assert page is not None
    return [one.id for one in page.told]


def all_after(ring: Pages, cursor: int, end: int) -> list[int]:
    found: list[int] = []
    while cursor < end:
        page = ring.at(cursor)
        assert page is not None
        assert page.lines == b"".join(one.lines for one in page.told)
        found += ids(page)
        cursor = page.end
    return found


def test_streams_at_the_same_cursor_share_a_page_and_an_event_is_put_into_bytes_once(
    ring: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    lines = event_ring.lines
    monkeypatch.setattr(event_ring, "lines", lambda event: made.append(event.id) or lines(event))  # type: ignore[func-returns-value]
    ring.hear(0, events(1, 301))
    assert ring.at(0) is ring.at(0)
    assert all_after(ring, 0, 300) == list(range(1, 301))
    assert all_after(ring, 7, 300) == list(range(8, 301))
    assert made == list(range(1, 301))


def test_a_page_is_bounded_unless_a_single_event_is_larger(ring: Pages) -> None:
    ring.hear(0, [*events(1, 200), event(200, 3 * PAGE_BYTES), *events(201, 204, PAGE_BYTES // 2)])
    cursor, sizes = 0, []
    while cursor < 203:
        page = ring.at(cursor)
        assert page is not None
        sizes.append((len(page.told), len(page.lines)))
        cursor = page.end
    assert all(count <= PAGE_EVENTS for count, _ in sizes)
    assert [count for count, size in sizes if size > PAGE_BYTES] == [1]


@pytest.mark.parametrize(("count", "size"), [(2 * RING_EVENTS, 0), (50, RING_BYTES // 10)])
def test_the_ring_is_bounded_in_events_and_in_bytes(ring: Pages, count: int, size: int) -> None:
    for start in range(1, count, 10):
        ring.hear(start - 1, events(start, start + 10, size))
    last = count
    assert len(ring._ring) <= RING_EVENTS
    assert sum(len(one.lines) for one in ring._ring) == ring._bytes
    assert ring._bytes <= RING_BYTES or len(ring._ring) == 1
    # What is no longer there is read from the store, and all that comes after it is there.
    first = ring._ring[0].id
    assert ring.at(first - 2) is None
    assert all_after(ring, first - 1, last) == list(range(first, last + 1))


def test_a_page_that_was_short_when_it_was_made_grows(ring: Pages) -> None:
    ring.hear(0, events(1, 3))
    assert ids(ring.at(0)) == [1, 2]
    ring.hear(2, events(3, 5))
    assert ids(ring.at(0)) == [1, 2, 3, 4]


def test_a_gap_in_what_was_heard_is_never_passed_over(ring: Pages) -> None:
    ring.hear(0, events(1, 4))
    ring.hear(9, events(10, 12))
    assert ring.at(3) is None
    assert ids(ring.at(9)) == [10, 11]


def test_for_nobody_nothing_is_kept(ring: Pages) -> None:
    ring.hear(0, events(1, 4))
    ring.wanted = 0
    ring.hear(3, events(4, 6))
    ring.wanted = 1
    ring.hear(5, events(6, 8))
    assert ring.at(3) is None
    assert ids(ring.at(5)) == [6, 7]


def test_what_the_ring_does_not_hold_is_read_from_the_store(ring: Pages, board: Board) -> None:
    board.add_many([{"id": f"item-{n}", "title": "An item"} for n in range(10)])
    page = ring.read(0)
    assert ids(page) == [event.id for event in board.events()]
    assert ring.read(0) is page
    assert page is not None
    assert ring.read(page.end) is None


def test_large_events_are_read_as_they_are_sent_and_few_of_them_are_kept(
    ring: Pages, board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that listens from the beginning must not cost what the whole feed has."""
    made = []
    lines = event_ring.lines
    monkeypatch.setattr(event_ring, "lines", lambda event: made.append(event.id) or lines(event))  # type: ignore[func-returns-value]
    board.add("An item", id="one")
    for number in range(12):
        board.edit("one", body=f"{number}" + "\x01" * (KEPT_BYTES // 24))
    cursor = 0
    while (page := ring.read(cursor)) is not None:
        cursor = page.end
    assert cursor == board.events(newest=True, limit=1)[0].id
    assert len(made) <= len(set(made)) + 1, "put into bytes and thrown away"
    kept = sum(len(page.lines) for page in ring._kept.values())
    assert ring._kept_bytes == kept <= KEPT_BYTES
    ring.wanted = 0
    ring.hear(cursor, [])
    assert (ring._kept_bytes, len(ring._kept)) == (0, 0)


def test_large_events_are_heard_a_few_at_a_time(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "READ_BYTES", 5_000)
    followed, heard = Feed(board), []
    followed.heard.append(lambda after, events: heard.append([event.id for event in events]))
    board.add("An item", id="one")
    for number in range(6):
        board.edit("one", body=f"{number}" * 2_000)
    followed._take_in()
    assert [id for ids in heard for id in ids] == [event.id for event in board.events()]
    assert len(heard) > 1


def test_the_feed_goes_on_after_what_was_pruned_before_it_was_heard(board: Board) -> None:
    def add(*ids: str) -> None:
        board.add_many([{"id": id, "title": "An item", "needs_approval": True} for id in ids])

    followed, ring = Feed(board), Pages(board)
    ring.wanted = 1
    heard: list[int] = []
    followed.heard += [ring.hear, lambda after, events: heard.extend(event.id for event in events)]
    add("one")
    followed._take_in()
    add("two")
    board.cancel("two")
    floor = forgotten(board)
    add("three")
    followed._take_in()
    assert heard == [1, floor + 1]
    # A stream that had heard the first would miss something, and is told so.
    assert ring.at(1) is None
    with pytest.raises(Invalid):
        ring.read(1)


def forgotten(board: Board) -> int:
    """What has ended is forgotten, which takes until a later millisecond; the floor since."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not (pruned := board.prune(older_than_seconds=0)).items:
        assert time.monotonic() < end
    return pruned.event_floor


def test_where_an_item_belongs_is_looked_up_once_and_heard_of_from_then_on(board: Board) -> None:
    projects = Projects(board)
    board.add("An item", id="one", project="web")
    assert projects.known({"one"}) is None
    assert projects.look_up({"one", "gone"}) == {"one": "web", "gone": None}
    board.edit("one", project="api")
    assert projects.known({"one", "gone"}) == {"one": "web", "gone": None}
    projects.hear(0, board.events())
    assert projects.known({"one"}) == {"one": "api"}


def test_a_look_that_was_overtaken_by_a_move_is_not_remembered(board: Board) -> None:
    board.add("An item", id="one", project="web")
    before: Sequence[Event] = board.events()

    class Overtaken(Projects):
        def _stored(self, item: str) -> str | None:
            found = super()._stored(item)
            board.edit("one", project="api")
            self.hear(before[-1].id, board.events(after=before[-1].id))
            return found

    projects = Overtaken(board)
    projects.look_up({"one"})
    assert projects.known({"one"}) == {"one": "api"}


def test_only_so_many_projects_are_remembered(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dibs.server.streams.projects.PROJECTS_KEPT", 2)
    projects = Projects(board)
    for id in ("one", "two", "three"):
        board.add("An item", id=id, project=f"project-{id}")
        assert projects.look_up({id}) == {id: f"project-{id}"}
    assert projects.known({"one"}) is None
    assert projects.known({"two", "three"}) is not None
