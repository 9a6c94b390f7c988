"""The opt-in by which an agent reserves the files that it edits, as it goes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dibs.board import Board
from tests.hooks.agent import SESSION, Agent
from tests.hooks.conftest import BOB

OTHER = "0b8c1a3e-0000-4000-8000-000000000002"


@pytest.fixture
def reserving(agents: Callable[..., Agent], board: Board) -> Agent:
    """An agent that reserves what it edits, and holds the item `a`."""
    for item in "abc":
        board.add(item, id=item, resources=[f"src/{item}"])
    agent = agents(DIBS_RESERVE_EDITS="on")
    agent.start()
    board.claim("a", session=SESSION)
    return agent


def resources(board: Board, item: str) -> tuple[str, ...]:
    return board.get(item).item.resources


def test_an_edit_outside_of_the_reservation_extends_it(
    reserving: Agent, agents: Callable[..., Agent], board: Board
) -> None:
    assert (reserving.edit("src/a/x.py"), resources(board, "a")) == ({}, ("src/a",))
    assert reserving.edit("lib/new.py") == {}
    assert resources(board, "a") == ("src/a", "lib/new.py")
    event = board.log("a")[-1]
    assert (event.kind, event.session) == ("edited", SESSION)
    assert reserving.edit("lib/new.py") == {}
    assert board.log("a")[-1] == event
    plain = agents(OTHER)
    plain.start()
    board.claim("b", session=OTHER)
    assert f"(session {SESSION}) reserves lib/new.py for a" in plain.denied(plain.edit("lib/new.py"))
    assert (plain.edit("lib/old.py"), resources(board, "b")) == ({}, ("src/b",)), "it did not opt in"


def test_what_another_holds_is_denied_and_nothing_is_added(reserving: Agent, board: Board) -> None:
    board.add("d", id="d", resources=["generated/api"])
    board.claim("d", session=BOB)
    # The file lies above what is reserved, so that only the board finds the conflict.
    assert "bob (session bob-1) reserves generated/api for d" in reserving.denied(reserving.edit("generated"))
    assert "bob (session bob-1) reserves generated/api/x for d" in reserving.denied(reserving.edit("generated/api/x"))
    assert resources(board, "a") == ("src/a",)
    board.done("d", session=BOB)
    assert (reserving.edit("generated"), resources(board, "a")) == ({}, ("src/a", "generated"))


def test_nothing_is_added_where_it_is_not_clear_to_what(reserving: Agent, board: Board, folder: Path) -> None:
    assert reserving.edit("pages/[id].tsx") == {}
    assert reserving.edit(folder.parent / "elsewhere.py") == {}
    board.claim("b", session=SESSION)
    assert reserving.edit("lib/x.py") == {}
    board.release("a", session=SESSION)
    board.release("b", session=SESSION)
    assert reserving.edit("lib/y.py") == {}
    assert [resources(board, item) for item in "ab"] == [("src/a",), ("src/b",)]


def test_a_subagent_extends_its_own_item_or_that_of_its_parent(reserving: Agent, board: Board) -> None:
    reserving.hook("SubagentStart", "sub", agent_type="general-purpose")
    assert (reserving.edit("lib/x.py", "sub"), resources(board, "a")) == ({}, ("src/a", "lib/x.py"))
    board.claim("b", session=f"{SESSION}-sub")
    assert (reserving.edit("lib/y.py", "sub"), resources(board, "b")) == ({}, ("src/b", "lib/y.py"))
    # Each may write what the other one reserves.
    assert (reserving.edit("lib/x.py", "sub"), reserving.edit("lib/y.py")) == ({}, {})
    assert resources(board, "a") == ("src/a", "lib/x.py")


def test_an_approved_item_stays_as_it_was_approved_and_the_edit_passes(
    agents: Callable[..., Agent], board: Board
) -> None:
    board.add("a", id="a", needs_approval=True)
    board.approve("a")
    agent = agents(DIBS_RESERVE_EDITS="on")
    agent.start()
    board.claim("a", session=SESSION)
    assert (agent.edit("lib/x.py"), resources(board, "a")) == ({}, ())
