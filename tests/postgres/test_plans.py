"""No statement inside the functions of the claim path may read more than it needs, however large the board has grown.

The verbs run on an empty board, on a small one and on a large one (in a soak, of a million items), with statistics that
are true, outdated or missing. A plan made on a small board is kept by its connection when the board has grown: none may
be wrong anywhere.
"""

from __future__ import annotations

import os
import re
import shutil
import statistics
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import closing, contextmanager

import psycopg
import pytest

from dibs.store.postgres.migrating import migrate
from tests.kit.postgres_server import PostgresServer
from tests.postgres.crowding import LARGE, SMALL, Connection, Size, crowd
from tests.postgres.explaining import ExplainedStore, Statement, blocks, skip_unless_explained
from tests.postgres.working import FOR_EVER, TIMES, VERBS, Work, claim, next_in_one_lane, next_in_several_lanes

#: What a statement may read that has these words, by an index and the columns looked for in it. The first entry holds.
#: Tickets that are open or were lately closed are few; a few of one item, or of one session, are not looked for singly.
EXPECTED = {
    "SELECT json_build_object('actor', e.actor": {"events_item_number_key(item)", "runs_pkey(item, token)"},
    "SET status = 'in_progress', updated_at = at": {"items_pkey(id)", "sessions_pkey(id)"},
    "SELECT coalesce(array_agg(c.item) FILTER": {"claims_pkey(item)", "items_pkey(id)"},
    "SELECT coalesce(array_agg(i.id) FILTER (WHERE i.review)": {"items_pkey(id)"},
    "SELECT coalesce(array_agg(json_build_object( 'item', i.id": {"items_pkey(id)", "runs_pkey(item, token)"},
    "WITH deleted AS": {
        "items_pkey(id)",
        "claims_pkey(item)",
        "runs_pkey(item)",
        "runs_pkey(item, token)",
        "sessions_pkey(id)",
        "tickets_queue(item)",
        "tickets_open()",
    },
    "SELECT DISTINCT d.needs FROM dibs.dependencies d": {"dependencies_needs(needs)", "dependencies sorted"},
    "UPDATE dibs.items SET": {"items_pkey(id)"},
    "FROM dibs.items WHERE id =": {"items_pkey(id)"},
    "FROM dibs.items x WHERE x.status = 'ready' AND": {"items_ready(lane, seq)"},
    "FROM dibs.items y WHERE y.status = 'ready' AND": {"items_ready(lane, seq)"},
    "FROM dibs.items WHERE status = 'scheduled' AND not_before <=": {"items_due(not_before)"},
    "FROM dibs.items WHERE offer_expires_at <=": {"items_offered(offer_expires_at)"},
    "SELECT EXISTS ( SELECT 1 FROM dibs.items h": {"items_holding(project)", "claims_pkey(item)"},
    "INSERT INTO dibs.activity": {"items_holding(project)", "claims_pkey(item)"},
    "json_build_object( 'no', p_no,": {
        "items_pkey(id)",
        "items_holding(project)",
        "claims_pkey(item)",
        "sessions_pkey(id)",
        "dependencies_pkey(item)",
        "dependencies sorted",
        "items sorted",
    },
    "i.depends_on <> '{}' AND EXISTS": {"dependencies_pkey(item)", "items_pkey(id)"},
    "FROM dibs.dependencies d WHERE d.needs =": {"dependencies_needs(needs)", "dependencies sorted", "items_pkey(id)"},
    "FROM dibs.claims WHERE look_at <=": {"claims_look(look_at)"},
    "UPDATE dibs.claims SET look_at": {"claims_look(look_at)"},
    "UPDATE dibs.claims SET": {"claims_pkey(item)"},
    "DELETE FROM dibs.claims WHERE item =": {"claims_pkey(item)"},
    "FROM dibs.claims WHERE item =": {"claims_pkey(item)"},
    "FROM dibs.events e WHERE e.item = each AND e.token =": {"events_item_number_key(item)"},
    "FROM dibs.claims x WHERE x.item =": {"claims_pkey(item)"},
    "UPDATE dibs.claims x SET": {"claims_session(session)"},
    "FROM dibs.claims x WHERE x.session =": {"claims_session(session)", "claims sorted"},
    "FROM dibs.claims WHERE session =": {"claims_session(session)", "claims sorted"},
    "FROM dibs.sessions x CROSS JOIN LATERAL": {"sessions_agent(agent, ended_at)", "claims_session(session)"},
    "FROM dibs.runs r WHERE r.item = t.item AND r.token =": {"runs_pkey(item, token)"},
    "FROM dibs.runs WHERE item = p_item AND token < p_before": {"runs_pkey(item, token)"},
    "FROM dibs.runs WHERE item = p_item AND token =": {"runs_pkey(item, token)"},
    "FROM dibs.runs WHERE item = c.item AND token =": {"runs_pkey(item, token)"},
    "FROM dibs.runs WHERE item = p_item": {"runs_pkey(item)"},
    "UPDATE dibs.runs SET": {"runs_pkey(item, token)"},
    "FROM dibs.events WHERE item =": {"events_item_number_key(item)"},
    "UPDATE dibs.sessions SET": {"sessions_pkey(id)"},
    "FROM dibs.sessions WHERE id =": {"sessions_pkey(id)"},
    "FROM dibs.sessions x WHERE x.id =": {"sessions_pkey(id)"},
    "FROM dibs.sessions x WHERE x.parent =": {"sessions_parent(parent)", "sessions sorted"},
    "UPDATE dibs.tickets SET closed_at = at, reason = 'it was not renewed'": {
        "tickets_queue()",
        "tickets_open()",
        "tickets_pkey(id)",
        "items_pkey(id)",
    },
    "DELETE FROM dibs.tickets WHERE closed_at <=": {"tickets_closed(closed_at)"},
    "FROM dibs.tickets WHERE item = i.id AND closed_at IS NULL ORDER BY id": {"tickets_queue(item)"},
    "UPDATE dibs.tickets SET closed_at": {
        "tickets_queue(item)",
        "tickets_open(session, item)",
        "tickets_latest(item)",
        "tickets_latest(item, session)",
    },
    "FROM dibs.tickets WHERE session =": {"tickets_open(session)", "tickets_queue()", "tickets sorted"},
    "FROM dibs.requests WHERE actor =": {"requests_pkey(actor, id)"},
    "DELETE FROM dibs.requests": {"requests_at(at)"},
    "UPDATE dibs.soft_claims x SET": {"soft_claims_session(session)"},
    "DELETE FROM dibs.soft_claims WHERE session =": {"soft_claims_session(session)"},
    "DELETE FROM dibs.soft_claims": {"all of soft_claims"},
    "DELETE FROM dibs.activity": {"activity_pkey(id)", "activity_pkey()"},
}
#: Tables with a row for each kind of something: they stay small.
SMALL_TABLES = ("agents", "conflicts", "lanes", "events_id_seq")
#: What only other verbs run: those of people, and those that follow the feed.
NOT_OF_THE_PATH = {
    *("feed_end", "lock_item", "put_in_lane"),
    *("session_of_instance", "claim_work_item", "claim_next_work_item", "record_refusal", "refuse_bound"),
}

#: Of the blocks that a verb touches. When this was written they were 20 to 45 on a small board, where an index is one
#: page, and 27 to 60 on the large one, where each of a dozen indexes is a level or two higher.
BLOCKS_MAX = 90
GROWTH_MAX = 2.0
#: What a board of a million takes, and as much again.
ROOM_BYTES = 3 << 30

TABLE = re.compile(r"\b(?:FROM|JOIN|UPDATE|INTO) dibs\.\w+(?![\w(])")
STATEMENT_END = re.compile(r"(?:;|\b(?:THEN|LOOP|ELSE|BEGIN))\s*$")


@pytest.fixture
def server(postgres_server: PostgresServer) -> PostgresServer:
    skip_unless_explained(postgres_server)
    return postgres_server


@pytest.mark.parametrize("analysed", [False, True], ids=["never-analysed", "analysed"])
@pytest.mark.parametrize("size", [None, SMALL], ids=["empty", "small"])
def test_every_statement_uses_its_index(server: PostgresServer, size: Size | None, analysed: bool) -> None:
    with board(server) as connection:
        if size is not None:
            fill(connection, size)
        if analysed:
            connection.execute("ANALYZE")
        assert_expected(run(connection, *VERBS))


def test_every_statement_uses_its_index_on_a_large_board(server: PostgresServer) -> None:
    skip_unless_there_is_room(server)
    with board(server) as small, board(server) as large:
        large.execute("ANALYZE")
        fill(large, LARGE)
        assert_expected(run(large, *VERBS))
        large.execute("ANALYZE")
        assert_expected(run(large, *VERBS))
        fill(small, SMALL)
        small.execute("ANALYZE")
        few, many = touched(small), touched(large)
        assert max(many.values()) <= BLOCKS_MAX, many
        assert all(many[verb] <= GROWTH_MAX * few[verb] for verb in few), (few, many)


def test_every_statement_uses_its_index_among_what_is_gone(server: PostgresServer) -> None:
    """Known to be empty, and full of what was deleted: an index that is gone through from end to end is a long way."""
    with board(server) as connection:
        litter(connection)
        connection.execute("ANALYZE")
        assert_expected(run(connection, *VERBS))


def test_a_second_index_with_the_item_in_it_would_be_noticed(server: PostgresServer) -> None:
    with board(server) as connection:
        connection.execute("DROP INDEX dibs.claims_session")
        connection.execute("CREATE INDEX claims_session ON dibs.claims (session, item)")
        litter(connection)
        connection.execute("ANALYZE")
        found = complaints(run(connection, *VERBS))
    assert any("claims_session" in complaint for complaint in found), found


def test_no_statement_goes_unexplained(server: PostgresServer) -> None:
    with board(server) as connection:
        statements = run(connection, *VERBS)
        seen = {statement.place for statement in statements}
        unseen = {place: words for place, words in written(connection).items() if place not in seen}
    assert not unseen, "these are not run by any of the verbs in working.py"
    assert {expectation(statement.words) for statement in statements if statement.reads} >= set(EXPECTED)


def test_a_statement_without_its_index_would_be_noticed(server: PostgresServer) -> None:
    with board(server) as connection:
        fill(connection, SMALL)
        connection.execute("DROP INDEX dibs.items_ready")
        found = complaints(run(connection, next_in_one_lane, next_in_several_lanes))
    assert found
    assert all("status = 'ready'" in complaint for complaint in found), found


def test_a_tempting_index_would_be_noticed(server: PostgresServer) -> None:
    with board(server) as connection:
        connection.execute("CREATE INDEX tempting ON dibs.items (id) INCLUDE (project, resources)")
        found = complaints(run(connection, claim))
    assert any("reads tempting(id)" in complaint for complaint in found), found


def test_a_statement_that_nobody_expects_would_be_noticed() -> None:
    plan = {"Node Type": "Seq Scan", "Relation Name": "items"}
    (complaint,) = complaints([Statement("SELECT * FROM dibs.items WHERE title = p_title", plan, None)])
    assert "all of items" in complaint


@contextmanager
def board(server: PostgresServer) -> Iterator[Connection]:
    """A connection to a new board that nobody analyses unasked."""
    name = f"{server.prefix}{os.urandom(6).hex()}"
    server.create_database(name, server.template("never_analysed", make_never_analysed))
    try:
        with closing(server.connect(name)) as connection:
            yield connection
    finally:
        server.drop_database(name)


def make_never_analysed(url: str) -> None:
    migrate(url)
    with psycopg.connect(url) as connection:
        for (table,) in connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'dibs'").fetchall():
            connection.execute(f"ALTER TABLE dibs.{table} SET (autovacuum_enabled = off)".encode())
            # No plan depends on it, and a board of a million is there in two thirds of the time.
            connection.execute(f"ALTER TABLE dibs.{table} SET UNLOGGED".encode())


def fill(connection: Connection, size: Size) -> None:
    with closing(ExplainedStore(url_of(connection))) as store:
        crowd(store, connection, size)


def litter(connection: Connection) -> None:
    connection.execute(
        "INSERT INTO dibs.claims SELECT 'item-' || md5(n::text), n, 'worker', 'worker', 0, 0, 1, 1, 1, 0, 1"
        " FROM generate_series(1, 20000) AS n"
    )
    connection.execute("DELETE FROM dibs.claims")


def run(connection: Connection, *verbs: Callable[[Work], None]) -> list[Statement]:
    """These verbs, on a connection that has no plan yet; the statements inside."""
    with closing(ExplainedStore(url_of(connection))) as store:
        work = Work(store, connection)
        for verb in verbs:
            verb(work)
        return store.told()


def url_of(connection: Connection) -> str:
    info = connection.info
    return f"postgresql://{info.user}:{info.password}@{info.host}:{info.port}/{info.dbname}"


def assert_expected(statements: Iterable[Statement]) -> None:
    found = complaints(statements)
    assert not found, "\n".join(found)


def complaints(statements: Iterable[Statement]) -> list[str]:
    found = {}
    for words, reads in {(statement.words, statement.reads) for statement in statements}:
        large = {read for read in reads if not read.removeprefix("all of ").startswith(SMALL_TABLES)}
        key = expectation(words)
        if large and key is None:
            found[words] = f"{words}\n    is not expected at all, and reads {listed(large)}"
        elif key is not None and large - EXPECTED[key]:
            found[words] = f"{words}\n    reads {listed(large)}, and may read {listed(EXPECTED[key])}"
    return sorted(found.values())


def expectation(words: str) -> str | None:
    return next((key for key in EXPECTED if key in words), None)


def listed(reads: Collection[str]) -> str:
    return " + ".join(sorted(reads))


def written(connection: Connection) -> dict[tuple[str, int], str]:
    """The statements of the functions that name a table, each by the place that the server gives when it runs."""
    functions = connection.execute(
        "SELECT p.proname, p.prosrc, l.lanname FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang"
        " WHERE p.pronamespace = 'dibs'::regnamespace"
    ).fetchall()
    found: dict[tuple[str, int], str] = {}
    for name, source, language in functions:
        parts = [(1, source)] if language == "sql" else parts_of(source)
        found |= {(name, line): words for line, words in parts if TABLE.search(words) and name not in NOT_OF_THE_PATH}
    return found


def parts_of(source: str) -> Iterator[tuple[int, str]]:
    """Each part of a PL/pgSQL function with the line it begins in; of an IF, all branches are where it begins."""
    part: list[str] = []
    begins = conditional = 0
    for number, line in enumerate(source.split("\n"), 1):
        code = line.partition("--")[0].strip()
        if code and not part:
            begins = number
        part += [code] if code else []
        if STATEMENT_END.search(code):
            conditional = begins if part[0].startswith("IF ") else conditional
            yield (conditional if part[0].startswith("ELSIF ") else begins), " ".join(part)
            part = []


def touched(connection: Connection) -> dict[str, float]:
    """How many blocks a verb touches, once its connection has settled."""
    with closing(ExplainedStore(url_of(connection), blocks=True)) as store:
        work = Work(store, connection)
        work.remember(FOR_EVER)
        found: dict[str, list[int]] = {}
        for _ in range(3 * TIMES):
            work.new(type="code")
            (named,) = work.new()
            store.told()
            (grant,) = store.next(session="worker", types=["code"])
            store.renew(grant.item.id, session="worker")
            store.progress(grant.item.id, session="worker", note="so far", meta={})
            store.done(grant.item.id, session="worker", links={}, cost={})
            store.claim(named, session="other")
            store.heartbeat(session="other", holding={named: None})
            store.release(named, session="other")
            for statement in store.told():
                found.setdefault(statement.words.partition("(")[0], []).append(blocks(statement.plan))
    return {verb: statistics.median(each) for verb, each in found.items()}


def skip_unless_there_is_room(server: PostgresServer) -> None:
    with server.connect() as connection:
        ((folder,),) = connection.execute("SHOW data_directory").fetchall()
    if os.path.exists(folder) and shutil.disk_usage(folder).free < ROOM_BYTES:
        pytest.skip(f"a board of a million wants {ROOM_BYTES >> 30} GB, and {folder} has no room for it")
