"""What a dashboard reads of a large board: what has not ended, and not everything that ever was."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import psycopg

from dibs.config import DEFAULTS
from dibs.store.postgres.queries import STATEMENTS
from dibs.store.postgres.store import PostgresStore
from tests.kit.postgres_server import PostgresServer
from tests.postgres.crowding import SMALL, crowd
from tests.postgres.explaining import ExplainedStore, Statement, nodes, skip_unless_explained
from tests.postgres.test_plans import board, url_of

GROWN = SMALL._replace(ended=20_000)
LATE = 2**40
SERIES: dict[str, object] = {"from": 0, "to": LATE, "step": 1000, "first": LATE, "agent": None, "project": None}
LISTED: dict[str, object] = {
    "projects": "[]",
    "types": "[]",
    "labels": "[]",
    "subject": None,
    "priority": LATE,
    "seq": 0,
    "limit": 50,
}
READS: dict[str, dict[str, object]] = {
    "unended_by_status": {"project": None},
    "unended_but_ready": {"project": None},
    "ready_depth": {},
    "items_with_holders": {},
    "briefs_of_status": {"status": "ready", "limit": 10},
    "runs_since": {"agent": None, "after": LATE},
    "first_claims_since": {"after": LATE},
    "ended_changes": {"after": LATE, "upto": LATE},
    "runs_of_sessions": {"sessions": '["a", "b"]', "limit": 50},
    "briefs_by_id": {"items": '["a", "b"]'},
    "page_texts": {"failed": 100, "searched": 50},
    "page": {
        **{"failed": 100, "searched": 50, "outdated": "{}", "sort": "next", "agent": "coder", "among": None},
        **{"projects": '["a"]', "labels": '["b"]', "words": '["c"]', "statuses": '["ready"]', "types": '["d"]'},
        **{"major": 1, "minor": 2, "limit": 10},
    },
    "end_reasons": {"items": '["a", "b"]', "length": 10},
    "run_from": {"id": 5},
    "event_from": {"id": 5},
    "durations_in_series": {**SERIES, "limit": 10},
    "costs_in_series": {**SERIES, "names": 10, "name_length": 64, "amount_max": 10**15},
}


def plan(
    connection: psycopg.Connection[tuple[Any, ...]],
    name: str,
    parameters: dict[str, object],
    options: str = "FORMAT json",
) -> dict[str, Any]:
    """How PostgreSQL would run a statement; with ANALYZE among the options, how it ran the statement."""
    row = connection.execute(f"EXPLAIN ({options}) {STATEMENTS[name]}".encode(), parameters).fetchone()
    assert row is not None
    found: dict[str, Any] = row[0][0]["Plan"]
    return found


def test_no_read_of_a_dashboard_scans_what_has_ended(postgres_server: PostgresServer) -> None:
    skip_unless_explained(postgres_server)
    with board(postgres_server) as connection:
        with closing(ExplainedStore(url_of(connection))) as store:
            crowd(store, connection, GROWN)
        connection.execute("VACUUM ANALYZE")
        for name, parameters in READS.items():
            reads = Statement("", plan(connection, name, parameters), None).reads
            assert not {"all of items", "all of runs", "all of events"} & set(reads), (name, reads)


def test_a_list_reads_ended_items_only_if_they_are_wanted(postgres_server: PostgresServer) -> None:
    skip_unless_explained(postgres_server)
    with board(postgres_server) as connection:
        with closing(ExplainedStore(url_of(connection))) as store:
            crowd(store, connection, GROWN)
        connection.execute("VACUUM ANALYZE")
        for statuses, reads_ended in (('["ready", "blocked", "in_progress"]', False), ('["ready", "done"]', True)):
            read = plan(connection, "list_items", {**LISTED, "statuses": statuses}, options="ANALYZE, FORMAT json")
            rows = sum(
                node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
                for node in nodes(read)
                if node.get("Relation Name") == "items"
            )
            assert (rows > GROWN.ended) is reads_ended


def test_a_read_waits_for_no_parallel_workers(postgres_server: PostgresServer) -> None:
    with board(postgres_server) as connection, closing(PostgresStore(url_of(connection), DEFAULTS)) as store:
        names = ("max_parallel_workers_per_gather", "jit")
        assert store.read(lambda t: [t.one("setting", name=name) for name in names]) == [("0",), ("off",)]
