"""Several rows at once: selected, confirmed with their number, and refused one by one if they changed meanwhile."""

from __future__ import annotations

from contextlib import closing

from dibs.board import Board
from tests.kit.http import Host, open_board
from tests.kit.sqlite import SqliteHarness
from tests.top.driving import Terminal, drive


def statuses(board: Board, *items: str) -> list[str]:
    return [board.get(item).item.status for item in items]


async def filtered(shown: Terminal, text: str) -> None:
    await shown.press("g", "q", "/")
    shown.app.filter_line.value = ""
    await shown.type(text)
    await shown.press("enter")
    await shown.shows(f"/ {text}")


def add_chores(board: Board, count: int = 7) -> list[str]:
    chores = [f"chore-{number}" for number in range(1, count + 1)]
    board.add_many([{"title": "A chore", "id": id, "labels": ["chore"]} for id in chores])
    return chores


def test_a_selection_is_parked_unparked_and_cancelled(board: Board) -> None:
    chores = add_chores(board)

    async def person(shown: Terminal) -> None:
        await filtered(shown, "label:chore")
        await shown.until(lambda: shown.app.queue.keys == chores)
        await shown.press("home", "x", "j", "x", "x", "end", "x", "home", "X")
        await shown.shows("7 selected", "p park", "c cancel", "· 7 selected", "◉", "●")
        await shown.press("p")
        await shown.asks("park 7 items?", "chore-1", "chore-5", "and 2 more")
        assert "chore-6" not in shown.question
        await shown.press("n")
        await shown.until(lambda: not shown.question)
        assert set(statuses(board, *chores)) == {"ready"}
        await shown.press("p")
        await shown.asks("park 7 items?")
        await shown.press("y")
        await shown.shows("park: 7 items")
        assert set(statuses(board, *chores)) == {"parked"}
        await shown.hides("7 selected")
        await shown.until(lambda: {shown.app.state.items[id].status for id in chores} == {"parked"})
        await shown.press("home", "x", "j", "x", "p")
        await shown.asks("unpark 2 items?")
        await shown.press("y")
        await shown.shows("unpark: 2 items")
        await shown.until(lambda: shown.app.state.items["chore-2"].status == "ready")
        # Park fits only those that are not parked; the question says so.
        await shown.press("home", "x", "end", "X", "p")
        await shown.asks("park 2 items?", "not the other 5 selected")
        await shown.press("escape", "c")
        await shown.asks("cancel 7 items?")
        await shown.press("y")
        await shown.shows("cancel: 7 items")

    drive(board, person)
    assert set(statuses(board, *chores)) == {"cancelled"}


def test_what_changed_meanwhile_is_left_alone_and_told_in_one_line(board: Board, harness: SqliteHarness) -> None:
    add_chores(board, 3)
    other = harness.board()

    async def person(shown: Terminal) -> None:
        await filtered(shown, "label:chore")
        await shown.press("home", "x", "end", "X", "c")
        await shown.asks("cancel 3 items?")
        other.edit("chore-2", title="Not a chore any more")
        await shown.press("y")
        await shown.shows("cancel: 2 items; 1 refused, first chore-2: ")
        assert len([line for line in shown.lines if "refused" in line]) == 1

    drive(board, person)
    assert statuses(board, "chore-1", "chore-2", "chore-3") == ["cancelled", "ready", "cancelled"]


def test_nothing_that_left_the_list_is_acted_on(board: Board, harness: SqliteHarness) -> None:
    chores = add_chores(board)
    other = harness.board()

    async def person(shown: Terminal) -> None:
        await filtered(shown, "label:chore")
        await shown.press("home", "x", "end", "X")
        await shown.shows("7 selected")
        await filtered(shown, "chore-3")
        await shown.shows("1 selected")
        await filtered(shown, "label:chore")
        assert [item.id for item in shown.app.selection] == ["chore-3"]
        await shown.press("home", "x", "j", "x")
        other.cancel("chore-1")
        await shown.until(lambda: [item.id for item in shown.app.selection] == ["chore-2", "chore-3"])
        await shown.press("escape")
        await shown.hides("selected")
        assert shown.app.queue.filter == "label:chore"
        await shown.press("g", "f", "x")
        await shown.shows("rows can be selected in the queue and in what needs you")

    drive(board, person)
    assert set(statuses(board, *chores[1:])) == {"ready"}


def test_failed_items_that_need_a_person_are_retried_together(board: Board) -> None:
    board.claim("docs-42", session="s-2")
    board.fail("docs-42", session="s-2", reason="tests red")

    async def person(shown: Terminal) -> None:
        await shown.until(lambda: shown.app.needs.count == 4)
        await shown.press("home", "x", "end", "X")
        await shown.shows("4 selected")
        await shown.press("a")
        await shown.shows("r, p and c act on a selection")
        assert not shown.question
        await shown.press("r")
        await shown.asks("retry 2 items?", "db-migrate", "docs-42", "not the other 2")
        await shown.press("y")
        await shown.shows("retry: 2 items")

    drive(board, person)
    assert statuses(board, "db-migrate", "docs-42", "prices") == ["ready", "ready", "pending_approval"]


def test_a_viewer_selects_and_is_offered_nothing(board: Board, harness: SqliteHarness, http_host: Host) -> None:
    url, _ = http_host.serve(harness.recipe())
    _, secret = board.create_key("viewer", agent="ann")

    async def person(shown: Terminal) -> None:
        await shown.press("g", "q", "home", "x", "end", "X")
        await shown.shows("5 selected")
        assert shown.app.fitting() == []
        await shown.press("c", "p", "r")
        assert not shown.question

    try:
        with closing(open_board(servers=[(url, secret)])) as mine:
            drive(mine, person)
    finally:
        http_host.stop(url)
