"""Every view and every key that moves or looks; what changes on the board is on the screen."""

from __future__ import annotations

from dibs.board import Board
from tests.kit.sqlite import SqliteHarness
from tests.top.driving import MIDDLE, SMALL, WIDE, Terminal, drive

LINE = "\x1b[2J\x1b]0;owned\x07 \u202egnp.exe\x9b31m"
HOSTILE = f"{LINE}\r\nnext"


def test_the_views_at_eighty_columns(board: Board) -> None:
    async def person(shown: Terminal) -> None:
        assert "3 need you" in shown.lines[0]
        await shown.shows("letter-42", "draft waits", "failed: tests red", "tests green, pushing", "Needs you 3")
        await shown.shows("In flight 1", "████", "Events", "submitted")
        assert "Queue" not in shown.text
        for key, texts in {
            "q": ("Queue 5", "critical", "[*] s-1", "blocked by fix-l"),
            "f": ("In flight 1", "s-1", "s-3"),
            "s": ("Sessions 3 · 1 working", "fixer", "fix-login"),
            "a": ("Approvals 2", "draft", "plan", "prices"),
            "e": ("Events", "progress", "tests green, pushing"),
            "n": ("Needs you 3",),
        }.items():
            await shown.press("g", key)
            await shown.shows(*texts)
        assert all(len(line) == SMALL[0] for line in shown.lines)
        assert len(shown.lines) == SMALL[1]

    drive(board, person)


def test_more_columns_have_the_queue_and_then_the_item(board: Board) -> None:
    async def wide(shown: Terminal) -> None:
        await shown.shows("Needs you", "Queue 5", "Dear customer")
        await shown.press("tab", "j")
        await shown.shows("held by", "tests green, pushing", "latest events")

    async def middle(shown: Terminal) -> None:
        await shown.shows("Needs you", "Queue 5")
        assert not shown.app.detail.display
        await shown.pilot.resize_terminal(*SMALL)
        await shown.hides("Queue 5")

    drive(board, wide, WIDE)
    drive(board, middle, MIDDLE)


def test_the_cursor_begins_in_a_list_that_has_rows(harness: SqliteHarness) -> None:
    board = harness.board()
    board.add("Login fails", id="fix-login")
    board.claim("fix-login", session=board.start_session("coder").id)

    async def person(shown: Terminal) -> None:
        await shown.shows("Nothing needs you", "held by")
        assert shown.app.current is shown.app.flight

    drive(board, person, WIDE)


def test_a_person_moves_opens_and_goes_back(board: Board) -> None:
    async def person(shown: Terminal) -> None:
        await shown.press("g", "q")
        await shown.until(lambda: shown.app.item == "fix-login")
        await shown.press("j", "down", "k")
        assert shown.app.item == shown.app.queue.keys[1]
        for key, at in {"end": -1, "up": -2, "pageup": 0, "pagedown": -1}.items():
            await shown.press(key)
            assert shown.app.item == shown.app.queue.keys[at], key
        await shown.press("home", "enter")
        await shown.shows("Login fails on Safari", "held by", "token 1", "latest events", "Esc back")
        assert "Queue" not in shown.text
        await shown.press("j", "escape")
        await shown.shows("Queue 5")
        await shown.press("g", "n", "tab", "tab", "shift+tab")
        assert shown.app.current is shown.app.flight
        await shown.press("?")
        await shown.asks("force-release", "retry or reopen; also a selection", "park or unpark")
        await shown.press("escape")
        await shown.until(lambda: not shown.question)
        await shown.press("q")
        await shown.until(lambda: not shown.app.is_running or shown.app._exit)

    drive(board, person)


def test_a_filter_narrows_the_queue_and_escape_ends_it(board: Board) -> None:
    async def person(shown: Terminal) -> None:
        await shown.press("/")
        await shown.type("label:web")
        await shown.shows("Queue 1 / label:web")
        assert shown.app.queue.keys == ["fix-login"]
        await shown.press("enter", "j")
        assert shown.app.item == "fix-login"
        await shown.press("escape")
        await shown.shows("Queue 5")
        board.cancel("docs-42")
        await shown.press("/")
        await shown.type("status:cancelled")
        await shown.shows("docs-42", "cancelled")

    drive(board, person)


def test_what_happens_is_shown_and_a_paused_screen_stays(board: Board, harness: SqliteHarness) -> None:
    other = harness.board()

    async def person(shown: Terminal) -> None:
        other.add("A new one", id="urgent", priority=10)
        other.claim("urgent", session="s-3", ttl_seconds=120)
        await shown.shows("urgent", "2 in flight", "1:5")
        harness.clock.advance(30)
        await shown.shows("1:2")
        other.heartbeat(session="s-3")
        await shown.shows("1:5")
        await shown.press("g", "f", ".")
        await shown.shows("paused")
        other.done("urgent", session="s-3")
        await shown.until(lambda: "urgent" not in shown.app.state.holdings)
        await shown.press("j", "k")
        assert "urgent" in shown.text
        await shown.press(".")
        await shown.hides("In flight 2")

    drive(board, person)


def test_rows_do_not_move_under_the_cursor(board: Board, harness: SqliteHarness) -> None:
    other = harness.board()

    async def person(shown: Terminal) -> None:
        await shown.press("g", "q", "j", "j")
        item = shown.app.item
        assert item is not None
        at = next(y for y, line in enumerate(shown.lines) if item in line)
        for number in range(30):
            other.add("before it", id=f"new-{number}", priority=10)
        await shown.shows("↑30")
        assert shown.app.item == item
        assert item in shown.lines[at]
        other.cancel(item)
        await shown.until(lambda: shown.app.state.items[item].status == "cancelled")
        await shown.until(lambda: "cancelled" in shown.lines[at])

    drive(board, person)


def test_text_of_the_board_sends_nothing_to_the_terminal(board: Board, harness: SqliteHarness) -> None:
    board.add(f"[red]A[/red]{LINE}", id="evil", priority=10, body=HOSTILE, payload={"x": HOSTILE})
    board.start_session("mallory", id="s-9", kind="autonomous", meta={"x": HOSTILE})
    board.claim("evil", session="s-9")
    board.progress("evil", f"note{HOSTILE}", session="s-9")

    async def person(shown: Terminal) -> None:
        for key in "nqfsaetm":
            await shown.press("g", key)
            await shown.pilot.pause()
            assert all(line.isprintable() for line in shown.lines), key
        await shown.press("g", "q", "home", "j", "enter")
        await shown.shows("evil", "gnp.exe")
        assert all(line.isprintable() for line in shown.lines)
        await shown.press("F")
        await shown.asks("force-release evil?")
        assert all(line.isprintable() for line in shown.question.splitlines())

    drive(board, person, name=f"shop{HOSTILE}")
