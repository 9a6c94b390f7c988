"""`next` as it is in production: it remembers where it found nothing, looks at everything once a second, and costs the
same however much lies behind it that cannot be cleaned away."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from dibs.board import Board
from dibs.errors import AgentAtCapacity
from dibs.store.postgres.store import PostgresStore
from dibs.testing import sizes
from dibs.testing.conformance.asking import TTL_SECONDS, added, ids, refused, session
from tests.kit import postgres
from tests.kit.postgres import PostgresHarness
from tests.kit.postgres_server import VERSION_15, PostgresServer

LOOK_SECONDS = 1.0
#: What has come back is found after a second, on a machine that has nothing else to do.
FOUND_SECONDS_MAX = 3 * LOOK_SECONDS
NEVER_SECONDS = 3600.0
CROWD = 3000
CLAIMS, WINDOW = 3000, 400
STOCK = """
INSERT INTO dibs.items (id, project, type, action, title, body, payload, labels, priority, depends_on, resources,
                        timeout_seconds, retries, needs_approval, approved, status, created_by, created_at, updated_at,
                        attempts, strikes, failures, token, revision, review)
SELECT 'item-' || lpad(n::text, 6, '0'), 'default', 'task', 'task', 'do it', '', '{}', '{}', 5, '{}', '{}',
       28800, 0, false, false, 'ready', 'tester', 0, 0, 0, 0, 0, 0, 1, false
FROM generate_series(1, %s) AS n
"""


@pytest.fixture
def harness(postgres_server: PostgresServer, folder: Path) -> Iterator[PostgresHarness]:
    with postgres.harness(postgres_server, folder) as harness:
        yield harness


def opened(harness: PostgresHarness, look_seconds: float) -> Board:
    """A handle of its own, with a memory of its own."""
    board = harness.board()
    store = PostgresStore(harness.server.url(harness.database), board.settings, look_seconds=look_seconds)
    board.store.close()
    board.store = store
    return board


def stock(harness: PostgresHarness, count: int) -> None:
    """So many ready items, made past the verbs, since what is asked is only how they are found."""
    with harness.server.connect(harness.database) as connection:
        connection.execute(STOCK, [count])


def item(number: int) -> str:
    return f"item-{number:06}"


# One's own writes


def _release(board: Board, me: str) -> None:
    board.release("old", session=me)


def _force_release(board: Board, me: str) -> None:
    board.force_release("old", reason="test")


def _unpark(board: Board, me: str) -> None:
    board.release("old", session=me, park=True)
    board.unpark("old")


def _retry(board: Board, me: str) -> None:
    board.fail("old", session=me)
    board.retry("old")


def _approve(board: Board, me: str) -> None:
    board.submit("old", session=me, draft="so")
    board.approve("old", actor="boss")


def _send_back(board: Board, me: str) -> None:
    board.submit("old", session=me, draft="so")
    board.send_back("old", comment="not so", actor="boss")


def _end_session(board: Board, me: str) -> None:
    board.end_session(me)


def _forget(board: Board, me: str) -> None:
    assert board.heartbeat(session=me, holding={}).forgotten == ("old",)


def _edit(board: Board, me: str) -> None:
    board.release("old", session=me, park=True)
    board.edit("old", type="other")
    board.unpark("old")
    board.edit("old", type="task")


OWN = [_release, _force_release, _unpark, _retry, _approve, _send_back, _end_session, _forget, _edit]


@pytest.mark.parametrize("come_back", OWN, ids=lambda verb: verb.__name__.strip("_"))
def test_what_a_process_itself_brings_back_is_found_at_once(
    harness: PostgresHarness, come_back: Callable[[Board, str], None]
) -> None:
    board = opened(harness, NEVER_SECONDS)
    added(board, "old", *(f"new-{number}" for number in range(4)))
    me, other = session(board), session(board)
    assert ids(board.next(session=me)) == ["old"]
    assert ids(board.next(session=other)) == ["new-0"]
    come_back(board, me)
    assert ids(board.next(session=other)) == ["old"]


@pytest.mark.parametrize("room", [True, False], ids=["given", "refused"])
def test_what_its_own_ends_set_free_is_found_at_once(harness: PostgresHarness, room: bool) -> None:
    board = opened(harness, NEVER_SECONDS)
    board.set_agent("coder", max_claims=None if room else 1)
    added(board, "first", *(f"early-{number}" for number in range(2)))
    added(board, "old", depends_on=["first"])
    added(board, *(f"new-{number}" for number in range(4)))
    other, me = session(board, "other"), session(board, "coder")
    board.claim("first", session=me)
    assert ids(board.next(session=other, n=3)) == ["early-0", "early-1", "new-0"]
    if room:
        assert ids(board.next(session=me, done={"first": 1})) == ["old"]
    else:
        board.set_agent("coder")
        board.claim("new-3", session=me)
        board.set_agent("coder", max_claims=1)
        refused(AgentAtCapacity, board.next, session=me, done={"first": 1})
        assert ids(board.next(session=other)) == ["old"]


def test_a_higher_priority_given_by_oneself_counts_at_once(harness: PostgresHarness) -> None:
    board = opened(harness, NEVER_SECONDS)
    added(board, "old", priority=1)
    added(board, *(f"new-{number}" for number in range(4)), priority=8)
    me = session(board)
    assert ids(board.next(session=me, n=2)) == ["new-0", "new-1"]
    board.edit("old", priority=8)
    assert ids(board.next(session=me)) == ["old"]


def test_what_a_process_itself_adds_or_sweeps_up_is_found_at_once(harness: PostgresHarness) -> None:
    board = opened(harness, NEVER_SECONDS)
    added(board, *(f"new-{number}" for number in range(4)))
    lost, other = session(board), session(board)
    board.next(session=lost, ttl_seconds=TTL_SECONDS)
    board.next(session=other)
    board.add("urgent", id="urgent", priority=9)
    assert ids(board.next(session=other)) == ["urgent"]
    harness.clock.advance(TTL_SECONDS + 1)
    assert board.sweep().expired == ("new-0",)
    assert ids(board.next(session=other)) == ["new-0"]


def test_what_a_process_itself_sets_free_by_finishing_is_found_at_once(harness: PostgresHarness) -> None:
    board = opened(harness, NEVER_SECONDS)
    added(board, "first")
    added(board, "old", depends_on=["first"])
    added(board, *(f"new-{number}" for number in range(4)))
    me = session(board)
    assert ids(board.next(session=me, n=2)) == ["first", "new-0"]
    board.done("first", session=me)
    assert ids(board.next(session=me)) == ["old"]


def test_an_offer_that_a_process_itself_gives_up_is_found_at_once(harness: PostgresHarness) -> None:
    board, other = opened(harness, NEVER_SECONDS), harness.board()
    added(board, "old", *(f"new-{number}" for number in range(4)))
    me, waiter = session(board), session(board, "waiter")
    assert ids(board.next(session=me, n=2)) == ["old", "new-0"]
    board.wait("old", session=waiter)
    other.release("old", session=me)
    assert board.get("old").item.offered_to == waiter
    board.leave("old", session=waiter)
    assert ids(board.next(session=me)) == ["old"]


# What others, or time, bring back


def _released_by_another(harness: PostgresHarness, other: Board, holder: str) -> None:
    other.release(item(1), session=holder)


def _expired(harness: PostgresHarness, other: Board, holder: str) -> None:
    harness.clock.advance(TTL_SECONDS + 1)


def _due(harness: PostgresHarness, other: Board, holder: str) -> None:
    other.release(item(1), session=holder)
    other.edit(item(1), not_before=harness.clock.now() + 300_000)
    assert other.get(item(1)).item.status == "scheduled"
    harness.clock.advance(301)


@pytest.mark.parametrize("come_back", [_released_by_another, _expired, _due], ids=["released", "expired", "due"])
def test_what_came_back_is_found_within_about_a_second(
    harness: PostgresHarness, come_back: Callable[[PostgresHarness, Board, str], None]
) -> None:
    stock(harness, CROWD)
    board, other = opened(harness, LOOK_SECONDS), harness.board()
    me, holder = session(board), session(other)
    other.claim(item(1), session=holder, ttl_seconds=TTL_SECONDS)
    found = ids(board.next(session=me))
    come_back(harness, other, holder)
    begun = time.monotonic()
    while item(1) not in found[-1:]:
        seconds = time.monotonic() - begun
        assert seconds < FOUND_SECONDS_MAX, f"not found for {seconds:.1f} s, {len(found)} others were given meanwhile"
        found += ids(board.next(session=me))
    print(f"found after {time.monotonic() - begun:.2f} s, {len(found) - 2} others before it")
    assert len(found) > 2, "nothing was remembered, so nothing was shown"
    assert found[:-1] == [item(number) for number in range(2, len(found) + 1)], "the others came out of order"


def test_nothing_is_said_only_after_a_look_at_everything(harness: PostgresHarness) -> None:
    board, other = opened(harness, NEVER_SECONDS), harness.board()
    added(board, "only", "last")
    me, holder = session(board), session(other)
    other.claim("only", session=holder, ttl_seconds=TTL_SECONDS)
    assert ids(board.next(session=me)) == ["last"]
    assert board.next(session=me) == ()
    other.release("only", session=holder)
    assert ids(board.next(session=me)) == ["only"]
    board.park(board.add("aside", id="aside").id)
    assert board.next(session=me) == ()
    other.unpark("aside")
    assert ids(board.next(session=me)) == ["aside"]
    assert board.next(session=me) == ()
    harness.clock.advance(board.settings.ttl_seconds + 1)
    assert ids(board.next(session=me, n=9)) == ["only", "last", "aside"]


# What a look costs


def test_a_claim_costs_the_same_while_a_snapshot_keeps_the_past_from_being_cleaned_away(
    harness: PostgresHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    early, late = blocks_by_claim(harness, monkeypatch, LOOK_SECONDS, sizes.times(CLAIMS))
    print(f"{early:.1f} blocks a claim at first, {late:.1f} after {sizes.times(CLAIMS)} claims")
    assert late < 1.5 * early


def test_without_what_is_remembered_it_would_cost_more_and_more(
    harness: PostgresHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    early, late = blocks_by_claim(harness, monkeypatch, 0, CLAIMS // 2)
    print(f"{early:.1f} blocks a claim at first, {late:.1f} after {CLAIMS // 2} claims")
    assert late > 2 * early, "the other test shows nothing"


def blocks_by_claim(
    harness: PostgresHarness, monkeypatch: pytest.MonkeyPatch, look_seconds: float, claims: int
) -> tuple[float, float]:
    """Blocks of the items and their indexes that each of the first, and of the last claims looked at."""
    if harness.server.version < VERSION_15:
        pytest.skip("a server before PostgreSQL 15 does not say at once what was read")
    stock(harness, claims + WINDOW)
    with harness.server.connect(harness.database) as connection:
        connection.execute("VACUUM ANALYZE dibs.items")
    board = opened(harness, look_seconds)
    # What is told to others goes over whichever connection is free; the figures are asked for on one.
    monkeypatch.setattr(board.store, "notify", lambda **_: None)
    me = session(board)
    with closing(psycopg.connect(harness.server.url(harness.database))) as pinning:
        pinning.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        pinning.execute("SELECT 1 FROM dibs.items LIMIT 1")
        begun = blocks(harness, board)
        take(board, me, WINDOW)
        early = blocks(harness, board) - begun
        take(board, me, claims - 2 * WINDOW)
        begun = blocks(harness, board)
        take(board, me, WINDOW)
        late = blocks(harness, board) - begun
        pinning.rollback()
    return early / WINDOW, late / WINDOW


def take(board: Board, me: str, count: int) -> None:
    for _ in range(count):
        assert len(board.next(session=me)) == 1


def blocks(harness: PostgresHarness, board: Board) -> int:
    assert isinstance(board.store, PostgresStore)
    with board.store._pool.connection() as connection:
        connection.execute("SELECT pg_stat_force_next_flush()")
    with harness.server.connect(harness.database) as connection:
        row = connection.execute(
            "SELECT (heap_blks_read + heap_blks_hit + idx_blks_read + idx_blks_hit)::bigint FROM pg_statio_user_tables"
            " WHERE schemaname = 'dibs' AND relname = 'items'"
        ).fetchone()
    assert row is not None
    return int(row[0])
