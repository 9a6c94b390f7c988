"""No statement of the claim path may read more than it needs, however large the board has grown.

Each hot statement is explained on an empty board, on a small one and on one whose statistics say that almost everything
has ended. A full scan, a sort or another index than the expected one is a failure; so is a statement without an entry.
"""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from dibs.config import DEFAULTS
from dibs.model import NewItem, Session
from dibs.store.sqlite.store import SqliteStore
from dibs.store.sqlite.transaction import STATEMENTS

#: What the plan of each statement has to name; an empty entry reads no table row by row.
EXPECTED = {
    "item_by_id": ["items USING INDEX sqlite_autoindex_items_1 (id=?)"],
    "state": [
        "items USING INDEX sqlite_autoindex_items_1 (id=?)",
        "claims USING PRIMARY KEY (item=?)",
        "runs USING INTEGER PRIMARY KEY",
        "r USING COVERING INDEX sqlite_autoindex_runs_1 (item=?)",
        "tickets USING INDEX tickets_queue (item=?)",
    ],
    "ready_item": [
        "items USING INTEGER PRIMARY KEY",
        "runs USING INTEGER PRIMARY KEY",
        "r USING COVERING INDEX sqlite_autoindex_runs_1 (item=?)",
    ],
    "seq_of_item": ["items USING COVERING INDEX sqlite_autoindex_items_1 (id=?)"],
    "event_of_item": ["events USING INDEX sqlite_autoindex_events_1 (item=? AND number=?)"],
    "claim_of_item": ["claims USING PRIMARY KEY (item=?)"],
    "run_by_token": ["runs USING INDEX sqlite_autoindex_runs_1 (item=? AND token=?)"],
    "run_before": ["runs USING INDEX sqlite_autoindex_runs_1 (item=? AND token<?)"],
    "latest_run": ["runs USING INDEX sqlite_autoindex_runs_1 (item=?)"],
    "last_run_of_session": ["runs USING INDEX sqlite_autoindex_runs_1 (item=?)"],
    "notes_of_run": ["events USING INDEX sqlite_autoindex_events_1 (item=?)"],
    "comment_on_run": ["events USING INDEX sqlite_autoindex_events_1 (item=?)"],
    "latest_draft": ["runs USING INDEX sqlite_autoindex_runs_1 (item=?)"],
    "latest_approval": ["events USING INDEX sqlite_autoindex_events_1 (item=?)"],
    "session_by_id": ["sessions USING PRIMARY KEY"],
    "session_and_agent": ["sessions USING PRIMARY KEY", "agents USING PRIMARY KEY"],
    "agent_by_name": ["agents USING PRIMARY KEY"],
    "live_claims_of_session": ["claims USING INDEX claims_session (session=?)"],
    "lapsed_claims_of_session": ["claims USING INDEX claims_session (session=?)"],
    "live_claim_count": ["claims USING INDEX claims_session (session=?)"],
    "live_claim_count_of_agent": ["claims USING INDEX claims_agent (agent=?)"],
    "next_expiry_of_agent": ["claims USING INDEX claims_agent (agent=?)"],
    "bucket_of_agent": ["agents USING PRIMARY KEY"],
    "set_bucket": ["agents USING PRIMARY KEY"],
    "expired_items": ["claims USING COVERING INDEX claims_expiry (expires_at<?)"],
    "due_items": ["items USING INDEX items_due (not_before<?)"],
    "lapsed_offers": ["items USING INDEX items_offered (offer_expires_at<?)"],
    "blockers": ["dependencies USING PRIMARY KEY (item=?)", "items USING INDEX sqlite_autoindex_items_1 (id=?)"],
    "blocked_by": [
        "dependencies USING COVERING INDEX dependencies_needs (needs=?)",
        "items USING INDEX sqlite_autoindex_items_1 (id=?)",
    ],
    "dependents": [
        "dependencies USING COVERING INDEX dependencies_needs (needs=?)",
        "items USING COVERING INDEX sqlite_autoindex_items_1 (id=?)",
    ],
    "open_tickets": ["tickets USING INDEX tickets_queue (item=?)"],
    "insert_ticket": [],
    "renew_ticket": ["tickets USING INTEGER PRIMARY KEY"],
    "close_ticket": ["tickets USING INTEGER PRIMARY KEY"],
    "holds": ["items USING INDEX items_holding (project=?)", "claims USING PRIMARY KEY (item=?)"],
    "lanes": [
        "items USING INDEX items_ready (project>?)",
        "i USING INTEGER PRIMARY KEY",
        "n USING INDEX items_ready (project=? AND type=? AND action=? AND approved>?)",
        "n USING INDEX items_ready (project=? AND type=? AND action>?)",
        "n USING INDEX items_ready (project=? AND type>?)",
        "n USING INDEX items_ready (project>?)",
    ],
    "lane": ["items USING INDEX items_ready (project=? AND type=? AND action=? AND approved=?)"],
    "item_of_subject": ["items USING COVERING INDEX items_subject (subject=?)"],
    "id_number": ["id_numbers USING PRIMARY KEY (words=?)"],
    "put_id_number": [],
    "insert_item": [],
    "put_long_texts": [],
    "drop_long_texts": ["long_texts USING INDEX sqlite_autoindex_long_texts_1 (item=?)"],
    "move_item": ["items USING INDEX sqlite_autoindex_items_1 (id=?)"],
    "rewrite_item": ["items USING INDEX sqlite_autoindex_items_1 (id=?)"],
    "insert_claim": [],
    "renew_claim": ["claims USING PRIMARY KEY (item=?)"],
    "renew_session": ["claims USING INDEX claims_session (session=?)"],
    "first_event_of_claim": ["events USING INDEX sqlite_autoindex_events_1 (item=?)"],
    "latest_event": ["SEARCH events"],
    "delete_claim": ["claims USING PRIMARY KEY (item=?)"],
    "insert_run": [],
    "end_run": ["runs USING INDEX sqlite_autoindex_runs_1 (item=? AND token=?)"],
    "insert_event": [],
    "touch_session": ["sessions USING PRIMARY KEY"],
    "store_session_meta": ["sessions USING PRIMARY KEY"],
    "insert_activity": [],
    "count_conflict": ["meta USING PRIMARY KEY"],
    "request": ["requests USING PRIMARY KEY (actor=? AND id=?)"],
    "keep_request": [],
    "due": [
        "claims USING COVERING INDEX claims_expiry",
        "items USING COVERING INDEX items_due",
        "items USING COVERING INDEX items_offered",
    ],
    "due_of_item": ["claims USING PRIMARY KEY (item=?)", "items USING INDEX sqlite_autoindex_items_1 (id=?)"],
    "meta": ["meta USING PRIMARY KEY"],
    "conflicts": ["meta USING PRIMARY KEY"],
    "token_floor": ["meta USING PRIMARY KEY"],
}


def board(path: Path, items: int) -> SqliteStore:
    store = SqliteStore(str(path / "board.db"), DEFAULTS, create=True)
    new = [NewItem(id=f"item-{n}", title="an item", type=f"type-{n % 3}") for n in range(items)]
    if new:
        store.add(new, actor="tester")
    return store


def plan(connection: apsw.Connection, sql: str) -> list[str]:
    return [str(row[3]) for row in connection.execute("EXPLAIN QUERY PLAN " + sql, _any_parameters(sql))]


def _any_parameters(sql: str) -> dict[str, int]:
    words = sql.replace("(", " ").replace(")", " ").replace(",", " ").split()
    return {word[1:]: 1 for word in words if word.startswith(":")}


@pytest.mark.parametrize("size", ["empty", "small", "mostly ended"])
def test_every_statement_of_the_claim_path_uses_its_index(tmp_path: Path, size: str) -> None:
    store = board(tmp_path, 0 if size == "empty" else 200)
    connection = store.engine.connection()
    if size == "mostly ended":
        connection.execute("UPDATE items SET status = 'done' WHERE seq > 3")
        connection.execute("ANALYZE")
        connection.execute("UPDATE sqlite_stat1 SET stat = replace(stat, '200', '1000000')")
        connection.execute("ANALYZE sqlite_schema")
    for name, expected in EXPECTED.items():
        steps = plan(connection, STATEMENTS[name])
        for part in expected:
            assert any(part in step for step in steps), (name, size, steps)
        # `firsts` is the queue of a recursion, with one row at a time.
        scans = {step for step in steps if step.startswith("SCAN") and step not in ("SCAN CONSTANT ROW", "SCAN firsts")}
        assert not scans, (name, size, steps)
        assert not any("TEMP B-TREE" in step for step in steps), (name, size, steps)
    store.close()


def test_no_statement_of_the_claim_path_goes_unexplained() -> None:
    assert set(EXPECTED) == set(STATEMENTS.of_file("path.sql"))


def test_a_statement_without_its_index_would_be_noticed(tmp_path: Path) -> None:
    store = board(tmp_path, 10)
    connection = store.engine.connection()
    connection.execute("DROP INDEX claims_expiry")
    assert any(step.startswith("SCAN") for step in plan(connection, STATEMENTS["expired_items"]))
    store.close()


def steps_of_a_claim(path: Path, items: int) -> int:
    """How many instructions of SQLite's machine a `next` and a `done` take on a board with so much that is ready."""
    path.mkdir()
    store = board(path, items)
    store.start_session(Session(id="s", agent="coder"))
    store.next(session="s")
    steps = 0

    def count() -> bool:
        nonlocal steps
        steps += 1
        return False

    store.engine.connection().set_progress_handler(count, 1)
    (grant,) = store.next(session="s")
    store.done(grant.item.id, session="s", token=grant.claim.token, links={}, cost={})
    store.engine.connection().set_progress_handler(None)
    store.close()
    return steps


def test_a_claim_costs_the_same_however_much_is_ready(tmp_path: Path) -> None:
    few, many = steps_of_a_claim(tmp_path / "few", 30), steps_of_a_claim(tmp_path / "many", 6000)
    assert many <= 1.1 * few, f"{few} steps with 30 items ready, {many} with 6000"


def steps_of_an_add(path: Path, items: int, *, forget: bool = False) -> int:
    """How many instructions an `add` takes on a board that has so many items of the same title; with `forget`, without
    the hint that the other ones left."""
    path.mkdir()
    store = board(path, 0)
    for begin in range(0, items, 1000):
        store.add([NewItem(id="", title="Fix login")] * min(1000, items - begin), actor="tester")
    if forget:
        store.engine.connection().execute("DELETE FROM id_numbers")
    steps = 0

    def count() -> bool:
        nonlocal steps
        steps += 1
        return False

    store.engine.connection().set_progress_handler(count, 1)
    (added,) = store.add([NewItem(id="", title="Fix login")], actor="tester")
    store.engine.connection().set_progress_handler(None)
    store.close()
    assert added.id == f"fix-login-{items + 1}"
    return steps


def test_an_add_costs_the_same_however_many_items_have_its_title(tmp_path: Path) -> None:
    few, many = steps_of_an_add(tmp_path / "few", 10), steps_of_an_add(tmp_path / "many", 10_000)
    assert many <= 1.1 * few, f"{few} steps with 10 items of that title, {many} with 10,000"
    without = steps_of_an_add(tmp_path / "without", 10_000, forget=True)
    assert without < 10 * few, f"{few} steps with the hint, {without} without"


def test_the_ids_with_a_prefix_are_found_through_the_index(tmp_path: Path) -> None:
    store = board(tmp_path, 200)
    (step,) = plan(store.engine.connection(), STATEMENTS["ids"])
    assert step == "SEARCH items USING COVERING INDEX sqlite_autoindex_items_1 (id>? AND id<?)"
    store.close()


def test_a_statement_is_prepared_once(tmp_path: Path) -> None:
    """SQLite's own bet, that a plan is better made anew for other values, would be lost: each statement has one index.

    The authorizer is asked whenever a statement is prepared.
    """
    store = board(tmp_path, 60)
    store.start_session(Session(id="s", agent="coder"))
    prepared = 0

    def count(*_: object) -> int:
        nonlocal prepared
        prepared += 1
        return apsw.SQLITE_OK

    store.engine.connection().authorizer = count

    def claim_and_finish(times: int) -> None:
        for _ in range(times):
            (grant,) = store.next(session="s")
            store.renew(grant.item.id, session="s")
            store.done(grant.item.id, session="s", token=grant.claim.token, links={}, cost={})

    claim_and_finish(3)
    assert prepared > 0, "nobody asked the authorizer"
    prepared = 0
    claim_and_finish(50)
    assert prepared == 0
    store.close()
