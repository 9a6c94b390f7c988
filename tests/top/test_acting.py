"""What a person does to items: confirmed, about exactly what was read, and refused in one line."""

from __future__ import annotations

import pytest

from dibs.board import Board
from dibs.model import ROLES
from tests.kit.http import Host, open_board
from tests.kit.sqlite import SqliteHarness
from tests.top.driving import Terminal, drive

ALL_KEYS = "aAbRrpFcn"
#: The statuses in which an agent may park an item.
MAY_PARK = ("ready", "blocked", "scheduled")


async def choose(shown: Terminal, item: str) -> None:
    """Put the cursor on an item of the queue, whatever its status is."""
    await shown.press("g", "q", "/")
    shown.app.filter_line.value = ""
    await shown.type(f"status:{shown.app.state.items[item].status} {item}")
    await shown.press("enter")
    await shown.until(lambda: shown.app.item == item)


def status(board: Board, item: str) -> str:
    return board.get(item).item.status


def test_every_action_is_done_after_it_was_confirmed(board: Board) -> None:
    async def person(shown: Terminal) -> None:
        await choose(shown, "docs-42")
        await shown.press("p")
        await shown.asks("park docs-42?", "Document the webhooks", "y does it")
        await shown.press("enter", "n")
        await shown.until(lambda: not shown.question)
        assert status(board, "docs-42") == "ready"
        for item, key, answer, after in (
            ("docs-42", "p", "", "parked"),
            ("docs-42", "p", "", "ready"),
            ("docs-42", "c", "", "cancelled"),
            ("db-migrate", "r", "", "ready"),
            ("letter-42", "b", "more polite", "ready"),
            ("prices", "a", "", "ready"),
            ("fix-login", "F", "it hangs", "ready"),
        ):
            await shown.until(lambda id: shown.app.state.items[id].status == status(board, id), item)
            await choose(shown, item)
            await shown.press(key)
            await shown.asks(f"{item}?", f"revision {board.get(item).item.revision}")
            if answer:
                await shown.press("enter")
                await shown.asks("Write a few words")
                await shown.type(answer + "x")
                await shown.press("backspace", "enter")
            else:
                await shown.press("y")
            await shown.until(lambda id, wanted: status(board, id) == wanted, item, after)
            await shown.shows(f"{item}: ")
        await shown.press("n")
        await shown.type("Buy milk")
        await shown.press("enter")
        await shown.shows("added buy-milk")
        await shown.press("e")
        await shown.shows("dibs edit ")

    drive(board, person)
    assert "more polite" in [event.data.get("comment") for event in board.log("letter-42")]
    assert board.runs(item="fix-login")[0].outcome == "force_released"


def test_a_draft_is_approved_as_done_or_rejected(board: Board) -> None:
    async def person(shown: Terminal) -> None:
        await shown.press("g", "a")
        await shown.until(lambda: shown.app.item is not None)
        await choose(shown, "letter-42")
        await shown.press("A")
        await shown.asks("approve as done letter-42?", "draft of run 1 by fixer", "Dear customer, it works.")
        await shown.press("y")
        await shown.until(lambda: status(board, "letter-42") == "done")
        await choose(shown, "prices")
        await shown.press("R")
        await shown.asks("reject prices?")
        await shown.type("too expensive")
        await shown.press("enter")
        await shown.until(lambda: status(board, "prices") not in ("pending_approval", "ready"))

    drive(board, person)


def test_what_changed_meanwhile_is_refused_in_one_line(board: Board, harness: SqliteHarness) -> None:
    other = harness.board()

    async def person(shown: Terminal) -> None:
        await choose(shown, "prices")
        await shown.press("a")
        await shown.asks("approve prices?")
        other.edit("prices", body="Ten times as much")
        await shown.press("y")
        await shown.shows("refused: ")
        assert len([line for line in shown.lines if "refused: " in line]) == 1
        assert status(board, "prices") == "pending_approval"
        await choose(shown, "docs-42")
        await shown.press("c")
        await shown.asks("cancel docs-42?", "Document the webhooks", "ready")
        other.edit("docs-42", title="Something else entirely")
        other.claim("docs-42", session="s-3")
        await shown.press("y")
        await shown.shows("refused: docs-42 ")
        assert status(board, "docs-42") == "in_progress"
        await choose(shown, "fix-login")
        await shown.press("F")
        await shown.asks("force-release fix-login?", "token 1")
        other.release("fix-login", session="s-1")
        await shown.type("it hangs")
        await shown.press("enter")
        await shown.shows("refused: ")

    drive(board, person)
    assert [run.outcome for run in board.runs(item="fix-login")] == ["released"]


@pytest.mark.parametrize("role", ROLES)
def test_a_role_sees_no_action_that_would_be_refused(
    role: str, board: Board, harness: SqliteHarness, http_host: Host
) -> None:
    url, _ = http_host.serve(harness.recipe())
    _, secret = board.create_key(role, agent="ann")
    mine = open_board(servers=[(url, secret)])

    async def person(shown: Terminal) -> None:
        await shown.press("g", "q")
        for item in list(shown.app.queue.keys):
            await shown.until(lambda id: shown.app.item == id, item)
            offered = {action.key: action for action in shown.app.fitting()}
            assert bool(offered) == (role == "admin" or (status(board, item) in MAY_PARK and role != "viewer"))
            for key in set(ALL_KEYS) - offered.keys() - (set() if role == "viewer" else {"n"}):
                await shown.press(key)
                assert not shown.question
            for key, action in list(offered.items())[:1]:
                await shown.press(key)
                await shown.asks(f"{item}?")
                await shown.press(*(("x", "enter") if action.asks else "y"))
                await shown.until(lambda id: f"{id}: " in shown.text or "refused" in shown.text, item)
                assert "refused" not in shown.text
            await shown.press("j")

    try:
        drive(mine, person)
    finally:
        mine.close()
        http_host.stop(url)
