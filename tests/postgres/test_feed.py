"""The feed: whoever follows it sees every event once, each item's in order, however the transactions commit."""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from dibs.board import Board
from dibs.testing import sizes
from dibs.testing.conformance.asking import added, session
from dibs.testing.invariants import assert_sound
from tests.kit import postgres
from tests.kit.postgres import PostgresHarness
from tests.kit.postgres_server import PostgresServer
from tests.postgres.feeding import Commits, HoldingStore, Reader, Shuffle, by_numbers_alone, by_the_feed, write

WRITERS, HELD_OPEN, ROUNDS, READERS = 32, 12, 8, 2
#: Items that all of them are at, beside one that each has to itself.
SHARED = tuple(f"shared-{number}" for number in range(8))
BY_MANY = "SELECT max(n) FROM (SELECT count(DISTINCT session) AS n FROM dibs.events GROUP BY item) AS by_item"


@pytest.fixture
def harness(postgres_server: PostgresServer, folder: Path) -> Iterator[PostgresHarness]:
    with postgres.harness(postgres_server, folder) as harness:
        yield harness


def test_events_committed_out_of_order_are_seen_once_and_in_order(
    postgres_server: PostgresServer, harness: PostgresHarness
) -> None:
    seed = sizes.seed()
    draw = random.Random(seed)
    url, board = postgres_server.url(harness.database), harness.board()
    names = [f"writer-{number:02}" for number in range(WRITERS)]
    added(board, *names, *SHARED)
    for name in names:
        board.start_session("writer", id=name)
    plans = [[draw.choice((name, *SHARED)) for _ in range(sizes.times(ROUNDS))] for name in names]
    shuffle, commits = Shuffle(draw, WRITERS, HELD_OPEN), Commits()

    def write_and_leave(name: str, items: list[str]) -> None:
        try:
            write(name, items, holding, board)
        finally:
            shuffle.leave()

    with (
        Board(HoldingStore(url, shuffle, commits)) as holding,
        closing(psycopg.connect(url, autocommit=True)) as connection,
    ):
        readers = [Reader(by_the_feed(harness.board()), commits.news) for _ in range(READERS)]
        naive = Reader(by_numbers_alone(connection), commits.news)
        try:
            with ThreadPoolExecutor(WRITERS) as threads:
                list(threads.map(write_and_leave, names, plans))
        finally:
            for reader in (*readers, naive):
                reader.finish()
        written = {id for (id,) in connection.execute("SELECT id FROM dibs.events")}
        by_many = _one(connection, BY_MANY)
    late, missed = commits.overtaken(), len(naive.missed(written))
    print(f"seed {seed}: {len(written)} events, {late} of {len(commits)} transactions committed after later ones;")
    print(f"by the numbers alone {missed} events were missed")
    assert late > len(commits) / 4, f"seed {seed}: too few commits were out of order to show anything"
    assert by_many > WRITERS / 4, f"seed {seed}: no item was shared by more than {by_many}"
    for reader in readers:
        assert not reader.missed(written), f"seed {seed}: {len(reader.missed(written))} events were never seen"
        assert not reader.twice(), f"seed {seed}: seen twice: {reader.twice()}"
        assert not reader.out_of_order(), f"seed {seed}: out of order: {reader.out_of_order()}"
        assert reader.seen == sorted(reader.seen), f"seed {seed}: the feed went back"
    assert missed > 0, f"seed {seed}: a reader that goes by numbers alone missed nothing, so nothing was shown"
    assert_sound(board, f"seed {seed}:")


def test_an_open_transaction_holds_up_what_comes_after_it_and_nothing_else(
    postgres_server: PostgresServer, harness: PostgresHarness
) -> None:
    board = harness.board()
    added(board, "before", "after")
    me = session(board)
    cursor = board.events()[-1].id
    board.claim("before", session=me)
    with closing(psycopg.connect(postgres_server.url(harness.database))) as writer:
        writer.execute("SELECT dibs.feed_enter()")
        board.claim("after", session=me)
        assert [event.item for event in board.events(after=cursor)] == ["before"]
        assert board.log("after")[-1].kind == "claimed", "an item's own history waits for nobody"
        writer.rollback()
    assert [event.item for event in board.events(after=cursor)] == ["before", "after"]


@pytest.mark.parametrize("elsewhere", [False, True], ids=["same_database", "other_database"])
def test_a_long_transaction_of_somebody_else_does_not_hold_up_the_feed(
    postgres_server: PostgresServer, harness: PostgresHarness, elsewhere: bool
) -> None:
    board = harness.board()
    added(board, "x", "y")
    me = session(board)
    cursor = board.events()[-1].id
    database = "postgres" if elsewhere else harness.database
    with closing(psycopg.connect(postgres_server.url(database))) as somebody:
        somebody.execute("CREATE TABLE of_somebody_else (word text)")
        somebody.execute("INSERT INTO of_somebody_else VALUES ('hello')")
        assert _oldest_running(postgres_server) <= _one(somebody, "SELECT pg_current_xact_id()::text::bigint")
        board.claim("x", session=me)
        board.next(session=me)
        board.done("x", session=me, token=1)
        seen = [(event.item, event.kind) for event in board.events(after=cursor)]
        assert seen == [("x", "claimed"), ("y", "claimed"), ("x", "done")]
        somebody.rollback()


def _oldest_running(server: PostgresServer) -> int:
    """The transaction up to which a feed by transaction ids could show anything."""
    with server.connect() as connection:
        return _one(connection, "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint")


def _one(connection: psycopg.Connection[tuple[Any, ...]], question: str) -> int:
    row = connection.execute(question.encode()).fetchone()
    assert row is not None
    return int(row[0])
