"""The roles of docs/operations/postgresql.md hold up against their own users: each statement is tried as each role."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack

import psycopg
import pytest

from dibs.errors import StoreUnavailable
from dibs.model import AGENT
from dibs.store.postgres import migrating
from tests.docs.markdown import blocks, section
from tests.docs.production import OPERATIONS, ROLES, Production, production
from tests.kit.postgres_server import PostgresServer

OWNER, APP, READER, SQL = ROLES
DENIED, REFUSED = psycopg.errors.InsufficientPrivilege, psycopg.errors.InvalidParameterValue
TOO_LONG = "repeat('A', 64001)"
#: Calls of the interface that are refused to whoever may call it.
BAD_CALLS = (
    "dibs.claim_work_item('my item', 'coder', 'coder-7')",
    "dibs.claim_work_item('PROJ-1 ', 'coder', 'coder-7')",
    "dibs.claim_work_item('', 'coder', 'coder-7')",
    "dibs.claim_work_item('a' || chr(27) || '[2J', 'coder', 'coder-7')",
    "dibs.claim_work_item('a' || chr(8238) || 'b', 'coder', 'coder-7')",
    "dibs.release_work_item('x', 'a b')",
    f"dibs.complete_work_item('x', 'coder-7', 'success', {TOO_LONG})",
    f"dibs.complete_work_item('x', 'coder-7', 'failure', {TOO_LONG})",
    f"dibs.release_work_item('x', 'coder-7', {TOO_LONG})",
    "dibs.complete_work_item('ka', 'bot-1', 'success', 'forged by SQL')",
    "dibs.complete_work_item('ka', 'bot-1', 'failure', 'forged fail')",
    "dibs.release_work_item('ka', 'bot-1', 'stolen')",
    "dibs.claim_work_item('kd', 'bot', 'bot-1')",
    "dibs.claim_work_item('nonexistent', 'bot', 'bot-1')",
    "dibs.claim_next_work_item('bot', 'bot-1')",
)
#: Calls with which a role could stop or blind the board.
LOCKS = (
    "pg_advisory_lock_shared(25698::bigint << 48)",
    "pg_advisory_lock((25698::bigint << 48) + 1)",
    "pg_advisory_lock(25697, 0)",
    "count(pg_advisory_lock(1, g)) FROM generate_series(1, 100) g",
    "pg_try_advisory_lock(1)",
    "pg_advisory_xact_lock(1)",
    "pg_advisory_unlock_all()",
)
WRITES = (
    "lo_create(0)",
    "lo_creat(-1)",
    "lo_from_bytea(0, 'x')",
    "lo_put(1, 0, 'x')",
    "lowrite(0, 'x')",
    "pg_logical_emit_message(false, 'a', 'b')",
)


@pytest.fixture(scope="module")
def made(postgres_server: PostgresServer) -> Iterator[Production]:
    with production(postgres_server) as made:
        with made.board(APP) as board:
            key, _ = board.create_key(AGENT, agent="bot")
            board.start_session("bot", id="bot-1", key=key.id)
            for id in ("x", "ka", "kd"):
                board.add("Fix login", id=id)
            board.claim("ka", session="bot-1")
        yield made


def tried(made: Production, role: str, call: str) -> type[BaseException] | None:
    """How a statement ends, in a connection of its own that is closed at once."""
    with psycopg.connect(made.login(role), autocommit=True) as connection:
        try:
            connection.execute(f"SELECT {call}".encode())
        except psycopg.Error as error:
            return type(error)
        return None


@pytest.mark.parametrize("role", ROLES)
def test_each_statement_ends_for_each_role_as_its_rights_say(made: Production, role: str) -> None:
    with made.board(APP) as board:
        before = list(board.export())
        assert {call: tried(made, role, call) for call in BAD_CALLS} == dict.fromkeys(
            BAD_CALLS, DENIED if role == READER else REFUSED
        )
        assert {call: tried(made, role, call) for call in LOCKS} == dict.fromkeys(
            LOCKS, DENIED if role in (READER, SQL) else None
        )
        assert {call: tried(made, role, call) for call in WRITES} == dict.fromkeys(WRITES, DENIED)
        assert list(board.export()) == before


def test_no_function_that_takes_a_lock_is_left_to_a_reader_or_a_client_in_sql(made: Production) -> None:
    asked = (
        "SELECT p.oid::regprocedure::text FROM pg_proc p WHERE proname LIKE '%%advisory%%'"
        " AND has_function_privilege(%s, p.oid, 'EXECUTE') ORDER BY 1"
    )
    with made.server.connect(made.database) as connection:
        left = {role: len(connection.execute(asked, [made.role(role)]).fetchall()) for role in ROLES}
    assert left == {OWNER: 21, APP: 21, READER: 0, SQL: 0}


def test_no_role_can_use_up_the_connections_of_another(made: Production) -> None:
    by_superuser, *_ = blocks(section(OPERATIONS, "## Roles"), "sql")
    limits = {
        role: int(limit) for role, limit in re.findall(r"CREATE ROLE (\w+) LOGIN CONNECTION LIMIT (\d+)", by_superuser)
    }
    assert set(limits) == set(ROLES)
    reserved = 3
    assert sum(limits.values()) + reserved <= 100, "the default of max_connections"
    url = made.login(READER)
    with ExitStack() as opened:
        for _ in range(limits[READER]):
            opened.enter_context(psycopg.connect(url))
        with pytest.raises(psycopg.OperationalError, match="too many connections for role"):
            psycopg.connect(url)
        with psycopg.connect(made.login(APP)) as connection:
            connection.execute("SELECT 1")


def test_each_role_has_a_time_out_for_forgotten_transactions(made: Production) -> None:
    for role in ROLES:
        with psycopg.connect(made.login(role)) as connection:
            ((time_out,),) = connection.execute("SHOW idle_in_transaction_session_timeout").fetchall()
        assert time_out == {OWNER: "10min", APP: "1min", READER: "1min", SQL: "10s"}[role]


def test_the_roles_work_when_they_log_in(made: Production) -> None:
    """Not only as a superuser that took the role."""
    migrating.migrate(made.login(OWNER))
    with psycopg.connect(made.login(SQL), autocommit=True) as connection:
        assert connection.execute("SELECT dibs.claim_work_item('x', 'coder', 'i-1')").fetchone() == (True,)
        assert connection.execute("SELECT dibs.release_work_item('x', 'i-1')").fetchone() == (True,)
    with psycopg.connect(made.login(READER), autocommit=True) as connection:
        assert connection.execute("SELECT dibs.feed_end() > 0").fetchone() == (True,)


def test_a_migration_that_waits_too_long_says_who_holds_the_lock(made: Production) -> None:
    limited = f"{made.login(OWNER)}?options=-c%20lock_timeout%3D100ms"
    with psycopg.connect(made.login(APP)) as other:
        other.execute("SELECT pg_advisory_xact_lock(25697, 0)")
        with pytest.raises(StoreUnavailable) as refused:
            migrating.migrate(limited)
        assert f"process {other.info.backend_pid} of role {made.role(APP)}" in refused.value.message
        other.rollback()
        other.execute("SELECT * FROM dibs.agent_activity")
        with pytest.raises(StoreUnavailable, match="waited too long for a table"):
            migrating.migrate(limited)
        other.rollback()
        migrating.migrate(limited)


def test_a_migration_waits_for_nothing_without_a_limit(made: Production, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrating, "MIGRATION_WAIT_SECONDS", 1)
    with psycopg.connect(made.login(APP)) as other:
        other.execute("SELECT pg_advisory_xact_lock(25697, 0)")
        with pytest.raises(StoreUnavailable, match="another migration of this database goes on"):
            migrating.migrate(made.login(OWNER))


def test_the_statements_about_functions_can_be_repeated(made: Production) -> None:
    _, in_the_database, _ = blocks(section(OPERATIONS, "## Roles"), "sql")
    with made.server.connect(made.database) as connection:
        connection.execute(made.named(in_the_database).encode())
