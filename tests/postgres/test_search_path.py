"""Functions and operators that somebody put into schema `public` are not run by anybody who uses the board.

Up to PostgreSQL 14 everybody may create there. One that fits the types of a call exactly is preferred to PostgreSQL's
own that takes any type, wherever its schema stands in the search path.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from dibs.store.postgres import claim_path, store
from dibs.store.postgres.migrating import migrate
from dibs.store.postgres.queries import STATEMENTS
from tests.docs.production import Production, production
from tests.docs.test_operations import look, work
from tests.kit.postgres_server import PostgresServer

FUNCTIONS = (
    *(f"row_to_json(dibs.{table})" for table in ("items", "claims", "runs", "sessions", "agents")),
    *("to_json(text)", "to_json(text[])", "to_json(json[])", "cardinality(text[])", "array_position(text[], text)"),
    *("json_build_object(text, text)", "json_build_object(text, json)", "json_build_array(text, text)"),
    *("floor(numeric)", "round(double precision)", "md5(varchar)", "to_timestamp(numeric)"),
)
OPERATORS = (
    *("<> (text[], text[])", "= (text[], text[])", "@> (text[], text[])", "|| (text, bigint)", "|| (text[], text)"),
    *("|| (json[], json)", "* (numeric, integer)", "/ (bigint, numeric)", "& (bigint, integer)"),
    *("|| (text, double precision)", "- (bigint, smallint)", "= (text, varchar)"),
)
#: What a migration sets for the database, so that clients in SQL find the functions.
UNPINNED = '"$user", public, dibs'
#: Of views and of a trigger.
EXACT = {"clock", "instant", "put_in_lane"}


@pytest.fixture
def shadowed(postgres_server: PostgresServer) -> Iterator[Production]:
    """A board on which whoever may only read has shadowed what its functions use."""
    with production(postgres_server) as made:
        migrate(made.url("dibs_owner"))  # the board's own clock again, in place of one for tests
        shadow(made, "dibs_reader")
        yield made


def shadow(made: Production, role: str, signatures: Sequence[str] = (*FUNCTIONS, *OPERATORS)) -> None:
    with made.server.connect(made.database) as connection:
        connection.execute("GRANT CREATE ON SCHEMA public TO PUBLIC")
    with made.connect(role) as connection:
        kinds = {name for (name,) in connection.execute("SELECT relname FROM pg_class WHERE relkind = 'r'")}
        for number, signature in enumerate(signatures):
            name, _, types = signature.partition("(")
            if "dibs." in types and types.partition(".")[2].rstrip(")") not in kinds:
                continue
            function = name if signature in FUNCTIONS else f"shadow_{number}"
            connection.execute(
                f"CREATE FUNCTION public.{function}({types} RETURNS json LANGUAGE plpgsql AS"
                " $$ BEGIN RAISE EXCEPTION 'shadowed: %', current_user; END $$".encode()
            )
            if signature in OPERATORS:
                left, right = types.rstrip(")").split(", ")
                of = f"FUNCTION = public.{function}, LEFTARG = {left}, RIGHTARG = {right}"
                connection.execute(f"CREATE OPERATOR public.{name} ({of})".encode())


def test_a_claim_does_not_run_what_a_reader_puts_into_public(postgres_server: PostgresServer) -> None:
    with production(postgres_server) as made, made.board("dibs_app") as board:
        board.add("Fix login", id="one")
        shadow(made, "dibs_reader", ["row_to_json(dibs.items)"])
        me = board.start_session("coder").id
        assert board.claim("one", session=me).item.title == "Fix login"


def test_no_verb_runs_what_a_reader_puts_into_public(shadowed: Production, tmp_path: Path) -> None:
    with shadowed.board("dibs_app") as board:
        work(board)
        look(board, tmp_path)


def test_nor_behind_a_pooler_where_settings_of_a_session_do_not_last(shadowed: Production, tmp_path: Path) -> None:
    with shadowed.board("dibs_app") as board:
        assert isinstance(board.store, store.PostgresStore)
        with board.store._pool.connection() as connection:
            connection.execute(f"SET search_path = {UNPINNED}".encode())
        work(board)
        look(board, tmp_path)
        with board.store._pool.connection() as connection:
            assert connection.execute("SHOW search_path").fetchone() == (UNPINNED,), "another connection was used"


def test_nor_by_clients_that_call_the_functions_in_sql(shadowed: Production) -> None:
    with shadowed.board("dibs_app") as board:
        board.add("Fix login", id="one")
    with shadowed.connect("dibs_sql") as connection:
        for statement in (
            "SELECT dibs.claim_work_item('one', 'coder', 'coder-1')",
            "SELECT count(*) FROM dibs.agent_claimed_items",
            "SELECT count(*) FROM dibs.agent_activity",
            "SELECT dibs.release_work_item('one', 'coder-1')",
        ):
            connection.execute(statement.encode())


def test_nor_by_a_migration_nor_by_the_views_that_it_makes(postgres_server: PostgresServer) -> None:
    with production(postgres_server) as made:
        with made.connect("dibs_owner") as connection:
            connection.execute("DROP SCHEMA dibs CASCADE")
        shadow(made, "dibs_reader")
        migrate(made.url("dibs_owner"))
        with made.connect("dibs_owner") as connection:
            used = connection.execute(
                "SELECT p.proname FROM pg_depend d JOIN pg_proc p ON p.oid = d.refobjid"
                " WHERE d.refclassid = 'pg_proc'::regclass AND d.classid <> 'pg_operator'::regclass"
                " AND p.pronamespace = 'public'::regnamespace"
            ).fetchall()
            assert used == [], "a view or a trigger calls what stands in public"


def test_what_is_called_outside_of_a_transaction_of_the_client_sets_its_own_search_path(shadowed: Production) -> None:
    """By clients, triggers and views; but for a few, which name the schema of all that does not fit exactly."""
    calls = " ".join(word for word in vars(claim_path).values() if isinstance(word, str)) + STATEMENTS["feed_end"]
    called = set(re.findall(r"\bdibs\.([a-z_]+)\(", calls)) | EXACT
    with shadowed.connect("dibs_owner") as connection:
        pinned = {
            name
            for (name,) in connection.execute(
                "SELECT proname FROM pg_proc WHERE pronamespace = 'dibs'::regnamespace"
                " AND 'search_path=pg_catalog, pg_temp' = ANY (proconfig)"
            )
        }
    assert {"claim", "next", "done", "finish", "sweep", "feed_end"} <= called
    assert called - pinned == EXACT
