"""`next` answers this version with lists, in the order of an item's fields, and the last version with objects."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from dibs.model import Claim, Item
from dibs.store.postgres import answers
from dibs.testing.conformance.asking import added
from tests.kit import postgres
from tests.kit.postgres import PostgresHarness
from tests.kit.postgres_server import PostgresServer

#: As the last version calls it, and with the parameter that this version adds.
OBJECTS = (
    "SELECT dibs.next('s', NULL, '{}', '{}', 1, NULL, '{}', '{}', true, dibs.default_settings(),"
    " NULL, '{}', '{}', '{}')"
)
LISTS = OBJECTS.removesuffix(")") + ", true)"
#: No two columns of one type have the same value.
DISTINCT = """
UPDATE dibs.items SET phase = 'p', body = 'b', labels = '{l}', payload = '{"k": 1}', retries = 5, attempts = 6,
    strikes = 7, failures = 8, token = 9, revision = 10, created_at = 11, not_before = 12, subject = 'u', review = true
"""


@pytest.fixture
def harness(postgres_server: PostgresServer, folder: Path) -> Iterator[PostgresHarness]:
    with postgres.harness(postgres_server, folder) as harness:
        yield harness


def test_lists_say_what_objects_say(harness: PostgresHarness) -> None:
    board = harness.board()
    added(board, "x")
    board.start_session("ann", id="s")
    with closing(psycopg.connect(harness.server.url(harness.database), autocommit=True)) as connection:
        connection.execute(DISTINCT)
        objects, lists = _next(connection, OBJECTS), _next(connection, LISTS)
    assert "rows" not in objects
    assert "grants" not in lists
    (old,), (new,) = answers.grants(objects), answers.grants(lists)
    assert old.item.replace(updated_at=new.item.updated_at) == new.item
    assert (old.item.strikes, old.item.failures, old.item.subject) == (7, 8, "u")
    assert old.claim.replace(**_times(new.claim)) == new.claim
    assert new.claim.expires_at < new.claim.deadline_at


def test_a_column_of_a_newer_schema_is_passed_over(harness: PostgresHarness) -> None:
    board = harness.board()
    added(board, "x")
    board.start_session("ann", id="s")
    with closing(psycopg.connect(harness.server.url(harness.database), autocommit=True)) as connection:
        answer = _next(connection, LISTS)
    (row,) = answer["rows"]
    assert len(row) == 4 + len(Item._fields)
    newer = {**answer, "rows": [[*row, "new"]]}
    assert answers.grants(newer) == answers.grants(answer)


def _next(connection: psycopg.Connection[Any], call: str) -> dict[str, Any]:
    """What it answers, and nothing changed."""
    with connection.transaction(force_rollback=True):
        row = connection.execute(call.encode()).fetchone()
        assert row is not None
        found: dict[str, Any] = row[0]
        return found


def _times(claim: Claim) -> dict[str, int]:
    return {name: getattr(claim, name) for name in ("claimed_at", "renewed_at", "expires_at", "deadline_at")}
