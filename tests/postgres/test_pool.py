"""Connections: lost ones are noticed, nothing is done twice, there are as few as can be, and errors are one line."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from dibs.board import Board
from dibs.errors import ItemNotClaimed, StoreUnavailable
from dibs.model import Grant
from dibs.store.postgres import store
from dibs.store.postgres.connections import CONNECTIONS_MAX
from dibs.store.postgres.store import PostgresStore
from dibs.testing.conformance.asking import TTL_SECONDS, added, expire, kinds, refused, session
from dibs.testing.invariants import assert_sound
from dibs.testing.proxy import CuttingProxy
from tests.kit import postgres
from tests.kit.postgres import PostgresHarness
from tests.kit.postgres_server import PostgresServer
from tests.kit.waiting import PATIENCE_SECONDS, until

LOCK_WAIT_SECONDS = 1.0
#: What a client that fell silent in the middle of something may cost the others.
HELD_UP_SECONDS_MAX = 4 * LOCK_WAIT_SECONDS
MINE = "FROM pg_stat_activity WHERE datname = %s AND application_name = 'dibs'"


@pytest.fixture
def harness(postgres_server: PostgresServer, folder: Path) -> Iterator[PostgresHarness]:
    with postgres.harness(postgres_server, folder, lock_wait_seconds=LOCK_WAIT_SECONDS) as harness:
        yield harness


@pytest.fixture
def proxy(postgres_server: PostgresServer) -> Iterator[CuttingProxy]:
    with CuttingProxy.before_postgres(postgres_server.url()) as proxy:
        yield proxy


@pytest.fixture
def board(postgres_server: PostgresServer, harness: PostgresHarness) -> Board:
    """A board that comes to its database directly, with an item that a session holds, and two that nobody does."""
    board = harness.board()
    added(board, "x", "y", "z")
    board.start_session("ann", id="s")
    board.claim("x", session="s")
    return board


@pytest.fixture
def far(harness: PostgresHarness, proxy: CuttingProxy, board: Board) -> Iterator[Board]:
    """The same board, by way of the proxy."""
    settings = {"lock_wait_seconds": LOCK_WAIT_SECONDS}
    with postgres.open_board(url=proxy.url(harness.server.url(harness.database)), settings=settings) as far:
        yield far


def store_of(board: Board) -> PostgresStore:
    assert isinstance(board.store, PostgresStore)
    return board.store


def asked(server: PostgresServer, words: str, *parameters: Any) -> list[Any]:
    with server.connect() as connection:
        return [row[0] for row in connection.execute(words.encode(), parameters)]


def connected(server: PostgresServer, harness: PostgresHarness) -> set[int]:
    """The server's processes that serve boards of this database."""
    return set(asked(server, f"SELECT pid {MINE}", harness.database))


def cut_all(server: PostgresServer, harness: PostgresHarness) -> None:
    """End every connection to the board, from the server's side."""
    gone = connected(server, harness)
    assert gone, "nobody was connected"
    asked(server, "SELECT pg_terminate_backend(pid) FROM unnest(%s::integer[]) AS pid", list(gone))
    until(lambda: gone.isdisjoint(connected(server, harness)), "they are gone")


# Cut while idle


def test_a_connection_that_was_closed_while_idle_is_noticed_before_it_is_used(
    postgres_server: PostgresServer, harness: PostgresHarness, board: Board
) -> None:
    """Also by a verb that could not be done again, had it been sent."""
    for verb in (
        lambda: board.force_release("x", reason="cut"),
        lambda: board.next(session="s"),
        lambda: board.progress("x", "half", session="s"),
        lambda: board.add("more"),
        lambda: board.end_session("s"),
    ):
        cut_all(postgres_server, harness)
        verb()
    assert store_of(board).reconnects == 0, "a dead connection was used"
    assert_sound(board)


def test_a_forked_child_has_connections_of_its_own(harness: PostgresHarness) -> None:
    actor = harness.actor()
    actor.play("tests.kit.forking:fork_and_compare")
    told = actor.result()
    assert told["status"] == 0, actor.errors()
    assert told["child"] != told["before"], "the child used its parent's connection"
    assert told["after"] == told["before"], "the parent lost its connection to its child"
    assert told["reconnects"] == 0
    assert len(harness.board().list()) == 3


# Cut in the middle; which cuts are survived by which verbs is shown by the conformance group `lost_answers`

#: Where a call is lost that is done, and one that is not.
LOST = {True: "before the answer", False: "before the request"}
#: (what the request says, the verb, how often its event is there once it was done, what would be a second time)
UNREPEATABLE: list[tuple[bytes, Callable[..., object], str, str]] = [
    (b"dibs.force_release", lambda board, **k: board.force_release("x", reason="cut", **k), "x", "force_released"),
    (b"dibs.next", lambda board, **k: board.next(session="s", **k), "y", "claimed"),
    (b"dibs.next", lambda board, **k: board.next(session="s", done={"x": 1}, **k), "x", "done"),
    (b"dibs.progress", lambda board, **k: board.progress("x", "half", session="s", **k), "x", "progress"),
    (b"COMMIT\0", lambda board, **k: board.cancel("y", **k), "y", "cancelled"),
    (b"COMMIT\0", lambda board, **k: board.edit("y", title="other", **k), "y", "edited"),
    (b"COMMIT\0", lambda board, **k: board.park("y", **k), "y", "parked"),
]
NAMES = ["force_release", "next", "next_with_done", "progress", "cancel", "edit", "park"]
#: A function and a transaction of several statements; the other verbs are cut at every commit by the conformance group.
AT_EVERY_COMMIT = {"next_with_done", "cancel"}
LOST_CALLS = [
    pytest.param(*call, id=name, marks=[] if name in AT_EVERY_COMMIT else [pytest.mark.soak])
    for name, call in zip(NAMES, UNREPEATABLE, strict=True)
]


@pytest.mark.parametrize("done", [True, False], ids=["done", "not_done"])
@pytest.mark.parametrize(("marker", "verb", "item", "kind"), LOST_CALLS)
def test_without_a_request_id_a_lost_answer_is_told_as_unknown(
    proxy: CuttingProxy, board: Board, far: Board, marker: bytes, verb: Any, item: str, kind: str, done: bool
) -> None:
    proxy.cut(LOST[done], marker=marker)
    refusal = refused(StoreUnavailable, verb, far)
    assert proxy.cuts == 1
    assert refusal.facts["outcome"] == "unknown"
    assert refusal.facts["retry_after_seconds"] > 0
    assert "\n" not in refusal.message
    assert kinds(board, item).count(kind) == done, "it is there as a whole or not at all"
    assert_sound(board)


@pytest.mark.parametrize("done", [True, False], ids=["done", "not_done"])
@pytest.mark.parametrize(("marker", "verb", "item", "kind"), LOST_CALLS)
def test_with_a_request_id_a_lost_answer_is_asked_for_again(
    proxy: CuttingProxy, board: Board, far: Board, marker: bytes, verb: Any, item: str, kind: str, done: bool
) -> None:
    proxy.cut(LOST[done], marker=marker)
    answer = verb(far, request_id="r")
    assert proxy.cuts == 1
    assert store_of(far).reconnects == 1
    assert kinds(board, item).count(kind) == 1
    assert verb(far, request_id="r") == answer
    assert_sound(board)


@pytest.mark.parametrize("done", [True, False], ids=["done", "not_done"])
@pytest.mark.parametrize("verb", ["claim", "renew", "heartbeat", "release", "done", "done_many", "fail", "submit"])
def test_verbs_that_can_be_repeated_are_answered_also_without_one(
    proxy: CuttingProxy, board: Board, far: Board, verb: str, done: bool
) -> None:
    function = "done" if verb == "done_many" else "finish" if verb in ("release", "fail", "submit") else verb
    proxy.cut(LOST[done], marker=b"dibs." + function.encode())
    known: dict[str, Any] = {"session": "s", "token": 1}
    match verb:
        case "claim":
            assert far.claim("y", session="s").claim.token == 1
        case "renew":
            assert far.renew("x", **known).token == 1
        case "heartbeat":
            assert [one.item for one in far.heartbeat(session="s").renewed] == ["x"]
        case "done_many":
            assert [one.run.token for one in far.done_many({"x": 1}, session="s").ended] == [1]
        case "submit":
            assert far.submit("x", draft="so", **known).run.outcome == "submitted"
        case _:
            assert getattr(far, verb)("x", **known).run.token == 1
    assert proxy.cuts == 1
    assert store_of(far).reconnects == 1
    assert [run.token for run in board.runs(item="x")] == [1]
    assert_sound(board)


@pytest.mark.parametrize("done", [True, False], ids=["done", "not_done"])
def test_only_a_claim_older_than_the_call_is_told_as_renewed_after_a_lost_answer(
    harness: PostgresHarness, proxy: CuttingProxy, board: Board, far: Board, done: bool
) -> None:
    proxy.cut(LOST[done], marker=b"dibs.claim")
    assert not far.claim("y", session="s").renewed
    harness.clock.advance(60)
    proxy.cut(LOST[done], marker=b"dibs.claim")
    assert far.claim("y", session="s").renewed
    board.claim("z", session="s", ttl_seconds=TTL_SECONDS)
    expire(harness)
    proxy.cut(LOST[done], marker=b"dibs.claim")
    recovered = far.recover("z", session="s", token=1)
    assert (recovered.claim.token, recovered.renewed) == (2, False)
    assert proxy.cuts == 3


#: A deadlock, as a client meets it; a real one takes a second and the right moment.
CONFLICTS_ONCE = """
CREATE SEQUENCE dibs.calls;
ALTER FUNCTION dibs.held RENAME TO held_as_ever;
CREATE FUNCTION dibs.held(
    p_item text, p_session text, p_token bigint, OUT i dibs.items, OUT c dibs.claims, OUT at bigint, OUT no json
) LANGUAGE plpgsql AS $$
DECLARE
    h record;
BEGIN
    IF nextval('dibs.calls') = 1 THEN
        RAISE EXCEPTION 'deadlock detected' USING ERRCODE = 'deadlock_detected';
    END IF;
    h := dibs.held_as_ever(p_item, p_session, p_token);
    i := h.i;
    c := h.c;
    at := h.at;
    no := h.no;
END $$
"""


def between_attempts(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], object]) -> None:
    """Let something happen after the first attempt, while the second is waited for."""
    monkeypatch.setattr(store, "sleep_before_retry", lambda tries: happens() if tries == 1 else None)


def test_an_end_whose_answer_was_lost_is_recognised_though_another_holds_the_item_by_now(
    proxy: CuttingProxy, board: Board, far: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    bob = session(board, "bob")
    between_attempts(monkeypatch, lambda: board.claim("x", session=bob))
    proxy.cut(LOST[True])
    ended = far.release("x", session="s", token=1, reason="mine")
    assert (ended.run.outcome, ended.run.reason, ended.run.session) == ("released", "mine", "s")
    assert (ended.item.status, ended.item.token) == ("in_progress", 2)
    assert ended.run in board.runs(item="x")


def test_a_conflict_is_no_attempt_that_may_have_been_done(
    postgres_server: PostgresServer, harness: PostgresHarness, board: Board, far: Board
) -> None:
    """The first attempt is undone. The second is refused: it was another call that submitted the item."""
    board.submit("x", session="s", token=1, draft="A")
    with postgres_server.connect(harness.database) as connection:
        connection.execute(CONFLICTS_ONCE)
    assert refused(ItemNotClaimed, far.submit, "x", session="s", token=1, draft="B").facts["how"] == "submitted"
    assert store_of(far).conflicts == 1
    assert board.get("x").runs[0].draft == "A"


def test_a_second_attempt_that_fails_does_not_say_that_nothing_was_done(
    postgres_server: PostgresServer,
    harness: PostgresHarness,
    proxy: CuttingProxy,
    board: Board,
    far: Board,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with closing(psycopg.connect(postgres_server.url(harness.database))) as somebody:
        lock = "SELECT 1 FROM dibs.items WHERE id = 'x' FOR UPDATE"
        between_attempts(monkeypatch, lambda: somebody.execute(lock))
        proxy.cut(LOST[True])
        refusal = refused(StoreUnavailable, far.done, "x", session="s", token=1)
    assert board.get("x").item.status == "done"
    assert refusal.facts.get("outcome") == "unknown", refusal.message


def test_an_end_without_its_token_is_not_repeated(proxy: CuttingProxy, board: Board, far: Board) -> None:
    """It would end the session's next claim of the item as well."""
    proxy.cut(LOST[True])
    refusal = refused(StoreUnavailable, far.release, "x", session="s")
    assert (proxy.cuts, refusal.facts["outcome"]) == (1, "unknown")
    assert kinds(board, "x").count("released") == 1


def test_what_may_have_been_done_is_unknown_also_when_asking_again_was_in_vain(
    proxy: CuttingProxy, board: Board, far: Board
) -> None:
    proxy.cut(LOST[True])
    proxy.away = True
    refusal = refused(StoreUnavailable, far.done, "x", session="s", token=1)
    assert proxy.cuts == 1
    assert board.get("x").item.status == "done"
    assert refusal.facts.get("outcome") == "unknown", "the caller was told that nothing was done"


def test_who_waits_goes_on_when_its_connections_are_cut(
    postgres_server: PostgresServer, harness: PostgresHarness, board: Board
) -> None:
    board.park("y")
    board.park("z")
    waiter = harness.actor()
    waiter.play("dibs.testing.scenes:wait_for_next", wait_seconds=60)
    waiter.read("waiting")
    assert len(connected(postgres_server, harness)) >= 3, "the board's, the waiter's, and that which it listens on"
    cut_all(postgres_server, harness)
    board.unpark("y")
    assert waiter.result()["items"] == ["y"]


# As few as can be


def test_a_worker_has_one_connection_and_listens_only_while_it_waits(
    postgres_server: PostgresServer, harness: PostgresHarness, board: Board
) -> None:
    def listening() -> int:
        """Whoever hears of every change shares a lock, so that others know that it is worth telling."""
        sharing = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ShareLock'"
        return len(asked(postgres_server, f"SELECT pid {MINE} AND pid IN ({sharing})", harness.database))

    worker = harness.actor()
    board.close()
    for name in ("y", "z"):
        worker.ask("claim", name, session="s")
    most = 0
    for number in range(200):
        assert worker.ask("progress", "y", f"note {number}", session="s").code is None
        if number % 5 == 0:
            most = max(most, len(connected(postgres_server, harness)))
    assert listening() == 0
    assert most == 1, f"a worker that waits for nothing had {most} connections"
    worker.play("dibs.testing.scenes:wait_for_next", wait_seconds=0.5, types=["nothing"])
    worker.read("waiting")
    assert listening() == 1
    assert worker.result()["items"] == []
    until(lambda: listening() == 0, "nobody listens any more")


def test_more_threads_than_connections_wait_their_turn(
    postgres_server: PostgresServer, harness: PostgresHarness
) -> None:
    crowd = 2 * CONNECTIONS_MAX
    patient = harness.with_settings(lock_wait_seconds=PATIENCE_SECONDS)
    board = patient.board()
    added(board, *(f"item-{number}" for number in range(crowd)))
    names = [f"session-{number}" for number in range(crowd)]
    together = threading.Barrier(crowd)

    def work(name: str) -> int:
        board.start_session("crowd", id=name)
        together.wait(PATIENCE_SECONDS)
        (grant,) = board.next(session=name)
        board.done(grant.item.id, session=name, token=grant.claim.token)
        return len(connected(postgres_server, harness)) if name == names[0] else 0

    with ThreadPoolExecutor(crowd) as threads:
        connections = max(threads.map(work, names))
    assert 1 < connections <= CONNECTIONS_MAX
    assert board.stats().outcomes["done"] == crowd
    assert_sound(board)
    patient.close()


def test_who_waits_too_long_for_a_connection_is_told(board: Board) -> None:
    with ExitStack() as in_use:
        for _ in range(CONNECTIONS_MAX):
            in_use.enter_context(store_of(board)._pool.connection())
        refusal = refused(StoreUnavailable, board.get, "z")
    assert str(CONNECTIONS_MAX) in refusal.message
    assert refusal.facts["retry_after_seconds"] > 0
    assert board.get("z").item.status == "ready"


def test_who_waits_too_long_for_an_item_is_told(
    postgres_server: PostgresServer, harness: PostgresHarness, board: Board
) -> None:
    """Whoever holds it, and for whatever reason: a transaction that somebody left open, by hand for instance."""
    with closing(psycopg.connect(postgres_server.url(harness.database))) as somebody:
        somebody.execute("SELECT 1 FROM dibs.items WHERE id = 'y' FOR UPDATE")
        for verb in (board.park, board.cancel, lambda item: board.claim(item, session="s")):
            assert refused(StoreUnavailable, verb, "y").facts["retry_after_seconds"] > 0
        assert [grant.item.id for grant in board.next(session="s")] == ["z"], "who asks for any waits for none"
        somebody.rollback()
    assert board.claim("y", session="s").claim.token == 1
    assert_sound(board)


# Held up by others


def test_a_client_that_stops_in_the_middle_of_a_verb_holds_up_others_for_a_bounded_time_only(
    postgres_server: PostgresServer, harness: PostgresHarness, board: Board
) -> None:
    """Its transaction is open on the server, with the item locked and the feed held up behind it."""

    def its(state: str) -> list[int]:
        return asked(postgres_server, f"SELECT pid {MINE} AND {state}", harness.database)

    def claimed() -> Grant:
        while True:
            try:
                return board.claim("y", session="s")
            except StoreUnavailable:
                continue  # it waits for a lock no longer than a transaction may stay open; on a busy machine, less

    stopped = harness.actor()
    with closing(psycopg.connect(postgres_server.url(harness.database))) as somebody:
        somebody.execute("SELECT 1 FROM dibs.items WHERE id = 'y' FOR UPDATE")
        stopped.send("park", "y")
        until(lambda: its("wait_event_type = 'Lock'"), "it waits for the item")
        stopped.stop()
        somebody.rollback()
    until(lambda: its("state = 'idle in transaction'"), "it has the item")
    cursor = board.events()[-1].id
    with ThreadPoolExecutor(1) as threads:
        claim = threads.submit(claimed)
        try:
            assert claim.result(HELD_UP_SECONDS_MAX).claim.token == 1
            # A server that ends a transaction releases its locks one by one, that of the feed perhaps last.
            until(lambda: [event.kind for event in board.events(after=cursor)] == ["claimed"], "the feed goes on")
        finally:
            stopped.resume()
    assert stopped.answer().code in ("STORE_UNAVAILABLE", "TASK_NOT_CLAIMABLE"), "it went on as if nothing had happened"
    assert_sound(board)
