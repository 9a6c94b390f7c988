"""Story 011 in SQL: its clients are answered as they expect, directly and through PostgREST, by grants alone."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from dibs.board import Board
from dibs.config import DEFAULTS
from dibs.testing.invariants import assert_sound
from tests.docs.production import Connection, Production, production
from tests.kit.database_clock import DatabaseClock
from tests.kit.postgres_server import PostgresServer
from tests.sources import postgrest

SCHEMAS = ("dibs", "dibs_uuid")
#: Story 011's `.from('work_items').select('*').eq('status', 'ready').in('type', ...).order(...).order(...).limit(1)`.
READY = (
    "SELECT {schema}.work_items.* FROM {schema}.work_items WHERE status = %s AND type = ANY (%s)"
    " ORDER BY priority DESC, created_at ASC LIMIT 1"
)
HELD = "SELECT status, assigned_agent, started_at IS NOT NULL, metadata FROM {schema}.work_items WHERE id = %s"


@pytest.fixture(scope="module")
def made(postgres_server: PostgresServer) -> Iterator[Production]:
    with production(postgres_server) as made:
        yield made


@pytest.fixture
def board(made: Production) -> Iterator[Board]:
    made.empty()
    with made.board("dibs_app") as board:
        yield board
        assert_sound(board)


@pytest.fixture
def client(made: Production) -> Iterator[Connection]:
    """A role that may call the functions and read the views, and nothing else."""
    with made.connect("dibs_sql") as connection:
        yield connection


@pytest.fixture
def clock(made: Production) -> Iterator[DatabaseClock]:
    with made.clock() as clock:
        yield clock


def rpc(client: Connection, function: str, schema: str = "dibs", **arguments: Any) -> Any:
    return postgrest.rpc(client, schema, function, arguments)


def ready(client: Connection, *types: str, schema: str = "dibs") -> list[dict[str, Any]]:
    cursor = client.execute(READY.format(schema=schema).encode(), ["ready", list(types)])
    assert cursor.description is not None
    return [dict(zip([column.name for column in cursor.description], row, strict=True)) for row in cursor]


@pytest.mark.parametrize("schema", SCHEMAS)
def test_a_client_lists_takes_and_finishes(board: Board, client: Connection, schema: str) -> None:
    ids = [str(uuid.uuid4()) for _ in range(3)]
    board.add("later", id=ids[0], type="bug", priority=5)
    board.add("first", id=ids[1], type="bug", priority=8, payload={"area": "login"})
    board.add("not its type", id=ids[2], type="docs", priority=9)
    (found,) = ready(client, "bug", "feature", schema=schema)
    assert (found["id"], found["title"], found["assigned_agent"], found["started_at"], found["metadata"]) == (
        *(ids[1], "first", None, None),
        {"area": "login"},
    )
    me = {"p_work_item_id": found["id"], "p_agent_instance_id": "coder-1"}
    assert rpc(client, "claim_work_item", schema, **me, p_agent_type="coder") is True
    (row,) = client.execute(HELD.format(schema=schema).encode(), [found["id"]]).fetchall()
    assert row[:3] == ("in_progress", "coder", True)
    assert row[3]["claimed_by_instance"] == "coder-1"
    assert {"claimed_at", "area"} < row[3].keys()
    other = {**me, "p_agent_instance_id": "coder-2"}
    assert rpc(client, "claim_work_item", schema, **other, p_agent_type="coder") is False
    assert rpc(client, "complete_work_item", schema, **other, p_outcome="success") is False
    assert rpc(client, "complete_work_item", schema, **me, p_outcome="success") is True
    assert rpc(client, "complete_work_item", schema, **me, p_outcome="success") is True, "again"
    assert board.get(ids[1]).item.status == "done"


@pytest.mark.parametrize("schema", SCHEMAS)
def test_the_next_item_comes_claimed_or_not_at_all(board: Board, client: Connection, schema: str) -> None:
    low, high = str(uuid.uuid4()), str(uuid.uuid4())
    board.add("low", id=low, type="bug", priority=1)
    board.add("high", id=high, type="bug", priority=9)
    me = {"p_agent_type": "coder", "p_agent_instance_id": "coder-1"}
    (taken,) = rpc(client, "claim_next_work_item", schema, **me, p_types=["bug"])
    assert (taken["id"], taken["status"], taken["metadata"]["claimed_by_instance"]) == (high, "in_progress", "coder-1")
    assert rpc(client, "claim_next_work_item", schema, **me, p_types=["docs"]) == []
    assert [row["id"] for row in rpc(client, "claim_next_work_item", schema, **me)] == [low]
    assert rpc(client, "claim_next_work_item", schema, **me) == []


def test_a_uuid_finds_its_function_and_a_name_is_never_ambiguous(made: Production, board: Board) -> None:
    board.add("one", id=(one := str(uuid.uuid4())))
    with made.connect("dibs_sql") as connection:
        connection.execute("SET search_path = dibs_uuid, dibs, public")
        call = "SELECT claim_work_item(p_work_item_id => %s, p_agent_type => 'coder', p_agent_instance_id => 'i-1')"
        assert connection.execute(call.replace("%s", f"'{one}'::uuid").encode()).fetchall() == [(True,)]
        assert connection.execute(call.replace("%s", f"'{one}'::text").encode()).fetchall() == [(True,)]
    with made.connect("dibs_owner") as connection:
        for schema in SCHEMAS:
            twice = connection.execute(
                "SELECT proname FROM pg_proc WHERE pronamespace = %s::regnamespace"
                " GROUP BY proname HAVING count(*) > 1",
                [schema],
            ).fetchall()
            assert twice == [], "PostgREST cannot choose between functions of one name"


def test_a_claim_lasts_as_long_as_it_was_asked_for(board: Board, client: Connection, clock: DatabaseClock) -> None:
    board.add("one", id="one")
    me = {"p_agent_type": "coder", "p_agent_instance_id": "coder-1"}
    assert rpc(client, "claim_work_item", p_work_item_id="one", **me, p_ttl_seconds=120)
    claim = board.get("one").claim
    assert claim is not None
    assert claim.ttl_seconds == 120
    clock.advance(121)
    assert [row["id"] for row in ready(client, "task")] == ["one"], "what has expired is ready, swept or not"
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="between 60 and 7200"):
        rpc(client, "claim_work_item", p_work_item_id="one", **me, p_ttl_seconds=1)


def test_the_view_has_the_status_that_a_claim_would_find(
    board: Board, client: Connection, clock: DatabaseClock
) -> None:
    def statuses() -> dict[str, str]:
        return dict(client.execute("SELECT id, status FROM dibs.work_items").fetchall())

    me = {"p_agent_type": "coder", "p_agent_instance_id": "coder-1"}
    board.add("due", id="due", not_before=clock.now() + 60_000)
    board.add("needs due", id="child", depends_on=["due"])
    board.add("held", id="held")
    board.add("struck", id="struck")
    board.add("ended", id="ended")
    for _ in range(DEFAULTS.max_strikes - 1):
        rpc(client, "claim_work_item", p_work_item_id="struck", **me)
        clock.advance(DEFAULTS.ttl_seconds)
    rpc(client, "claim_work_item", p_work_item_id="struck", **me)
    rpc(client, "claim_work_item", p_work_item_id="held", **me)
    board.cancel("ended")
    for seconds in (0, 61, DEFAULTS.ttl_seconds):
        clock.advance(seconds)
        assert statuses() == {item.id: item.status for item in board.list()}
    expected = {"due": "ready", "child": "blocked", "held": "ready", "struck": "failed", "ended": "cancelled"}
    assert statuses() == expected


def test_refused_releases_and_completions_are_recorded(board: Board, client: Connection, clock: DatabaseClock) -> None:
    board.add("one", id="one")
    mine = {"p_work_item_id": "one", "p_agent_instance_id": "coder-1"}
    theirs = {**mine, "p_agent_instance_id": "coder-2"}
    rpc(client, "release_work_item", **mine)
    rpc(client, "claim_work_item", **mine, p_agent_type="coder")
    rpc(client, "release_work_item", **theirs)
    clock.advance(DEFAULTS.ttl_seconds)
    rpc(client, "complete_work_item", **mine, p_outcome="failure")
    rpc(client, "release_work_item", p_work_item_id="nothing", p_agent_instance_id="coder-1")
    rows = client.execute(
        "SELECT action, agent_type, agent_instance_id, details ->> 'code' FROM dibs.agent_activity"
        " WHERE action LIKE '%\\_failed' ORDER BY created_at, substr(id, 10)::bigint"
    ).fetchall()
    assert rows == [
        ("release_failed", "", "coder-1", "SESSION_NOT_FOUND"),
        ("release_failed", "", "coder-2", "NOT_CLAIM_OWNER"),
        ("complete_failed", "coder", "coder-1", "CLAIM_EXPIRED"),
        ("release_failed", "coder", "coder-1", "TASK_NOT_FOUND"),
    ]


def test_an_outcome_is_success_or_failure(board: Board, client: Connection) -> None:
    board.add("one", id="one", retries=0)
    mine = {"p_work_item_id": "one", "p_agent_instance_id": "coder-1"}
    rpc(client, "claim_work_item", **mine, p_agent_type="coder")
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="choose success or failure"):
        rpc(client, "complete_work_item", **mine, p_outcome="done")
    assert board.get("one").item.status == "in_progress"
    assert rpc(client, "complete_work_item", **mine, p_outcome="failure") is True
    assert board.get("one").item.status == "failed"


def test_a_query_for_what_is_ready_does_not_read_what_has_ended(made: Production, board: Board) -> None:
    board.add_many([{"title": f"item {number}", "id": f"i-{number}"} for number in range(20)])
    with made.connect("dibs_owner") as connection:
        connection.execute(
            "INSERT INTO dibs.items OVERRIDING SYSTEM VALUE SELECT (jsonb_populate_record(i, jsonb_build_object("
            " 'id', 'done-' || n, 'status', 'done', 'seq', 1000 + n))).*"
            " FROM dibs.items i, generate_series(1, 20000) n WHERE i.id = 'i-0'"
        )
        connection.execute("ANALYZE dibs.items")
        words = READY.format(schema="dibs").replace("%s AND", "'ready' AND").replace("%s", "'{task}'")
        (ready,) = connection.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {words}".encode()).fetchall()[0]
        by_id = "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT * FROM dibs.work_items WHERE id = 'i-3'"
        (one,) = connection.execute(by_id).fetchall()[0]
        connection.execute("DELETE FROM dibs.items WHERE status = 'done'")
    for plan in (ready, one):
        top = plan[0]["Plan"]
        assert top["Shared Hit Blocks"] + top["Shared Read Blocks"] < 200, json.dumps(plan, indent=1)
