"""docs/operations/postgresql.md: its roles have the rights told there, its lines work, its tables are true."""

from __future__ import annotations

import inspect
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from dibs.board import Board
from dibs.config import DEFAULTS
from dibs.errors import DibsError, StoreUnusable
from dibs.store.postgres import connections, migrating, notify
from dibs.store.postgres.claim_path import ClaimPath
from dibs.store.postgres.connections import CONNECTIONS_MAX
from dibs.store.postgres.lane_hints import LaneHints
from dibs.store.postgres.store import TRIES_MAX, PostgresStore
from dibs.store.sql.archive import RESTORE_STRIDE
from dibs.testing.invariants import IN_TESTS, assert_sound
from tests.docs.markdown import ROOT, blocks, code, prose, read, section, table
from tests.docs.production import CALLED, OPERATIONS, Production, production, statements
from tests.docs.shop import Shop
from tests.kit.postgres_server import PostgresServer

FUNCTIONS = "\n".join(
    path.read_text(encoding="utf-8")
    for path in sorted((ROOT / "src" / "dibs" / "store" / "postgres").rglob("*"))
    if path.suffix in (".py", ".sql")
)


#: What psycopg is told about itself, and no server hears of.
OF_THE_DRIVER = ("autocommit", "prepare_threshold")


@pytest.fixture(scope="module")
def made(postgres_server: PostgresServer) -> Iterator[Production]:
    with production(postgres_server) as made:
        yield made


@pytest.fixture
def fresh(postgres_server: PostgresServer) -> Iterator[Production]:
    """One that nobody else's test has worked on."""
    with production(postgres_server) as made:
        yield made


# Roles


def work(board: Board) -> None:
    """Every verb of the board, but for those that are the owner's."""
    me = board.start_session("coder").id
    for id in ("one", "two", "three"):
        board.add("Fix login", id=id, resources=["src/login"] if id == "two" else [])
    board.add("Ship", id="four", depends_on=["one"], not_before=0, retries=1)
    board.edit("three", title="Fix the login", priority=9)
    board.claim("one", session=me, request_id="r-1")
    board.heartbeat(session=me, holding={"one": None})
    board.renew("one", session=me)
    board.progress("one", "half of it", session=me)
    board.done("one", session=me)
    board.wait("four", session=me)
    board.claim("four", session=me)
    board.fail("four", session=me)
    board.cancel("four")
    assert len(board.next(session=me, n=2)) == 2
    board.release("two", session=me, park=True)
    board.unpark("two")
    board.submit("three", session=me, draft="this")
    board.send_back("three", comment="shorter")
    board.claim("three", session=me)
    board.force_release("three", reason="stuck")
    board.soft_claim("three", session=me)
    board.soft_release("three", session=me)
    board.why("three", session=me)
    board.set_agent("coder", max_claims=1, claims_per_minute=60)
    board.claim("three", session=me)
    board.sweep()
    board.end_session(me)
    board.prune(older_than_seconds=0)


def look(board: Board, folder: Path) -> None:
    """Everything that only reads."""
    for verb in (board.list, board.who, board.stats, board.sessions, board.agents, board.runs, board.activity):
        verb()
    item = board.list()[0].id
    board.get(item)
    board.log(item)
    board.why(item)
    assert board.events()
    assert next(iter(board.follow()))
    assert list(board.export())
    assert [finding for finding in board.store.check() if not finding.startswith(IN_TESTS)] == []
    board.backup(str(folder / "backup.jsonl"))


def refused(call: Callable[[], object]) -> None:
    with pytest.raises(StoreUnusable, match="permission denied"):
        call()


def follow_what_others_sweep(reader: Board, fresh: Production) -> None:
    """Something is due, and a reader that follows cannot record it: that is no reason to stop."""
    feed = reader.follow(after=reader.events(newest=True, limit=1)[-1].id, wait_seconds=60)
    with fresh.board("dibs_app") as app:
        app.add("later", id="later", not_before=time.time_ns() // 1_000_000 + 2000)
        assert next(feed).kind == "added"
        while due_seconds := app.store.due_seconds():
            time.sleep(due_seconds)
        app.add("sooner", id="sooner")
        assert [next(feed).item for _ in range(2)] == ["sooner", "sooner"]
        assert app.sweep().due == ("later",)
        assert [next(feed).kind for _ in range(2)] == ["due", "claimable"]


def test_the_app_does_everything_but_change_the_schema_or_replace_the_board(fresh: Production, tmp_path: Path) -> None:
    with fresh.board("dibs_app") as board:
        work(board)
        look(board, tmp_path)
        assert_sound(board)
        refused(lambda: board.restore(str(tmp_path / "backup.jsonl")))
    refused(lambda: migrating.migrate(fresh.url("dibs_app")))
    with fresh.connect("dibs_app") as connection:
        for forbidden in (
            "UPDATE dibs.schema_version SET number = 7",
            "CREATE TABLE dibs.mine (word text)",
            "CREATE TABLE public.mine (word text)",
            "DROP TABLE dibs.items",
            "TRUNCATE dibs.items",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(forbidden.encode())


def test_a_reader_reads_everything_and_changes_nothing(fresh: Production, tmp_path: Path) -> None:
    with fresh.board("dibs_app") as board:
        work(board)
    with fresh.board("dibs_reader") as board:
        look(board, tmp_path)
        refused(lambda: board.add("Fix login"))
        refused(lambda: board.sweep())
        refused(lambda: board.start_session("coder"))
        follow_what_others_sweep(board, fresh)
    with fresh.connect("dibs_reader") as connection:
        for forbidden in (
            "DELETE FROM dibs.claims",
            "SELECT dibs.claim_work_item('two', 'coder', 'i-1')",
            "SELECT nextval('dibs.events_id_seq')",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(forbidden.encode())


def test_a_reader_sees_no_secret_of_a_webhook(fresh: Production) -> None:
    with fresh.board("dibs_app") as board:
        made = board.add_webhook("https://127.0.0.1/", kinds=["done"])
        taken = board.store.take_webhook(made.webhook.id, deliverer=None)
        assert taken is not None
        assert taken.secrets == (made.secret,), "who delivers sees it"
    with fresh.connect("dibs_reader") as connection:
        assert connection.execute("SELECT * FROM dibs.webhooks").fetchall() == []
        assert connection.execute("SELECT count(*) FROM dibs.items").fetchall(), "it may read"


def test_the_client_in_sql_claims_and_releases_and_sees_nothing_else(fresh: Production) -> None:
    with fresh.board("dibs_app") as board:
        board.add("Fix login", id="one")
    with fresh.connect("dibs_sql") as connection:
        for words in (
            "SELECT dibs.claim_work_item('one', 'coder', 'i-1')",
            "SELECT count(*) = 1 FROM dibs.agent_claimed_items",
            "SELECT count(*) = 1 FROM dibs.agent_activity",
            "SELECT dibs.release_work_item('one', 'i-1')",
        ):
            assert connection.execute(words.encode()).fetchall() == [(True,)], words
        for forbidden in (
            "SELECT 1 FROM dibs.items",
            "SELECT dibs.force_release_work_item('one')",
            "SELECT dibs.release_stale_claims()",
            "SELECT dibs.feed_end()",
            "SELECT dibs.sweep('[]', 1, dibs.default_settings())",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(forbidden.encode())
    refused(lambda: fresh.board("dibs_sql"))


def test_nobody_else_comes_in(made: Production) -> None:
    asked = "SELECT has_database_privilege('public', %s, 'CONNECT')"
    with made.server.connect(made.database) as connection:
        assert connection.execute(asked, [made.database]).fetchall() == [(False,)]
        granted = connection.execute(
            "SELECT p.proname FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace"
            " WHERE n.nspname = 'dibs' AND has_function_privilege('public', p.oid, 'EXECUTE') ORDER BY 1"
        ).fetchall()
    assert granted == [("clock",), ("default_settings",), ("instant",), ("over",)]


def test_the_grants_can_be_run_again_and_hold_for_what_comes_later(fresh: Production) -> None:
    *_, by_owner = blocks(section(OPERATIONS, "## Roles"), "sql")
    with fresh.connect("dibs_owner") as owner:
        owner.execute(fresh.named(by_owner).encode())
        owner.execute(b"CREATE TABLE dibs.later (id bigint GENERATED ALWAYS AS IDENTITY)")
        owner.execute(b"CREATE FUNCTION dibs.later() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM dibs.later'")
    migrating.migrate(fresh.url("dibs_owner"))
    with fresh.connect("dibs_app") as connection:
        connection.execute(b"INSERT INTO dibs.later DEFAULT VALUES")
        assert connection.execute(b"SELECT dibs.later()").fetchall() == [(1,)]
    with fresh.connect("dibs_reader") as connection:
        assert connection.execute(b"SELECT count(*) FROM dibs.later").fetchall() == [(1,)]


# What is typed


def test_the_commands_of_each_role_are_its_own(fresh: Production, tmp_path: Path) -> None:
    """Every command that the table names for a role, and the owner's refused to the app."""
    shop = Shop(tmp_path)
    rows = {code(role)[0]: code(commands) for role, commands, _ in table(OPERATIONS, "role", "for", "may")}
    with fresh.board("dibs_app") as board:
        board.add("Fix login", id="one")
    words = {"dibs log": " one", "dibs why": " one", "dibs copy": " . copy.db"}
    for command in rows["dibs_reader"]:
        typed = shop.type(f"{command}{words.get(command, '')} --store '{fresh.url('dibs_reader')}'")
        # What a doctor finds on a server of the tests is that it does not sync.
        assert typed.returncode == 0 or IN_TESTS in typed.stdout, typed.stdout
    shop.type(f"dibs backup one.jsonl --store '{fresh.url('dibs_app')}'")
    for command in ("dibs migrate", "dibs restore one.jsonl --yes"):
        assert command.split(" --")[0].split(" one")[0] in rows["dibs_owner"]
        typed = shop.type(f"{command} --store '{fresh.url('dibs_app')}'")
        assert (typed.returncode, "permission denied" in typed.stdout) == (1, True), typed.stdout
        typed = shop.type(f"{command} --store '{fresh.url('dibs_owner')}'")
        assert typed.returncode == 0, typed.stdout


def test_a_board_is_made_as_it_is_told(fresh: Production, tmp_path: Path) -> None:
    (line,) = blocks(section(OPERATIONS, "## Roles"), "sh")
    assert CALLED in line
    typed = Shop(tmp_path).type(fresh.named(line))
    assert typed.returncode == 0, typed.stdout


def test_a_board_that_went_back_gives_no_token_again(fresh: Production, tmp_path: Path) -> None:
    """An old copy of the database is brought back; then what is told to do about it."""
    (lines,) = blocks(section(OPERATIONS, "### After something was lost"), "sh")
    shop, old = Shop(tmp_path), f"{fresh.database}_old"
    with fresh.board("dibs_app") as board:
        board.add("Fix login", id="one")
        me = board.start_session("coder", id="coder-1").id
        board.claim("one", session=me)
        board.release("one", session=me)
    fresh.server.create_database(old, fresh.database)
    try:
        with fresh.board("dibs_app") as board:
            lost = board.claim("one", session=me).claim
            last = board.events()[-1].id
        fresh.server.drop_database(fresh.database)
        with fresh.server.connect() as connection:
            connection.execute(f'ALTER DATABASE "{old}" RENAME TO "{fresh.database}"'.encode())
    finally:
        fresh.server.drop_database(old)
    typed = shop.type(f"export DIBS_STORE='{fresh.url('dibs_owner')}'\nset -e\n{lines}")
    assert typed.returncode == 0, typed.stdout
    with fresh.board("dibs_app") as board:
        with pytest.raises(DibsError) as caught:
            board.done("one", session=me, token=lost.token)
        assert caught.value.code == "TASK_NOT_CLAIMED"
        given = board.claim("one", session=me).claim
        assert given.token > RESTORE_STRIDE
        assert board.events()[-1].id > last, "a reader's cursor is ahead of the feed"
        assert_sound(board)
    assert f"{RESTORE_STRIDE:,}" in section(OPERATIONS, "### After something was lost")


def test_a_dump_is_the_same_board(fresh: Production, tmp_path: Path) -> None:
    for program in ("pg_dump", "psql"):
        if not shutil.which(program):
            pytest.skip(f"there is no {program} on this machine")
    (line,) = blocks(section(OPERATIONS, "## Backups"), "sh")
    shop = Shop(tmp_path)
    with fresh.board("dibs_app") as board:
        work(board)
        exported = list(board.export())
    dumped = shop.type(fresh.named(line))
    if "server version mismatch" in dumped.stdout:
        pytest.skip("the pg_dump of this machine is older than the server")
    assert (dumped.returncode, dumped.stdout) == (0, "")
    fresh.server.drop_database(fresh.database)
    back = shop.type(f"psql -q -o said -v ON_ERROR_STOP=1 -f work.sql '{fresh.server.url()}'")
    if "locale_provider" in back.stdout:
        pytest.skip("the pg_dump of this machine is newer than the server, which cannot read the dump")
    assert back.stdout == ""
    assert back.returncode == 0
    with fresh.board("dibs_app") as board:
        assert list(board.export()) == exported
        other = board.start_session("fixer").id
        assert board.claim("two", session=other).claim.token > 1
    with fresh.connect("dibs_sql") as connection:
        assert connection.execute("SHOW search_path").fetchall() == [('"$user", public, dibs',)]


def test_every_line_of_sql_is_accepted(fresh: Production) -> None:
    shown = blocks(OPERATIONS.replace(section(OPERATIONS, "## Roles"), ""), "sql")
    assert len(shown) == 3
    with fresh.server.connect(fresh.database) as connection:
        for block in shown:
            for statement in statements(block):
                connection.execute(fresh.named(statement).encode())


def test_who_holds_up_the_feed_and_who_holds_a_snapshot_are_found(fresh: Production) -> None:
    _, holds_snapshot = blocks(section(OPERATIONS, "## Vacuum and long transactions"), "sql")
    (holds_feed,) = blocks(section(OPERATIONS, "## The feed and open transactions"), "sql")
    with fresh.board("dibs_app") as board:
        board.add("Fix login", id="one")
    with fresh.connect("dibs_sql") as open, fresh.server.connect(fresh.database) as admin:
        pid = open.info.backend_pid

        def found(query: str) -> set[Any]:
            return {row[0] for row in admin.execute(query.encode())} & {pid}

        assert not found(holds_feed) | found(holds_snapshot)
        open.execute("BEGIN")
        open.execute("SELECT dibs.claim_work_item('one', 'coder', 'i-1')")
        assert found(holds_feed) == {pid}
        open.execute("COMMIT")
        open.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        open.execute("SELECT 1")
        assert found(holds_snapshot) == {pid}
        assert not found(holds_feed)


def test_a_pooler_is_noticed_by_itself(
    postgres_server: PostgresServer, pgbouncer: PostgresServer, fresh: Production
) -> None:
    for way, watch in ((postgres_server, notify.ListeningWatch), (pgbouncer, notify.PollingWatch)):
        store = PostgresStore(way.url(fresh.database), DEFAULTS)
        with closing(store), closing(store.watch()) as watching:
            assert type(watching) is watch


# Tables and figures


def check_url(text: str) -> None:
    """What is added to a URL, compared with what psycopg is given."""
    told = {code(name)[0]: code(value)[0] for name, value, _ in table(text, "parameter", "value", "why")}
    given: dict[str, Any] = {}

    def take(url: str, **parameters: Any) -> None:
        given.update(parameters)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(psycopg, "connect", take)
        connections.connect("postgresql://a/work")
        alone = set(given)
        connections.connect("postgresql://a,b/work")
    assert set(given) - alone == {"target_session_attrs"}
    assert told == {name: str(value) for name, value in given.items() if name not in OF_THE_DRIVER}


def check_fillfactors(text: str, connection: psycopg.Connection[tuple[Any, ...]]) -> None:
    vacuum = section(text, "## Vacuum and long transactions")
    told = {code(name)[0]: int(factor) for name, factor, _ in table(vacuum, "table", "fillfactor")}
    rows = connection.execute(
        "SELECT c.relname, substring(c.reloptions::text FROM 'fillfactor=([0-9]+)')::integer FROM pg_class c"
        " JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'dibs' AND c.relkind = 'r'"
    ).fetchall()
    assert told == {name: factor for name, factor in rows if factor is not None}
    (others,) = re.findall(r"The others \((.*?)\)", vacuum, re.DOTALL)
    # The version of the schema is one row that a migration changes.
    assert set(code(others)) == {name for name, factor in rows if factor is None} - {"schema_version"}


def check_locks(text: str) -> None:
    """Every number of an advisory lock that the code has, and none that it has not."""
    told = {int(number) for lock, _, _ in table(text, "lock", "held") for number in re.findall(r"\b25[67]\d\d\b", lock)}
    assert told == {int(number) for number in re.findall(r"\b25[67]\d\d\b", FUNCTIONS)}


def check_channels(text: str) -> None:
    one, other = (code(channel)[0] for channel, _ in table(text, "channel", "tells"))
    assert one == notify.CHANNEL
    assert notify.channel_of("s") == f"{other}03c7c0ace395d80182db07ae2c30f034"
    assert "ten times a second" in text
    assert notify.COALESCE_SECONDS == 0.1


def check_figures(text: str) -> None:
    """Numbers that stand in the prose."""
    said = " ".join(prose(text).split())
    for words in (
        f"up to **{CONNECTIONS_MAX}**",
        f"up to {TRIES_MAX} times",
        f"after {notify.POLL_SECONDS_MIN * 1000:.0f} to {notify.POLL_SECONDS_MAX * 1000:.0f} milliseconds",
        f"costs up to {connections.CONNECT_SECONDS} seconds each time",
    ):
        assert words in said, words


class Asked(Exception):
    """What a verb says about itself, instead of being done."""


class Probe(ClaimPath):
    """The verbs of the claim path, down to the call."""

    def __init__(self) -> None:
        self.settings, self._hints, self._settings_row = DEFAULTS, LaneHints(1), ""

    def call(self, function: str, *parameters: Any, repeatable: bool) -> dict[str, Any]:
        raise Asked(repeatable)

    def notify(self, *, urgent: bool = False) -> None:
        raise AssertionError("nothing was done")

    def reap_dead_owners(self) -> bool:
        return False


def check_repeatable(text: str) -> None:
    """Which verbs can be repeated without a request id, as each of them says."""
    told = {
        word: row
        for row, (what, does) in enumerate(table(text, "what happens", "what dibs does"))
        for word in code(what + does.partition(" can, ")[0])
    }
    given = {"n": 1, "limit": 1, "links": {}, "cost": {}, "meta": {}, "holding": {}}
    verbs = {name: verb for name, verb in inspect.getmembers(Probe(), inspect.ismethod) if not name.startswith("_")}
    repeatable: dict[bool, set[str]] = {True: set(), False: set()}
    for name in verbs.keys() - {"call", "notify", "reap_dead_owners"}:
        asked = inspect.signature(verbs[name]).parameters
        needed = [p.name for p in asked.values() if p.default is p.empty or p.name == "token"]
        with pytest.raises(Asked) as caught:
            verbs[name](**{word: given.get(word, "x") for word in needed})
        repeatable[caught.value.args[0]].add(name)
    for names in repeatable.values():
        assert len({told.get(name) for name in names}) == 1, f"{sorted(names)} do not stand in one row"
    assert {told[name] for name in repeatable[True]}.isdisjoint(told[name] for name in repeatable[False])


def check_bench(text: str) -> None:
    from bench.parts import NAMES

    named = set(re.findall(r"`python -m bench (\w+)`", text))
    assert named
    assert named <= set(NAMES)


CHECKS: tuple[Callable[[str], None], ...] = (
    check_url,
    check_locks,
    check_channels,
    check_figures,
    check_repeatable,
    check_bench,
)


@pytest.mark.parametrize("compare", CHECKS, ids=lambda compare: compare.__name__.removeprefix("check_"))
def test_the_document_says_what_the_code_does(compare: Callable[[str], None]) -> None:
    compare(OPERATIONS)


def test_the_fillfactors_are_those_of_the_schema(made: Production) -> None:
    with made.server.connect(made.database) as connection:
        check_fillfactors(OPERATIONS, connection)
        lie = OPERATIONS.replace("| `items` | 80 |", "| `items` | 90 |")
        with pytest.raises(AssertionError):
            check_fillfactors(lie, connection)


@pytest.mark.parametrize(
    ("truth", "lie"),
    [
        ("GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA dibs TO dibs_app;", ""),
        ("GRANT SELECT ON ALL SEQUENCES IN SCHEMA dibs TO dibs_app;", ""),
        ("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES", "GRANT SELECT, INSERT, UPDATE ON ALL TABLES"),
        ("REVOKE INSERT, UPDATE, DELETE ON dibs.schema_version FROM dibs_app;", ""),
    ],
)
def test_each_right_of_the_app_is_needed(postgres_server: PostgresServer, tmp_path: Path, truth: str, lie: str) -> None:
    """The check of the roles can fail: one line changed is found out."""
    assert truth in OPERATIONS
    found_out = pytest.raises((DibsError, pytest.fail.Exception))
    with production(postgres_server, OPERATIONS.replace(truth, lie)) as lacking, found_out:
        test_the_app_does_everything_but_change_the_schema_or_replace_the_board(lacking, tmp_path)


def test_the_guide_and_the_operations_know_each_other() -> None:
    assert "operations/postgresql.md" in read("docs/guides/postgresql.md")
    assert "guides/postgresql.md" in OPERATIONS
