"""docs/operations/sql.md: signatures, views, examples and queries, in a database with the roles of the operations."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from dibs.board import Board
from dibs.config import DEFAULTS
from dibs.model import Owner
from dibs.testing.invariants import assert_sound
from tests.docs.markdown import blocks, code, prose, read, section, table
from tests.docs.production import Connection, Production, production, statements
from tests.kit.database_clock import DatabaseClock
from tests.kit.owners import found_dead
from tests.kit.postgres_server import PostgresServer

SQL = read("docs/operations/sql.md")
VIEWS = ("work_items", "agent_claimed_items", "agent_activity", "task_claims")
#: How many queries, with the result of each, stand in the document.
QUERIES = 12


@pytest.fixture
def made(postgres_server: PostgresServer) -> Iterator[Production]:
    with production(postgres_server) as made:
        yield made


@pytest.fixture
def board(made: Production) -> Iterator[Board]:
    with made.board("dibs_app") as board:
        yield board


@pytest.fixture
def clock(made: Production) -> Iterator[DatabaseClock]:
    with made.clock() as clock:
        yield clock


def check_signatures(text: str, connection: Connection) -> None:
    """The functions of the interface: those that run with the rights of the board's owner."""
    rows = [
        (code(name)[0], (code(arguments) or [""])[0], code(answer)[0])
        for name, arguments, answer in table(text, "function", "arguments", "answers")
    ]
    known = connection.execute(
        "SELECT p.proname, regexp_replace(pg_get_function_arguments(p.oid), '::[a-z ]+([[]])?', '', 'g'),"
        " pg_get_function_result(p.oid)"
        " FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = 'dibs' AND p.prosecdef"
    ).fetchall()
    assert sorted(rows) == sorted(known)
    for name, *_ in rows:
        assert section(text, f"### {name}"), "each is explained"


def check_columns(text: str, connection: Connection) -> None:
    for view in VIEWS:
        told = [
            (code(name)[0], code(kind)[0]) for name, kind, _ in table(section(text, f"### {view}"), "column", "type")
        ]
        known = connection.execute(
            "SELECT column_name::text, data_type::text FROM information_schema.columns"
            " WHERE table_schema = 'dibs' AND table_name = %s ORDER BY ordinal_position",
            [view],
        ).fetchall()
        assert told == known, view


def check_actions(text: str, connection: Connection) -> None:
    """Every action that was seen, with what its details had; and every way in which a claim was lost."""
    rows = {code(action)[0]: (when, set(code(details))) for action, when, details in table(text, "action", "when")}
    seen: dict[str, set[str]] = {}
    ways = set()
    for action, details in connection.execute("SELECT action, details FROM dibs.agent_activity"):
        assert set(details) == rows[action][1], action
        seen.setdefault(action, set()).update(details)
        if action == "released":
            ways.add(details["how"])
    assert seen.keys() == rows.keys()
    _, _, told = rows["released"][0].partition("`how` is ")
    assert ways == set(code(told))


def check_queries(text: str, connection: Connection) -> None:
    """Each query gives the table that stands below it."""
    found = re.findall(r"^```sql\n([^`]*)^```\n\n((?:\|.*\n)+)", section(text, "## Queries people ask"), re.MULTILINE)
    assert len(found) == QUERIES
    for query, shown in found:
        header, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in shown.strip().split("\n")]
        cursor = connection.execute(query.encode())
        assert cursor.description is not None
        assert [column.name for column in cursor.description] == header, query
        assert [[str(value) for value in row] for row in cursor] == rows, query


def test_the_example_is_what_happens(made: Production, board: Board) -> None:
    board.add("Fix login", id="fix-login")
    example, *_ = blocks(SQL, "sql")
    lines = [line for line in example.split("\n") if line]
    with made.connect("dibs_sql") as connection:
        for line in lines:
            words, _, told = line.partition("-- ")
            assert connection.execute(words.encode()).fetchall() == [(told.startswith("true"),)], line
    assert {line.partition("-- ")[2][:4] for line in lines} == {"true", "fals"}
    *_, run = sorted(board.runs(item="fix-login"), key=lambda run: -run.token)
    assert (run.session, run.outcome, run.reason) == ("coder-7", "released", "needs a designer")
    assert_sound(board)


def test_the_functions_and_views_are_those_that_there_are(made: Production) -> None:
    with made.connect("dibs_owner") as connection:
        check_signatures(SQL, connection)
        check_columns(SQL, connection)


def test_they_are_found_without_the_name_of_the_schema(made: Production, board: Board) -> None:
    """As it is told of the search path: for every connection that is made after the migration."""
    board.add("Fix login", id="one")
    with made.connect("dibs_sql") as connection:
        (path,) = connection.execute("SHOW search_path").fetchall()[0]
        assert path in code(SQL)
        call = "claim_work_item(p_work_item_id => 'one', p_agent_type => 'coder', p_agent_instance_id => 'i-1')"
        assert connection.execute(f"SELECT {call}".encode()).fetchall() == [(True,)]
        assert connection.execute(b"SELECT count(*) FROM agent_claimed_items").fetchall() == [(1,)]


def test_the_rows_about_agents_have_the_details_they_are_said_to_have(
    made: Production, clock: DatabaseClock, tmp_path: Path
) -> None:
    with made.board("dibs_owner") as board:
        _live(board, clock, str(tmp_path / "backup.jsonl"))
    with made.connect("dibs_sql") as connection:
        connection.execute("SELECT dibs.release_work_item('done', 'coder-1')")
        connection.execute("SELECT dibs.complete_work_item('failed', 'coder-1')")
    with made.connect("dibs_reader") as connection:
        check_actions(SQL, connection)


def test_the_lines_for_cron_schedule_what_can_be_run(made: Production, clock: DatabaseClock, board: Board) -> None:
    """With pg_cron's functions played by ones that do at once what they are to do later."""
    lines = blocks(section(SQL, "### release_stale_claims"), "sql")
    assert len(lines) == 2
    board.add("Fix login", id="one")
    with made.server.connect(made.database) as connection, made.connect("dibs_sql") as client:
        connection.execute(
            "CREATE SCHEMA cron;"
            " CREATE FUNCTION cron.schedule(name text, schedule text, command text) RETURNS bigint LANGUAGE plpgsql AS"
            "  $$ DECLARE swept bigint; BEGIN EXECUTE command INTO swept; RETURN swept; END $$;"
            " CREATE FUNCTION cron.schedule_in_database(name text, schedule text, command text, database text)"
            "  RETURNS bigint LANGUAGE sql AS $$ SELECT cron.schedule(name, schedule, command) $$"
        )
        for line in lines:
            client.execute("SELECT dibs.claim_work_item('one', 'coder', 'i-1')")
            clock.advance(DEFAULTS.ttl_seconds)
            assert connection.execute(line.encode()).fetchall() == [(1,)]
    assert board.get("one").item.status == "ready"


def test_what_was_claimed_in_sql_is_finished_with_dibs(made: Production, board: Board) -> None:
    board.add("Fix login", id="fix-login")
    with made.connect("dibs_sql") as connection:
        connection.execute("SELECT dibs.claim_work_item('fix-login', 'coder', 'coder-7')")
    (view,) = board.sessions()
    assert (view.session.id, view.session.kind, view.session.owner) == ("coder-7", "sql", None)
    board.done("fix-login", session="coder-7")
    board.end_session("coder-7")
    assert board.get("fix-login").item.status == "done"


def test_a_claim_that_is_called_again_is_renewed(made: Production, clock: DatabaseClock, board: Board) -> None:
    board.add("Fix login", id="one")
    with made.connect("dibs_sql") as connection:
        for _ in range(3):
            connection.execute("SELECT dibs.claim_work_item('one', 'coder', 'i-1')")
            clock.advance(DEFAULTS.ttl_seconds - 1)
        told = connection.execute("SELECT token, heartbeat_count, is_expired, is_stale FROM dibs.agent_claimed_items")
        assert told.fetchall() == [(1, 0, False, True)]


def test_an_id_of_another_type_is_cast(made: Production, board: Board) -> None:
    id = "7d444840-9dc0-11d1-b245-5ffdce74fad2"
    board.add("Fix login", id=id)
    call = "SELECT dibs.claim_work_item(%s, 'coder', 'i-1')".replace("%s", f"'{id}'::uuid")
    with made.connect("dibs_sql") as connection:
        with pytest.raises(psycopg.errors.UndefinedFunction):
            connection.execute(call.encode())
        assert connection.execute(call.replace("::uuid", "::uuid::text").encode()).fetchall() == [(True,)]


@pytest.fixture
def small(clock: DatabaseClock, board: Board) -> Board:
    """The small board of the queries."""
    begun = clock.now()

    def at(minute: int) -> None:
        clock.advance(60 * minute - (clock.now() - begun) / 1000)

    for id, type, priority in (
        ("login", "bug", 8),
        ("logout", "bug", 8),
        ("search", "feature", 5),
        ("export", "feature", 5),
        ("manual", "docs", 3),
    ):
        board.add(id.title(), id=id, type=type, priority=priority)
    coder, writer = (board.start_session(agent, id=f"{agent}-1").id for agent in ("coder", "writer"))
    at(1)
    board.claim("login", session=coder)
    at(2)
    board.claim("search", session=writer)
    at(3)
    with pytest.raises(Exception, match="is already claimed by writer"):
        board.claim("search", session=coder)
    at(6)
    board.done("login", session=coder)
    board.claim("logout", session=coder)
    at(9)
    board.fail("logout", session=coder)
    at(10)
    return board


def test_each_query_gives_the_result_that_is_shown(made: Production, small: Board) -> None:
    with made.connect("dibs_reader") as connection:
        check_queries(SQL, connection)
        for truth, lie in (("| 5 | 1 |", "| 5 | 2 |"), ("0:03:00", "0:04:00"), ("status = 'ready'", "status = 'done'")):
            assert truth in SQL
            with pytest.raises(AssertionError):
                check_queries(SQL.replace(truth, lie), connection)


def test_the_queries_and_dibs_stats_say_the_same(small: Board) -> None:
    figures = small.stats()
    assert figures.time_to_claim_seconds == 180
    assert figures.claim_duration_seconds == 240
    assert figures.failure_rate == 0.5
    assert figures.active_claims == 1
    assert {row["priority"]: row["count"] for row in figures.ready} == {5: 1, 3: 1}


@pytest.mark.parametrize(
    ("check", "truth", "lie"),
    [
        (check_signatures, "p_reason text DEFAULT 'released'", "p_reason text"),
        (check_signatures, "| `release_stale_claims` | | `integer` |", "| `release_stale_claims` | | `bigint` |"),
        (check_columns, "| `expires_at` | `timestamp with time zone` |", "| `expires` | `timestamp with time zone` |"),
        (check_columns, "| `created_at` | `timestamp with time zone` | when |\n", ""),
    ],
)
def test_a_lie_about_the_interface_is_found_out(
    made: Production, check: Callable[[str, Connection], None], truth: str, lie: str
) -> None:
    assert truth in SQL
    with made.connect("dibs_owner") as connection, pytest.raises(AssertionError):
        check(SQL.replace(truth, lie), connection)


def test_every_statement_of_the_document_is_run_by_some_test() -> None:
    shown = [statement for block in blocks(SQL, "sql") for statement in statements(block)]
    in_public = 6  # tests/sources/test_story_011_clients.py
    assert len(shown) == 7 + 2 + in_public + QUERIES
    assert "5 minutes" not in prose(SQL), "numbers of minutes are words, or belong to a setting"


def _live(board: Board, clock: DatabaseClock, backup: str) -> None:
    """Everything that can happen to a claim."""
    me, other = (board.start_session(agent, id=f"{agent}-1").id for agent in ("coder", "fixer"))
    ends: dict[str, Any] = {
        "done": lambda id: board.done(id, session=me),
        "failed": lambda id: board.fail(id, session=me, reason="no"),
        "submitted": lambda id: board.submit(id, session=me, draft="this"),
        "rejected": lambda id: board.reject(id, session=me, reason="never"),
        "cancelled": lambda id: board.cancel(id),
        "released": lambda id: board.release(id, session=me, reason="lunch"),
        "handed": lambda id: board.hand(id, to=other, session=me),
        "force_released": lambda id: board.force_release(id, reason="stuck"),
        "forgotten": lambda id: board.heartbeat(session=me, holding={}),
    }
    for id, end in ends.items():
        board.add("Fix login", id=id)
        board.claim(id, session=me)
        board.progress(id, "half of it", session=me)
        with pytest.raises(Exception, match="is already claimed by coder"):
            board.claim(id, session=other)
        end(id)
    gone = Owner(boot_id="of another day", pid_namespace=1, pid=1, start_time=1)
    board.store.start_session(board.start_session("owned").replace(id="owned-1", owner=gone))
    for id, session in (("expired", me), ("orphan", "owned-1")):
        board.add("Fix login", id=id)
        board.claim(id, session=session)
    with found_dead(("owned-1", gone)):
        board.sweep()
    clock.advance(DEFAULTS.ttl_seconds)
    board.sweep()
    board.add("Fix login", id="restored")
    board.claim("restored", session=me)
    board.backup(backup)
    board.restore(backup)
