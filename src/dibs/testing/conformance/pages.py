"""Long answers in pages: put together, they are the whole answer, and each but the last says that there is more."""

from __future__ import annotations

from dibs.errors import Invalid
from dibs.testing.conformance.asking import TTL_SECONDS, expire, ids, refused, session
from dibs.testing.harness import Harness

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from dibs.store.contract import Page

#: More than a page has room for, with three items of a text of this size.
TEXT, ROOM = "t" * 1000, 2500
PAGES_MAX = 50


def read(ask: Callable[..., Page[Any]], name: Callable[[Any], object], **asked: Any) -> list[list[Any]]:
    """Every page there is."""
    found: list[list[Any]] = []
    after: object = None
    for _ in range(PAGES_MAX):
        page = ask(after=after, bytes_max=ROOM, **asked)
        found.append([*page])
        if not page.more:
            return found
        assert page, "there is more, and nothing to go on after"
        after = name(page[-1])
    raise AssertionError("the pages do not end")


class TestPages:
    def test_the_pages_of_a_list_are_the_list(self, harness: Harness) -> None:
        """Also of what time has moved on, though nobody has recorded it."""
        board = harness.board()
        me = session(board)
        for number in range(12):
            board.add(TEXT[:400], id=f"item-{number:02}", body=TEXT, priority=number % 3, project=f"p{number % 2}")
        for id in ("item-03", "item-04", "item-11"):
            board.claim(id, session=me, ttl_seconds=TTL_SECONDS)
        board.cancel("item-05")
        expire(harness)
        chosen: tuple[dict[str, Any], ...] = ({}, {"statuses": ["ready"]}, {"projects": ["p1"]})
        for asked in chosen:
            whole = board.list(**asked)
            pages = read(board.list, lambda item: item.id, **asked)
            assert [item for page in pages for item in page] == [*whole]
            assert len(pages) > 2
            assert all(len(page) <= 3 for page in pages[:-1]), "a page ends when it is full"
        assert not whole.more
        assert read(board.list, lambda item: item.id, statuses=["in_progress"]) == [[]]
        assert ids(board.list(after=whole[1].id, limit=2, projects=["p1"])) == ids(whole)[2:4]

    def test_the_pages_of_runs_and_events_are_all_of_them(self, harness: Harness) -> None:
        board = harness.board()
        me = session(board)
        for number in range(8):
            board.add("T", id=f"item-{number}")
            board.claim(f"item-{number}", session=me)
            board.release(f"item-{number}", session=me, reason=TEXT)
        runs = read(board.runs, lambda run: f"{run.item}:{run.token}")
        assert [run for page in runs for run in page] == [*board.runs()]
        assert len(runs) > 2
        events = read(board.events, lambda event: event.id)
        assert [event for page in events for event in page] == [*board.events()]
        assert len(events) > 2
        for _ in range(8):
            board.claim("item-0", session=me)
            board.release("item-0", session=me, reason=TEXT)
        log = read(lambda **asked: board.log("item-0", **asked), lambda event: event.id)
        assert [event for page in log for event in page] == [*board.log("item-0")]
        assert len(log) > 2
        newest = board.events(newest=True, bytes_max=ROOM)
        assert [*newest] == [*board.events()][-len(newest) :]
        assert newest.more

    def test_one_that_is_larger_than_a_page_is_a_page(self, harness: Harness) -> None:
        board = harness.board()
        for id in ("a", "b"):
            board.add("T", id=id, body=TEXT * 5)
        pages = read(board.list, lambda item: item.id)
        assert [ids(page) for page in pages] == [["a"], ["b"]]

    def test_a_limit_that_is_reached_leaves_nothing_to_say_of_more(self, harness: Harness) -> None:
        board = harness.board()
        for number in range(4):
            board.add("T", id=f"item-{number}", body=TEXT)
        page = board.list(limit=2, bytes_max=ROOM)
        assert (ids(page), page.more) == (["item-0", "item-1"], False)

    def test_after_what_is_not_there_is_refused(self, harness: Harness) -> None:
        board = harness.board()
        board.add("T", id="a")
        for ask, after in ((board.list, "nowhere"), (board.runs, "a:7"), (board.runs, "a"), (board.list, "a b")):
            assert refused(Invalid, ask, after=after).facts["field"] == "after"
        assert refused(Invalid, board.list, bytes_max=0).facts["field"] == "bytes_max"
