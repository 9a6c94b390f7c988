"""Every parameter of every verb with values of wrong types: refused as INVALID by its name, and nothing changes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from dibs.board import Board
from dibs.errors import DibsError, Invalid
from dibs.sdk.claim_handle import ClaimHandle
from dibs.sdk.session import LiveSession
from tests.kit import sqlite
from tests.kit.wrong_values import (
    CALLS,
    EXAMPLES,
    INSTEAD,
    PARAMETERS,
    everything,
    parameters_of,
    prepared,
    wrong_for,
)


def opened(folder: Path) -> Board:
    board = sqlite.harness(folder).board()
    prepared(board)
    return board


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Board]:
    with opened(tmp_path_factory.mktemp("board")) as board:
        yield board


def refusal(board: Any, verb: str, arguments: dict[str, Any]) -> object:
    """What the verb raises; its answer if it raises nothing."""
    try:
        return getattr(board, verb)(**arguments)
    except Exception as error:
        return error


def check_refused(found: object, name: str, value: object) -> None:
    assert isinstance(found, Invalid), f"{name}={value!r:.200} gave {found!r:.300}"
    assert found.facts["field"] == name.rstrip("_"), f"{name}={value!r:.200}: {found.message}"


def test_every_verb_is_called_here() -> None:
    assert {verb for verb, _, _ in PARAMETERS} == CALLS.keys()


@pytest.mark.parametrize("verb", CALLS)
def test_the_calls_that_the_wrong_values_are_put_into_are_sound(verb: str, tmp_path: Path) -> None:
    with opened(tmp_path) as board:
        assert not isinstance(refusal(board, verb, CALLS[verb]), DibsError)


@pytest.mark.parametrize(("verb", "name", "hint"), PARAMETERS, ids=[f"{verb}-{name}" for verb, name, _ in PARAMETERS])
def test_a_value_of_a_wrong_type_is_refused_by_name_and_changes_nothing(
    board: Board, verb: str, name: str, hint: str
) -> None:
    before = everything(board)

    @EXAMPLES
    @given(value=wrong_for(hint))
    def refuses(value: object) -> None:
        check_refused(refusal(board, verb, {**INSTEAD.get((verb, name), CALLS[verb]), name: value}), name, value)

    refuses()
    assert everything(board) == before


#: The verbs of a session and of a claim in a program, with a sound call of each.
OF_SESSION: dict[str, dict[str, Any]] = {
    "claim": {"item": "ready"},
    "claim_subject": {"subject": "https://example.org/1"},
    "next": {},
    "next_of": {"n": 1},
    "annotate": {"item": "ended", "links": {"pr": 1}},
}
OF_CLAIM: dict[str, dict[str, Any]] = {
    "progress": {"note": "half"},
    "done": {},
    "fail": {},
    "release": {},
    "submit": {"draft": "Dear customer"},
    "hand": {"to": "other"},
    "reject": {"reason": "no"},
}


@pytest.fixture(scope="module")
def session(board: Board) -> Iterator[LiveSession]:
    with board.session("ann", id="live") as session:
        yield session


@pytest.fixture(scope="module")
def claim(board: Board, session: LiveSession) -> ClaimHandle:
    board.add("of the session", id="of-the-session")
    return session.claim("of-the-session")


def without_times(found: dict[str, Any]) -> dict[str, Any]:
    """Without what heartbeats in the background change."""
    kinds = ("claim", "session")
    return {**found, "records": [record for record in found["records"] if record[0] not in kinds]}


def of_class(kind: type, calls: dict[str, dict[str, Any]]) -> list[tuple[str, str, str]]:
    return [(verb, name, hint) for verb in calls for name, hint in parameters_of(verb, kind).items()]


@pytest.mark.parametrize(("verb", "name", "hint"), of_class(LiveSession, OF_SESSION))
def test_a_session_refuses_it_as_the_board_does(
    board: Board, session: LiveSession, claim: ClaimHandle, verb: str, name: str, hint: str
) -> None:
    before = without_times(everything(board))

    @EXAMPLES
    @given(value=wrong_for(hint))
    def refuses(value: object) -> None:
        check_refused(refusal(session, verb, {**OF_SESSION[verb], name: value}), name, value)

    refuses()
    assert without_times(everything(board)) == before


@pytest.mark.parametrize(("verb", "name", "hint"), of_class(ClaimHandle, OF_CLAIM))
def test_a_claim_refuses_it_as_the_board_does_and_is_still_held(
    board: Board, claim: ClaimHandle, verb: str, name: str, hint: str
) -> None:
    before = without_times(everything(board))

    @EXAMPLES
    @given(value=wrong_for(hint))
    def refuses(value: object) -> None:
        check_refused(refusal(claim, verb, {**OF_CLAIM[verb], name: value}), name, value)

    refuses()
    assert claim.is_held
    assert without_times(everything(board)) == before


OF_START = {"agent": "ann"}


@pytest.mark.parametrize(
    ("name", "hint"), [(name, hint) for name, hint in parameters_of("session").items() if name != "agent"]
)
def test_no_session_is_started_with_it(board: Board, name: str, hint: str) -> None:
    before = without_times(everything(board))
    sessions = len(board.sessions(ended=True))

    @EXAMPLES
    @given(value=wrong_for(hint))
    def refuses(value: object) -> None:
        check_refused(refusal(board, "session", {**OF_START, name: value}), name, value)

    refuses()
    assert len(board.sessions(ended=True)) == sessions
    assert without_times(everything(board)) == before


@pytest.mark.parametrize(
    ("verb", "name", "value"),
    [
        ("claim", "wait_seconds", "5"),
        ("claim", "item", 5),
        ("claim_subject", "subject", None),
        ("next", "labels", None),
        ("next_of", "n", "1"),
        ("next_of", "wait_seconds", None),
        ("annotate", "links", ["pr", "ci"]),
    ],
)
def test_coroutines_refuse_it_too(board: Board, verb: str, name: str, value: object) -> None:
    async def ask() -> object:
        async with board.asession("ann") as me:
            try:
                return await getattr(me, verb)(**{**OF_SESSION[verb], name: value})
            except Exception as error:
                return error

    check_refused(asyncio.run(ask()), name, value)
