"""What a pulse looks at on a large board: what is ready, and not everything that ever was."""

from __future__ import annotations

from contextlib import closing

import pytest

from dibs.store.postgres.queries import STATEMENTS
from tests.kit.postgres_server import PostgresServer
from tests.postgres.crowding import SMALL, crowd
from tests.postgres.explaining import ExplainedStore, Statement, skip_unless_explained
from tests.postgres.test_plans import board, url_of

#: So many have ended that nobody would read them all for the few that are ready.
GROWN = SMALL._replace(ended=20_000)


@pytest.mark.parametrize("offered", [0, 10])
def test_what_is_ready_is_counted_from_what_is_ready(postgres_server: PostgresServer, offered: int) -> None:
    skip_unless_explained(postgres_server)
    with board(postgres_server) as connection:
        with closing(ExplainedStore(url_of(connection))) as store:
            crowd(store, connection, GROWN)
        connection.execute(
            "UPDATE dibs.items SET offered_to = 'pattern', offer_expires_at = 1"
            " WHERE id IN (SELECT id FROM dibs.items WHERE status = 'ready' LIMIT %s)",
            [offered],
        )
        connection.execute("VACUUM ANALYZE dibs.items")
        (told,) = connection.execute(
            b"EXPLAIN (FORMAT json) " + STATEMENTS["ready_by_type"].encode(), {"limit": 1000}
        ).fetchone() or (None,)
        assert told is not None
        reads = Statement("", told[0]["Plan"], None).reads
    assert {read.partition("(")[0] for read in reads} >= {"items_ready", "items_offered"}, reads
    assert "all of items" not in reads, reads
