"""One mistake at a time in a function of the claim path: a short story that the two stores then tell differently.

Each story is played on a SQLite board and a PostgreSQL board side by side (`tests.kit.twin`), first with sound
functions, where the boards agree, then with the mistake, where they must not. The soak looks for the same mistakes with
random verbs (`test_postgres_machine`).
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from dibs.board import Board
from dibs.check import META_BYTES_MAX
from dibs.errors import DibsError
from dibs.model import Owner, Session
from tests.kit import postgres, sqlite
from tests.kit.owners import found_dead
from tests.kit.postgres_server import PostgresServer
from tests.kit.twin import TwinClock, TwinHarness

Story = Callable[[Board, TwinClock], None]
#: A story by the mistake that it finds: which function, what stands in it, what instead.
STORIES: dict[str, tuple[str, str, str, Story]] = {}


def finds(mistake: str, function: str, right: str, wrong: str) -> Callable[[Story], Story]:
    def add(story: Story) -> Story:
        STORIES[mistake] = (function, right, wrong, story)
        return story

    return add


def refused(call: Callable[[], object]) -> None:
    """The twins compare refusals, too."""
    try:
        call()
    except DibsError:
        pass


def held(board: Board, *waiting: str) -> None:
    """An item x that session a holds, and for which these sessions wait in order."""
    for session in ("a", *waiting):
        board.start_session(f"agent-{session}", id=session)
    board.add("x", id="x")
    board.claim("x", session="a", ttl_seconds=60)
    for session in waiting:
        board.wait("x", session=session, ttl_seconds=600)


@finds("the last in the queue is served first", "available", "ORDER BY id LIMIT 1", "ORDER BY id DESC LIMIT 1")
def first_in_line(board: Board, clock: TwinClock) -> None:
    held(board, "b", "c")
    board.release("x", session="a")
    board.ticket("x", session="b")


@finds("a lapsed offer leaves its ticket", "freshen", "AND session = i.offered_to", "AND false")
def lapsed_offer(board: Board, clock: TwinClock) -> None:
    held(board, "b", "c")
    board.release("x", session="a")
    clock.advance(board.settings.accept_seconds + 1)
    board.claim("x", session="c")
    refused(lambda: board.ticket("x", session="b"))


@finds("an ended item keeps its queue", "end_as_done", "t.item = ANY (p_items) AND t.closed_at IS NULL", "false")
def queue_of_an_ended_item(board: Board, clock: TwinClock) -> None:
    held(board, "b")
    board.next(session="a", done={"x": 1})
    board.ticket("x", session="b")


@finds("anybody takes what is offered", "claim", "i.offered_to <> p_session THEN", "false THEN")
def offered_to_another(board: Board, clock: TwinClock) -> None:
    held(board, "b")
    board.release("x", session="a")
    refused(lambda: board.claim("x", session="a"))


@finds("done frees nobody", "end_as_done", "d.needs = ANY (p_items)", "false")
def dependents(board: Board, clock: TwinClock) -> None:
    held(board)
    board.add("y", id="y", depends_on=["x"])
    board.next(session="a", done={"x": 1})
    refused(lambda: board.claim("y", session="a"))


ANNOTATED: dict[str, Any] = {"links": {"branch": "b", "n": [None]}, "cost": {"eur": 1.5, "usd": 3}}
GIVEN: dict[str, Any] = {"links": {"log": "l", "branch": None}, "cost": {"usd": 1, "calls": 2}}


@finds("done replaces what was annotated", "end_as_done", "dibs.merged_object(r.links, p_links::json)", "p_links::json")
def done_after_an_annotation(board: Board, clock: TwinClock) -> None:
    held(board)
    board.annotate("x", session="a", **ANNOTATED)
    board.done("x", session="a", **GIVEN)


@finds("an end replaces what was annotated", "end_run", "dibs.merged_object(cost, p_cost::json)", "p_cost::json")
def failed_after_an_annotation(board: Board, clock: TwinClock) -> None:
    held(board)
    board.annotate("x", session="a", **ANNOTATED)
    board.fail("x", session="a", **GIVEN)


@finds("what is not held is no matter", "next", "ended < cardinality(p_done)", "false")
def done_of_another(board: Board, clock: TwinClock) -> None:
    held(board, "b")
    refused(lambda: board.next(session="b", done={"x": 1}))


@finds("done though expired", "finishable", "x.expires_at > at", "true")
def done_too_late(board: Board, clock: TwinClock) -> None:
    held(board)
    clock.advance(61)
    refused(lambda: board.next(session="a", done={"x": 1}))


@finds("blocked means later", "rest", "RETURN 'blocked'", "RETURN 'scheduled'")
def released_while_blocked(board: Board, clock: TwinClock) -> None:
    held(board)
    board.add("z", id="z")
    board.edit("x", depends_on=["z"])
    board.release("x", session="a")


@finds("sessions are not counted together", "room", "a.max_claims_total - held_total", "p_n")
def limit_of_an_agent(board: Board, clock: TwinClock) -> None:
    board.set_agent("coder", max_claims_total=1)
    for session in ("a", "b"):
        board.start_session("coder", id=session)
        board.add(session, id=session)
    board.next(session="a")
    refused(lambda: board.next(session="b"))


@finds("strikes are not counted", "strike", "i.strikes := i.strikes + 1", "i.strikes := i.strikes")
def strikes(board: Board, clock: TwinClock) -> None:
    held(board, "b")
    clock.advance(61)
    board.claim("x", session="b")


@finds("the token does not matter", "held", "p_token = c.token", "true")
def wrong_token(board: Board, clock: TwinClock) -> None:
    held(board)
    board.release("x", session="a")
    board.claim("x", session="a")
    refused(lambda: board.progress("x", "half", session="a", token=1))


@finds("expired is as good as live", "held", "c.expires_at > at", "true")
def progress_too_late(board: Board, clock: TwinClock) -> None:
    held(board)
    clock.advance(61)
    refused(lambda: board.progress("x", "half", session="a", token=1))


@finds(
    "a heartbeat revives",
    "heartbeat",
    "x.session = p_session AND x.expires_at > at",
    "x.session = p_session",
)
def heartbeat_too_late(board: Board, clock: TwinClock) -> None:
    held(board)
    clock.advance(61)
    board.heartbeat(session="a")


@finds("a late heartbeat forgets what was given since", "heartbeat", "> p_known_event", "> p_known_event AND false")
def late_heartbeat(board: Board, clock: TwinClock) -> None:
    board.start_session("agent-a", id="a")
    board.add("x", id="x")
    known = board.heartbeat(session="a").event
    board.claim("x", session="a")
    board.heartbeat(session="a", holding={}, known_event=known)


@finds("the token is given again", "claim", "i.token := i.token + 1", "i.token := i.token")
def next_token(board: Board, clock: TwinClock) -> None:
    held(board)


@finds("policy does not matter", "may_take", "NOT p_approved", "true")
def sensitive_action(board: Board, clock: TwinClock) -> None:
    board.set_agent("mailer", allowed_actions=["read"], sensitive_actions=["send"])
    board.start_session("mailer", id="m")
    board.add("x", id="x", action="send", needs_approval=True)
    board.approve("x")
    board.next(session="m")


@finds("force release strikes", "force_release", "'force_released'", "'expired'")
def force_release(board: Board, clock: TwinClock) -> None:
    held(board)
    board.force_release("x", reason="its machine is gone")


@finds("a byte too much", "heartbeat", f"merged.size > {META_BYTES_MAX}", "merged.size > 16001")
def beats_with_meta(board: Board, clock: TwinClock) -> None:
    """One stored, one throttled, one that is too large by a byte, one that removes a name; of a holder and of an idle
    session."""
    held(board)
    board.start_session("idle", id="b", meta={"a": 1})
    for session in ("a", "b"):
        for seconds, meta in ((61, {"model": "x", "cost": {"usd": 1.50}}), (10, {"model": "y"}), (61, {"model": None})):
            clock.advance(seconds)
            board.heartbeat(session=session, at_most_every_seconds=60, meta=meta)
            board.find_session(session)
        taken = board.find_session(session).meta.items()
        room = META_BYTES_MAX - sum(len(f'"{name}": {json.dumps(value)}, ') for name, value in taken) - len('"b": "", ')
        for size in (room + 1, room):
            refused(functools.partial(board.heartbeat, session=session, meta={"b": "x" * size}))
        board.find_session(session)


@finds("no word of the parent", "bury", "THEN 'its parent session ended' END)", "THEN NULL END)")
def dead_family(board: Board, clock: TwinClock) -> None:
    """As often as it takes to fail the items: of a child whose parent's owner died, and of one with the same owner."""
    owner = Owner(boot_id="a boot", pid_namespace=1, pid=1, start_time=1)
    for item in ("x", "y", "z"):
        board.add(item, id=item)
    for _ in range(board.settings.max_strikes):
        for session, parent, its in (("a", None, owner), ("b", "a", None), ("c", "b", None), ("d", "a", owner)):
            board.store.start_session(Session(id=session, agent="coder", owner=its, parent=parent))
        for item, session in (("x", "b"), ("y", "c"), ("z", "d")):
            board.claim(item, session=session)
        board.wait("x", session="d")
        board.soft_claim("y", session="c")
        with found_dead(("a", owner)):
            board.store.sweep(limit=10)
        refused(lambda: board.heartbeat(session="c"))
    board.sessions(ended=True)


def spoil(url: str, function: str, right: str, wrong: str) -> None:
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "SELECT pg_get_functiondef(p.oid) FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace"
            " WHERE n.nspname = 'dibs' AND p.proname = %s",
            (function,),
        ).fetchone()
        assert row is not None
        if right not in row[0]:
            raise LookupError(f"{function} does not say {right!r} any more")
        connection.execute(row[0].replace(right, wrong).encode())


def played(server: PostgresServer, folder: Path, mistake: str, *, spoiled: bool) -> None:
    function, right, wrong, story = STORIES[mistake]
    folder.mkdir()
    restated = postgres.harness(server, folder)
    if spoiled:
        spoil(server.url(restated.database), function, right, wrong)
    twins = TwinHarness(sqlite.harness(folder), restated)
    clock = twins.clock
    assert isinstance(clock, TwinClock)
    with twins:
        story(twins.board(), clock)


@pytest.mark.parametrize("mistake", STORIES)
def test_a_mistake_in_a_function_is_found_by_its_story(
    mistake: str, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    played(postgres_server, tmp_path / "sound", mistake, spoiled=False)
    with pytest.raises((AssertionError, psycopg.Error)):
        played(postgres_server, tmp_path / "spoiled", mistake, spoiled=True)
