"""Story 011's own clients: its helper and its edge function in TypeScript, with the client of Supabase, and its SQL by
psql. PostgREST and pg_cron are stand-ins; all else is real."""

from __future__ import annotations

import json
import os
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from dibs.board import Board
from dibs.config import DEFAULTS
from dibs.model import AGENT
from tests.docs.markdown import blocks, read, section
from tests.docs.production import Production, production
from tests.kit import postgres_programs
from tests.kit.postgres_server import PostgresServer
from tests.kit.waiting import PATIENCE_SECONDS
from tests.server.attacking import Caller
from tests.server.process import serving
from tests.sources.node import Programs
from tests.sources.postgrest import postgrest

CODE = Path(__file__).parent / "story_011"
IN_PUBLIC = section(read("docs/operations/sql.md"), "## PostgREST and Supabase")
#: What stands for pg_cron: it notes what it is told, and the test runs it.
CRON = """
CREATE SCHEMA cron;
CREATE TABLE cron.job (command text);
CREATE FUNCTION cron.schedule(text, text, text) RETURNS bigint LANGUAGE sql AS
    'INSERT INTO cron.job VALUES ($3); SELECT 1::bigint';
"""


#: A role that is granted whatever is made in `public`, as Supabase's own ones are.
VISITOR = """
GRANT USAGE ON SCHEMA public TO {0};
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT ALL ON TABLES TO {0};
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT ALL ON FUNCTIONS TO {0};
"""


@pytest.fixture(scope="module")
def visitor(postgres_server: PostgresServer) -> Iterator[str]:
    name = f"visitor_{os.urandom(4).hex()}"
    with postgres_server.connect() as connection:
        connection.execute(f"CREATE ROLE {name}".encode())
        yield name
        connection.execute(f"DROP ROLE {name}".encode())


@pytest.fixture(scope="module")
def made(postgres_server: PostgresServer, visitor: str) -> Iterator[Production]:
    with production(postgres_server) as made:
        (lines,) = blocks(IN_PUBLIC, "sql")
        with postgres_server.connect(made.database) as connection:
            connection.execute(VISITOR.format(visitor).encode())
            if connection.info.server_version < 150_000:
                lines = lines.replace(" WITH (security_invoker = true)", "")
                lines += f"REVOKE ALL ON public.work_items, public.agent_claimed_items FROM {visitor};"
            connection.execute(made.named(lines).encode())
            connection.execute(CRON)
        yield made


@pytest.fixture
def board(made: Production) -> Iterator[Board]:
    made.empty()
    with made.board("dibs_app") as board:
        yield board


@contextmanager
def edge_function(programs: Programs, rest: str, key: str) -> Iterator[str]:
    with programs.running("agent-claim.js", SUPABASE_URL=rest, SUPABASE_SERVICE_ROLE_KEY=key) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"


@contextmanager
def functions_of(whose: str, made: Production, programs: Programs, rest: str, key: str, folder: Path) -> Iterator[str]:
    """The address of `/functions/v1/agent-claim`: the document's own, over SQL, or that of a dibs server."""
    if whose == "document":
        with edge_function(programs, rest, key) as url:
            yield url
    else:
        with serving(folder, "--quiet", store=made.url("dibs_app")) as server:
            yield server.url


@pytest.mark.parametrize("whose", ["document", "dibs"])
def test_its_helper_claims_the_best_item_and_one_of_three_at_once(
    made: Production, board: Board, tmp_path: Path, whose: str
) -> None:
    programs, key = Programs("story_011", tmp_path), board.create_key(AGENT)[1]
    first, later, docs = (str(uuid.uuid4()) for _ in range(3))
    board.add("later", id=later, type="feature", priority=5)
    board.add("first", id=first, type="bug", priority=8)
    board.add("not its type", id=docs, type="docs", priority=9)
    with (
        postgrest(made.url("dibs_sql"), key, ("public",)) as rest,
        functions_of(whose, made, programs, rest, key, tmp_path) as functions,
    ):
        words = {"REST_URL": rest, "SUPABASE_URL": functions, "SUPABASE_SERVICE_KEY": key, "AGENT_TYPE": "coder"}
        (given,) = _told(programs.run("claim.mjs", "1", **words, AGENT_INSTANCE_ID="coder-1"))
        assert (given["id"], given["title"], given["assigned_agent"]) == (first, "first", None), "as it was found"
        claim = board.get(first).claim
        assert claim is not None
        assert (claim.agent, claim.session) == ("coder", "coder-1")
        rivals = [programs.start("claim.mjs", "2", **words, AGENT_INSTANCE_ID=f"coder-{n}") for n in (2, 3, 4)]
        told = [_told(rival.communicate(timeout=PATIENCE_SECONDS)[0]) for rival in rivals]
    assert [rival.returncode for rival in rivals] == [0, 0, 0]
    assert [item["id"] for items in told for item in items if item is not None] == [later]
    assert all(items[1] is None for items in told)
    assert board.get(docs).item.status == "ready"


@pytest.mark.parametrize(
    "asked",
    [
        "SELECT * FROM public.work_items",
        "SELECT * FROM public.agent_claimed_items",
        "SELECT public.claim_work_item(gen_random_uuid(), 'coder', 'coder-1')",
        "SELECT public.release_work_item(gen_random_uuid(), 'coder-1')",
    ],
)
def test_what_stands_in_public_serves_no_role_that_the_board_does_not_know(
    postgres_server: PostgresServer, made: Production, visitor: str, asked: str
) -> None:
    with postgres_server.connect(made.database) as connection:
        connection.execute(f"SET ROLE {visitor}".encode())
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(asked.encode())


def test_its_edge_function_tells_what_was_wrong_with_a_call(made: Production, board: Board, tmp_path: Path) -> None:
    programs = Programs("story_011", tmp_path)
    with (
        postgrest(made.url("dibs_sql"), "key", ("public",)) as rest,
        edge_function(programs, rest, "key") as url,
    ):
        bodies = [("no-uuid", "coder", 400), (str(uuid.uuid4()), "no name", 400), (str(uuid.uuid4()), "coder", 200)]
        for item, agent, status in bodies:
            body = {"workItemId": item, "agentType": agent, "agentInstanceId": "coder-1"}
            answer = Caller(url)("POST", "/functions/v1/agent-claim", body)
            assert (answer.status, answer.json["success"]) == (status, status == 200), answer.json
    assert answer.json == {"success": True, "claimed": False}


def test_its_sql_by_psql(made: Production, board: Board) -> None:
    item = str(uuid.uuid4())
    board.add("one", id=item, payload={"area": "login"})
    variables = ["-v", f"item={item}", "-v", "mine=coder-1", "-v", "theirs=coder-2"]
    assert psql(made, "dibs_sql", *variables, "-f", str(CODE / "calls.sql")) == [
        item,
        "t",
        "f",
        "coder|in_progress|t",
        "0",
        "coder-1",
        "f",
        "t",
        't|ready|t|{"area": "login"}',
        "claim_failed|coder|coder-2|false|",
        "claimed|coder|coder-1|true|",
        "release_failed|coder|coder-2||",
        "released|coder|coder-1||released",
    ]


def test_what_stands_in_public_takes_no_id_from_those_that_are_no_uuid(made: Production, board: Board) -> None:
    board.add("one", id="fix-login")
    claim = "SELECT claim_work_item('fix-login', 'coder', 'coder-1')"
    assert psql(made, "dibs_sql", "-c", claim) == ["t"]
    assert psql(made, "dibs_sql", "-c", "SELECT release_work_item('fix-login', 'coder-1')") == ["t"]


def test_its_cron_job_releases_what_was_left_for_half_an_hour(made: Production, board: Board) -> None:
    item = str(uuid.uuid4())
    board.add("one", id=item)
    claim = f"SELECT claim_work_item('{item}'::UUID, 'coder'::VARCHAR, 'coder-1'::VARCHAR)"
    with made.clock() as clock:
        assert psql(made, "dibs_sql", "-c", claim) == ["t"]
        assert psql(made, "", "-f", str(CODE / "cron.sql")) == ["1"]
        (job,) = psql(made, "", "-c", "SELECT command FROM cron.job")
        assert psql(made, "dibs_owner", "-c", job) == ["0"]
        clock.advance(DEFAULTS.ttl_seconds + 1)
        assert psql(made, "dibs_owner", "-c", job) == ["1"]
        assert board.get(item).item.status == "ready"


def psql(made: Production, role: str, *words: str) -> list[str]:
    """What psql prints, line by line, with tuples only; as a superuser if no role is named."""
    programs = postgres_programs.find()
    if programs is None or not os.path.exists(programs.path("psql")):
        pytest.skip("there is no psql among the programs of this PostgreSQL")
    url = made.url(role) if role else made.server.url(made.database)
    done = subprocess.run(
        [programs.path("psql"), "--no-psqlrc", "-v", "ON_ERROR_STOP=1", "-At", *words, url],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def _told(lines: str) -> list[Any]:
    return [json.loads(line) for line in lines.splitlines()]
